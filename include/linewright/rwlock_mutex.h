/* SPDX-License-Identifier: MIT */
/* lw::shared_mutex: the readers-writer lock with the members of std::shared_timed_mutex; part of rwlock.h. */
#ifndef LINEWRIGHT_RWLOCK_H
#include <linewright/rwlock.h> /* it includes this file, but under LW_C_API */
#endif
#ifndef LINEWRIGHT_RWLOCK_MUTEX_H
#define LINEWRIGHT_RWLOCK_MUTEX_H

#ifdef __cplusplus
extern "C++" { /* also where the program includes this inside extern "C" */
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#ifdef __cpp_exceptions
#include <system_error>
#endif

namespace lw
{

/* Chooses the constructor of a lock that stays plain: lw::shared_mutex m{lw::stay_plain_t()}. */
struct stay_plain_t {};

/* Meets SharedTimedMutex: for std::shared_lock, std::unique_lock, std::scoped_lock. A failure of the system (membarrier refused, too
 * many readers, a lock that the thread holds for writing) is a std::system_error, and ends the program where exceptions are off. Times of any clock become durations when the call
 * begins. */
class shared_mutex
{
public:
    constexpr shared_mutex() noexcept : lock_ LW_RWLOCK_INIT {}
    /* Stays plain, as after LW_RWLOCK_INIT_PLAIN. */
    constexpr explicit shared_mutex(stay_plain_t) noexcept : lock_ LW_RWLOCK_INIT_PLAIN {}
    ~shared_mutex()
    {
        (void)lw_rwlock_destroy(&lock_);
    }
    shared_mutex(const shared_mutex &) = delete;
    shared_mutex &operator=(const shared_mutex &) = delete;

    void lock()
    {
        check(lw_rwlock_write_lock(&lock_));
    }
    bool try_lock()
    {
        return taken(lw_rwlock_try_write(&lock_));
    }
    void unlock()
    {
        (void)lw_rwlock_write_unlock(&lock_);
    }
    /* From lock() to lock_shared(), without another writer in between: lw_rwlock_downgrade(). */
    void downgrade()
    {
        check(lw_rwlock_downgrade(&lock_));
    }
    void lock_shared()
    {
        check(lw_rwlock_read_lock(&lock_));
    }
    bool try_lock_shared()
    {
        return taken(lw_rwlock_try_read(&lock_));
    }
    void unlock_shared()
    {
        (void)lw_rwlock_read_unlock(&lock_);
    }

    template <class Rep, class Period> bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
    {
        return taken(lw_rwlock_write_lock_timeout(&lock_, ns(time)));
    }
    template <class Rep, class Period> bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &time)
    {
        return taken(lw_rwlock_read_lock_timeout(&lock_, ns(time)));
    }
    template <class Clock, class Duration> bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time)
    {
        return taken(lw_rwlock_write_lock_timeout(&lock_, left(time)));
    }
    template <class Clock, class Duration> bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &time)
    {
        return taken(lw_rwlock_read_lock_timeout(&lock_, left(time)));
    }

    typedef struct lw_rwlock *native_handle_type;
    native_handle_type native_handle()
    {
        return &lock_;
    }

private:
    static void check(int error)
    {
        if (!error)
            return;
#ifdef __cpp_exceptions
        throw std::system_error(-error, std::generic_category(), "lw::shared_mutex");
#else
        std::abort();
#endif
    }
    static bool taken(int error)
    {
        if (error && error != -EBUSY && error != -ETIMEDOUT)
            check(error);
        return !error;
    }
    /* Rounded up; a time that has passed is none, and one of more than 292 years is 292 years. */
    template <class Rep, class Period> static std::uint64_t ns(const std::chrono::duration<Rep, Period> &time)
    {
        if (time <= time.zero())
            return 0;
        if (std::chrono::duration<double>(time).count() > 9.2e9)
            return 9223372036854775807u;
        std::chrono::nanoseconds whole = std::chrono::duration_cast<std::chrono::nanoseconds>(time);
        return static_cast<std::uint64_t>(whole.count()) + (whole < time ? 1 : 0);
    }
    /* The same of what is left until then; far from now in floating point, since the difference may overflow. */
    template <class Clock, class Duration> static std::uint64_t left(const std::chrono::time_point<Clock, Duration> &time)
    {
        const auto now = Clock::now();
        const std::chrono::duration<double> about =
            std::chrono::duration<double>(time.time_since_epoch()) - now.time_since_epoch();
        return about.count() < -1 || about.count() > 9.2e9 ? ns(about) : ns(time - now);
    }
    struct lw_rwlock lock_;
};

/* On cache lines of its own: see lw_rwlock_padded. */
class alignas(LW_RWLOCK_APART) padded_shared_mutex : public shared_mutex
{
public:
    using shared_mutex::shared_mutex;
};

} // namespace lw
} // extern "C++"
#endif

#endif

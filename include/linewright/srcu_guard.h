/* SPDX-License-Identifier: MIT */
/* Critical sections that end with the scope they begin in, for C and C++, and for C++ pointers and deleters; part of srcu.h.
 *
 *   C     { lw_srcu_guard(&routes); … return …; }              ends at the end of the block, also by return, break, goto
 *   C++   { const lw::srcu_guard<lw_srcu_fast> guard(routes); … }         ends also by an exception
 *
 * Both take a domain of any flavour; from C++17 on the compiler infers it: lw::srcu_guard guard(routes). C's macro is a
 * declaration: one a line, in a block. It uses the compiler's cleanup attribute (gcc, clang). longjmp() out of the block
 * does not end the critical section. */
#ifndef LINEWRIGHT_SRCU_H
#include <linewright/srcu.h> /* it includes this file, but under LW_C_API */
#endif
#ifndef LINEWRIGHT_SRCU_GUARD_H
#define LINEWRIGHT_SRCU_GUARD_H

#ifndef __cplusplus
struct lw_srcu_guard {
    struct lw_srcu *srcu;
    enum lw__srcu_flavour flavour; /* which the compiler knows */
    lw_srcu_index index;
};

__attribute__((always_inline)) static inline struct lw_srcu_guard lw__srcu_guard_begin(struct lw_srcu *s,
                                                                                       enum lw__srcu_flavour flavour)
{
    struct lw_srcu_guard guard;
    guard.srcu = s;
    guard.flavour = flavour;
    guard.index = flavour == LW__SRCU_NORMAL ? lw_srcu_read_lock((struct lw_srcu_normal *)s)
                  : flavour == LW__SRCU_FAST ? lw_srcu_read_lock_fast((struct lw_srcu_fast *)s)
                                             : lw_srcu_down_read_fast((struct lw_srcu_fast_updown *)s);
    return guard;
}

__attribute__((always_inline)) static inline void lw__srcu_guard_end(struct lw_srcu_guard *guard)
{
    if (guard->flavour == LW__SRCU_NORMAL)
        lw_srcu_read_unlock((struct lw_srcu_normal *)guard->srcu, guard->index);
    else if (guard->flavour == LW__SRCU_FAST)
        lw_srcu_read_unlock_fast((struct lw_srcu_fast *)guard->srcu, guard->index);
    else
        lw_srcu_up_read_fast((struct lw_srcu_fast_updown *)guard->srcu, guard->index);
}

#define LW__SRCU_GUARD_CAT2(a, b) a##b
#define LW__SRCU_GUARD_CAT(a, b) LW__SRCU_GUARD_CAT2(a, b)
#define lw_srcu_guard(s)                                                                          \
    __attribute__((cleanup(lw__srcu_guard_end), unused)) struct lw_srcu_guard LW__SRCU_GUARD_CAT( \
        lw__srcu_guard_, __LINE__) = lw__srcu_guard_begin(LW__SRCU(s), LW__SRCU_FLAVOUR(s))
#else
extern "C++" { /* also where the program includes this inside extern "C" */
#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <utility>

namespace lw
{

/* The critical section of a domain, from construction to destruction of the guard that it was last moved to. A guard of an
 * lw_srcu_fast_updown may end in another thread, as in a coroutine that goes on there. */
template <class Flavour> class srcu_guard
{
public:
    LW__NODISCARD explicit srcu_guard(Flavour &domain) : domain_(&domain), index_(begin(&domain)) {}
    srcu_guard(srcu_guard &&from) noexcept : domain_(from.domain_), index_(from.index_)
    {
        from.domain_ = nullptr;
    }
    srcu_guard &operator=(srcu_guard &&from) noexcept
    {
        if (this != &from) {
            end();
            domain_ = from.domain_;
            index_ = from.index_;
            from.domain_ = nullptr;
        }
        return *this;
    }
    ~srcu_guard()
    {
        end();
    }

private:
    static lw_srcu_index begin(lw_srcu_normal *s)
    {
        return ::lw_srcu_read_lock(s);
    }
    static lw_srcu_index begin(lw_srcu_fast *s)
    {
        return ::lw_srcu_read_lock_fast(s);
    }
    static lw_srcu_index begin(lw_srcu_fast_updown *s)
    {
        return ::lw_srcu_down_read_fast(s);
    }
    static void end(lw_srcu_normal *s, lw_srcu_index i)
    {
        ::lw_srcu_read_unlock(s, i);
    }
    static void end(lw_srcu_fast *s, lw_srcu_index i)
    {
        ::lw_srcu_read_unlock_fast(s, i);
    }
    static void end(lw_srcu_fast_updown *s, lw_srcu_index i)
    {
        ::lw_srcu_up_read_fast(s, i);
    }
    void end()
    {
        if (domain_) /* else moved from */
            end(domain_, index_);
    }
    Flavour *domain_;
    lw_srcu_index index_;
};

/* Calls deleter(p) after a grace period, as lw_srcu_call(); allocates a few words for it. 0, -ENOMEM, or the error of
 * lw_srcu_call(): then nothing was retired. The deleter must not throw. */
template <class T, class Deleter = std::default_delete<T>>
int retire(struct lw_srcu &domain, T *p, Deleter deleter = Deleter())
{
    struct Retired {
        struct lw_srcu_head head; /* first: the callback's argument is the object's address */
        T *object;
        Deleter deleter;
        static void call(struct lw_srcu_head *head)
        {
            auto *retired = reinterpret_cast<Retired *>(head);
            retired->deleter(retired->object);
            delete retired;
        }
    };
    auto *retired = new (std::nothrow) Retired{{nullptr, nullptr}, p, std::move(deleter)};
    if (!retired)
        return -ENOMEM;
    const int err = lw_srcu_call(&domain, &retired->head, &Retired::call);
    if (err)
        delete retired;
    return err;
}

} // namespace lw

/* See srcu.h. */
template <class T> T *lw_srcu_dereference(const std::atomic<T *> &p)
{
    return p.load(std::memory_order_acquire); /* consume is deprecated in C++26, and the same */
}
} // extern "C++"
#endif

#endif

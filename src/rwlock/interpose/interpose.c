/* SPDX-License-Identifier: MIT */
/* pthread_rwlock_* for programs that are already built, by LD_PRELOAD: a private lock is an lw_rwlock in the first 16 bytes of its
 * pthread_rwlock_t. Process-shared locks are the C library's as before; `__shared`, which it sets, and `__flags` tell the kinds apart. They lie
 * behind the 16 bytes on every architecture, and a static initialiser leaves them, and the 16 bytes, as an unlocked lock wants them. */
#define _GNU_SOURCE
#include "lookups.h"
#include "statistics.h"

#include "../marks.h"
#include "../quick.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

_Static_assert(sizeof(struct lw_rwlock) <= offsetof(pthread_rwlock_t, __data.__shared), "a shared lock is told apart");
_Static_assert(sizeof(struct lw_rwlock) <= offsetof(pthread_rwlock_t, __data.__flags), "a lock's kind is kept");

static inline bool is_libcs(const pthread_rwlock_t *p)
{
    return __builtin_expect(p->__data.__shared != 0, 0);
}

static inline struct lw_rwlock *ours(pthread_rwlock_t *p)
{
    return (struct lw_rwlock *)(void *)p;
}

static inline void counted(struct lw_rwlock *l, enum counted what, void *where)
{
    if (__builtin_expect(lw__rw_counting, 0))
        count_lock(l, what, where);
}

/* As pthread's functions answer. */
static int answer(struct lw_rwlock *l, int error, enum counted what, void *where)
{
    if (!error)
        counted(l, what, where);
    return -error;
}

/* ---- beginning and end ---- */

EXPORTED int pthread_rwlock_init(pthread_rwlock_t *p, const pthread_rwlockattr_t *attributes)
{
    int shared = PTHREAD_PROCESS_PRIVATE, kind = PTHREAD_RWLOCK_DEFAULT_NP;
    if (attributes &&
        (pthread_rwlockattr_getpshared(attributes, &shared) || pthread_rwlockattr_getkind_np(attributes, &kind)))
        return EINVAL;
    if (shared == PTHREAD_PROCESS_SHARED)
        return NEXT(pthread_rwlock_init)(p, attributes);
    memset(p, 0, sizeof *p);
    p->__data.__flags = (__typeof__(p->__data.__flags))kind;
    lw_rwlock_init(ours(p));
    if (__builtin_expect(lw__rw_counting, 0))
        count_begins(ours(p), CALLER);
    return 0;
}

/* A lock that is held stays as it is, and 0 is the answer, as glibc's. */
EXPORTED int pthread_rwlock_destroy(pthread_rwlock_t *p)
{
    if (is_libcs(p))
        return NEXT(pthread_rwlock_destroy)(p);
    (void)lw_rwlock_destroy(ours(p));
    return 0;
}

/* ---- readers ---- */

__attribute__((always_inline)) static inline bool read_at_once(struct lw_rwlock *l, void *where)
{
    if (!(is_plain(l) ? quick_read(l) : lw__rw_mark(lw__rw_self, l)))
        return false;
    counted(l, READS, where);
    return true;
}

static __attribute__((noinline)) int read_slow(struct lw_rwlock *l, uint64_t ns, void *where)
{
    return answer(l, lw__rw_read_slow(l, ns), READS, where);
}

EXPORTED int pthread_rwlock_rdlock(pthread_rwlock_t *p)
{
    if (is_libcs(p))
        return NEXT(pthread_rwlock_rdlock)(p);
    return read_at_once(ours(p), CALLER) ? 0 : read_slow(ours(p), LW_RWLOCK_FOREVER, CALLER);
}

EXPORTED int pthread_rwlock_tryrdlock(pthread_rwlock_t *p)
{
    if (is_libcs(p))
        return NEXT(pthread_rwlock_tryrdlock)(p);
    return read_at_once(ours(p), CALLER) ? 0 : read_slow(ours(p), 0, CALLER);
}

/* ---- writers ---- */

__attribute__((always_inline)) static inline bool write_at_once(struct lw_rwlock *l, void *where)
{
    if (!is_plain(l) || !quick_write(l))
        return false;
    counted(l, WRITES, where);
    return true;
}

/* A filter came after readers marked the lock, and a writer does not know whether one is inside. POSIX has no such error, and
 * std::shared_mutex::lock() goes on where it does not know one. */
static __attribute__((noinline, cold, noreturn)) void stop_without_membarrier(int error)
{
    dprintf(
        STDERR_FILENO,
        "linewright-rwlock[%d %s]: membarrier is refused (%s) since locks turned biased, so no writer can enter: run the program "
        "without these locks\n",
        (int)getpid(), program_invocation_short_name, strerror(error));
    abort();
}

static __attribute__((noinline)) int write_within(struct lw_rwlock *l, uint64_t ns, void *where)
{
    int error = ns == LW_RWLOCK_FOREVER ? lw_rwlock_write_lock(l)
                : ns                    ? lw_rwlock_write_lock_timeout(l, ns)
                                        : lw_rwlock_try_write(l);
    if (error && error != -EBUSY && error != -ETIMEDOUT && error != -EDEADLK)
        stop_without_membarrier(-error);
    return answer(l, error, WRITES, where);
}

EXPORTED int pthread_rwlock_wrlock(pthread_rwlock_t *p)
{
    if (is_libcs(p))
        return NEXT(pthread_rwlock_wrlock)(p);
    return write_at_once(ours(p), CALLER) ? 0 : write_within(ours(p), LW_RWLOCK_FOREVER, CALLER);
}

EXPORTED int pthread_rwlock_trywrlock(pthread_rwlock_t *p)
{
    if (is_libcs(p))
        return NEXT(pthread_rwlock_trywrlock)(p);
    return write_at_once(ours(p), CALLER) ? 0 : write_within(ours(p), 0, CALLER);
}

/* While a writer is inside no reader can be. EPERM for a thread that holds nothing: in glibc the lock would be damaged. */
EXPORTED int pthread_rwlock_unlock(pthread_rwlock_t *p)
{
    if (is_libcs(p))
        return NEXT(pthread_rwlock_unlock)(p);
    struct lw_rwlock *l = ours(p);
    uint32_t writer = __atomic_load_n(&l->writer, __ATOMIC_RELAXED);
    if (!writer)
        return is_plain(l) && quick_read_unlock(l) ? 0 : -lw_rwlock_read_unlock(l);
    if (writer != lw__rw_own.id)
        return EPERM;
    return quick_write_unlock(l) ? 0 : -lw_rwlock_write_unlock(l);
}

/* ---- time limits ---- */

struct when { /* a time of either width */
    int64_t seconds;
    int64_t nanoseconds;
};

/* What is left until then: 0 ns if it has passed. A clock that is set while a thread waits is not noticed. */
static uint64_t left(clockid_t clock, struct when end)
{
    struct timespec now;
    if (end.seconds < 0) /* before any clock begins, and perhaps too long before it to be subtracted */
        return 0;
    clock_gettime(clock, &now);
    int64_t seconds = end.seconds - now.tv_sec;
    if (seconds < -1)
        return 0;
    if (seconds > 9000000000)
        return LW_RWLOCK_FOREVER - 1;
    int64_t ns = seconds * 1000000000 + end.nanoseconds - now.tv_nsec;
    return ns > 0 ? (uint64_t)ns : 0;
}

static int within(pthread_rwlock_t *p, bool write, clockid_t clock, struct when end, void *where)
{
    if ((clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) || end.nanoseconds < 0 || end.nanoseconds >= 1000000000)
        return EINVAL;
    uint64_t ns = left(clock, end);
    int error = write ? write_within(ours(p), ns, where) : read_at_once(ours(p), where) ? 0 : read_slow(ours(p), ns, where);
    if (error != EBUSY) /* a limit that has passed: a try, but for a thread that would wait for itself */
        return error;
    error = write ? write_within(ours(p), 1, where) : read_slow(ours(p), 1, where);
    return error;
}

#define WHEN(t) ((struct when){(t)->tv_sec, (t)->tv_nsec})

EXPORTED int pthread_rwlock_timedrdlock(pthread_rwlock_t *p, const struct timespec *end)
{
    return is_libcs(p) ? NEXT(pthread_rwlock_timedrdlock)(p, end) : within(p, false, CLOCK_REALTIME, WHEN(end), CALLER);
}

EXPORTED int pthread_rwlock_timedwrlock(pthread_rwlock_t *p, const struct timespec *end)
{
    return is_libcs(p) ? NEXT(pthread_rwlock_timedwrlock)(p, end) : within(p, true, CLOCK_REALTIME, WHEN(end), CALLER);
}

EXPORTED int pthread_rwlock_clockrdlock(pthread_rwlock_t *p, clockid_t clock, const struct timespec *end)
{
    return is_libcs(p) ? NEXT(pthread_rwlock_clockrdlock)(p, clock, end) : within(p, false, clock, WHEN(end), CALLER);
}

EXPORTED int pthread_rwlock_clockwrlock(pthread_rwlock_t *p, clockid_t clock, const struct timespec *end)
{
    return is_libcs(p) ? NEXT(pthread_rwlock_clockwrlock)(p, clock, end) : within(p, true, clock, WHEN(end), CALLER);
}

#ifdef __i386__ /* what _TIME_BITS=64 calls */
struct time64 {
    int64_t tv_sec;
    int32_t tv_nsec;
    int32_t padding;
};
int __pthread_rwlock_timedrdlock64(pthread_rwlock_t *p, const struct time64 *end);
int __pthread_rwlock_timedwrlock64(pthread_rwlock_t *p, const struct time64 *end);
int __pthread_rwlock_clockrdlock64(pthread_rwlock_t *p, clockid_t clock, const struct time64 *end);
int __pthread_rwlock_clockwrlock64(pthread_rwlock_t *p, clockid_t clock, const struct time64 *end);

EXPORTED int __pthread_rwlock_timedrdlock64(pthread_rwlock_t *p, const struct time64 *end)
{
    return is_libcs(p) ? NEXT(__pthread_rwlock_timedrdlock64)(p, end) : within(p, false, CLOCK_REALTIME, WHEN(end), CALLER);
}

EXPORTED int __pthread_rwlock_timedwrlock64(pthread_rwlock_t *p, const struct time64 *end)
{
    return is_libcs(p) ? NEXT(__pthread_rwlock_timedwrlock64)(p, end) : within(p, true, CLOCK_REALTIME, WHEN(end), CALLER);
}

EXPORTED int __pthread_rwlock_clockrdlock64(pthread_rwlock_t *p, clockid_t clock, const struct time64 *end)
{
    return is_libcs(p) ? NEXT(__pthread_rwlock_clockrdlock64)(p, clock, end) : within(p, false, clock, WHEN(end), CALLER);
}

EXPORTED int __pthread_rwlock_clockwrlock64(pthread_rwlock_t *p, clockid_t clock, const struct time64 *end)
{
    return is_libcs(p) ? NEXT(__pthread_rwlock_clockwrlock64)(p, clock, end) : within(p, true, clock, WHEN(end), CALLER);
}
#endif

/* ---- the names under which programs linked with an old libpthread may call ---- */

#ifdef __clang__
#define ATTRIBUTES_OF(name)
#else
#define ATTRIBUTES_OF(name) copy(name) /* gcc warns of an alias that has fewer */
#endif
#define ALIAS(name) __attribute__((alias(#name), ATTRIBUTES_OF(name))) EXPORTED extern __typeof__(name) __##name
ALIAS(pthread_rwlock_init);
ALIAS(pthread_rwlock_destroy);
ALIAS(pthread_rwlock_rdlock);
ALIAS(pthread_rwlock_tryrdlock);
ALIAS(pthread_rwlock_wrlock);
ALIAS(pthread_rwlock_trywrlock);
ALIAS(pthread_rwlock_unlock);

/* ---- what programs find that ask by name ---- */

/* True: `name` begins with it. Then `name` is what follows. */
static bool begins(const char **name, const char *with)
{
    const char *c = *name;
    while (*with && *c == *with)
        c++, with++;
    if (*with)
        return false;
    *name = c;
    return true;
}

#define OWN(name) {#name, (void *)(uintptr_t)pthread_rwlock_##name}
#define OWN64(name) {#name "64", (void *)(uintptr_t)__pthread_rwlock_##name##64}

void *own_function(const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } own[] = {
        OWN(init),          OWN(destroy),       OWN(rdlock),        OWN(tryrdlock),     OWN(timedrdlock), OWN(clockrdlock),
        OWN(wrlock),        OWN(trywrlock),     OWN(timedwrlock),   OWN(clockwrlock),   OWN(unlock),
#ifdef __i386__
        OWN64(timedrdlock), OWN64(clockrdlock), OWN64(timedwrlock), OWN64(clockwrlock),
#endif
    };
    (void)begins(&name, "__");
    if (!begins(&name, "pthread_rwlock_"))
        return NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        const char *rest = name;
        if (begins(&rest, own[i].name) && !*rest)
            return own[i].function;
    }
    return NULL;
}

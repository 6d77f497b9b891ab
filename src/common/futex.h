/* SPDX-License-Identifier: MIT */
/* Sleeping on a word of memory, and a lock made of one: no allocation, and a child of fork() may free it by storing 0. */
#ifndef LW_FUTEX_H
#define LW_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LW_FUTEX_FOREVER UINT64_MAX

/* Sleeps while *word is `seen`, for at most `ns` nanoseconds. May wake early; changes errno. Not a cancellation point. */
static inline void lw_futex_wait(uint32_t *word, uint32_t seen, uint64_t ns)
{
    /* The kernel's own timespec for this call: two longs, whatever time_t the C library was asked for (_TIME_BITS). More
     * seconds than a long of 32 bits holds would be refused, and the caller would spin. */
    uint64_t seconds = ns / 1000000000;
    long limit[2] = {seconds < LONG_MAX ? (long)seconds : LONG_MAX, (long)(ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, ns == LW_FUTEX_FOREVER ? (long *)0 : limit, (void *)0, 0);
}

/* Keeps errno: the word's memory may be gone, which is no error. */
static inline void lw_futex_wake(uint32_t *word, int threads)
{
    int saved = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, (void *)0, (void *)0, 0);
    errno = saved;
}

static inline void lw_futex_wake_all(uint32_t *word)
{
    lw_futex_wake(word, INT32_MAX);
}

/* The lock's word: 0 free, 1 held, 2 held and a thread may sleep for it. Not recursive; not for signal handlers. */

static inline bool lw_futex_trylock(uint32_t *lock)
{
    uint32_t free = 0; /* acquire: pairs with the release in lw_futex_unlock() */
    return __atomic_compare_exchange_n(lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void lw_futex_lock(uint32_t *lock)
{
    if (lw_futex_trylock(lock))
        return;
    while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE)) /* pairs with the release in lw_futex_unlock() */
        lw_futex_wait(lock, 2, LW_FUTEX_FOREVER);
}

static inline void lw_futex_unlock(uint32_t *lock)
{
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2) /* pairs with the acquires above */
        lw_futex_wake(lock, 1);
}

#endif

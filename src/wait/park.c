/* SPDX-License-Identifier: MIT */
/* Waiting for a word asleep: a thread spins, counts itself among the sleepers of the word's bucket, and sleeps on the word. */
#define _GNU_SOURCE
#include "hints.h"

#include "../common/futex.h"

#include <linewright/arch/cpu.h>

/* Counts of sleepers, each on a line of its own; words whose addresses have one hash share a count. A child of fork() has its parent's:
 * sleepers that it lacks cost system calls for none. */
#ifndef LW_PARK_BUCKETS
#define LW_PARK_BUCKETS 64u
#endif
static struct {
    _Alignas(64) uint32_t sleepers;
} buckets[LW_PARK_BUCKETS];

static uint32_t *sleepers_of(const uint32_t *word)
{
    uint64_t mixed = ((uintptr_t)word >> 2) *
                     UINT64_C(0x9e3779b97f4a7c15); /* 2^64 by the golden ratio: Fibonacci hashing, Knuth vol. 3, 6.4 */
    return &buckets[(mixed >> 32) % LW_PARK_BUCKETS].sleepers;
}

/* The word, once it is something else or the choice's time is over; polls ever farther apart, since each takes the line from who has it,
 * but not so far that the wait grows by much. */
static uint32_t spin(const uint32_t *word, uint32_t unwanted)
{
    uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE); /* pairs with the release of who stores */
    uint32_t park_ns = __atomic_load_n(&lw__wait_choice.park_ns, __ATOMIC_RELAXED);
    struct lw_backoff backoff = LW_BACKOFF_INIT;
    for (uint32_t spun = 0; seen == unwanted && spun < park_ns;) {
        spun += lw__backoff_step(&backoff);
        seen = __atomic_load_n(word, __ATOMIC_ACQUIRE); /* as above */
    }
    return seen;
}

uint32_t lw_park_while_u32(const uint32_t *word, uint32_t unwanted)
{
    uint32_t seen = spin(word, unwanted), *sleepers = sleepers_of(word);
    if (seen != unwanted)
        return seen;
    int saved = errno;
    __atomic_fetch_add(sleepers, 1, __ATOMIC_RELAXED); /* ordered by the fence */
    lw_full_fence(); /* pairs with that of lw_unpark_u32(): it sees the count, or the kernel sees its caller's store and does not put the thread to sleep */
    while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) == unwanted) /* pairs with the release of who stores */
        lw_futex_wait((uint32_t *)word, unwanted, LW_FUTEX_FOREVER);
    __atomic_fetch_sub(sleepers, 1, __ATOMIC_RELAXED); /* a waker that still counts this thread wakes none */
    errno = saved;
    return seen;
}

void lw_park_until_u32(const uint32_t *word, uint32_t expected)
{
    uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE); /* pairs with the release of who stores */
    while (seen != expected)
        seen = lw_park_while_u32(word, seen);
}

void lw_unpark_u32(const uint32_t *word)
{
    lw_full_fence(); /* pairs with that of lw_park_while_u32() */
    if (__atomic_load_n(sleepers_of(word), __ATOMIC_RELAXED)) /* ordered by the fence */
        lw_futex_wake_all((uint32_t *)word);
}

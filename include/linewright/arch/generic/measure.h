/* SPDX-License-Identifier: MIT */
/* What a timed loop needs besides the form it times, where no architecture of ours is known. */
#ifndef LINEWRIGHT_ARCH_GENERIC_MEASURE_H
#define LINEWRIGHT_ARCH_GENERIC_MEASURE_H

#include <stdint.h>
#include <time.h>

#include "cpu.h"

/* Nanoseconds of the monotonic clock. */
static inline uint64_t lw_ticks(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t lw_ticks_ordered(void)
{
    return lw_ticks();
}

static inline void lw_nop(void)
{
    __asm__ __volatile__("nop");
}

static inline void lw_wait_completion(const void *line)
{
    (void)line;
    lw_full_fence();
}

static inline void lw_dependent_add(unsigned long *x, unsigned long y)
{
    *x += y;
    __asm__ __volatile__("" : "+r"(*x));
}

/* Counts `units`, at least one, down in a word on the stack, as code that was not optimised does. */
static inline __attribute__((always_inline)) void lw_count_in_memory(unsigned long units)
{
    volatile unsigned long left = units;
    do
        left = left - 1;
    while (left);
}

#define LW_CHAIN_LINKS 512
#define LW_CHAIN_LINK_BYTES 1

/* LW_CHAIN_LINKS dependent additions less the first `skip`: a loop here, where no jump into a straight line is known. */
static inline __attribute__((always_inline)) void lw_dependent_chain(unsigned long *x, unsigned long skip)
{
    for (unsigned long left = LW_CHAIN_LINKS - skip; left; --left)
        lw_dependent_add(x, *x);
}

/* One compare-and-swap of a word: whether `desired` is in it now. */
#define LW_WORD_SWAP(word, expected, desired) \
    __atomic_compare_exchange_n(word, &(expected), desired, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
/* Atomic additions that are timed on per-CPU words: entry(whose word, form). */
#define LW_PERCPU_COUNTERS(entry)
/* Increments that pairs shaped like SRCU's are made of: add(form) takes the value, inc(form) none. */
#define LW_READER_SHAPES(add, inc)

#endif

/* SPDX-License-Identifier: MIT */
/* What a timed loop needs besides the form it times, on x86: a clock, a NOP, and the wait for completion. */
#ifndef LINEWRIGHT_ARCH_X86_MEASURE_H
#define LINEWRIGHT_ARCH_X86_MEASURE_H

#include <stdint.h>

#include "cpu.h" /* lw_full_fence */

/* The time-stamp counter. Not ordered against the loop around it: used on batches a thousand times longer than the
 * few instructions that can move across it. */
static inline uint64_t lw_ticks(void)
{
    uint32_t low, high;
    __asm__ __volatile__("rdtsc" : "=a"(low), "=d"(high));
    return ((uint64_t)high << 32) | low;
}

/* The same, after everything before it has executed and before anything after it starts (LFENCE on both sides, Intel
 * SDM vol. 2 RDTSC): for batches of a few operations. */
static inline uint64_t lw_ticks_ordered(void)
{
    uint32_t low, high;
    __asm__ __volatile__("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return ((uint64_t)high << 32) | low;
}

/* Bytes of a NOP. */
#define LW_NOP_BYTES 1

static inline void lw_nop(void)
{
    __asm__ __volatile__("nop");
}

/* Waits until every earlier store of this thread is globally visible: what "completed" means on x86. */
static inline void lw_wait_completion(const void *line)
{
    (void)line;
#if defined(__i386__) && !defined(__SSE2__)
    lw_full_fence();
#else
    __asm__ __volatile__("mfence" : : : "memory");
#endif
}

/* One link of a chain of dependent register additions: one cycle each on every x86 since the 1990s (register operands,
 * so that cores which fold immediate additions at rename cannot hide it). */
static inline void lw_dependent_add(unsigned long *x, unsigned long y)
{
    __asm__ __volatile__("add %[y],%[x]" : [x] "+r"(*x) : [y] "r"(y) : "cc");
}

/* Counts `units`, at least one, down in a word on the stack, as code that was not optimised does: two loads, a store and a
 * branch an iteration. */
static inline __attribute__((always_inline)) void lw_count_in_memory(unsigned long units)
{
    unsigned long left;
    __asm__ __volatile__("1:\tmov %[units],%[left]\n\t"
                         "sub $1,%[left]\n\t"
                         "mov %[left],%[units]\n\t"
                         "mov %[units],%[left]\n\t"
                         "test %[left],%[left]\n\t"
                         "jnz 1b"
                         : [units] "+m"(units), [left] "=&r"(left)
                         :
                         : "cc");
}

/* Links of the straight line below, and the bytes that each takes. */
#define LW_CHAIN_LINKS 512
#if defined(__x86_64__)
#define LW_CHAIN_LINK_BYTES 3
#else
#define LW_CHAIN_LINK_BYTES 2
#endif

/* The end of a straight line of LW_CHAIN_LINKS dependent additions of `x` to itself, one cycle each: what stands behind
 * its first `skip` bytes, a multiple of LW_CHAIN_LINK_BYTES. One indirect jump, whose target depends on nothing that the
 * loop around it computes, leads there. i386: not in position-independent code. */
static inline __attribute__((always_inline)) void lw_dependent_chain(unsigned long *x, unsigned long skip)
{
    unsigned long to;
#if defined(__x86_64__)
    register unsigned long link __asm__("r11") = *x; /* no form needs it: nothing moves it in and out of the chain */
#else
    unsigned long link = *x;
#endif
    __asm__ volatile(
#if defined(__x86_64__)
        "lea 1f(%%rip),%[to]\n\t"
        "add %[skip],%[to]\n\t"
#else
        "mov %[skip],%[to]\n\t"
        "lea 1f(%[to]),%[to]\n\t"
#endif
        "jmp *%[to]\n"
        "1:\t.rept 512\n\t"
        "add %[x],%[x]\n\t"
        ".endr"
        : [x] "+r"(link), [to] "=&r"(to)
        : [skip] "g"(skip)
        : "cc");
    *x = link;
}

/* The word-wide function of a form. */
#if defined(__x86_64__)
#define LW_WORD_FORM(name) lw_##name##_u64
#else
#define LW_WORD_FORM(name) lw_##name##_u32
#endif
/* One compare-and-swap of a word: whether `desired` is in it now. */
#define LW_WORD_SWAP(word, expected, desired) LW_WORD_FORM(lock_cmpxchg)(word, &(expected), desired)
/* Atomic additions that are timed on per-CPU words: entry(whose word, form). */
#define LW_PERCPU_COUNTERS(entry) entry(own, lock_add) entry(getcpu, lock_add) entry(shared, lock_add)
/* Increments that pairs shaped like SRCU's are made of: add(form) takes the value, inc(form) none. */
#define LW_READER_SHAPES(add, inc) add(lock_add) add(lock_xadd) add(prefetchw_lock_add) inc(lock_inc) inc(prefetchw_lock_inc)

#endif

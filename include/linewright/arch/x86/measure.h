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

#endif

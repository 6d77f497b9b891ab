/* What a timed loop needs besides the form it times, on arm64: a clock, a NOP, and the wait for completion. */
#ifndef LINEWRIGHT_ARCH_ARM64_MEASURE_H
#define LINEWRIGHT_ARCH_ARM64_MEASURE_H

#include <stdint.h>

/* The generic timer's virtual count. Not ordered against the loop around it: used on batches a thousand times longer
 * than the few instructions that can move across it. */
static inline uint64_t lw_ticks(void)
{
    uint64_t ticks;
    __asm__ __volatile__("mrs %[ticks], cntvct_el0" : [ticks] "=r"(ticks));
    return ticks;
}

/* The same, in program order: ISB before it, because the count may be read speculatively (Arm ARM, CNTVCT_EL0). */
static inline uint64_t lw_ticks_ordered(void)
{
    uint64_t ticks;
    __asm__ __volatile__("isb\n\tmrs %[ticks], cntvct_el0\n\tisb" : [ticks] "=r"(ticks) : : "memory");
    return ticks;
}

static inline void lw_nop(void)
{
    __asm__ __volatile__("nop");
}

/* Waits for everything before it, a posted store-form atomic included: DSB completes them, DMB ISHLD would not wait
 * for a store form. */
static inline void lw_wait_completion(const void *line)
{
    (void)line;
    __asm__ __volatile__("dsb ish" : : : "memory");
}

/* One link of a chain of dependent register additions, one cycle each. */
static inline void lw_dependent_add(unsigned long *x, unsigned long y)
{
    __asm__ __volatile__("add %[x], %[x], %[y]" : [x] "+r"(*x) : [y] "r"(y));
}

#endif

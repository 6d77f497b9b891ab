/* SPDX-License-Identifier: MIT */
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

/* Bytes of a NOP. */
#define LW_NOP_BYTES 4

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

/* Counts `units`, at least one, down in a word on the stack, as code that was not optimised does: two loads, a store and a
 * branch an iteration. */
static inline __attribute__((always_inline)) void lw_count_in_memory(unsigned long units)
{
    unsigned long left;
    __asm__ __volatile__("1:\tldr %[left], %[units]\n\t"
                         "sub %[left], %[left], #1\n\t"
                         "str %[left], %[units]\n\t"
                         "ldr %[left], %[units]\n\t"
                         "cbnz %[left], 1b"
                         : [units] "+m"(units), [left] "=&r"(left));
}

/* Links of the straight line below, and the bytes that each takes. */
#define LW_CHAIN_LINKS 512
#define LW_CHAIN_LINK_BYTES 4

/* The end of a straight line of LW_CHAIN_LINKS dependent additions of `x` to itself, one cycle each: what stands behind
 * its first `skip` bytes, a multiple of LW_CHAIN_LINK_BYTES. One indirect jump, whose target depends on nothing that the
 * loop around it computes, leads there. It lands on an addition: not in code that is marked for branch-target
 * identification (-mbranch-protection=none). */
static inline __attribute__((always_inline)) void lw_dependent_chain(unsigned long *x, unsigned long skip)
{
    unsigned long to;
    __asm__ volatile("adr %[to], 1f\n\t"
                     "add %[to], %[to], %[skip]\n\t"
                     "br %[to]\n"
                     "1:\t.rept 512\n\t"
                     "add %[x], %[x], %[x]\n\t"
                     ".endr"
                     : [x] "+r"(*x), [to] "=&r"(to)
                     : [skip] "r"(skip));
}

/* The word-wide function of a form. */
#define LW_WORD_FORM(name) lw_##name##_u64
/* One compare-and-swap of a word: whether `desired` is in it now. */
#define LW_WORD_SWAP(word, expected, desired) (lw_cas_u64(word, expected, desired) == (expected))
/* Atomic additions that are timed on per-CPU words: entry(whose word, form). */
#define LW_PERCPU_COUNTERS(entry)                                                                             \
    entry(own, stadd) entry(own, ldadd) entry(own, prfm_strm_stadd) entry(own, llsc_add) entry(shared, stadd) \
        entry(shared, ldadd)
/* Increments that pairs shaped like SRCU's are made of: add(form) takes the value, inc(form) none. */
#define LW_READER_SHAPES(add, inc)                                                                                          \
    add(stadd) add(ldadd) add(prfm_keep_stadd) add(prfm_strm_stadd) add(prfm_keep_ldadd) add(prfm_strm_ldadd) add(llsc_add) \
        add(prfm_keep_llsc_add) add(prfm_strm_llsc_add)

#endif

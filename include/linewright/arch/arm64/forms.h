/* SPDX-License-Identifier: MIT */
/* arm64 forms at 64 bits that are made of several: compare-and-swap loops, and forms with a prefetch for write first.
 *
 * All are relaxed, so none of them orders the compiler either. */
#ifndef LINEWRIGHT_ARCH_ARM64_FORMS_H
#define LINEWRIGHT_ARCH_ARM64_FORMS_H

#include <stdint.h>

#include "../generic/forms.h" /* LW_FORM_GUESS */
#include "lse_llsc.h" /* lw_stadd_u64, lw_ldadd_u64, lw_ldaddal_u64, lw_llsc_add_u64, lw_swp_u64, lw_llsc_swp_u64 … */

/* `ldr; add; str`: the floor, and not atomic between threads */
static inline void lw_plain_add_u64(uint64_t *p, uint64_t v)
{
    uint64_t tmp;

    __asm__ __volatile__("ldr %[tmp], %[m]\n\t"
                         "add %[tmp], %[tmp], %[v]\n\t"
                         "str %[tmp], %[m]"
                         : [m] "+Q"(*p), [tmp] "=&r"(tmp)
                         : [v] "r"(v));
}

/* `mov` of a constant, then `mov; add; cas; cmp; mov; b.ne`: the first access to the line is the CAS */
static inline uint64_t lw_cas_loop_guess_first_u64(uint64_t *p, uint64_t v)
{
    uint64_t expected = LW_FORM_GUESS, old, sum;

    __asm__ __volatile__(LW_ASM_LSE "1:\n\t"
                                    "mov %[old], %[expected]\n\t"
                                    "add %[sum], %[expected], %[v]\n\t"
                                    "cas %[old], %[sum], %[m]\n\t"
                                    "cmp %[old], %[expected]\n\t"
                                    "mov %[expected], %[old]\n\t"
                                    "b.ne 1b"
                         : [m] "+Q"(*p), [expected] "+&r"(expected), [old] "=&r"(old), [sum] "=&r"(sum)
                         : [v] "r"(v)
                         : "cc");
    return old;
}

/* `ldr`, then `mov; add; cas; cmp; mov; b.ne`: the load may fetch the line shared before the CAS asks for it */
static inline uint64_t lw_cas_loop_read_first_u64(uint64_t *p, uint64_t v)
{
    uint64_t expected, old, sum;

    __asm__ __volatile__(LW_ASM_LSE "ldr %[expected], %[m]\n"
                                    "1:\n\t"
                                    "mov %[old], %[expected]\n\t"
                                    "add %[sum], %[expected], %[v]\n\t"
                                    "cas %[old], %[sum], %[m]\n\t"
                                    "cmp %[old], %[expected]\n\t"
                                    "mov %[expected], %[old]\n\t"
                                    "b.ne 1b"
                         : [m] "+Q"(*p), [expected] "=&r"(expected), [old] "=&r"(old), [sum] "=&r"(sum)
                         : [v] "r"(v)
                         : "cc");
    return old;
}

/* `ldr`, then `add`, the `ldxr; cmp; b.ne; stxr; cbnz` compare-and-swap, `cmp; mov; b.ne`: as above where a policy or an
 * old CPU wants LL/SC. A failed compare leaves the monitor open, which the next LDXR takes over. */
static inline uint64_t lw_llsc_cas_loop_read_first_u64(uint64_t *p, uint64_t v)
{
    uint64_t expected, old, sum;
    uint32_t failed;

    __asm__ __volatile__(
        "ldr %[expected], %[m]\n"
        "1:\n\t"
        "add %[sum], %[expected], %[v]\n"
        "2:\n\t"
        "ldxr %[old], %[m]\n\t"
        "cmp %[old], %[expected]\n\t"
        "b.ne 3f\n\t"
        "stxr %w[failed], %[sum], %[m]\n\t"
        "cbnz %w[failed], 2b\n"
        "3:\n\t"
        "cmp %[old], %[expected]\n\t"
        "mov %[expected], %[old]\n\t"
        "b.ne 1b"
        : [m] "+Q"(*p), [expected] "=&r"(expected), [old] "=&r"(old), [sum] "=&r"(sum), [failed] "=&r"(failed)
        : [v] "r"(v)
        : "cc");
    return old;
}

/* `ldr` */
static inline uint64_t lw_ldr_read_u64(const uint64_t *p)
{
    uint64_t v;

    __asm__ __volatile__("ldr %[v], %[m]" : [v] "=r"(v) : [m] "Q"(*p));
    return v;
}

/* `prfm pstl1keep`, then `stadd` */
static inline void lw_prfm_keep_stadd_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_keep(p);
    lw_stadd_u64(p, v);
}

/* `prfm pstl1strm`, then `stadd` */
static inline void lw_prfm_strm_stadd_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    lw_stadd_u64(p, v);
}

/* `prfm pstl1keep`, then `ldadd` */
static inline uint64_t lw_prfm_keep_ldadd_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_keep(p);
    return lw_ldadd_u64(p, v);
}

/* `prfm pstl1strm`, then `ldadd` */
static inline uint64_t lw_prfm_strm_ldadd_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    return lw_ldadd_u64(p, v);
}

/* `prfm pstl1keep`, then the `ldxr … stxr` add */
static inline void lw_prfm_keep_llsc_add_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_keep(p);
    lw_llsc_add_u64(p, v);
}

/* `prfm pstl1strm`, then the `ldxr … stxr` add */
static inline void lw_prfm_strm_llsc_add_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    lw_llsc_add_u64(p, v);
}

/* `prfm pstl1keep`, then `ldr` and the `cas` loop */
static inline uint64_t lw_prfm_keep_cas_loop_read_first_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_keep(p);
    return lw_cas_loop_read_first_u64(p, v);
}

/* `prfm pstl1strm`, then `ldr` and the `cas` loop */
static inline uint64_t lw_prfm_strm_cas_loop_read_first_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    return lw_cas_loop_read_first_u64(p, v);
}

/* `prfm pstl1strm`, then the `ldxr … stxr` add that returns the old value */
static inline uint64_t lw_prfm_strm_llsc_fetch_add_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    return lw_llsc_fetch_add_u64(p, v);
}

/* `prfm pstl1strm`, then `swp` */
static inline uint64_t lw_prfm_strm_swp_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    return lw_swp_u64(p, v);
}

/* `prfm pstl1strm`, then the `ldxr; stxr` exchange */
static inline uint64_t lw_prfm_strm_llsc_swp_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    return lw_llsc_swp_u64(p, v);
}

/* `prfm pstl1strm`, then `ldr` and the `ldxr … stxr` compare-and-swap loop */
static inline uint64_t lw_prfm_strm_llsc_cas_loop_read_first_u64(uint64_t *p, uint64_t v)
{
    lw_prfm_strm(p);
    return lw_llsc_cas_loop_read_first_u64(p, v);
}

#endif

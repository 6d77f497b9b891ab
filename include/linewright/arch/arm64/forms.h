/* arm64 forms at 64 bits: LSE instructions, exclusive-pair loops, and each with a prefetch for write before it.
 *
 * The LSE forms assemble whatever -march says; executing one on a CPU without LSE is the caller's mistake.
 * All but `ldaddal` are relaxed, so none of them orders the compiler either. */
#ifndef LINEWRIGHT_ARCH_ARM64_FORMS_H
#define LINEWRIGHT_ARCH_ARM64_FORMS_H

#include <stdint.h>

#include "../generic/forms.h" /* LW_FORM_GUESS */

#define LW_ASM_LSE ".arch_extension lse\n\t"

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

/* `stadd`: no destination, so no load for a later DMB ISHLD; no compiler builtin ever gives it */
static inline void lw_stadd_u64(uint64_t *p, uint64_t v)
{
    __asm__ __volatile__(LW_ASM_LSE "stadd %[v], %[m]" : [m] "+Q"(*p) : [v] "r"(v));
}

/* `ldadd` */
static inline uint64_t lw_ldadd_u64(uint64_t *p, uint64_t v)
{
    uint64_t old;

    __asm__ __volatile__(LW_ASM_LSE "ldadd %[v], %[old], %[m]" : [m] "+Q"(*p), [old] "=r"(old) : [v] "r"(v));
    return old;
}

/* `ldaddal` */
static inline uint64_t lw_ldaddal_u64(uint64_t *p, uint64_t v)
{
    uint64_t old;

    __asm__ __volatile__(LW_ASM_LSE "ldaddal %[v], %[old], %[m]"
                         : [m] "+Q"(*p), [old] "=r"(old)
                         : [v] "r"(v)
                         : "memory");
    return old;
}

/* `ldxr; add; stxr; cbnz`: nothing but the sum between the exclusive pair */
static inline void lw_llsc_add_u64(uint64_t *p, uint64_t v)
{
    uint64_t tmp;
    uint32_t failed;

    __asm__ __volatile__("1:\n\t"
                         "ldxr %[tmp], %[m]\n\t"
                         "add %[tmp], %[tmp], %[v]\n\t"
                         "stxr %w[failed], %[tmp], %[m]\n\t"
                         "cbnz %w[failed], 1b"
                         : [m] "+Q"(*p), [tmp] "=&r"(tmp), [failed] "=&r"(failed)
                         : [v] "r"(v));
}

/* `mov` of a constant, then `mov; add; cas; cmp; mov; b.ne`: the first access to the line is the CAS */
static inline uint64_t lw_cas_loop_guess_first_u64(uint64_t *p, uint64_t v)
{
    uint64_t expected = LW_FORM_GUESS, old, sum;

    __asm__ __volatile__(LW_ASM_LSE
                         "1:\n\t"
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

    __asm__ __volatile__(LW_ASM_LSE
                         "ldr %[expected], %[m]\n"
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

/* `swp` */
static inline uint64_t lw_swp_u64(uint64_t *p, uint64_t v)
{
    uint64_t old;

    __asm__ __volatile__(LW_ASM_LSE "swp %[v], %[old], %[m]" : [m] "+Q"(*p), [old] "=r"(old) : [v] "r"(v));
    return old;
}

/* `ldxr; stxr; cbnz` */
static inline uint64_t lw_llsc_swp_u64(uint64_t *p, uint64_t v)
{
    uint64_t old;
    uint32_t failed;

    __asm__ __volatile__("1:\n\t"
                         "ldxr %[old], %[m]\n\t"
                         "stxr %w[failed], %[v], %[m]\n\t"
                         "cbnz %w[failed], 1b"
                         : [m] "+Q"(*p), [old] "=&r"(old), [failed] "=&r"(failed)
                         : [v] "r"(v));
    return old;
}

/* `ldr` */
static inline uint64_t lw_ldr_read_u64(const uint64_t *p)
{
    uint64_t v;

    __asm__ __volatile__("ldr %[v], %[m]" : [v] "=r"(v) : [m] "Q"(*p));
    return v;
}

/* `prfm pstl1keep`: prefetch for write, to be kept in the first-level cache; never faults, waits for nothing */
static inline void lw_prfm_keep(const void *p)
{
    __asm__ __volatile__("prfm pstl1keep, [%[p]]" : : [p] "r"(p));
}

/* `prfm pstl1strm`: prefetch for write, for a single use; never faults, waits for nothing */
static inline void lw_prfm_strm(const void *p)
{
    __asm__ __volatile__("prfm pstl1strm, [%[p]]" : : [p] "r"(p));
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

#endif

/* SPDX-License-Identifier: MIT */
/* arm64 forms at 128 bits: the ways this machine has to read, write and exchange sixteen bytes at once.
 *
 * Contracts of the reads, each of them tested (tests/cpp/wide/) where the CPU at hand has the form:
 *
 *   form               mapping    line           copy-on-write   torn   CPU
 *   ldp_read           readable   stays shared   kept            no     one with LSE2 (HWCAP USCAT)
 *   casp_read          writable   dirtied        broken          no     one with LSE (HWCAP ATOMICS)
 *   ldxp_stxp_read     writable   dirtied        broken          no     any
 *   read_twice_read    readable   stays shared   kept            YES    any
 *
 * Without LSE2 the pair that LDXP returns is known to belong together only if its STXP succeeds, and CASP
 * writes: a read that never writes does not exist there. Therefore also a failing compare-exchange writes back
 * what it found. Misaligned: CASP, LDXP and STXP fault; LDP and STP may tear, debug builds look.
 *
 * Each `order` macro argument is `` , a, l or al, the letters of the mnemonics: CASP CASPA CASPL CASPAL. */
#ifndef LINEWRIGHT_ARCH_ARM64_WIDE_H
#define LINEWRIGHT_ARCH_ARM64_WIDE_H

#define LW_WIDE_ARM64 1 /* wide.h takes these forms */

#include <stdbool.h>
#include <stdint.h>

#include "cpu.h" /* lw_full_fence */

/* Eight bytes: aligned by the language already; the name is for code that is also built for i386 */
typedef uint64_t lw_u64 __attribute__((aligned(8)));
/* Sixteen bytes at an address that is a multiple of sixteen */
__extension__ typedef unsigned __int128 lw_u128 __attribute__((aligned(16)));

static inline lw_u128 lw_u128_of(uint64_t lo, uint64_t hi)
{
    return (lw_u128)hi << 64 | lo;
}

/* Barriers */

static inline void lw_wide_dmb_ishld(void)
{
    __asm__ __volatile__("dmb ishld" : : : "memory");
}

/* Reads */

/* two `ldr`: what a compiler may make of a plain read. Tears; here as the control of the torn-value tests */
static inline lw_u128 lw_read_twice_read_u128(const lw_u128 *p)
{
    uint64_t lo, hi;

    __asm__ __volatile__("ldr %[lo], [%[p]]\n\t"
                         "ldr %[hi], [%[p], #8]"
                         : [lo] "=&r"(lo), [hi] "=r"(hi)
                         : [p] "r"(p), "m"(*p));
    return lw_u128_of(lo, hi);
}

/* `ldp`, relaxed: one access of sixteen bytes where the CPU has LSE2 */
static inline lw_u128 lw_ldp_read_u128(const lw_u128 *p)
{
    uint64_t lo, hi;

    __asm__ __volatile__("ldp %[lo], %[hi], [%[p]]" : [lo] "=&r"(lo), [hi] "=r"(hi) : [p] "r"(p), "m"(*p));
    return lw_u128_of(lo, hi);
}

/* `ldp; dmb ishld`: an acquire. Pairs with the `dmb ish` in front of lw_stp_write_release_u128 */
static inline lw_u128 lw_ldp_dmb_read_u128(const lw_u128 *p)
{
    lw_u128 v = lw_ldp_read_u128(p);

    lw_wide_dmb_ishld();
    return v;
}

/* `ldar; ldp; dmb ishld`: sequentially consistent. The LDAR, of anything, waits for every STLR before it in
 * program order, which a plain LDP would overtake (store buffering); the DMB makes both an acquire */
static inline lw_u128 lw_ldar_ldp_dmb_read_u128(const lw_u128 *p)
{
    uint64_t lo, hi;

    __asm__ __volatile__("ldar %[lo], [%[p]]\n\t"
                         "ldp %[lo], %[hi], [%[p]]\n\t"
                         "dmb ishld"
                         : [lo] "=&r"(lo), [hi] "=&r"(hi)
                         : [p] "r"(p), "m"(*p)
                         : "memory");
    return lw_u128_of(lo, hi);
}

/* Writes where the CPU has LSE2 */

/* `stp`, relaxed */
static inline void lw_stp_write_u128(lw_u128 *p, lw_u128 v)
{
    __asm__ __volatile__("stp %[lo], %[hi], [%[p]]"
                         : "=m"(*p)
                         : [p] "r"(p), [lo] "r"((uint64_t)v), [hi] "r"((uint64_t)(v >> 64)));
}

/* `dmb ish; stp`: a release. Pairs with the `dmb ishld` of lw_ldp_dmb_read_u128 */
static inline void lw_dmb_stp_write_u128(lw_u128 *p, lw_u128 v)
{
    lw_full_fence();
    lw_stp_write_u128(p, v);
}

/* `dmb ish; stp; dmb ish`: sequentially consistent, and before every later read too */
static inline void lw_dmb_stp_dmb_write_u128(lw_u128 *p, lw_u128 v)
{
    lw_dmb_stp_write_u128(p, v);
    lw_full_fence();
}

/* Compare-exchange: whether `*old` was there; `*old` is then what was */

/* `casp`: both pairs must sit in consecutive registers that start at an even one */
#define LW_CASP(order)                                                                  \
    static inline bool lw_casp##order##_u128(lw_u128 *p, lw_u128 *old, lw_u128 desired) \
    {                                                                                   \
        const uint64_t want_lo = (uint64_t)*old, want_hi = (uint64_t)(*old >> 64);      \
        const uint64_t new_lo = (uint64_t)desired, new_hi = (uint64_t)(desired >> 64);  \
        register uint64_t x0 __asm__("x0") = want_lo;                                   \
        register uint64_t x1 __asm__("x1") = want_hi;                                   \
        register uint64_t x2 __asm__("x2") = new_lo;                                    \
        register uint64_t x3 __asm__("x3") = new_hi;                                    \
                                                                                        \
        __asm__ __volatile__(".arch_extension lse\n\t"                                  \
                             "casp" #order " %[x0], %[x1], %[x2], %[x3], [%[p]]"        \
                             : "+m"(*p), [x0] "+r"(x0), [x1] "+r"(x1)                   \
                             : [p] "r"(p), [x2] "r"(x2), [x3] "r"(x3)                   \
                             : "memory");                                               \
        *old = lw_u128_of(x0, x1);                                                      \
        return x0 == want_lo && x1 == want_hi;                                          \
    }

LW_CASP()
LW_CASP(a)
LW_CASP(l)
LW_CASP(al)

/* `ldxp; cmp; csel; stxp`: what was found is stored back where it is not `*old`, since only a successful STXP
 * shows that both halves were read together */
#define LW_LDXP_STXP(name, load, store)                                                                                     \
    static inline bool lw_##name##_u128(lw_u128 *p, lw_u128 *old, lw_u128 desired)                                          \
    {                                                                                                                       \
        const uint64_t want_lo = (uint64_t)*old, want_hi = (uint64_t)(*old >> 64);                                          \
        uint64_t lo, hi, put_lo, put_hi;                                                                                    \
        uint32_t failed;                                                                                                    \
                                                                                                                            \
        __asm__ __volatile__("prfm pstl1strm, [%[p]]\n"                                                                     \
                             "1:\n\t" load " %[lo], %[hi], [%[p]]\n\t"                                                      \
                             "cmp %[lo], %[want_lo]\n\t"                                                                    \
                             "ccmp %[hi], %[want_hi], #0, eq\n\t"                                                           \
                             "csel %[put_lo], %[new_lo], %[lo], eq\n\t"                                                     \
                             "csel %[put_hi], %[new_hi], %[hi], eq\n\t" store                                               \
                             " %w[failed], %[put_lo], %[put_hi], [%[p]]\n\t"                                                \
                             "cbnz %w[failed], 1b"                                                                          \
                             : "+m"(*p), [lo] "=&r"(lo), [hi] "=&r"(hi), [put_lo] "=&r"(put_lo), [put_hi] "=&r"(put_hi),    \
                               [failed] "=&r"(failed)                                                                       \
                             : [p] "r"(p), [want_lo] "r"(want_lo), [want_hi] "r"(want_hi), [new_lo] "r"((uint64_t)desired), \
                               [new_hi] "r"((uint64_t)(desired >> 64))                                                      \
                             : "cc", "memory");                                                                             \
        *old = lw_u128_of(lo, hi);                                                                                          \
        return lo == want_lo && hi == want_hi;                                                                              \
    }

LW_LDXP_STXP(ldxp_stxp, "ldxp", "stxp")
LW_LDXP_STXP(ldaxp_stxp, "ldaxp", "stxp")
LW_LDXP_STXP(ldxp_stlxp, "ldxp", "stlxp")
LW_LDXP_STXP(ldaxp_stlxp, "ldaxp", "stlxp")

/* `ldxp; stlxp`, then `dmb ish`: nothing after it may be done before it, which the pair alone would allow */
static inline bool lw_ldxp_stlxp_dmb_u128(lw_u128 *p, lw_u128 *old, lw_u128 desired)
{
    bool done = lw_ldxp_stlxp_u128(p, old, desired);

    lw_full_fence();
    return done;
}

/* Exchanges */

/* two `ldr` first (the pair may be torn, and the compare finds out), then `casp` until it holds */
#define LW_CASP_LOOP_XCHG(order)                                                 \
    static inline lw_u128 lw_casp##order##_loop_xchg_u128(lw_u128 *p, lw_u128 v) \
    {                                                                            \
        lw_u128 old = lw_read_twice_read_u128(p);                                \
                                                                                 \
        while (!lw_casp##order##_u128(p, &old, v))                               \
            ;                                                                    \
        return old;                                                              \
    }

LW_CASP_LOOP_XCHG()
LW_CASP_LOOP_XCHG(a)
LW_CASP_LOOP_XCHG(l)
LW_CASP_LOOP_XCHG(al)

/* `ldxp; stxp` until it holds: no comparison */
#define LW_LDXP_STXP_XCHG(name, load, store)                                                            \
    static inline lw_u128 lw_##name##_xchg_u128(lw_u128 *p, lw_u128 v)                                  \
    {                                                                                                   \
        uint64_t lo, hi;                                                                                \
        uint32_t failed;                                                                                \
                                                                                                        \
        __asm__ __volatile__("prfm pstl1strm, [%[p]]\n"                                                 \
                             "1:\n\t" load " %[lo], %[hi], [%[p]]\n\t" store                            \
                             " %w[failed], %[new_lo], %[new_hi], [%[p]]\n\t"                            \
                             "cbnz %w[failed], 1b"                                                      \
                             : "+m"(*p), [lo] "=&r"(lo), [hi] "=&r"(hi), [failed] "=&r"(failed)         \
                             : [p] "r"(p), [new_lo] "r"((uint64_t)v), [new_hi] "r"((uint64_t)(v >> 64)) \
                             : "memory");                                                               \
        return lw_u128_of(lo, hi);                                                                      \
    }

LW_LDXP_STXP_XCHG(ldxp_stxp, "ldxp", "stxp")
LW_LDXP_STXP_XCHG(ldaxp_stxp, "ldaxp", "stxp")
LW_LDXP_STXP_XCHG(ldxp_stlxp, "ldxp", "stlxp")
LW_LDXP_STXP_XCHG(ldaxp_stlxp, "ldaxp", "stlxp")

/* One round of `ldxp; stxp`: whether the store held; `*old` is what was there, of one piece if it did */
static inline bool lw_ldxp_stxp_round_u128(lw_u128 *p, lw_u128 *old, lw_u128 v)
{
    uint64_t lo, hi;
    uint32_t failed;

    __asm__ __volatile__("ldxp %[lo], %[hi], [%[p]]\n\t"
                         "stxp %w[failed], %[new_lo], %[new_hi], [%[p]]"
                         : "+m"(*p), [lo] "=&r"(lo), [hi] "=&r"(hi), [failed] "=&r"(failed)
                         : [p] "r"(p), [new_lo] "r"((uint64_t)v), [new_hi] "r"((uint64_t)(v >> 64))
                         : "memory");
    *old = lw_u128_of(lo, hi);
    return !failed;
}

/* `ldxp; stlxp`, then `dmb ish` */
static inline lw_u128 lw_ldxp_stlxp_dmb_xchg_u128(lw_u128 *p, lw_u128 v)
{
    lw_u128 old = lw_ldxp_stlxp_xchg_u128(p, v);

    lw_full_fence();
    return old;
}

/* Reads that write: for machines without LSE2 */

/* `casp` of zero with zero */
#define LW_CASP_READ(order)                                      \
    static inline lw_u128 lw_casp##order##_read_u128(lw_u128 *p) \
    {                                                            \
        lw_u128 v = 0;                                           \
                                                                 \
        lw_casp##order##_u128(p, &v, 0);                         \
        return v;                                                \
    }

LW_CASP_READ()
LW_CASP_READ(a)
LW_CASP_READ(al)

/* `ldxp`, then `stxp` of the same until it holds */
#define LW_LDXP_STXP_READ(name, load, store)                                                                         \
    static inline lw_u128 lw_##name##_read_u128(lw_u128 *p)                                                          \
    {                                                                                                                \
        uint64_t lo, hi;                                                                                             \
        uint32_t failed;                                                                                             \
                                                                                                                     \
        __asm__ __volatile__("1:\n\t" load " %[lo], %[hi], [%[p]]\n\t" store " %w[failed], %[lo], %[hi], [%[p]]\n\t" \
                             "cbnz %w[failed], 1b"                                                                   \
                             : "+m"(*p), [lo] "=&r"(lo), [hi] "=&r"(hi), [failed] "=&r"(failed)                      \
                             : [p] "r"(p)                                                                            \
                             : "memory");                                                                            \
        return lw_u128_of(lo, hi);                                                                                   \
    }

LW_LDXP_STXP_READ(ldxp_stxp, "ldxp", "stxp")
LW_LDXP_STXP_READ(ldaxp_stxp, "ldaxp", "stxp")
LW_LDXP_STXP_READ(ldxp_stlxp, "ldxp", "stlxp")

/* `ldxp; stlxp`, then `dmb ish` */
static inline lw_u128 lw_ldxp_stlxp_dmb_read_u128(lw_u128 *p)
{
    lw_u128 v = lw_ldxp_stlxp_read_u128(p);

    lw_full_fence();
    return v;
}

#endif

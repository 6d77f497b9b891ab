/* SPDX-License-Identifier: MIT */
/* The single-instruction (LSE) and the exclusive-pair (LL/SC) forms of arm64 at 8, 16, 32 and 64 bits, every order.
 *
 *   lw_{stadd,stclr,stset,steor}[l]_u<bits>           no destination: no load, so never ordered by DMB ISHLD
 *   lw_{ldadd,ldclr,ldset,ldeor,swp}[a|l|al]_u<bits>  the old value in a register that is never XZR, since acquire
 *                                                     is ignored when the destination is XZR
 *   lw_cas[a|l|al]_u<bits>
 *   lw_llsc_{add,clr,set,eor}[_l]_u<bits>             the same by LDXR and STXR; clr is andnot
 *   lw_llsc_fetch_{add,clr,set,eor}[_a|_l|_al|_full]_u<bits>
 *   lw_llsc_{swp,cas}[_a|_l|_al|_full]_u<bits>
 *
 * a: acquire, l: release, al: both, full: both and nothing after it passes anything before it, which the
 * exclusive pair gives only with a DMB ISH behind it: its store half may otherwise be passed by a later load.
 * 8 and 16 bits take the sized mnemonics, so a neighbouring byte is never touched. Between the exclusive pair
 * stands nothing but the arithmetic. The relaxed forms are no compiler barriers, the others are. */
#ifndef LINEWRIGHT_ARCH_ARM64_LSE_LLSC_H
#define LINEWRIGHT_ARCH_ARM64_LSE_LLSC_H

#include <stdint.h>

/* Whatever -march says; executing one where HWCAP has no LSE is the caller's mistake. */
#define LW_ASM_LSE ".arch_extension lse\n\t"

/* Each macro: form name, instruction, width in bits, size suffix of the mnemonic, w or x registers, clobbers. */
#define LW_LSE_STORE(form, bits, sz, r, ...)                                                                    \
    static inline void lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v)                                 \
    {                                                                                                           \
        __asm__ __volatile__(LW_ASM_LSE #form sz " %" r "[v], %[m]" : [m] "+Q"(*p) : [v] "r"(v) : __VA_ARGS__); \
    }

#define LW_LSE_LOAD(form, bits, sz, r, ...)                                               \
    static inline uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                     \
        uint##bits##_t old;                                                               \
                                                                                          \
        __asm__ __volatile__(LW_ASM_LSE #form sz " %" r "[v], %" r "[old], %[m]"          \
                             : [m] "+Q"(*p), [old] "=r"(old)                              \
                             : [v] "r"(v)                                                 \
                             : __VA_ARGS__);                                              \
        return old;                                                                       \
    }

#define LW_LSE_CAS(form, bits, sz, r, ...)                                                                               \
    static inline uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired) \
    {                                                                                                                    \
        __asm__ __volatile__(LW_ASM_LSE #form sz " %" r "[expected], %" r "[desired], %[m]"                              \
                             : [m] "+Q"(*p), [expected] "+r"(expected)                                                   \
                             : [desired] "r"(desired)                                                                    \
                             : __VA_ARGS__);                                                                             \
        return expected;                                                                                                 \
    }

/* `insn` makes the new value of the old and the operand. */
#define LW_LLSC_VOID(form, insn, st, bits, sz, r, ...)                                                                \
    static inline void lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v)                                       \
    {                                                                                                                 \
        uint##bits##_t tmp;                                                                                           \
        uint32_t failed;                                                                                              \
                                                                                                                      \
        __asm__ __volatile__("1:\n\t"                                                                                 \
                             "ldxr" sz " %" r "[tmp], %[m]\n\t" insn " %" r "[tmp], %" r "[tmp], %" r "[v]\n\t" st sz \
                             " %w[failed], %" r "[tmp], %[m]\n\t"                                                     \
                             "cbnz %w[failed], 1b"                                                                    \
                             : [m] "+Q"(*p), [tmp] "=&r"(tmp), [failed] "=&r"(failed)                                 \
                             : [v] "r"(v)                                                                             \
                             : __VA_ARGS__);                                                                          \
    }

/* `tail` is what follows the pair: nothing, or the DMB ISH that keeps later accesses behind the store half. */
#define LW_LLSC_FETCH(form, insn, ld, st, tail, bits, sz, r, ...)                                             \
    static inline uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v)                     \
    {                                                                                                         \
        uint##bits##_t old, result;                                                                           \
        uint32_t failed;                                                                                      \
                                                                                                              \
        __asm__ __volatile__("1:\n\t" ld sz " %" r "[old], %[m]\n\t" insn " %" r "[result], %" r "[old], %" r \
                             "[v]\n\t" st sz " %w[failed], %" r "[result], %[m]\n\t"                          \
                             "cbnz %w[failed], 1b" tail                                                       \
                             : [m] "+Q"(*p), [old] "=&r"(old), [result] "=&r"(result), [failed] "=&r"(failed) \
                             : [v] "r"(v)                                                                     \
                             : __VA_ARGS__);                                                                  \
        return old;                                                                                           \
    }

#define LW_LLSC_SWP(form, ld, st, tail, bits, sz, r, ...)                                                     \
    static inline uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v)                     \
    {                                                                                                         \
        uint##bits##_t old;                                                                                   \
        uint32_t failed;                                                                                      \
                                                                                                              \
        __asm__ __volatile__("1:\n\t" ld sz " %" r "[old], %[m]\n\t" st sz " %w[failed], %" r "[v], %[m]\n\t" \
                             "cbnz %w[failed], 1b" tail                                                       \
                             : [m] "+Q"(*p), [old] "=&r"(old), [failed] "=&r"(failed)                         \
                             : [v] "r"(v)                                                                     \
                             : __VA_ARGS__);                                                                  \
        return old;                                                                                           \
    }

/* `ext` extends the expected value as the load extended the old one: a narrow operand's upper bits are unknown.
 * When the compare fails nothing is written, and what order the load gives is all there is. */
#define LW_LLSC_CAS(form, ld, st, tail, bits, sz, r, ext, ...)                                                           \
    static inline uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired) \
    {                                                                                                                    \
        uint##bits##_t old;                                                                                              \
        uint32_t failed;                                                                                                 \
                                                                                                                         \
        __asm__ __volatile__("1:\n\t" ld sz " %" r "[old], %[m]\n\t"                                                     \
                             "cmp %" r "[old], %" r "[expected]" ext "\n\t"                                              \
                             "b.ne 2f\n\t" st sz " %w[failed], %" r "[desired], %[m]\n\t"                                \
                             "cbnz %w[failed], 1b" tail "\n"                                                             \
                             "2:"                                                                                        \
                             : [m] "+Q"(*p), [old] "=&r"(old), [failed] "=&r"(failed)                                    \
                             : [expected] "r"(expected), [desired] "r"(desired)                                          \
                             : __VA_ARGS__);                                                                             \
        return old;                                                                                                      \
    }

/* In a clobber list "cc" alone, which costs nothing, says that the form is no compiler barrier. */
#define LW_LSE_OP(op, bits, sz, r)                 \
    LW_LSE_STORE(st##op, bits, sz, r, "cc")        \
    LW_LSE_STORE(st##op##l, bits, sz, r, "memory") \
    LW_LSE_LOAD(ld##op, bits, sz, r, "cc")         \
    LW_LSE_LOAD(ld##op##a, bits, sz, r, "memory")  \
    LW_LSE_LOAD(ld##op##l, bits, sz, r, "memory")  \
    LW_LSE_LOAD(ld##op##al, bits, sz, r, "memory")

#define LW_DMB_ISH "\n\tdmb ish"

#define LW_LLSC_OP(op, insn, bits, sz, r)                                                  \
    LW_LLSC_VOID(llsc_##op, insn, "stxr", bits, sz, r, "cc")                               \
    LW_LLSC_VOID(llsc_##op##_l, insn, "stlxr", bits, sz, r, "memory")                      \
    LW_LLSC_FETCH(llsc_fetch_##op, insn, "ldxr", "stxr", "", bits, sz, r, "cc")            \
    LW_LLSC_FETCH(llsc_fetch_##op##_a, insn, "ldaxr", "stxr", "", bits, sz, r, "memory")   \
    LW_LLSC_FETCH(llsc_fetch_##op##_l, insn, "ldxr", "stlxr", "", bits, sz, r, "memory")   \
    LW_LLSC_FETCH(llsc_fetch_##op##_al, insn, "ldaxr", "stlxr", "", bits, sz, r, "memory") \
    LW_LLSC_FETCH(llsc_fetch_##op##_full, insn, "ldxr", "stlxr", LW_DMB_ISH, bits, sz, r, "memory")

/* The full compare-and-swap loads with acquire although its barrier would do: a failed one has only the load. */
#define LW_ARM64_FORMS(bits, sz, r, ext)                                             \
    LW_LSE_OP(add, bits, sz, r)                                                      \
    LW_LSE_OP(clr, bits, sz, r)                                                      \
    LW_LSE_OP(set, bits, sz, r)                                                      \
    LW_LSE_OP(eor, bits, sz, r)                                                      \
    LW_LSE_LOAD(swp, bits, sz, r, "cc")                                              \
    LW_LSE_LOAD(swpa, bits, sz, r, "memory")                                         \
    LW_LSE_LOAD(swpl, bits, sz, r, "memory")                                         \
    LW_LSE_LOAD(swpal, bits, sz, r, "memory")                                        \
    LW_LSE_CAS(cas, bits, sz, r, "cc")                                               \
    LW_LSE_CAS(casa, bits, sz, r, "memory")                                          \
    LW_LSE_CAS(casl, bits, sz, r, "memory")                                          \
    LW_LSE_CAS(casal, bits, sz, r, "memory")                                         \
    LW_LLSC_OP(add, "add", bits, sz, r)                                              \
    LW_LLSC_OP(clr, "bic", bits, sz, r)                                              \
    LW_LLSC_OP(set, "orr", bits, sz, r)                                              \
    LW_LLSC_OP(eor, "eor", bits, sz, r)                                              \
    LW_LLSC_SWP(llsc_swp, "ldxr", "stxr", "", bits, sz, r, "cc")                     \
    LW_LLSC_SWP(llsc_swp_a, "ldaxr", "stxr", "", bits, sz, r, "memory")              \
    LW_LLSC_SWP(llsc_swp_l, "ldxr", "stlxr", "", bits, sz, r, "memory")              \
    LW_LLSC_SWP(llsc_swp_al, "ldaxr", "stlxr", "", bits, sz, r, "memory")            \
    LW_LLSC_SWP(llsc_swp_full, "ldxr", "stlxr", LW_DMB_ISH, bits, sz, r, "memory")   \
    LW_LLSC_CAS(llsc_cas, "ldxr", "stxr", "", bits, sz, r, ext, "cc")                \
    LW_LLSC_CAS(llsc_cas_a, "ldaxr", "stxr", "", bits, sz, r, ext, "cc", "memory")   \
    LW_LLSC_CAS(llsc_cas_l, "ldxr", "stlxr", "", bits, sz, r, ext, "cc", "memory")   \
    LW_LLSC_CAS(llsc_cas_al, "ldaxr", "stlxr", "", bits, sz, r, ext, "cc", "memory") \
    LW_LLSC_CAS(llsc_cas_full, "ldaxr", "stlxr", LW_DMB_ISH, bits, sz, r, ext, "cc", "memory")

LW_ARM64_FORMS(8, "b", "w", ", uxtb")
LW_ARM64_FORMS(16, "h", "w", ", uxth")
LW_ARM64_FORMS(32, "", "w", "")
LW_ARM64_FORMS(64, "", "x", "")

#undef LW_LSE_STORE
#undef LW_LSE_LOAD
#undef LW_LSE_CAS
#undef LW_LLSC_VOID
#undef LW_LLSC_FETCH
#undef LW_LLSC_SWP
#undef LW_LLSC_CAS
#undef LW_LSE_OP
#undef LW_LLSC_OP
#undef LW_ARM64_FORMS

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

#endif

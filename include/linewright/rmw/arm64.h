/* SPDX-License-Identifier: MIT */
/* What atomic.h is built from on arm64: per operation class one test of the policy word, then one of the forms.
 *
 * The word is read relaxed and pairs with the relaxed store in lw_policy_set(): any form is right at any time.
 * Its bits for a class are all clear when the load form is to be taken as it is, so that is the path without a
 * taken branch; every other policy costs one or two predictable branches more. */
#ifndef LINEWRIGHT_RMW_ARM64_H
#define LINEWRIGHT_RMW_ARM64_H

#include <stdbool.h>
#include <stdint.h>

#include "../arch/arm64/lse_llsc.h"

#ifndef LW_NO_POLICY
#include "../policy.h"

#define LW_POLICY_OF(class_) (__atomic_load_n(&lw_policy_word, __ATOMIC_RELAXED) & LW_POLICY_AT(class_, LW_POLICY_MASK))

/* Prefetch if asked to, then do `llsc` or `load`, both of which return. */
#define LW_CHOOSE(class_, p, llsc, load)                                \
    do {                                                                \
        uint32_t policy_ = LW_POLICY_OF(class_);                        \
                                                                        \
        if (__builtin_expect(policy_ != 0, 0)) {                        \
            if (policy_ & LW_POLICY_AT(class_, LW_POLICY_PREFETCH_BIT)) \
                lw_prfm_strm(p);                                        \
            if (policy_ & LW_POLICY_AT(class_, LW_POLICY_LLSC_BIT))     \
                return llsc;                                            \
        }                                                               \
        return load;                                                    \
    } while (0)

/* The same for an operation without a value, which has a store form too. */
#define LW_CHOOSE_VOID(p, llsc, store, load)                                    \
    do {                                                                        \
        uint32_t policy_ = LW_POLICY_OF(LW_POLICY_VOID);                        \
                                                                                \
        if (__builtin_expect(policy_ != 0, 0)) {                                \
            if (policy_ & LW_POLICY_AT(LW_POLICY_VOID, LW_POLICY_PREFETCH_BIT)) \
                lw_prfm_strm(p);                                                \
            if (policy_ & LW_POLICY_AT(LW_POLICY_VOID, LW_POLICY_LLSC_BIT)) {   \
                llsc;                                                           \
                return;                                                         \
            }                                                                   \
            if (policy_ & LW_POLICY_AT(LW_POLICY_VOID, LW_POLICY_STORE_BIT)) {  \
                store;                                                          \
                return;                                                         \
            }                                                                   \
        }                                                                       \
        (void)load;                                                             \
    } while (0)

/* Before the load that a conditional operation begins with: ask for the line before it is fetched shared. */
static inline void lw_arch_before_cas(const void *p)
{
    if (__builtin_expect(LW_POLICY_OF(LW_POLICY_CAS) & LW_POLICY_AT(LW_POLICY_CAS, LW_POLICY_PREFETCH_BIT), 0))
        lw_prfm_strm(p);
}

/* A compare-and-swap whose line has just been asked for: only the form is chosen. */
#define LW_CHOOSE_RETRY(llsc, load) \
    (__builtin_expect(LW_POLICY_OF(LW_POLICY_CAS) & LW_POLICY_AT(LW_POLICY_CAS, LW_POLICY_LLSC_BIT), 0) ? (llsc) : (load))

#else /* LW_NO_POLICY: what -march allows, decided when this is compiled */

#ifdef __ARM_FEATURE_ATOMICS
#define LW_CHOOSE(class_, p, llsc, load) return load
#define LW_CHOOSE_VOID(p, llsc, store, load) (void)load
#define LW_CHOOSE_RETRY(llsc, load) load
#else
#define LW_CHOOSE(class_, p, llsc, load) return llsc
#define LW_CHOOSE_VOID(p, llsc, store, load) llsc
#define LW_CHOOSE_RETRY(llsc, load) llsc
#endif

static inline void lw_arch_before_cas(const void *p)
{
    (void)p;
}
#endif

#define LW_ARM64_VOID(bits, op, insn, order, l, _l)                                           \
    static inline void lw_arch_##op##_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)  \
    {                                                                                         \
        LW_CHOOSE_VOID(p, lw_llsc_##insn##_l##_u##bits(p, v), lw_st##insn##l##_u##bits(p, v), \
                       lw_ld##insn##l##_u##bits(p, v));                                       \
    }

#define LW_ARM64_FETCH(bits, op, insn, order, al, _al)                                                             \
    static inline uint##bits##_t lw_arch_fetch_##op##_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)       \
    {                                                                                                              \
        LW_CHOOSE(LW_POLICY_FETCH, p, lw_llsc_fetch_##insn##_al##_u##bits(p, v), lw_ld##insn##al##_u##bits(p, v)); \
    }

/* The order of a form is in its name twice: `al` as LSE spells it, `_al` as the LL/SC forms do. */
#define LW_ARM64_ORDER(bits, order, al, _al)                                                                           \
    LW_ARM64_FETCH(bits, add, add, order, al, _al)                                                                     \
    LW_ARM64_FETCH(bits, andnot, clr, order, al, _al)                                                                  \
    LW_ARM64_FETCH(bits, or, set, order, al, _al)                                                                      \
    LW_ARM64_FETCH(bits, xor, eor, order, al, _al)                                                                     \
    static inline uint##bits##_t lw_arch_xchg_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)                   \
    {                                                                                                                  \
        LW_CHOOSE(LW_POLICY_XCHG, p, lw_llsc_swp##_al##_u##bits(p, v), lw_swp##al##_u##bits(p, v));                    \
    }                                                                                                                  \
    static inline uint##bits##_t lw_arch_cas_u##bits##_##order(uint##bits##_t *p, uint##bits##_t expected,             \
                                                               uint##bits##_t desired)                                 \
    {                                                                                                                  \
        LW_CHOOSE(LW_POLICY_CAS, p, lw_llsc_cas##_al##_u##bits(p, expected, desired),                                  \
                  lw_cas##al##_u##bits(p, expected, desired));                                                         \
    }                                                                                                                  \
    static inline bool lw_arch_try_cas_u##bits##_##order(uint##bits##_t *p, uint##bits##_t *expected,                  \
                                                         uint##bits##_t desired)                                       \
    {                                                                                                                  \
        uint##bits##_t wanted = *expected;                                                                             \
                                                                                                                       \
        *expected = lw_arch_cas_u##bits##_##order(p, wanted, desired);                                                 \
        return *expected == wanted;                                                                                    \
    }                                                                                                                  \
    static inline bool lw_arch_retry_cas_u##bits##_##order(uint##bits##_t *p, uint##bits##_t *expected,                \
                                                           uint##bits##_t desired)                                     \
    {                                                                                                                  \
        uint##bits##_t wanted = *expected;                                                                             \
                                                                                                                       \
        *expected =                                                                                                    \
            LW_CHOOSE_RETRY(lw_llsc_cas##_al##_u##bits(p, wanted, desired), lw_cas##al##_u##bits(p, wanted, desired)); \
        return *expected == wanted;                                                                                    \
    }                                                                                                                  \
    static inline bool lw_arch_sub_and_test_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)                     \
    {                                                                                                                  \
        return lw_arch_fetch_add_u##bits##_##order(p, (uint##bits##_t)(0 - v)) == v;                                   \
    }

#define LW_ARM64_WIDTH(bits)                         \
    LW_ARM64_VOID(bits, add, add, relaxed, , )       \
    LW_ARM64_VOID(bits, add, add, release, l, _l)    \
    LW_ARM64_VOID(bits, andnot, clr, relaxed, , )    \
    LW_ARM64_VOID(bits, andnot, clr, release, l, _l) \
    LW_ARM64_VOID(bits, or, set, relaxed, , )        \
    LW_ARM64_VOID(bits, or, set, release, l, _l)     \
    LW_ARM64_VOID(bits, xor, eor, relaxed, , )       \
    LW_ARM64_VOID(bits, xor, eor, release, l, _l)    \
    LW_ARM64_ORDER(bits, relaxed, , )                \
    LW_ARM64_ORDER(bits, acquire, a, _a)             \
    LW_ARM64_ORDER(bits, release, l, _l)             \
    LW_ARM64_ORDER(bits, acq_rel, al, _al)           \
    LW_ARM64_ORDER(bits, full, al, _full)

LW_ARM64_WIDTH(8)
LW_ARM64_WIDTH(16)
LW_ARM64_WIDTH(32)
LW_ARM64_WIDTH(64)

#undef LW_CHOOSE
#undef LW_CHOOSE_VOID
#undef LW_CHOOSE_RETRY
#undef LW_ARM64_VOID
#undef LW_ARM64_FETCH
#undef LW_ARM64_ORDER
#undef LW_ARM64_WIDTH

#endif

/* SPDX-License-Identifier: MIT */
/* What atomic.h is built from on x86: every order is the same locked instruction, and no policy is asked. */
#ifndef LINEWRIGHT_RMW_X86_H
#define LINEWRIGHT_RMW_X86_H

#include "../arch/x86/locked.h"

/* A value is wanted from an operation that has no such instruction: a `lock cmpxchg` loop after a plain load. */
#define LW_X86_FETCH_LOOP(bits, op, order, cmpxchg, result)                                                  \
    static inline uint##bits##_t lw_arch_fetch_##op##_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                                        \
        uint##bits##_t old = __atomic_load_n(p, __ATOMIC_RELAXED);                                           \
                                                                                                             \
        while (!cmpxchg(p, &old, (uint##bits##_t)(result)))                                                  \
            ;                                                                                                \
        return old;                                                                                          \
    }

#define LW_X86_ORDER(bits, order, b)                                                                                      \
    static inline uint##bits##_t lw_arch_fetch_add_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)                 \
    {                                                                                                                     \
        return lw_lock_xadd##b##_u##bits(p, v);                                                                           \
    }                                                                                                                     \
    LW_X86_FETCH_LOOP(bits, andnot, order, lw_lock_cmpxchg##b##_u##bits, old & ~v)                                        \
    LW_X86_FETCH_LOOP(bits, or, order, lw_lock_cmpxchg##b##_u##bits, old | v)                                             \
    LW_X86_FETCH_LOOP(bits, xor, order, lw_lock_cmpxchg##b##_u##bits, old ^ v)                                            \
    static inline uint##bits##_t lw_arch_xchg_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)                      \
    {                                                                                                                     \
        return lw_xchg##b##_u##bits(p, v);                                                                                \
    }                                                                                                                     \
    static inline bool lw_arch_try_cas_u##bits##_##order(uint##bits##_t *p, uint##bits##_t *expected, uint##bits##_t v)   \
    {                                                                                                                     \
        return lw_lock_cmpxchg##b##_u##bits(p, expected, v);                                                              \
    }                                                                                                                     \
    static inline bool lw_arch_retry_cas_u##bits##_##order(uint##bits##_t *p, uint##bits##_t *expected, uint##bits##_t v) \
    {                                                                                                                     \
        return lw_lock_cmpxchg##b##_u##bits(p, expected, v);                                                              \
    }                                                                                                                     \
    static inline bool lw_arch_sub_and_test_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)                        \
    {                                                                                                                     \
        return lw_lock_sub_test##b##_u##bits(p, v);                                                                       \
    }

#define LW_X86_VOID_ORDER(bits, order, b)                                                    \
    static inline void lw_arch_add_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)    \
    {                                                                                        \
        lw_lock_add##b##_u##bits(p, v);                                                      \
    }                                                                                        \
    static inline void lw_arch_andnot_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                        \
        lw_lock_and##b##_u##bits(p, (uint##bits##_t) ~v);                                    \
    }                                                                                        \
    static inline void lw_arch_or_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)     \
    {                                                                                        \
        lw_lock_or##b##_u##bits(p, v);                                                       \
    }                                                                                        \
    static inline void lw_arch_xor_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)    \
    {                                                                                        \
        lw_lock_xor##b##_u##bits(p, v);                                                      \
    }

#define LW_X86_WIDTH(bits)                     \
    LW_X86_ORDER(bits, relaxed, _relaxed)      \
    LW_X86_ORDER(bits, acquire, )              \
    LW_X86_ORDER(bits, release, )              \
    LW_X86_ORDER(bits, acq_rel, )              \
    LW_X86_ORDER(bits, full, )                 \
    LW_X86_VOID_ORDER(bits, relaxed, _relaxed) \
    LW_X86_VOID_ORDER(bits, release, )

LW_X86_WIDTH(8)
LW_X86_WIDTH(16)
LW_X86_WIDTH(32)
#ifdef __x86_64__
LW_X86_WIDTH(64)
#endif

/* Before the load that a conditional operation begins with: nothing to prepare here. */
static inline void lw_arch_before_cas(const void *p)
{
    (void)p;
}

#undef LW_X86_FETCH_LOOP
#undef LW_X86_ORDER
#undef LW_X86_VOID_ORDER
#undef LW_X86_WIDTH

#endif

/* SPDX-License-Identifier: MIT */
/* What atomic.h is built from where no assembly of ours exists, and under ThreadSanitizer, which sees none: builtins. */
#ifndef LINEWRIGHT_RMW_GENERIC_H
#define LINEWRIGHT_RMW_GENERIC_H

#include <stdbool.h>
#include <stdint.h>

#include "../arch/cpu.h"
#include "../arch/thread_sanitizer.h"

/* Sequentially consistent and full as the kernel means it are two things on weak machines: a later access may
 * pass the store half of a seq_cst read-modify-write. The fence after it stops that. ThreadSanitizer knows no
 * fences; its builds look for races, where the order of the builtin is all that counts. */
#ifdef LW_THREAD_SANITIZER
#define LW_GENERIC_FULL_FENCE() ((void)0)
#else
#define LW_GENERIC_FULL_FENCE() lw_full_fence()
#endif

#define LW_GENERIC_FETCH(bits, op, order, builtin, operand, memory_order, after)                       \
    static inline uint##bits##_t lw_arch_##op##_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                                  \
        uint##bits##_t old = builtin(p, (uint##bits##_t)(operand), memory_order);                      \
                                                                                                       \
        after;                                                                                         \
        return old;                                                                                    \
    }

#define LW_GENERIC_CAS(bits, name, order, memory_order, failure_order, after)                                            \
    static inline bool lw_arch_##name##_u##bits##_##order(uint##bits##_t *p, uint##bits##_t *expected, uint##bits##_t v) \
    {                                                                                                                    \
        bool equal = __atomic_compare_exchange_n(p, expected, v, false, memory_order, failure_order);                    \
                                                                                                                         \
        after;                                                                                                           \
        return equal;                                                                                                    \
    }

#define LW_GENERIC_ORDER(bits, order, mo, fail, after)                                             \
    LW_GENERIC_FETCH(bits, fetch_add, order, __atomic_fetch_add, v, mo, after)                     \
    LW_GENERIC_FETCH(bits, fetch_andnot, order, __atomic_fetch_and, ~v, mo, after)                 \
    LW_GENERIC_FETCH(bits, fetch_or, order, __atomic_fetch_or, v, mo, after)                       \
    LW_GENERIC_FETCH(bits, fetch_xor, order, __atomic_fetch_xor, v, mo, after)                     \
    LW_GENERIC_FETCH(bits, xchg, order, __atomic_exchange_n, v, mo, after)                         \
    LW_GENERIC_CAS(bits, try_cas, order, mo, fail, after)                                          \
    LW_GENERIC_CAS(bits, retry_cas, order, mo, fail, after)                                        \
    static inline bool lw_arch_sub_and_test_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                              \
        bool zero = __atomic_sub_fetch(p, v, mo) == 0;                                             \
                                                                                                   \
        after;                                                                                     \
        return zero;                                                                               \
    }

#define LW_GENERIC_VOID_ORDER(bits, order, mo)                                               \
    static inline void lw_arch_add_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)    \
    {                                                                                        \
        (void)__atomic_fetch_add(p, v, mo);                                                  \
    }                                                                                        \
    static inline void lw_arch_andnot_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                                        \
        (void)__atomic_fetch_and(p, (uint##bits##_t) ~v, mo);                                \
    }                                                                                        \
    static inline void lw_arch_or_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)     \
    {                                                                                        \
        (void)__atomic_fetch_or(p, v, mo);                                                   \
    }                                                                                        \
    static inline void lw_arch_xor_u##bits##_##order(uint##bits##_t *p, uint##bits##_t v)    \
    {                                                                                        \
        (void)__atomic_fetch_xor(p, v, mo);                                                  \
    }

#define LW_GENERIC_WIDTH(bits)                                                                \
    LW_GENERIC_ORDER(bits, relaxed, __ATOMIC_RELAXED, __ATOMIC_RELAXED, (void)0)              \
    LW_GENERIC_ORDER(bits, acquire, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE, (void)0)              \
    LW_GENERIC_ORDER(bits, release, __ATOMIC_RELEASE, __ATOMIC_RELAXED, (void)0)              \
    LW_GENERIC_ORDER(bits, acq_rel, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE, (void)0)              \
    LW_GENERIC_ORDER(bits, full, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST, LW_GENERIC_FULL_FENCE()) \
    LW_GENERIC_VOID_ORDER(bits, relaxed, __ATOMIC_RELAXED)                                    \
    LW_GENERIC_VOID_ORDER(bits, release, __ATOMIC_RELEASE)

LW_GENERIC_WIDTH(8)
LW_GENERIC_WIDTH(16)
LW_GENERIC_WIDTH(32)
#if UINTPTR_MAX > 0xffffffff
LW_GENERIC_WIDTH(64)
#endif

/* Before the load that a conditional operation begins with: nothing to prepare here. */
static inline void lw_arch_before_cas(const void *p)
{
    (void)p;
}

#undef LW_GENERIC_FULL_FENCE
#undef LW_GENERIC_FETCH
#undef LW_GENERIC_CAS
#undef LW_GENERIC_ORDER
#undef LW_GENERIC_VOID_ORDER
#undef LW_GENERIC_WIDTH

#endif

/* Every atomic operation, one name each; arm64 programs choose its form at start-up (policy.h).
 *
 *     lw_<operation>_u<bits>[_relaxed|_acquire|_release|_acq_rel]       bits: 8, 16, 32, 64
 *
 * Which operation, by what is needed of it:
 *   no value, no ordering of later loads   lw_add lw_sub lw_inc lw_dec lw_and lw_andnot lw_or lw_xor
 *   the value before                       lw_fetch_{add,sub,and,andnot,or,xor} lw_xchg lw_cmpxchg
 *   the value after                        lw_{add,sub,inc,dec}_return
 *   whether it was done                    lw_try_cmpxchg lw_add_unless lw_inc_not_zero lw_dec_if_positive
 *   whether it reached zero                lw_dec_and_test lw_sub_and_test
 *   load and store                         lw_read lw_write
 *
 * Order:
 *   Operations without a value are relaxed, or `_release`: accesses before it are not seen after it. They are
 *   never a load for an order that later accesses want (on arm64 they may be STADD, which DMB ISHLD passes).
 *   Operations with a value and no suffix are sequentially consistent, and fully ordered as the Linux kernel
 *   means it: nothing before one is seen after it, nothing after it before it. `_acquire` orders what comes
 *   after, `_release` what came before, `_acq_rel` both, `_relaxed` nothing but the operation itself.
 *   An operation that turns out to write nothing (failed compare, false returned) has no release part; of the
 *   full order lw_cmpxchg and lw_try_cmpxchg then keep a sequentially consistent load, the conditional
 *   operations (lw_add_unless …) nothing.
 *   lw_read is a sequentially consistent load; lw_write is relaxed like all without a value, and has the
 *   one extra suffix `_seq_cst`, which with lw_read forbids store buffering.
 *
 * Operands are aligned to their size; arithmetic wraps. All are lock-free and async-signal-safe, and operations
 * of different forms and widths of the same alignment may meet on one word.
 *
 * Wider than a register, from wide.h: on i386 the same operations at 64 bits, elsewhere a few at 128.
 * -DLW_NO_POLICY makes this header complete in itself: no library, no policy, no branch; on arm64 -march then
 * decides between LSE and LL/SC when the program is compiled. Under ThreadSanitizer every operation is the
 * compiler's builtin of the same order, which it understands.
 *
 * What each compiles to is in docs/library/atomic.md; tests/cpp/atomic/disassembly.py holds it to that. */
#ifndef LINEWRIGHT_ATOMIC_H
#define LINEWRIGHT_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/thread_sanitizer.h"

/* rmw/<architecture>.h gives lw_arch_<operation>_u<bits>_<order>(), which the rows below are made of. */
#if defined(__aarch64__) && !defined(LW_THREAD_SANITIZER)
#include "rmw/arm64.h"
#elif (defined(__x86_64__) || defined(__i386__)) && !defined(LW_THREAD_SANITIZER)
#include "rmw/x86.h"
#else
#include "rmw/generic.h"
#endif
#if defined(__x86_64__) || defined(__i386__)
/* The form called xchg and the operation lw_xchg are one function, in arch/x86/locked.h. */
#include "arch/x86/locked.h"
#define LW_XCHG_IS_A_FORM 1
#endif

#if UINTPTR_MAX > 0xffffffff
#define LW_HAVE_U64 1
#endif

/* ---- How a row of the table becomes functions --------------------------------------------------------------
 * A row gives the operation's name, its width, the primitive (lw_arch_…) it is made of, the operand handed to
 * that, and what it returns in terms of `old` and `v`. One function per order comes of it. */

#define LW_OF_P(bits) (uint##bits##_t * p)
#define LW_OF_P_AND_V(bits) (uint##bits##_t * p, uint##bits##_t v)

#define LW_VOID_1(name, bits, parameters, op, order, operand)           \
    static inline void name parameters                                  \
    {                                                                   \
        lw_arch_##op##_u##bits##_##order(p, (uint##bits##_t)(operand)); \
    }

#define LW_VOID_ORDERS(name, bits, parameters, op, operand) \
    LW_VOID_1(name, bits, parameters, op, relaxed, operand) \
    LW_VOID_1(name##_release, bits, parameters, op, release, operand)

/* no value, with an operand v; lw_inc and lw_dec: without one */
#define LW_VOID(name, bits, op, operand) LW_VOID_ORDERS(name, bits, LW_OF_P_AND_V(bits), op, operand)
#define LW_VOID_BY_ONE(name, bits, op, operand) LW_VOID_ORDERS(name, bits, LW_OF_P(bits), op, operand)

#define LW_FETCH_1(name, bits, parameters, op, order, operand, result)                       \
    static inline uint##bits##_t name parameters                                             \
    {                                                                                        \
        uint##bits##_t old = lw_arch_##op##_u##bits##_##order(p, (uint##bits##_t)(operand)); \
                                                                                             \
        return (uint##bits##_t)(result);                                                     \
    }

#define LW_FETCH_WEAKER(name, bits, parameters, op, operand, result)           \
    LW_FETCH_1(name##_relaxed, bits, parameters, op, relaxed, operand, result) \
    LW_FETCH_1(name##_acquire, bits, parameters, op, acquire, operand, result) \
    LW_FETCH_1(name##_release, bits, parameters, op, release, operand, result) \
    LW_FETCH_1(name##_acq_rel, bits, parameters, op, acq_rel, operand, result)

/* a value comes back, with an operand v; lw_inc_return and lw_dec_return: without one */
#define LW_FETCH(name, bits, op, operand, result)                          \
    LW_FETCH_1(name, bits, LW_OF_P_AND_V(bits), op, full, operand, result) \
    LW_FETCH_WEAKER(name, bits, LW_OF_P_AND_V(bits), op, operand, result)
#define LW_FETCH_BY_ONE(name, bits, op, operand, result)             \
    LW_FETCH_1(name, bits, LW_OF_P(bits), op, full, operand, result) \
    LW_FETCH_WEAKER(name, bits, LW_OF_P(bits), op, operand, result)

#ifdef LW_XCHG_IS_A_FORM
#define LW_XCHG(name, bits) LW_FETCH_WEAKER(name, bits, LW_OF_P_AND_V(bits), xchg, v, old)
#else
#define LW_XCHG(name, bits) LW_FETCH(name, bits, xchg, v, old)
#endif

/* X(name, bits, order) for every order an operation with a value has */
#define LW_EVERY_ORDER(X, name, bits) \
    X(name, bits, full)               \
    X(name##_relaxed, bits, relaxed)  \
    X(name##_acquire, bits, acquire)  \
    X(name##_release, bits, release)  \
    X(name##_acq_rel, bits, acq_rel)

#define LW_CMPXCHG_1(name, bits, order)                                                                   \
    static inline uint##bits##_t name(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired) \
    {                                                                                                     \
        lw_arch_try_cas_u##bits##_##order(p, &expected, desired);                                         \
        return expected;                                                                                  \
    }

/* Once it has written, `expected` may be another thread's already (the link of a node just pushed): left alone. */
#define LW_TRY_CMPXCHG_1(name, bits, order)                                                      \
    static inline bool name(uint##bits##_t *p, uint##bits##_t *expected, uint##bits##_t desired) \
    {                                                                                            \
        uint##bits##_t old = *expected;                                                          \
                                                                                                 \
        if (lw_arch_try_cas_u##bits##_##order(p, &old, desired))                                 \
            return true;                                                                         \
        *expected = old;                                                                         \
        return false;                                                                            \
    }

/* Read, decide, compare-and-swap, and again if another thread was faster. The read is relaxed and pairs with
 * nothing: what it saw counts only if the compare-and-swap finds it still there. */
#define LW_UNLESS_LOOP(bits, order, refuse, sum)                                    \
    uint##bits##_t old;                                                             \
                                                                                    \
    lw_arch_before_cas(p);                                                          \
    old = lw_read_u##bits##_relaxed(p);                                             \
    do {                                                                            \
        if (refuse)                                                                 \
            return false;                                                           \
    } while (!lw_arch_retry_cas_u##bits##_##order(p, &old, (uint##bits##_t)(sum))); \
    return true;

#define LW_ADD_UNLESS_1(name, bits, order)                                              \
    static inline bool name(uint##bits##_t *p, uint##bits##_t v, uint##bits##_t unless) \
    {                                                                                   \
        LW_UNLESS_LOOP(bits, order, old == unless, old + v)                             \
    }

#define LW_INC_NOT_ZERO_1(name, bits, order)           \
    static inline bool name(uint##bits##_t *p)         \
    {                                                  \
        LW_UNLESS_LOOP(bits, order, old == 0, old + 1) \
    }

#define LW_DEC_IF_POSITIVE_1(name, bits, order)        \
    static inline bool name(uint##bits##_t *p)         \
    {                                                  \
        LW_UNLESS_LOOP(bits, order, old == 0, old - 1) \
    }

#define LW_SUB_AND_TEST_1(name, bits, order)                     \
    static inline bool name(uint##bits##_t *p, uint##bits##_t v) \
    {                                                            \
        return lw_arch_sub_and_test_u##bits##_##order(p, v);     \
    }

#define LW_DEC_AND_TEST_1(name, bits, order)                 \
    static inline bool name(uint##bits##_t *p)               \
    {                                                        \
        return lw_arch_sub_and_test_u##bits##_##order(p, 1); \
    }

#define LW_CMPXCHG(name, bits) LW_EVERY_ORDER(LW_CMPXCHG_1, name, bits)
#define LW_TRY_CMPXCHG(name, bits) LW_EVERY_ORDER(LW_TRY_CMPXCHG_1, name, bits)
#define LW_ADD_UNLESS(name, bits) LW_EVERY_ORDER(LW_ADD_UNLESS_1, name, bits)
#define LW_INC_NOT_ZERO(name, bits) LW_EVERY_ORDER(LW_INC_NOT_ZERO_1, name, bits)
#define LW_DEC_IF_POSITIVE(name, bits) LW_EVERY_ORDER(LW_DEC_IF_POSITIVE_1, name, bits)
#define LW_SUB_AND_TEST(name, bits) LW_EVERY_ORDER(LW_SUB_AND_TEST_1, name, bits)
#define LW_DEC_AND_TEST(name, bits) LW_EVERY_ORDER(LW_DEC_AND_TEST_1, name, bits)

/* Loads and stores have one form per order, which the builtins are: the compiler calls nothing for them. */
#define LW_READ(name, bits)                                              \
    static inline uint##bits##_t name(const uint##bits##_t *p)           \
    {                                                                    \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                     \
    }                                                                    \
    static inline uint##bits##_t name##_relaxed(const uint##bits##_t *p) \
    {                                                                    \
        return __atomic_load_n(p, __ATOMIC_RELAXED);                     \
    }                                                                    \
    static inline uint##bits##_t name##_acquire(const uint##bits##_t *p) \
    {                                                                    \
        return __atomic_load_n(p, __ATOMIC_ACQUIRE);                     \
    }

#define LW_WRITE(name, bits)                                               \
    static inline void name(uint##bits##_t *p, uint##bits##_t v)           \
    {                                                                      \
        __atomic_store_n(p, v, __ATOMIC_RELAXED);                          \
    }                                                                      \
    static inline void name##_release(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                      \
        __atomic_store_n(p, v, __ATOMIC_RELEASE);                          \
    }                                                                      \
    static inline void name##_seq_cst(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                      \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                          \
    }

/* The rows of 64 bits stand apart from the others only where a machine word has 32. */
#ifdef LW_HAVE_U64
#define LW_IF_U64(...) __VA_ARGS__
#else
#define LW_IF_U64(...)
#endif

/* ---- The table --------------------------------------------------------------------------------------------- */

/* lw_read_u<bits>[_relaxed|_acquire](const p) loads. Unsuffixed: sequentially consistent.
 * x86 `mov`; arm64 `ldar`, relaxed `ldr`, acquire `ldar` (`ldapr` where -march has it). */
LW_READ(lw_read_u8, 8)
LW_READ(lw_read_u16, 16)
LW_READ(lw_read_u32, 32)
LW_IF_U64(LW_READ(lw_read_u64, 64))

/* lw_write_u<bits>[_release|_seq_cst](p, v) stores. Unsuffixed: relaxed.
 * x86 `mov`, seq_cst `xchg`; arm64 `str`, release and seq_cst `stlr`. */
LW_WRITE(lw_write_u8, 8)
LW_WRITE(lw_write_u16, 16)
LW_WRITE(lw_write_u32, 32)
LW_IF_U64(LW_WRITE(lw_write_u64, 64))

/* lw_add_u<bits>[_release](p, v): *p += v. No value.
 * x86 `lock add`; arm64 `ldadd`, `stadd` or LDXR-STXR; release: `ldaddl`, `staddl` or LDXR-STLXR. */
LW_VOID(lw_add_u8, 8, add, v)
LW_VOID(lw_add_u16, 16, add, v)
LW_VOID(lw_add_u32, 32, add, v)
LW_IF_U64(LW_VOID(lw_add_u64, 64, add, v))

/* lw_sub_u<bits>[_release](p, v): *p -= v, as the addition of -v. No value. Compiles to what lw_add does. */
LW_VOID(lw_sub_u8, 8, add, 0 - v)
LW_VOID(lw_sub_u16, 16, add, 0 - v)
LW_VOID(lw_sub_u32, 32, add, 0 - v)
LW_IF_U64(LW_VOID(lw_sub_u64, 64, add, 0 - v))

/* lw_inc_u<bits>[_release](p): *p += 1. No value. Compiles to what lw_add does. */
LW_VOID_BY_ONE(lw_inc_u8, 8, add, 1)
LW_VOID_BY_ONE(lw_inc_u16, 16, add, 1)
LW_VOID_BY_ONE(lw_inc_u32, 32, add, 1)
LW_IF_U64(LW_VOID_BY_ONE(lw_inc_u64, 64, add, 1))

/* lw_dec_u<bits>[_release](p): *p -= 1, as the addition of -1. No value. Compiles to what lw_add does. */
LW_VOID_BY_ONE(lw_dec_u8, 8, add, -1)
LW_VOID_BY_ONE(lw_dec_u16, 16, add, -1)
LW_VOID_BY_ONE(lw_dec_u32, 32, add, -1)
LW_IF_U64(LW_VOID_BY_ONE(lw_dec_u64, 64, add, -1))

/* lw_and_u<bits>[_release](p, v): *p &= v. No value.
 * x86 `lock and`; arm64 as lw_andnot of ~v, since there is no instruction for it. */
LW_VOID(lw_and_u8, 8, andnot, ~v)
LW_VOID(lw_and_u16, 16, andnot, ~v)
LW_VOID(lw_and_u32, 32, andnot, ~v)
LW_IF_U64(LW_VOID(lw_and_u64, 64, andnot, ~v))

/* lw_andnot_u<bits>[_release](p, v): *p &= ~v. No value.
 * x86 `lock and` of ~v; arm64 `ldclr`, `stclr` or LDXR-STXR; release: `ldclrl`, `stclrl` or LDXR-STLXR. */
LW_VOID(lw_andnot_u8, 8, andnot, v)
LW_VOID(lw_andnot_u16, 16, andnot, v)
LW_VOID(lw_andnot_u32, 32, andnot, v)
LW_IF_U64(LW_VOID(lw_andnot_u64, 64, andnot, v))

/* lw_or_u<bits>[_release](p, v): *p |= v. No value.
 * x86 `lock or`; arm64 `ldset`, `stset` or LDXR-STXR; release: `ldsetl`, `stsetl` or LDXR-STLXR. */
LW_VOID(lw_or_u8, 8, or, v)
LW_VOID(lw_or_u16, 16, or, v)
LW_VOID(lw_or_u32, 32, or, v)
LW_IF_U64(LW_VOID(lw_or_u64, 64, or, v))

/* lw_xor_u<bits>[_release](p, v): *p ^= v. No value.
 * x86 `lock xor`; arm64 `ldeor`, `steor` or LDXR-STXR; release: `ldeorl`, `steorl` or LDXR-STLXR. */
LW_VOID(lw_xor_u8, 8, xor, v)
LW_VOID(lw_xor_u16, 16, xor, v)
LW_VOID(lw_xor_u32, 32, xor, v)
LW_IF_U64(LW_VOID(lw_xor_u64, 64, xor, v))

/* lw_fetch_add_u<bits>[order](p, v): *p += v; returns the value before.
 * x86 `lock xadd`; arm64 `ldadd{,a,l,al}` or LDXR-STXR, acquire LDAXR, release STLXR, unsuffixed with `dmb ish` last. */
LW_FETCH(lw_fetch_add_u8, 8, fetch_add, v, old)
LW_FETCH(lw_fetch_add_u16, 16, fetch_add, v, old)
LW_FETCH(lw_fetch_add_u32, 32, fetch_add, v, old)
LW_IF_U64(LW_FETCH(lw_fetch_add_u64, 64, fetch_add, v, old))

/* lw_fetch_sub_u<bits>[order](p, v): *p -= v; returns the value before. Compiles to lw_fetch_add of -v. */
LW_FETCH(lw_fetch_sub_u8, 8, fetch_add, 0 - v, old)
LW_FETCH(lw_fetch_sub_u16, 16, fetch_add, 0 - v, old)
LW_FETCH(lw_fetch_sub_u32, 32, fetch_add, 0 - v, old)
LW_IF_U64(LW_FETCH(lw_fetch_sub_u64, 64, fetch_add, 0 - v, old))

/* lw_fetch_and_u<bits>[order](p, v): *p &= v; returns the value before. Compiles to lw_fetch_andnot of ~v. */
LW_FETCH(lw_fetch_and_u8, 8, fetch_andnot, ~v, old)
LW_FETCH(lw_fetch_and_u16, 16, fetch_andnot, ~v, old)
LW_FETCH(lw_fetch_and_u32, 32, fetch_andnot, ~v, old)
LW_IF_U64(LW_FETCH(lw_fetch_and_u64, 64, fetch_andnot, ~v, old))

/* lw_fetch_andnot_u<bits>[order](p, v): *p &= ~v; returns the value before.
 * x86 a `lock cmpxchg` loop, so use lw_andnot where the value is not wanted; arm64 `ldclr{,a,l,al}` or LL/SC. */
LW_FETCH(lw_fetch_andnot_u8, 8, fetch_andnot, v, old)
LW_FETCH(lw_fetch_andnot_u16, 16, fetch_andnot, v, old)
LW_FETCH(lw_fetch_andnot_u32, 32, fetch_andnot, v, old)
LW_IF_U64(LW_FETCH(lw_fetch_andnot_u64, 64, fetch_andnot, v, old))

/* lw_fetch_or_u<bits>[order](p, v): *p |= v; returns the value before.
 * x86 a `lock cmpxchg` loop, so use lw_or where the value is not wanted; arm64 `ldset{,a,l,al}` or LL/SC. */
LW_FETCH(lw_fetch_or_u8, 8, fetch_or, v, old)
LW_FETCH(lw_fetch_or_u16, 16, fetch_or, v, old)
LW_FETCH(lw_fetch_or_u32, 32, fetch_or, v, old)
LW_IF_U64(LW_FETCH(lw_fetch_or_u64, 64, fetch_or, v, old))

/* lw_fetch_xor_u<bits>[order](p, v): *p ^= v; returns the value before.
 * x86 a `lock cmpxchg` loop, so use lw_xor where the value is not wanted; arm64 `ldeor{,a,l,al}` or LL/SC. */
LW_FETCH(lw_fetch_xor_u8, 8, fetch_xor, v, old)
LW_FETCH(lw_fetch_xor_u16, 16, fetch_xor, v, old)
LW_FETCH(lw_fetch_xor_u32, 32, fetch_xor, v, old)
LW_IF_U64(LW_FETCH(lw_fetch_xor_u64, 64, fetch_xor, v, old))

/* lw_add_return_u<bits>[order](p, v): *p += v; returns the value after. Compiles to lw_fetch_add and one addition. */
LW_FETCH(lw_add_return_u8, 8, fetch_add, v, old + v)
LW_FETCH(lw_add_return_u16, 16, fetch_add, v, old + v)
LW_FETCH(lw_add_return_u32, 32, fetch_add, v, old + v)
LW_IF_U64(LW_FETCH(lw_add_return_u64, 64, fetch_add, v, old + v))

/* lw_sub_return_u<bits>[order](p, v): *p -= v; returns the value after. Compiles to lw_fetch_add and one subtraction. */
LW_FETCH(lw_sub_return_u8, 8, fetch_add, 0 - v, old - v)
LW_FETCH(lw_sub_return_u16, 16, fetch_add, 0 - v, old - v)
LW_FETCH(lw_sub_return_u32, 32, fetch_add, 0 - v, old - v)
LW_IF_U64(LW_FETCH(lw_sub_return_u64, 64, fetch_add, 0 - v, old - v))

/* lw_inc_return_u<bits>[order](p): *p += 1; returns the value after. Compiles to lw_fetch_add and one addition. */
LW_FETCH_BY_ONE(lw_inc_return_u8, 8, fetch_add, 1, old + 1)
LW_FETCH_BY_ONE(lw_inc_return_u16, 16, fetch_add, 1, old + 1)
LW_FETCH_BY_ONE(lw_inc_return_u32, 32, fetch_add, 1, old + 1)
LW_IF_U64(LW_FETCH_BY_ONE(lw_inc_return_u64, 64, fetch_add, 1, old + 1))

/* lw_dec_return_u<bits>[order](p): *p -= 1; returns the value after. Compiles to lw_fetch_add and one subtraction. */
LW_FETCH_BY_ONE(lw_dec_return_u8, 8, fetch_add, -1, old - 1)
LW_FETCH_BY_ONE(lw_dec_return_u16, 16, fetch_add, -1, old - 1)
LW_FETCH_BY_ONE(lw_dec_return_u32, 32, fetch_add, -1, old - 1)
LW_IF_U64(LW_FETCH_BY_ONE(lw_dec_return_u64, 64, fetch_add, -1, old - 1))

/* lw_xchg_u<bits>[order](p, v): *p = v; returns the value before.
 * x86 `xchg`; arm64 `swp{,a,l,al}` or LL/SC, unsuffixed with `dmb ish` last. */
LW_XCHG(lw_xchg_u8, 8)
LW_XCHG(lw_xchg_u16, 16)
LW_XCHG(lw_xchg_u32, 32)
LW_IF_U64(LW_XCHG(lw_xchg_u64, 64))

/* lw_cmpxchg_u<bits>[order](p, expected, desired): if *p is expected, *p = desired; returns the value before
 * either way. Never fails spuriously.
 * x86 `lock cmpxchg`; arm64 `cas{,a,l,al}` or LL/SC, unsuffixed with `dmb ish` last where it has written. */
LW_CMPXCHG(lw_cmpxchg_u8, 8)
LW_CMPXCHG(lw_cmpxchg_u16, 16)
LW_CMPXCHG(lw_cmpxchg_u32, 32)
LW_IF_U64(LW_CMPXCHG(lw_cmpxchg_u64, 64))

/* lw_try_cmpxchg_u<bits>[order](p, &expected, desired): the same; true if it has written, and else `expected` is the
 * value found (and only then written to). Never fails spuriously. Compiles to what lw_cmpxchg does. */
LW_TRY_CMPXCHG(lw_try_cmpxchg_u8, 8)
LW_TRY_CMPXCHG(lw_try_cmpxchg_u16, 16)
LW_TRY_CMPXCHG(lw_try_cmpxchg_u32, 32)
LW_IF_U64(LW_TRY_CMPXCHG(lw_try_cmpxchg_u64, 64))

/* lw_add_unless_u<bits>[order](p, v, unless): *p += v unless *p is `unless`; true if it has added.
 * A load and a loop of what lw_try_cmpxchg compiles to. Lock-free, not wait-free. */
LW_ADD_UNLESS(lw_add_unless_u8, 8)
LW_ADD_UNLESS(lw_add_unless_u16, 16)
LW_ADD_UNLESS(lw_add_unless_u32, 32)
LW_IF_U64(LW_ADD_UNLESS(lw_add_unless_u64, 64))

/* lw_inc_not_zero_u<bits>[order](p): *p += 1 unless *p is 0; true if it has. Compiles as lw_add_unless. */
LW_INC_NOT_ZERO(lw_inc_not_zero_u8, 8)
LW_INC_NOT_ZERO(lw_inc_not_zero_u16, 16)
LW_INC_NOT_ZERO(lw_inc_not_zero_u32, 32)
LW_IF_U64(LW_INC_NOT_ZERO(lw_inc_not_zero_u64, 64))

/* lw_dec_if_positive_u<bits>[order](p): *p -= 1 unless *p is 0; true if it has. The operand is unsigned, so
 * positive means not zero. Compiles as lw_add_unless. */
LW_DEC_IF_POSITIVE(lw_dec_if_positive_u8, 8)
LW_DEC_IF_POSITIVE(lw_dec_if_positive_u16, 16)
LW_DEC_IF_POSITIVE(lw_dec_if_positive_u32, 32)
LW_IF_U64(LW_DEC_IF_POSITIVE(lw_dec_if_positive_u64, 64))

/* lw_sub_and_test_u<bits>[order](p, v): *p -= v; true if that made it 0.
 * x86 `lock sub; sete`; arm64 lw_fetch_add of -v and a comparison. */
LW_SUB_AND_TEST(lw_sub_and_test_u8, 8)
LW_SUB_AND_TEST(lw_sub_and_test_u16, 16)
LW_SUB_AND_TEST(lw_sub_and_test_u32, 32)
LW_IF_U64(LW_SUB_AND_TEST(lw_sub_and_test_u64, 64))

/* lw_dec_and_test_u<bits>[order](p): *p -= 1; true if that made it 0. Compiles as lw_sub_and_test. */
LW_DEC_AND_TEST(lw_dec_and_test_u8, 8)
LW_DEC_AND_TEST(lw_dec_and_test_u16, 16)
LW_DEC_AND_TEST(lw_dec_and_test_u32, 32)
LW_IF_U64(LW_DEC_AND_TEST(lw_dec_and_test_u64, 64))

#undef LW_OF_P
#undef LW_OF_P_AND_V
#undef LW_VOID_1
#undef LW_VOID_ORDERS
#undef LW_VOID
#undef LW_VOID_BY_ONE
#undef LW_FETCH_1
#undef LW_FETCH_WEAKER
#undef LW_FETCH
#undef LW_FETCH_BY_ONE
#undef LW_XCHG
#undef LW_EVERY_ORDER
#undef LW_CMPXCHG_1
#undef LW_TRY_CMPXCHG_1
#undef LW_UNLESS_LOOP
#undef LW_ADD_UNLESS_1
#undef LW_INC_NOT_ZERO_1
#undef LW_DEC_IF_POSITIVE_1
#undef LW_SUB_AND_TEST_1
#undef LW_DEC_AND_TEST_1
#undef LW_CMPXCHG
#undef LW_TRY_CMPXCHG
#undef LW_ADD_UNLESS
#undef LW_INC_NOT_ZERO
#undef LW_DEC_IF_POSITIVE
#undef LW_SUB_AND_TEST
#undef LW_DEC_AND_TEST
#undef LW_READ
#undef LW_WRITE
#undef LW_IF_U64

#include "wide.h" /* u64 on i386, u128 on 64-bit machines */

#ifdef __cplusplus
#include "atomic_ref.h" /* lw::atomic_ref<T>, from C++17 on */
#endif

#endif

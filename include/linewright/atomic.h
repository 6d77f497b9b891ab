/* SPDX-License-Identifier: MIT */
/* Every atomic operation under one name. On arm64 a program chooses the instructions at start-up (policy.h).
 *
 *     lw_<operation>_u<bits>[_relaxed|_acquire|_release|_acq_rel]       bits: 8, 16, 32, 64
 *
 * Choose the operation by the result that is needed:
 *   no value, no ordering of later loads   lw_add lw_sub lw_inc lw_dec lw_and lw_andnot lw_or lw_xor
 *   the value before                       lw_fetch_{add,sub,and,andnot,or,xor} lw_xchg lw_cmpxchg
 *   the value after                        lw_{add,sub,inc,dec}_return
 *   whether it was performed               lw_try_cmpxchg lw_add_unless lw_inc_not_zero lw_dec_if_positive
 *   whether it reached zero                lw_dec_and_test lw_sub_and_test
 *   load and store                         lw_read lw_write
 *
 * Order:
 *   An operation without a value is relaxed; with the suffix `_release`, no earlier access is seen after it. It does
 *   not count as a load: no fence orders it as one (on arm64 it may be STADD, which DMB ISHLD does not wait for).
 *   An operation with a value and no suffix is sequentially consistent and fully ordered in the Linux kernel's sense: no
 *   earlier access is seen after it, and no later access before it. `_acquire` orders later accesses, `_release` earlier
 *   ones, `_acq_rel` both, and `_relaxed` none.
 *   An operation that writes nothing (the comparison failed, or false was returned) has no release part. Without a suffix,
 *   lw_cmpxchg and lw_try_cmpxchg then still are sequentially consistent loads; the conditional operations (lw_add_unless,
 *   lw_inc_not_zero, lw_dec_if_positive) order nothing.
 *   lw_read is a sequentially consistent load. lw_write is relaxed; its suffix `_seq_cst` together with lw_read forbids
 *   store buffering.
 *
 * Operands must be aligned to their size. Arithmetic wraps. Every operation is lock-free and async-signal-safe. Operations
 * in different forms may act on the same word at the same time.
 *
 * On i386 the operations at 64 bits are wider than a register; 64-bit machines have a few operations at 128 bits (wide.h).
 * -DLW_NO_POLICY makes this header self-sufficient: no library, no policy and no branch; on arm64 the compiler's -march
 * then decides between LSE and LL/SC. Under ThreadSanitizer every operation is the compiler's builtin of the same order,
 * because the sanitizer cannot see into assembly.
 *
 * The comments below name the instructions; tests/cpp/atomic/disassembly.py checks them. */
#ifndef LINEWRIGHT_ATOMIC_H
#define LINEWRIGHT_ATOMIC_H

#include "api.h"

LW__HEADER_BEGINS

#include <stdbool.h>
#include <stdint.h>

#include "arch/thread_sanitizer.h"

/* rmw/<architecture>.h gives lw_arch_<operation>_u<bits>_<order>(), which the rows below are made of. */
#ifdef LW_THREAD_SANITIZER
#include "rmw/generic.h"
#else
#include "arch/select.h"
#include LW_RMW_HEADER
#endif
#if defined(__x86_64__) || defined(__i386__)
/* The form called xchg and the operation lw_xchg are one function, in arch/x86/locked.h. */
#include "arch/x86/locked.h"
#define LW_XCHG_IS_A_FORM 1
#endif
#include "wide.h" /* u128 on 64-bit machines; on i386 what the rows of 64 bits are made of */

/* Whether a word of 64 bits is loaded and stored by one instruction that every compiler emits. */
#if UINTPTR_MAX > 0xffffffff
#define LW_HAVE_U64 1
#endif

/* ---- How a row of the table becomes functions --------------------------------------------------------------
 * A row gives the operation's name, its width, the primitive (lw_arch_…) it is made of, the operand handed to
 * that, and what it returns in terms of `old` and `v`. One function per order comes of it. */

/* The type of an operand by its width in bits: i386 alone aligns a uint64_t too little. */
#define LW_OPERAND_8 uint8_t
#define LW_OPERAND_16 uint16_t
#define LW_OPERAND_32 uint32_t
#ifdef LW_HAVE_U64
#define LW_OPERAND_64 uint64_t
#else
#define LW_OPERAND_64 lw_u64
#endif
#define LW_OPERAND(bits) LW_OPERAND_##bits

#define LW_OF_P(bits) (LW_OPERAND(bits) * p)
#define LW_OF_P_AND_V(bits) (LW_OPERAND(bits) * p, uint##bits##_t v)

#define LW_VOID_1(name, bits, parameters, op, order, operand)           \
    LW_INLINE void name parameters                                      \
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
    LW_INLINE uint##bits##_t name parameters                                                 \
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

#define LW_CMPXCHG_1(name, bits, order)                                                                  \
    LW_INLINE uint##bits##_t name(LW_OPERAND(bits) * p, uint##bits##_t expected, uint##bits##_t desired) \
    {                                                                                                    \
        lw_arch_try_cas_u##bits##_##order(p, &expected, desired);                                        \
        return expected;                                                                                 \
    }

/* After a success `expected` is not stored to: it may lie in a node that the operation has just made another thread's. */
#define LW_TRY_CMPXCHG_1(name, bits, order)                                                      \
    LW_INLINE bool name(LW_OPERAND(bits) * p, uint##bits##_t * expected, uint##bits##_t desired) \
    {                                                                                            \
        uint##bits##_t old = *expected;                                                          \
                                                                                                 \
        if (lw_arch_try_cas_u##bits##_##order(p, &old, desired))                                 \
            return true;                                                                         \
        *expected = old;                                                                         \
        return false;                                                                            \
    }

/* Read, decide, compare-and-swap, and repeat if another thread changed the word in between. The read is relaxed and pairs
 * with nothing: its value counts only if the compare-and-swap still finds it. */
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

#define LW_ADD_UNLESS_1(name, bits, order)                                             \
    LW_INLINE bool name(LW_OPERAND(bits) * p, uint##bits##_t v, uint##bits##_t unless) \
    {                                                                                  \
        LW_UNLESS_LOOP(bits, order, old == unless, old + v)                            \
    }

#define LW_INC_NOT_ZERO_1(name, bits, order)           \
    LW_INLINE bool name(LW_OPERAND(bits) * p)          \
    {                                                  \
        LW_UNLESS_LOOP(bits, order, old == 0, old + 1) \
    }

#define LW_DEC_IF_POSITIVE_1(name, bits, order)        \
    LW_INLINE bool name(LW_OPERAND(bits) * p)          \
    {                                                  \
        LW_UNLESS_LOOP(bits, order, old == 0, old - 1) \
    }

#define LW_SUB_AND_TEST_1(name, bits, order)                    \
    LW_INLINE bool name(LW_OPERAND(bits) * p, uint##bits##_t v) \
    {                                                           \
        return lw_arch_sub_and_test_u##bits##_##order(p, v);    \
    }

#define LW_DEC_AND_TEST_1(name, bits, order)                 \
    LW_INLINE bool name(LW_OPERAND(bits) * p)                \
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

/* Loads and stores are the compiler's builtins: each order has one instruction sequence, and no function is called. */
#define LW_READ(name, bits)                                          \
    LW_INLINE uint##bits##_t name(const uint##bits##_t *p)           \
    {                                                                \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                 \
    }                                                                \
    LW_INLINE uint##bits##_t name##_relaxed(const uint##bits##_t *p) \
    {                                                                \
        return __atomic_load_n(p, __ATOMIC_RELAXED);                 \
    }                                                                \
    LW_INLINE uint##bits##_t name##_acquire(const uint##bits##_t *p) \
    {                                                                \
        return __atomic_load_n(p, __ATOMIC_ACQUIRE);                 \
    }

#define LW_WRITE(name, bits)                                           \
    LW_INLINE void name(LW_OPERAND(bits) * p, uint##bits##_t v)        \
    {                                                                  \
        __atomic_store_n(p, v, __ATOMIC_RELAXED);                      \
    }                                                                  \
    LW_INLINE void name##_release(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                  \
        __atomic_store_n(p, v, __ATOMIC_RELEASE);                      \
    }                                                                  \
    LW_INLINE void name##_seq_cst(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                  \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                      \
    }

/* A row at each width, for the macros that need no more than the name, and for those that need what follows it. The rows
 * of 64 bits are there where the machine has eight bytes at once. */
#define LW_NARROW_WIDTHS(X, name) X(name##_u8, 8) X(name##_u16, 16) X(name##_u32, 32)
#define LW_NARROW_WIDTHS_OF(X, name, ...) \
    X(name##_u8, 8, __VA_ARGS__)          \
    X(name##_u16, 16, __VA_ARGS__)        \
    X(name##_u32, 32, __VA_ARGS__)
#if defined(LW_HAVE_U64) || defined(LW_WIDE_I386)
#define LW_WIDTHS(X, name) LW_NARROW_WIDTHS(X, name) X(name##_u64, 64)
#define LW_WIDTHS_OF(X, name, ...) LW_NARROW_WIDTHS_OF(X, name, __VA_ARGS__) X(name##_u64, 64, __VA_ARGS__)
#else
#define LW_WIDTHS(X, name) LW_NARROW_WIDTHS(X, name)
#define LW_WIDTHS_OF(X, name, ...) LW_NARROW_WIDTHS_OF(X, name, __VA_ARGS__)
#endif

/* ---- The table --------------------------------------------------------------------------------------------- */

/* lw_read_u<bits>[_relaxed|_acquire](const p) loads. Unsuffixed: sequentially consistent.
 * x86 `mov`; arm64 `ldar`, relaxed `ldr`, acquire `ldar` (`ldapr` where -march has it). */
LW_NARROW_WIDTHS(LW_READ, lw_read)
#ifdef LW_HAVE_U64
LW_READ(lw_read_u64, 64)
#endif

/* lw_write_u<bits>[_release|_seq_cst](p, v) stores. Unsuffixed: relaxed.
 * x86 `mov`, seq_cst `xchg`; arm64 `str`, release and seq_cst `stlr`. */
LW_NARROW_WIDTHS(LW_WRITE, lw_write)
#ifdef LW_HAVE_U64
LW_WRITE(lw_write_u64, 64)
#endif

/* lw_add_u<bits>[_release](p, v): *p += v. No value.
 * x86 `lock add`; arm64 `ldadd`, `stadd` or LDXR-STXR; release: `ldaddl`, `staddl` or LDXR-STLXR. */
LW_WIDTHS_OF(LW_VOID, lw_add, add, v)

/* lw_sub_u<bits>[_release](p, v): *p -= v, as the addition of -v. No value. Compiles to what lw_add does. */
LW_WIDTHS_OF(LW_VOID, lw_sub, add, 0 - v)

/* lw_inc_u<bits>[_release](p): *p += 1. No value. Compiles to what lw_add does. */
LW_WIDTHS_OF(LW_VOID_BY_ONE, lw_inc, add, 1)

/* lw_dec_u<bits>[_release](p): *p -= 1, as the addition of -1. No value. Compiles to what lw_add does. */
LW_WIDTHS_OF(LW_VOID_BY_ONE, lw_dec, add, -1)

/* lw_and_u<bits>[_release](p, v): *p &= v. No value.
 * x86 `lock and`; arm64 as lw_andnot of ~v, since there is no instruction for it. */
LW_WIDTHS_OF(LW_VOID, lw_and, andnot, ~v)

/* lw_andnot_u<bits>[_release](p, v): *p &= ~v. No value.
 * x86 `lock and` of ~v; arm64 `ldclr`, `stclr` or LDXR-STXR; release: `ldclrl`, `stclrl` or LDXR-STLXR. */
LW_WIDTHS_OF(LW_VOID, lw_andnot, andnot, v)

/* lw_or_u<bits>[_release](p, v): *p |= v. No value.
 * x86 `lock or`; arm64 `ldset`, `stset` or LDXR-STXR; release: `ldsetl`, `stsetl` or LDXR-STLXR. */
LW_WIDTHS_OF(LW_VOID, lw_or, or, v)

/* lw_xor_u<bits>[_release](p, v): *p ^= v. No value.
 * x86 `lock xor`; arm64 `ldeor`, `steor` or LDXR-STXR; release: `ldeorl`, `steorl` or LDXR-STLXR. */
LW_WIDTHS_OF(LW_VOID, lw_xor, xor, v)

/* lw_fetch_add_u<bits>[order](p, v): *p += v; returns the value before.
 * x86 `lock xadd`; arm64 `ldadd{,a,l,al}` or LDXR-STXR, acquire LDAXR, release STLXR, unsuffixed with `dmb ish` last. */
LW_WIDTHS_OF(LW_FETCH, lw_fetch_add, fetch_add, v, old)

/* lw_fetch_sub_u<bits>[order](p, v): *p -= v; returns the value before. Compiles to lw_fetch_add of -v. */
LW_WIDTHS_OF(LW_FETCH, lw_fetch_sub, fetch_add, 0 - v, old)

/* lw_fetch_and_u<bits>[order](p, v): *p &= v; returns the value before. Compiles to lw_fetch_andnot of ~v. */
LW_WIDTHS_OF(LW_FETCH, lw_fetch_and, fetch_andnot, ~v, old)

/* lw_fetch_andnot_u<bits>[order](p, v): *p &= ~v; returns the value before.
 * x86 a `lock cmpxchg` loop, so use lw_andnot where the value is not needed; arm64 `ldclr{,a,l,al}` or LL/SC. */
LW_WIDTHS_OF(LW_FETCH, lw_fetch_andnot, fetch_andnot, v, old)

/* lw_fetch_or_u<bits>[order](p, v): *p |= v; returns the value before.
 * x86 a `lock cmpxchg` loop, so use lw_or where the value is not needed; arm64 `ldset{,a,l,al}` or LL/SC. */
LW_WIDTHS_OF(LW_FETCH, lw_fetch_or, fetch_or, v, old)

/* lw_fetch_xor_u<bits>[order](p, v): *p ^= v; returns the value before.
 * x86 a `lock cmpxchg` loop, so use lw_xor where the value is not needed; arm64 `ldeor{,a,l,al}` or LL/SC. */
LW_WIDTHS_OF(LW_FETCH, lw_fetch_xor, fetch_xor, v, old)

/* lw_add_return_u<bits>[order](p, v): *p += v; returns the value after. Compiles to lw_fetch_add and one addition. */
LW_WIDTHS_OF(LW_FETCH, lw_add_return, fetch_add, v, old + v)

/* lw_sub_return_u<bits>[order](p, v): *p -= v; returns the value after. Compiles to lw_fetch_add and one subtraction. */
LW_WIDTHS_OF(LW_FETCH, lw_sub_return, fetch_add, 0 - v, old - v)

/* lw_inc_return_u<bits>[order](p): *p += 1; returns the value after. Compiles to lw_fetch_add and one addition. */
LW_WIDTHS_OF(LW_FETCH_BY_ONE, lw_inc_return, fetch_add, 1, old + 1)

/* lw_dec_return_u<bits>[order](p): *p -= 1; returns the value after. Compiles to lw_fetch_add and one subtraction. */
LW_WIDTHS_OF(LW_FETCH_BY_ONE, lw_dec_return, fetch_add, -1, old - 1)

/* lw_xchg_u<bits>[order](p, v): *p = v; returns the value before.
 * x86 `xchg`; arm64 `swp{,a,l,al}` or LL/SC, unsuffixed with `dmb ish` last. */
LW_NARROW_WIDTHS(LW_XCHG, lw_xchg)
#if defined(LW_HAVE_U64)
LW_XCHG(lw_xchg_u64, 64)
#elif defined(LW_WIDE_I386)
LW_FETCH(lw_xchg_u64, 64, xchg, v, old)
#endif

/* lw_cmpxchg_u<bits>[order](p, expected, desired): if *p is expected, *p = desired; returns the value before
 * either way. Never fails spuriously.
 * x86 `lock cmpxchg`; arm64 `cas{,a,l,al}` or LL/SC, unsuffixed with `dmb ish` last if it has written. */
LW_WIDTHS(LW_CMPXCHG, lw_cmpxchg)

/* lw_try_cmpxchg_u<bits>[order](p, &expected, desired): the same; returns true if it has written. Otherwise it stores the
 * value found to `expected`. Never fails spuriously. Compiles to what lw_cmpxchg does. */
LW_WIDTHS(LW_TRY_CMPXCHG, lw_try_cmpxchg)

/* lw_add_unless_u<bits>[order](p, v, unless): *p += v unless *p is `unless`; true if it has added.
 * A load and a loop of what lw_try_cmpxchg compiles to. Lock-free, not wait-free. */
LW_WIDTHS(LW_ADD_UNLESS, lw_add_unless)

/* lw_inc_not_zero_u<bits>[order](p): *p += 1 unless *p is 0; true if it has. Compiles as lw_add_unless. */
LW_WIDTHS(LW_INC_NOT_ZERO, lw_inc_not_zero)

/* lw_dec_if_positive_u<bits>[order](p): *p -= 1 unless *p is 0; true if it has. The operand is unsigned, so
 * positive means not zero. Compiles as lw_add_unless. */
LW_WIDTHS(LW_DEC_IF_POSITIVE, lw_dec_if_positive)

/* lw_sub_and_test_u<bits>[order](p, v): *p -= v; true if that made it 0.
 * x86 `lock sub; sete`; arm64 lw_fetch_add of -v and a comparison. */
LW_WIDTHS(LW_SUB_AND_TEST, lw_sub_and_test)

/* lw_dec_and_test_u<bits>[order](p): *p -= 1; true if that made it 0. Compiles as lw_sub_and_test. */
LW_WIDTHS(LW_DEC_AND_TEST, lw_dec_and_test)

#undef LW_OPERAND
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
#undef LW_NARROW_WIDTHS
#undef LW_NARROW_WIDTHS_OF
#undef LW_WIDTHS
#undef LW_WIDTHS_OF

#ifdef LW_WIDE_I386
#include "wide_u64_alignment.h"
#endif

#if defined(__cplusplus) && !defined(LW_C_API)
#include "atomic_ref.h" /* lw::atomic_ref<T>, from C++17 on */
#endif

LW__HEADER_ENDS

#endif

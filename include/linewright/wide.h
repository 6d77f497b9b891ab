/* SPDX-License-Identifier: MIT */
/* Atomic operations wider than a register: eight bytes on i386, sixteen bytes on 64-bit machines.
 *
 *   wide_u64.h    i386: reads and writes of eight bytes, and what atomic.h makes its other 64-bit operations of
 *   wide_u128.h   64-bit machines: lw_{read,write,xchg,cmpxchg,try_cmpxchg}_u128 and lw_read_u128_rw
 *
 * Declare operands lw_u64 and lw_u128. The plain types do not guarantee the alignment: i386 places a uint64_t member at a
 * multiple of four. A misaligned operand is
 *   - a compile-time error where the compiler can see it: gcc in C for an object or member declared with less alignment,
 *     g++ for an address that it can compute, clang for every pointer to a type with less alignment;
 *   - otherwise one line on standard error and abort(): on i386 in every locked operation, and in reads and writes under
 *     -DLW_DEBUG. So no locked instruction ever spans two cache lines. (On 64-bit machines the processor faults by itself.)
 *
 * The instructions are chosen once at start-up from the CPU's features, or by the compiler's options where these settle it
 * (-msse2, -mavx, -mcx16). With -DLW_NO_POLICY the compiler's options alone decide, and no library is needed. */
#ifndef LINEWRIGHT_WIDE_H
#define LINEWRIGHT_WIDE_H

#include "api.h"

LW__HEADER_BEGINS

#include <stdbool.h>
#include <stdint.h>

#include "arch/thread_sanitizer.h"

/* LW_WIDE_GENERIC: the portable forms on a machine that has its own, for comparison and for ThreadSanitizer. */
#if defined(LW_THREAD_SANITIZER) && !defined(LW_WIDE_GENERIC)
#define LW_WIDE_GENERIC 1
#endif
#if defined(LW_WIDE_GENERIC)
#include "arch/generic/wide.h"
#else
#include "arch/select.h"
#include LW_ARCH_HEADER(wide.h)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The CPU's features, as bits of the word below. */
#define LW_WIDE_READY 1u  /* the word has been set */
#define LW_WIDE_VECTOR 2u /* one plain load or store of full width: SSE2 (i386), AVX (x86-64), LSE2 (arm64) */
#define LW_WIDE_CAS 4u    /* CMPXCHG8B, CMPXCHG16B; always on arm64 */
#define LW_WIDE_LSE 8u    /* arm64: CASP */

/* The word that operations test. It is 0 until the library's constructor or the first operation has asked the CPU. Write it
 * only through lw_wide_use(). */
LW_API extern uint32_t lw_wide_caps;

/* From now on use only those features of this CPU that are in `caps`, in operations whose form the compiler's options did
 * not settle. Safe at any time, because all forms may act on the same operand. Returns the bits now in use. */
LW_API uint32_t lw_wide_use(uint32_t caps);

/* Out-of-line paths: the CPU was not asked yet, or lacks a feature that the inline path needs. Cold, so that the compiler
 * lays the call away from the inline path, which then runs straight. */
#if defined(LW_WIDE_I386)
LW_API uint64_t lw_wide_read_u64(const lw_u64 *p) __attribute__((cold));
LW_API void lw_wide_write_u64(lw_u64 *p, uint64_t v) __attribute__((cold));
#elif defined(LW_WIDE_X86_64) || defined(LW_WIDE_ARM64)
LW_API lw_u128 lw_wide_read_u128(const lw_u128 *p) __attribute__((cold));
#endif
LW_API uint32_t lw_wide_detect(void);
/* One line on standard error, then abort(). */
LW_API void lw_wide_misaligned(const void *p, unsigned bytes) __attribute__((noreturn, cold));
LW_API void lw_wide_refuse(const char *operation, const char *lacks) __attribute__((noreturn, cold));

#ifdef __cplusplus
}
#endif

/* Without the library a misaligned operand ends in a trap; under LW_DEBUG it says why first. */
#ifdef LW_NO_POLICY
#ifdef LW_DEBUG
#include <stdio.h>
#include <stdlib.h>
#define LW_WIDE_MISALIGNED(p, bytes)                                                                                     \
    (fprintf(stderr, "linewright: operand of an atomic operation at %p is not aligned to %u bytes\n", (const void *)(p), \
             (unsigned)(bytes)),                                                                                         \
     abort())
#else
#define LW_WIDE_MISALIGNED(p, bytes) __builtin_trap()
#endif
#else
#define LW_WIDE_MISALIGNED(p, bytes) lw_wide_misaligned(p, bytes)
#endif

#if defined(__GNUC__) && !defined(__clang__)
/* Never called: the optimiser keeps a call of it only where it knows the address to be misaligned. */
void lw_wide_operand_is_misaligned(void) __attribute__((error("misaligned operand: declare it lw_u64 or lw_u128")));
#define LW_WIDE_CHECK_CONSTANT(p, bytes)                                                              \
    do {                                                                                              \
        if (__builtin_constant_p((uintptr_t)(p) & ((bytes) - 1)) && ((uintptr_t)(p) & ((bytes) - 1))) \
            lw_wide_operand_is_misaligned();                                                          \
    } while (0)
#else
#define LW_WIDE_CHECK_CONSTANT(p, bytes) ((void)0)
#endif

#define LW_WIDE_CHECK(p, bytes)                                         \
    do {                                                                \
        LW_WIDE_CHECK_CONSTANT(p, bytes);                               \
        if (__builtin_expect(((uintptr_t)(p) & ((bytes) - 1)) != 0, 0)) \
            LW_WIDE_MISALIGNED(p, bytes);                               \
    } while (0)

#ifdef LW_DEBUG
#define LW_WIDE_DEBUG_CHECK(p, bytes) LW_WIDE_CHECK(p, bytes)
#else
#define LW_WIDE_DEBUG_CHECK(p, bytes) LW_WIDE_CHECK_CONSTANT(p, bytes)
#endif

/* A compiler barrier: what makes a plain x86 load an acquire and a plain x86 store a release. */
#define LW_WIDE_BARRIER() __asm__ __volatile__("" : : : "memory")

/* The other compile-time check. An operation's name is also a macro that checks the declared alignment of `*p` first; in
 * parentheses, or without arguments, it is the function itself. clang compares pointer types, and the pragma makes its
 * warning an error. g++ does not know which member an address was taken of. */
#define LW_WIDE_FIRST(p, ...) p
#if defined(__clang__)
#define LW_WIDE_CALL(f, bytes, ...)                                                                        \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic error \"-Walign-mismatch\"") f(__VA_ARGS__) \
        _Pragma("clang diagnostic pop")
#elif !defined(__cplusplus)
#define LW_WIDE_CALL(f, bytes, ...)                                                                      \
    ((void)sizeof(struct {                                                                               \
         char c;                                                                                         \
         _Static_assert(__alignof__(*(LW_WIDE_FIRST(__VA_ARGS__, 0))) >= (bytes),                        \
                        "the operand's declaration aligns it too little: declare it lw_u64 or lw_u128"); \
     }),                                                                                                 \
     f(__VA_ARGS__))
#endif

#if defined(LW_WIDE_I386)
#include "wide_u64.h"
#include "atomic.h" /* the operations at 64 bits are rows of its table */
#else
#include "wide_u128.h"
#endif

LW__HEADER_ENDS

#endif

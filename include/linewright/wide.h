/* Atomic operations wider than a register: eight bytes on i386, sixteen bytes on 64-bit machines.
 *
 *   wide_u64.h    i386: the whole lw_…_u64 set; elsewhere eight bytes are a register, and atomic.h has them
 *   wide_u128.h   64-bit: lw_{read,write,xchg,cmpxchg,try_cmpxchg}_u128 and lw_read_u128_rw
 *
 * Operands are declared lw_u64 and lw_u128: the plain types are aligned too little where it matters (i386 puts a
 * uint64_t member at a multiple of four). A misaligned operand is
 *   - a compile-time error where the compiler sees it: gcc, in C, for an object or member that is declared with
 *     less alignment, and in C++ for an address that it can compute; clang for every pointer to a type with less;
 *   - one line on standard error and abort() otherwise: on i386 in every locked operation, in reads and writes
 *     under -DLW_DEBUG. A lock that spans two cache lines is never taken. (On 64-bit machines the processor refuses
 *     by itself.)
 *
 * Which instruction an operation takes is decided once at start-up from what the CPU has, unless the compiler was
 * told already (-msse2, -mavx, -mcx16). -DLW_NO_POLICY leaves it to the compiler's options alone and needs no
 * library. docs/library/wide.md has the numbers. */
#ifndef LINEWRIGHT_WIDE_H
#define LINEWRIGHT_WIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "api.h"

#include "arch/thread_sanitizer.h"

/* LW_WIDE_GENERIC: the portable forms on a machine that has its own, for comparison and for ThreadSanitizer. */
#if defined(LW_THREAD_SANITIZER) && !defined(LW_WIDE_GENERIC)
#define LW_WIDE_GENERIC 1
#endif
#if defined(LW_WIDE_GENERIC)
#include "arch/generic/wide.h"
#elif defined(__aarch64__)
#include "arch/arm64/wide.h"
#define LW_WIDE_ARM64 1
#elif defined(__x86_64__)
#include "arch/x86_64/wide.h"
#define LW_WIDE_X86_64 1
#elif defined(__i386__)
#include "arch/i386/wide.h"
#define LW_WIDE_I386 1
#else
#include "arch/generic/wide.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What the CPU can, as bits of the word below. */
#define LW_WIDE_READY 1u  /* the word has been set */
#define LW_WIDE_VECTOR 2u /* one plain load or store of full width: SSE2 (i386), AVX (x86-64), LSE2 (arm64) */
#define LW_WIDE_CAS 4u    /* CMPXCHG8B, CMPXCHG16B; always on arm64 */
#define LW_WIDE_LSE 8u    /* arm64: CASP */

/* The word that operations test; 0 until the library's constructor or the first operation has asked the CPU, which
 * each of them does by itself. Not to be written: lw_wide_use() does. */
LW_API extern uint32_t lw_wide_caps;

/* Use nothing but `caps` of what this CPU has, from now on, in operations whose form the compiler's options did not
 * settle. All forms may meet on one operand, so it is safe at any time. Returns the bits now in use. */
LW_API uint32_t lw_wide_use(uint32_t caps);

/* The ways out of line: the CPU was not asked yet, or lacks what the inline part takes for granted. */
#if defined(LW_WIDE_I386)
LW_API uint64_t lw_wide_read_u64(const lw_u64 *p);
LW_API void lw_wide_write_u64(lw_u64 *p, uint64_t v);
#elif defined(LW_WIDE_X86_64) || defined(LW_WIDE_ARM64)
LW_API lw_u128 lw_wide_read_u128(const lw_u128 *p);
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
/* Called in no program: where the optimiser knows the address, it knows that it is wrong. */
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

/* The other compile-time half. An operation's name is also a macro that looks at the declared alignment of `*p`
 * first; in parentheses, or without arguments, it is the function itself. clang compares pointer types instead and
 * only has to be told to take it seriously; g++ forgets the member that an address was taken of. */
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
#else
#include "wide_u128.h"
#endif

#endif

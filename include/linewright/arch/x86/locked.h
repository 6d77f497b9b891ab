/* SPDX-License-Identifier: MIT */
/* The locked instructions that x86-64 and i386 share: one form each for 8, 16, 32 and, on x86-64, 64 bits.
 *
 * A locked instruction orders everything before it with everything after it, whatever the caller asked for.
 * The forms named `_relaxed` are the same instructions without the compiler barrier. */
#ifndef LINEWRIGHT_ARCH_X86_LOCKED_H
#define LINEWRIGHT_ARCH_X86_LOCKED_H

#include <stdbool.h>
#include <stdint.h>

#include "../thread_sanitizer.h"

/* `lock add`, `lock and`, `lock or`, `lock xor`: no value comes back */
#define LW_X86_VOID(form, insn, bits, s, imm, ...)                                                              \
    static inline void lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v)                                 \
    {                                                                                                           \
        __asm__ __volatile__("lock " insn s " %[v], (%[p])" : "+m"(*p) : [p] "r"(p), [v] imm(v) : __VA_ARGS__); \
    }

/* `lock xadd`: returns the old value */
#define LW_X86_XADD(form, bits, s, reg, ...)                                                                       \
    static inline uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v)                          \
    {                                                                                                              \
        __asm__ __volatile__("lock xadd" s " %[v], (%[p])" : "+m"(*p), [v] "+" reg(v) : [p] "r"(p) : __VA_ARGS__); \
        return v;                                                                                                  \
    }

/* `lock cmpxchg`: writes `desired` if *p is *expected; true if written. *expected is then what was found, and stored to
 * either way, so it must be the caller's own */
#define LW_X86_CMPXCHG(form, bits, s, reg, ...)                                                                 \
    static inline bool lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t *expected, uint##bits##_t desired) \
    {                                                                                                           \
        uint##bits##_t old = *expected;                                                                         \
        bool equal;                                                                                             \
                                                                                                                \
        __asm__ __volatile__("lock cmpxchg" s " %[desired], (%[p])"                                             \
                             : "+m"(*p), "+a"(old), "=@cce"(equal)                                              \
                             : [p] "r"(p), [desired] reg(desired)                                               \
                             : __VA_ARGS__);                                                                    \
        *expected = old;                                                                                        \
        return equal;                                                                                           \
    }

/* `lock sub; sete`: true if the difference is zero */
#define LW_X86_SUB_TEST(form, bits, s, imm, ...)                                \
    static inline bool lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                           \
        bool zero;                                                              \
                                                                                \
        __asm__ __volatile__("lock sub" s " %[v], (%[p])"                       \
                             : "+m"(*p), "=@ccz"(zero)                          \
                             : [p] "r"(p), [v] imm(v)                           \
                             : __VA_ARGS__);                                    \
        return zero;                                                            \
    }

#ifndef LW_INLINE /* as api.h has it, for the form that is an operation of atomic.h as well */
#define LW_INLINE static inline
#endif
/* `xchg` with memory, which is locked without a prefix: returns the old value. The unsuffixed one is at once the
 * operation of that name in atomic.h, so it must be seen by ThreadSanitizer, which sees no assembly. */
#ifdef LW_THREAD_SANITIZER
#define LW_X86_XCHG(how, form, bits, s, reg, ...)                               \
    how uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v) \
    {                                                                           \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                     \
    }
#else
#define LW_X86_XCHG(how, form, bits, s, reg, ...)                                                             \
    how uint##bits##_t lw_##form##_u##bits(uint##bits##_t *p, uint##bits##_t v)                               \
    {                                                                                                         \
        __asm__ __volatile__("xchg" s " %[v], (%[p])" : "+m"(*p), [v] "+" reg(v) : [p] "r"(p) : __VA_ARGS__); \
        return v;                                                                                             \
    }
#endif

#define LW_X86_FORMS(bits, s, reg, imm)                          \
    LW_X86_VOID(lock_add, "add", bits, s, imm, "cc", "memory")   \
    LW_X86_VOID(lock_and, "and", bits, s, imm, "cc", "memory")   \
    LW_X86_VOID(lock_or, "or", bits, s, imm, "cc", "memory")     \
    LW_X86_VOID(lock_xor, "xor", bits, s, imm, "cc", "memory")   \
    LW_X86_XADD(lock_xadd, bits, s, reg, "cc", "memory")         \
    LW_X86_XCHG(LW_INLINE, xchg, bits, s, reg, "memory")         \
    LW_X86_CMPXCHG(lock_cmpxchg, bits, s, reg, "cc", "memory")   \
    LW_X86_SUB_TEST(lock_sub_test, bits, s, imm, "cc", "memory") \
    LW_X86_VOID(lock_add_relaxed, "add", bits, s, imm, "cc")     \
    LW_X86_VOID(lock_and_relaxed, "and", bits, s, imm, "cc")     \
    LW_X86_VOID(lock_or_relaxed, "or", bits, s, imm, "cc")       \
    LW_X86_VOID(lock_xor_relaxed, "xor", bits, s, imm, "cc")     \
    LW_X86_XADD(lock_xadd_relaxed, bits, s, reg, "cc")           \
    LW_X86_XCHG(static inline, xchg_relaxed, bits, s, reg, "cc") \
    LW_X86_CMPXCHG(lock_cmpxchg_relaxed, bits, s, reg, "cc")     \
    LW_X86_SUB_TEST(lock_sub_test_relaxed, bits, s, imm, "cc")

LW_X86_FORMS(8, "b", "q", "iq")
LW_X86_FORMS(16, "w", "r", "ir")
LW_X86_FORMS(32, "l", "r", "ir")
#ifdef __x86_64__
LW_X86_FORMS(64, "q", "r", "er")
#endif

#undef LW_X86_VOID
#undef LW_X86_XADD
#undef LW_X86_CMPXCHG
#undef LW_X86_SUB_TEST
#undef LW_X86_XCHG
#undef LW_X86_FORMS

/* `prefetchw`: asks for the line in a state that may be written; never faults, waits for nothing */
static inline void lw_prefetchw(const void *p)
{
    __asm__ __volatile__("prefetchw (%[p])" : : [p] "r"(p));
}

#endif

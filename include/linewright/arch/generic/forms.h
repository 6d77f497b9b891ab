/* SPDX-License-Identifier: MIT */
/* Portable forms: what the compiler makes of its own atomic builtins, and the form that does nothing. */
#ifndef LINEWRIGHT_ARCH_GENERIC_FORMS_H
#define LINEWRIGHT_ARCH_GENERIC_FORMS_H

#include <stdbool.h>
#include <stdint.h>

/* The first expected value of a compare-and-swap loop that reads nothing beforehand. Any constant does;
 * one that no counter starts from makes the first round miss, as it would in real use. One move
 * instruction loads it on every architecture. */
#define LW_FORM_GUESS 0x6c77

/* i386 aligns a uint64_t to 4 bytes, which makes clang call a library; the operand must be 8-aligned anyway. */
typedef uint64_t lw_aligned_u64 __attribute__((aligned(8)));

/* no instruction; both operands are made ready in registers, as for every form it is compared with */
static inline void lw_empty_u32(uint32_t *p, uint32_t v)
{
    __asm__ __volatile__("" : : "r"(p), "r"(v));
}

/* no instruction; on a 32-bit machine the value takes a register pair, so only its address is made ready */
static inline void lw_empty_u64(uint64_t *p, uint64_t v)
{
#if UINTPTR_MAX > 0xffffffff
    __asm__ __volatile__("" : : "r"(p), "r"(v));
#else
    (void)v;
    __asm__ __volatile__("" : : "r"(p));
#endif
}

/* __atomic_fetch_add, value unused: x86 `lock add` or `lock inc`; arm64 LL/SC loop, `ldadd` or a helper call */
static inline void lw_builtin_add_u32(uint32_t *p, uint32_t v)
{
    (void)__atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}

/* as above; i386: a `lock cmpxchg8b` loop */
static inline void lw_builtin_add_u64(uint64_t *p, uint64_t v)
{
    (void)__atomic_fetch_add((lw_aligned_u64 *)p, v, __ATOMIC_RELAXED);
}

/* __atomic_fetch_add, seq_cst: x86 `lock xadd`; arm64 LL/SC loop, `ldaddal` or a helper call */
static inline uint32_t lw_builtin_fetch_add_u32(uint32_t *p, uint32_t v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}

/* as above; i386: a `lock cmpxchg8b` loop */
static inline uint64_t lw_builtin_fetch_add_u64(uint64_t *p, uint64_t v)
{
    return __atomic_fetch_add((lw_aligned_u64 *)p, v, __ATOMIC_SEQ_CST);
}

/* a relaxed load, then __atomic_compare_exchange_n until it succeeds: an add; returns the old value */
static inline uint32_t lw_builtin_cmpxchg_loop_read_first_u32(uint32_t *p, uint32_t v)
{
    uint32_t old = __atomic_load_n(p, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(p, &old, old + v, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    return old;
}

/* as above; i386: an 8-byte load, then a `lock cmpxchg8b` loop */
static inline uint64_t lw_builtin_cmpxchg_loop_read_first_u64(uint64_t *p, uint64_t v)
{
    lw_aligned_u64 *q = (lw_aligned_u64 *)p;
    uint64_t old = __atomic_load_n(q, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(q, &old, old + v, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    return old;
}

/* __atomic_exchange_n, seq_cst: x86 `xchg`; arm64 LL/SC loop, `swpal` or a helper call */
static inline uint32_t lw_builtin_xchg_u32(uint32_t *p, uint32_t v)
{
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}

/* as above; i386: a `lock cmpxchg8b` loop */
static inline uint64_t lw_builtin_xchg_u64(uint64_t *p, uint64_t v)
{
    return __atomic_exchange_n((lw_aligned_u64 *)p, v, __ATOMIC_SEQ_CST);
}

/* __atomic_load_n, relaxed: one load */
static inline uint32_t lw_builtin_read_u32(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* as above; i386: an 8-byte SSE or x87 load */
static inline uint64_t lw_builtin_read_u64(const uint64_t *p)
{
    return __atomic_load_n((const lw_aligned_u64 *)p, __ATOMIC_RELAXED);
}

#endif

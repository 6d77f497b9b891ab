/* SPDX-License-Identifier: MIT */
/* Portable forms at 128 bits, for a compiler that has a 16-byte compare-and-swap inline; nothing elsewhere.
 *
 * The one read writes: the mapping must be writable, the line is dirtied, copy-on-write is broken. */
#ifndef LINEWRIGHT_ARCH_GENERIC_WIDE_H
#define LINEWRIGHT_ARCH_GENERIC_WIDE_H

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t lw_u64 __attribute__((aligned(8)));

#include "../thread_sanitizer.h"

#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16) || defined(LW_THREAD_SANITIZER)
__extension__ typedef unsigned __int128 lw_u128 __attribute__((aligned(16)));

#if defined(LW_THREAD_SANITIZER) && defined(__clang__)
/* clang calls libatomic for sixteen bytes unless the command line has -mcx16; these are what its builtins become then. */
#ifdef __cplusplus
extern "C" {
#endif
lw_u128 __tsan_atomic128_load(const volatile lw_u128 *p, int order);
lw_u128 __tsan_atomic128_compare_exchange_val(volatile lw_u128 *p, lw_u128 expected, lw_u128 desired, int success,
                                              int failure);
#ifdef __cplusplus
}
#endif
#define LW_WIDE_LOAD(p, order) __tsan_atomic128_load(p, order)
#else
#define LW_WIDE_LOAD(p, order) __atomic_load_n(p, order)
#endif

/* the compiler's compare-and-swap, a full barrier: whether `*old` was there; `*old` is then what was */
static inline bool lw_sync_cas_u128(lw_u128 *p, lw_u128 *old, lw_u128 desired)
{
#if defined(LW_THREAD_SANITIZER) && defined(__clang__)
    lw_u128 want = *old;

    *old = __tsan_atomic128_compare_exchange_val(p, want, desired, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return *old == want;
#elif defined(LW_THREAD_SANITIZER)
    /* understood, and performed, by ThreadSanitizer itself */
    return __atomic_compare_exchange_n(p, old, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
#else
    lw_u128 want = *old;

    *old = __sync_val_compare_and_swap(p, want, desired);
    return *old == want;
#endif
}

/* the compiler's compare-and-swap of zero with zero */
static inline lw_u128 lw_sync_cas_read_u128(lw_u128 *p)
{
    lw_u128 v = 0;

    lw_sync_cas_u128(p, &v, 0);
    return v;
}

/* the compiler's compare-and-swap until it holds */
static inline lw_u128 lw_sync_cas_loop_xchg_u128(lw_u128 *p, lw_u128 v)
{
    lw_u128 old = 0;

    while (!lw_sync_cas_u128(p, &old, v))
        ;
    return old;
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/* Eight bytes at once on i386: reads, writes, and what the rows of atomic.h at 64 bits are made of. Included by wide.h.
 *
 * lw_read_u64 never writes and needs readable memory only; lw_write_u64 is one plain store, for _seq_cst followed by a
 * fence. Every read-modify-write is a loop of `lock cmpxchg8b`. Its first comparand comes from two plain loads: a torn pair
 * costs a round, a wrong guess costs one every time (docs/library/wide.md). Writable memory is needed by all but the reads,
 * also where a conditional operation does nothing. The processor must have CMPXCHG8B: a Pentium or later, -march=i586 or
 * later. */
#ifndef LINEWRIGHT_WIDE_U64_H
#define LINEWRIGHT_WIDE_U64_H

#if !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8)
#error "linewright: 8-byte atomics need cmpxchg8b, which the chosen processor lacks: build with -march=i586 or later"
#endif

/* Reads and writes */

LW_INLINE uint64_t lw_read_u64_relaxed(const lw_u64 *p)
{
    LW_WIDE_DEBUG_CHECK(p, 8);
#if defined(__SSE2__)
    return lw_movq_read_u64(p);
#elif defined(LW_NO_POLICY)
    return lw_fxam_fild_read_u64(p);
#else
    uint32_t lo, halves[2];

    if (__builtin_expect((lw_wide_caps & LW_WIDE_VECTOR) != 0, 1)) {
        lo = lw_movq_read_halves(p, halves);
    } else {
        uint64_t v = lw_wide_read_u64(p);

        lo = halves[0] = (uint32_t)v;
        halves[1] = (uint32_t)(v >> 32);
        /* Both ways end with the high half in memory: joined in a register, gcc spills one on the quick way. */
        __asm__("" : "+m"(halves));
    }
    return lw_u64_of(lo, halves[1]);
#endif
}

/* A plain x86 load is an acquire. Pairs with lw_write_u64_release or stronger */
LW_INLINE uint64_t lw_read_u64_acquire(const lw_u64 *p)
{
    uint64_t v = lw_read_u64_relaxed(p);

    LW_WIDE_BARRIER();
    return v;
}

/* The fence of sequential consistency is the writer's: lw_write_u64_seq_cst */
LW_INLINE uint64_t lw_read_u64(const lw_u64 *p)
{
    uint64_t v;

    LW_WIDE_BARRIER();
    v = lw_read_u64_relaxed(p);
    LW_WIDE_BARRIER();
    return v;
}

LW_INLINE void lw_write_u64(lw_u64 *p, uint64_t v)
{
    LW_WIDE_DEBUG_CHECK(p, 8);
#if defined(__SSE2__)
    lw_movq_write_u64(p, v);
#elif defined(LW_NO_POLICY)
    lw_fxam_fistp_write_u64(p, v);
#else
    if (__builtin_expect((lw_wide_caps & LW_WIDE_VECTOR) != 0, 1))
        lw_movq_write_u64(p, v);
    else
        lw_wide_write_u64(p, v);
#endif
}

/* A plain x86 store is a release. Pairs with lw_read_u64_acquire or stronger */
LW_INLINE void lw_write_u64_release(lw_u64 *p, uint64_t v)
{
    LW_WIDE_BARRIER();
    lw_write_u64(p, v);
}

/* The fence keeps a later read from being done before the store; pairs with itself in the other thread of a
 * store-buffering pair */
LW_INLINE void lw_write_u64_seq_cst(lw_u64 *p, uint64_t v)
{
    lw_write_u64_release(p, v);
    lw_full_fence();
}

/* Read-modify-writes: what the rows of atomic.h are made of. A loop of `lock cmpxchg8b` is a full barrier, so every order
 * is the same code. */

#define LW_U64_FETCH(order, op, form, operand)                               \
    static inline uint64_t lw_arch_##op##_u64_##order(lw_u64 *p, uint64_t v) \
    {                                                                        \
        LW_WIDE_CHECK(p, 8);                                                 \
        return lw_cmpxchg8b_loop_##form##_u64(p, operand);                   \
    }

#define LW_U64_CAS(order, name)                                                                      \
    static inline bool lw_arch_##name##_u64_##order(lw_u64 *p, uint64_t *expected, uint64_t desired) \
    {                                                                                                \
        LW_WIDE_CHECK(p, 8);                                                                         \
        return lw_cmpxchg8b_u64(p, expected, desired);                                               \
    }

#define LW_U64_VALUE(order)                                                    \
    LW_U64_FETCH(order, fetch_add, torn_first_fetch_add, v)                    \
    LW_U64_FETCH(order, fetch_andnot, torn_first_fetch_and, ~v)                \
    LW_U64_FETCH(order, fetch_or, torn_first_fetch_or, v)                      \
    LW_U64_FETCH(order, fetch_xor, torn_first_fetch_xor, v)                    \
    LW_U64_FETCH(order, xchg, xchg, v)                                         \
    LW_U64_CAS(order, try_cas)                                                 \
    LW_U64_CAS(order, retry_cas)                                               \
    static inline bool lw_arch_sub_and_test_u64_##order(lw_u64 *p, uint64_t v) \
    {                                                                          \
        return lw_arch_fetch_add_u64_##order(p, 0 - v) == v;                   \
    }

LW_U64_VALUE(relaxed)
LW_U64_VALUE(acquire)
LW_U64_VALUE(release)
LW_U64_VALUE(acq_rel)
LW_U64_VALUE(full)

#define LW_U64_VOID(order, op, form, operand)                            \
    static inline void lw_arch_##op##_u64_##order(lw_u64 *p, uint64_t v) \
    {                                                                    \
        LW_WIDE_CHECK(p, 8);                                             \
        lw_cmpxchg8b_loop_torn_first_##form##_u64(p, operand);           \
    }

#define LW_U64_VOID_ORDER(order)        \
    LW_U64_VOID(order, add, add, v)     \
    LW_U64_VOID(order, andnot, and, ~v) \
    LW_U64_VOID(order, or, or, v)       \
    LW_U64_VOID(order, xor, xor, v)

LW_U64_VOID_ORDER(relaxed)
LW_U64_VOID_ORDER(release)

#undef LW_U64_FETCH
#undef LW_U64_CAS
#undef LW_U64_VALUE
#undef LW_U64_VOID
#undef LW_U64_VOID_ORDER

#endif

/* Eight bytes at once on i386: the same operations, names and orders as at 8 to 32 bits. Included by wide.h.
 *
 * Void, relaxed or _release:          lw_{add,sub,and,andnot,or,xor}_u64(p, v), lw_{inc,dec}_u64(p)
 * Every order:                        lw_fetch_{add,sub,and,andnot,or,xor}_u64(p, v), the old value
 *                                     lw_{add,sub}_return_u64(p, v), lw_{inc,dec}_return_u64(p), the new value
 *                                     lw_xchg_u64(p, v), lw_cmpxchg_u64(p, expected, desired), the old value
 *                                     lw_try_cmpxchg_u64(p, &expected, desired), whether it was done
 *                                     lw_add_unless_u64(p, v, unless), lw_inc_not_zero_u64(p),
 *                                     lw_dec_if_positive_u64(p) (unless zero), whether it was done
 *                                     lw_dec_and_test_u64(p), lw_sub_and_test_u64(p, v), whether zero is left
 * Reads, relaxed, acquire or none:    lw_read_u64(p): never writes, needs readable memory only
 * Writes, none, release or seq_cst:   lw_write_u64(p, v): one plain store, for _seq_cst followed by a fence
 *
 * Orders are those of atomic.h: without suffix, what returns a value is sequentially consistent and fully
 * ordered as the kernel means it, what returns none is relaxed. Every read-modify-write is a loop of `lock cmpxchg8b`, a full barrier, so all its orders are the same code. The
 * first comparand comes from two plain loads: a torn pair costs a round, a wrong guess costs one every time
 * (docs/library/wide.md). Writable memory is needed by all but the reads, also where a conditional operation does
 * nothing. The processor must have CMPXCHG8B: a Pentium or later, -march=i586 or later. */
#ifndef LINEWRIGHT_WIDE_U64_H
#define LINEWRIGHT_WIDE_U64_H

#if !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_8)
#error "linewright: 8-byte atomics need cmpxchg8b, which the chosen processor lacks: build with -march=i586 or later"
#endif

/* Reads and writes */

static inline uint64_t lw_read_u64_relaxed(const lw_u64 *p)
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
static inline uint64_t lw_read_u64_acquire(const lw_u64 *p)
{
    uint64_t v = lw_read_u64_relaxed(p);

    LW_WIDE_BARRIER();
    return v;
}

/* The fence of sequential consistency is the writer's: lw_write_u64_seq_cst */
static inline uint64_t lw_read_u64(const lw_u64 *p)
{
    uint64_t v;

    LW_WIDE_BARRIER();
    v = lw_read_u64_relaxed(p);
    LW_WIDE_BARRIER();
    return v;
}

static inline void lw_write_u64(lw_u64 *p, uint64_t v)
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
static inline void lw_write_u64_release(lw_u64 *p, uint64_t v)
{
    LW_WIDE_BARRIER();
    lw_write_u64(p, v);
}

/* The fence keeps a later read from being done before the store; pairs with itself in the other thread of a
 * store-buffering pair */
static inline void lw_write_u64_seq_cst(lw_u64 *p, uint64_t v)
{
    lw_write_u64_release(p, v);
    lw_lock_or_fence();
}

/* The one body of each read-modify-write */

#define LW_U64_BODY(type, op, params, expr) \
    static inline type lw_u64_##op params   \
    {                                       \
        LW_WIDE_CHECK(p, 8);                \
        return expr;                        \
    }

LW_U64_BODY(uint64_t, fetch_add, (lw_u64 * p, uint64_t v), lw_cmpxchg8b_loop_torn_first_fetch_add_u64(p, v))
LW_U64_BODY(uint64_t, fetch_sub, (lw_u64 * p, uint64_t v), lw_cmpxchg8b_loop_torn_first_fetch_sub_u64(p, v))
LW_U64_BODY(uint64_t, fetch_and, (lw_u64 * p, uint64_t v), lw_cmpxchg8b_loop_torn_first_fetch_and_u64(p, v))
LW_U64_BODY(uint64_t, fetch_andnot, (lw_u64 * p, uint64_t v), lw_cmpxchg8b_loop_torn_first_fetch_and_u64(p, ~v))
LW_U64_BODY(uint64_t, fetch_or, (lw_u64 * p, uint64_t v), lw_cmpxchg8b_loop_torn_first_fetch_or_u64(p, v))
LW_U64_BODY(uint64_t, fetch_xor, (lw_u64 * p, uint64_t v), lw_cmpxchg8b_loop_torn_first_fetch_xor_u64(p, v))
LW_U64_BODY(uint64_t, xchg, (lw_u64 * p, uint64_t v), lw_cmpxchg8b_loop_xchg_u64(p, v))
LW_U64_BODY(bool, try_cmpxchg, (lw_u64 * p, uint64_t *expected, uint64_t desired), lw_cmpxchg8b_u64(p, expected, desired))

static inline uint64_t lw_u64_cmpxchg(lw_u64 *p, uint64_t expected, uint64_t desired)
{
    lw_u64_try_cmpxchg(p, &expected, desired);
    return expected;
}

#define LW_U64_VOID_BODY(op, form, operand)                    \
    static inline void lw_u64_##op(lw_u64 *p, uint64_t v)      \
    {                                                          \
        LW_WIDE_CHECK(p, 8);                                   \
        lw_cmpxchg8b_loop_torn_first_##form##_u64(p, operand); \
    }

LW_U64_VOID_BODY(add, add, v)
LW_U64_VOID_BODY(sub, sub, v)
LW_U64_VOID_BODY(and, and, v)
LW_U64_VOID_BODY(andnot, and, ~v)
LW_U64_VOID_BODY(or, or, v)
LW_U64_VOID_BODY(xor, xor, v)

/* Whether to act is decided on a value that was there, so the first read is a whole one. */
static inline bool lw_u64_add_unless(lw_u64 *p, uint64_t v, uint64_t unless)
{
    uint64_t old = lw_read_u64_acquire(p);

    do {
        if (old == unless)
            return false;
    } while (!lw_u64_try_cmpxchg(p, &old, old + v));
    return true;
}

/* The operations */

#define LW_U64_VOID(suffix)                                         \
    static inline void lw_add_u64##suffix(lw_u64 *p, uint64_t v)    \
    {                                                               \
        lw_u64_add(p, v);                                           \
    }                                                               \
    static inline void lw_sub_u64##suffix(lw_u64 *p, uint64_t v)    \
    {                                                               \
        lw_u64_sub(p, v);                                           \
    }                                                               \
    static inline void lw_and_u64##suffix(lw_u64 *p, uint64_t v)    \
    {                                                               \
        lw_u64_and(p, v);                                           \
    }                                                               \
    static inline void lw_andnot_u64##suffix(lw_u64 *p, uint64_t v) \
    {                                                               \
        lw_u64_andnot(p, v);                                        \
    }                                                               \
    static inline void lw_or_u64##suffix(lw_u64 *p, uint64_t v)     \
    {                                                               \
        lw_u64_or(p, v);                                            \
    }                                                               \
    static inline void lw_xor_u64##suffix(lw_u64 *p, uint64_t v)    \
    {                                                               \
        lw_u64_xor(p, v);                                           \
    }                                                               \
    static inline void lw_inc_u64##suffix(lw_u64 *p)                \
    {                                                               \
        lw_u64_add(p, 1);                                           \
    }                                                               \
    static inline void lw_dec_u64##suffix(lw_u64 *p)                \
    {                                                               \
        lw_u64_sub(p, 1);                                           \
    }

LW_U64_VOID()
LW_U64_VOID(_release)
#undef LW_U64_VOID

#define LW_U64_VALUE(suffix)                                                                       \
    static inline uint64_t lw_fetch_add_u64##suffix(lw_u64 *p, uint64_t v)                         \
    {                                                                                              \
        return lw_u64_fetch_add(p, v);                                                             \
    }                                                                                              \
    static inline uint64_t lw_fetch_sub_u64##suffix(lw_u64 *p, uint64_t v)                         \
    {                                                                                              \
        return lw_u64_fetch_sub(p, v);                                                             \
    }                                                                                              \
    static inline uint64_t lw_fetch_and_u64##suffix(lw_u64 *p, uint64_t v)                         \
    {                                                                                              \
        return lw_u64_fetch_and(p, v);                                                             \
    }                                                                                              \
    static inline uint64_t lw_fetch_andnot_u64##suffix(lw_u64 *p, uint64_t v)                      \
    {                                                                                              \
        return lw_u64_fetch_andnot(p, v);                                                          \
    }                                                                                              \
    static inline uint64_t lw_fetch_or_u64##suffix(lw_u64 *p, uint64_t v)                          \
    {                                                                                              \
        return lw_u64_fetch_or(p, v);                                                              \
    }                                                                                              \
    static inline uint64_t lw_fetch_xor_u64##suffix(lw_u64 *p, uint64_t v)                         \
    {                                                                                              \
        return lw_u64_fetch_xor(p, v);                                                             \
    }                                                                                              \
    static inline uint64_t lw_add_return_u64##suffix(lw_u64 *p, uint64_t v)                        \
    {                                                                                              \
        return lw_u64_fetch_add(p, v) + v;                                                         \
    }                                                                                              \
    static inline uint64_t lw_sub_return_u64##suffix(lw_u64 *p, uint64_t v)                        \
    {                                                                                              \
        return lw_u64_fetch_sub(p, v) - v;                                                         \
    }                                                                                              \
    static inline uint64_t lw_inc_return_u64##suffix(lw_u64 *p)                                    \
    {                                                                                              \
        return lw_u64_fetch_add(p, 1) + 1;                                                         \
    }                                                                                              \
    static inline uint64_t lw_dec_return_u64##suffix(lw_u64 *p)                                    \
    {                                                                                              \
        return lw_u64_fetch_sub(p, 1) - 1;                                                         \
    }                                                                                              \
    static inline uint64_t lw_xchg_u64##suffix(lw_u64 *p, uint64_t v)                              \
    {                                                                                              \
        return lw_u64_xchg(p, v);                                                                  \
    }                                                                                              \
    static inline uint64_t lw_cmpxchg_u64##suffix(lw_u64 *p, uint64_t expected, uint64_t desired)  \
    {                                                                                              \
        return lw_u64_cmpxchg(p, expected, desired);                                               \
    }                                                                                              \
    static inline bool lw_try_cmpxchg_u64##suffix(lw_u64 *p, uint64_t *expected, uint64_t desired) \
    {                                                                                              \
        uint64_t old = *expected;                                                                  \
                                                                                                   \
        if (lw_u64_try_cmpxchg(p, &old, desired))                                                  \
            return true;                                                                           \
        *expected = old; /* not after a success: see LW_TRY_CMPXCHG_1 in atomic.h */               \
        return false;                                                                              \
    }                                                                                              \
    static inline bool lw_add_unless_u64##suffix(lw_u64 *p, uint64_t v, uint64_t unless)           \
    {                                                                                              \
        return lw_u64_add_unless(p, v, unless);                                                    \
    }                                                                                              \
    static inline bool lw_inc_not_zero_u64##suffix(lw_u64 *p)                                      \
    {                                                                                              \
        return lw_u64_add_unless(p, 1, 0);                                                         \
    }                                                                                              \
    static inline bool lw_dec_if_positive_u64##suffix(lw_u64 *p)                                   \
    {                                                                                              \
        return lw_u64_add_unless(p, ~0ull, 0);                                                     \
    }                                                                                              \
    static inline bool lw_dec_and_test_u64##suffix(lw_u64 *p)                                      \
    {                                                                                              \
        return lw_u64_fetch_sub(p, 1) == 1;                                                        \
    }                                                                                              \
    static inline bool lw_sub_and_test_u64##suffix(lw_u64 *p, uint64_t v)                          \
    {                                                                                              \
        return lw_u64_fetch_sub(p, v) == v;                                                        \
    }

LW_U64_VALUE()
LW_U64_VALUE(_relaxed)
LW_U64_VALUE(_acquire)
LW_U64_VALUE(_release)
LW_U64_VALUE(_acq_rel)
#undef LW_U64_VALUE

#ifdef LW_WIDE_CALL
/* From here on each name looks at its operand's declared alignment as well. */
#define lw_read_u64(...) LW_WIDE_CALL(lw_read_u64, 8, __VA_ARGS__)
#define lw_read_u64_relaxed(...) LW_WIDE_CALL(lw_read_u64_relaxed, 8, __VA_ARGS__)
#define lw_read_u64_acquire(...) LW_WIDE_CALL(lw_read_u64_acquire, 8, __VA_ARGS__)
#define lw_write_u64(...) LW_WIDE_CALL(lw_write_u64, 8, __VA_ARGS__)
#define lw_write_u64_seq_cst(...) LW_WIDE_CALL(lw_write_u64_seq_cst, 8, __VA_ARGS__)
#define lw_write_u64_release(...) LW_WIDE_CALL(lw_write_u64_release, 8, __VA_ARGS__)
#define lw_add_u64(...) LW_WIDE_CALL(lw_add_u64, 8, __VA_ARGS__)
#define lw_add_u64_release(...) LW_WIDE_CALL(lw_add_u64_release, 8, __VA_ARGS__)
#define lw_sub_u64(...) LW_WIDE_CALL(lw_sub_u64, 8, __VA_ARGS__)
#define lw_sub_u64_release(...) LW_WIDE_CALL(lw_sub_u64_release, 8, __VA_ARGS__)
#define lw_and_u64(...) LW_WIDE_CALL(lw_and_u64, 8, __VA_ARGS__)
#define lw_and_u64_release(...) LW_WIDE_CALL(lw_and_u64_release, 8, __VA_ARGS__)
#define lw_andnot_u64(...) LW_WIDE_CALL(lw_andnot_u64, 8, __VA_ARGS__)
#define lw_andnot_u64_release(...) LW_WIDE_CALL(lw_andnot_u64_release, 8, __VA_ARGS__)
#define lw_or_u64(...) LW_WIDE_CALL(lw_or_u64, 8, __VA_ARGS__)
#define lw_or_u64_release(...) LW_WIDE_CALL(lw_or_u64_release, 8, __VA_ARGS__)
#define lw_xor_u64(...) LW_WIDE_CALL(lw_xor_u64, 8, __VA_ARGS__)
#define lw_xor_u64_release(...) LW_WIDE_CALL(lw_xor_u64_release, 8, __VA_ARGS__)
#define lw_inc_u64(...) LW_WIDE_CALL(lw_inc_u64, 8, __VA_ARGS__)
#define lw_inc_u64_release(...) LW_WIDE_CALL(lw_inc_u64_release, 8, __VA_ARGS__)
#define lw_dec_u64(...) LW_WIDE_CALL(lw_dec_u64, 8, __VA_ARGS__)
#define lw_dec_u64_release(...) LW_WIDE_CALL(lw_dec_u64_release, 8, __VA_ARGS__)
#define lw_fetch_add_u64(...) LW_WIDE_CALL(lw_fetch_add_u64, 8, __VA_ARGS__)
#define lw_fetch_add_u64_relaxed(...) LW_WIDE_CALL(lw_fetch_add_u64_relaxed, 8, __VA_ARGS__)
#define lw_fetch_add_u64_acquire(...) LW_WIDE_CALL(lw_fetch_add_u64_acquire, 8, __VA_ARGS__)
#define lw_fetch_add_u64_release(...) LW_WIDE_CALL(lw_fetch_add_u64_release, 8, __VA_ARGS__)
#define lw_fetch_add_u64_acq_rel(...) LW_WIDE_CALL(lw_fetch_add_u64_acq_rel, 8, __VA_ARGS__)
#define lw_fetch_sub_u64(...) LW_WIDE_CALL(lw_fetch_sub_u64, 8, __VA_ARGS__)
#define lw_fetch_sub_u64_relaxed(...) LW_WIDE_CALL(lw_fetch_sub_u64_relaxed, 8, __VA_ARGS__)
#define lw_fetch_sub_u64_acquire(...) LW_WIDE_CALL(lw_fetch_sub_u64_acquire, 8, __VA_ARGS__)
#define lw_fetch_sub_u64_release(...) LW_WIDE_CALL(lw_fetch_sub_u64_release, 8, __VA_ARGS__)
#define lw_fetch_sub_u64_acq_rel(...) LW_WIDE_CALL(lw_fetch_sub_u64_acq_rel, 8, __VA_ARGS__)
#define lw_fetch_and_u64(...) LW_WIDE_CALL(lw_fetch_and_u64, 8, __VA_ARGS__)
#define lw_fetch_and_u64_relaxed(...) LW_WIDE_CALL(lw_fetch_and_u64_relaxed, 8, __VA_ARGS__)
#define lw_fetch_and_u64_acquire(...) LW_WIDE_CALL(lw_fetch_and_u64_acquire, 8, __VA_ARGS__)
#define lw_fetch_and_u64_release(...) LW_WIDE_CALL(lw_fetch_and_u64_release, 8, __VA_ARGS__)
#define lw_fetch_and_u64_acq_rel(...) LW_WIDE_CALL(lw_fetch_and_u64_acq_rel, 8, __VA_ARGS__)
#define lw_fetch_andnot_u64(...) LW_WIDE_CALL(lw_fetch_andnot_u64, 8, __VA_ARGS__)
#define lw_fetch_andnot_u64_relaxed(...) LW_WIDE_CALL(lw_fetch_andnot_u64_relaxed, 8, __VA_ARGS__)
#define lw_fetch_andnot_u64_acquire(...) LW_WIDE_CALL(lw_fetch_andnot_u64_acquire, 8, __VA_ARGS__)
#define lw_fetch_andnot_u64_release(...) LW_WIDE_CALL(lw_fetch_andnot_u64_release, 8, __VA_ARGS__)
#define lw_fetch_andnot_u64_acq_rel(...) LW_WIDE_CALL(lw_fetch_andnot_u64_acq_rel, 8, __VA_ARGS__)
#define lw_fetch_or_u64(...) LW_WIDE_CALL(lw_fetch_or_u64, 8, __VA_ARGS__)
#define lw_fetch_or_u64_relaxed(...) LW_WIDE_CALL(lw_fetch_or_u64_relaxed, 8, __VA_ARGS__)
#define lw_fetch_or_u64_acquire(...) LW_WIDE_CALL(lw_fetch_or_u64_acquire, 8, __VA_ARGS__)
#define lw_fetch_or_u64_release(...) LW_WIDE_CALL(lw_fetch_or_u64_release, 8, __VA_ARGS__)
#define lw_fetch_or_u64_acq_rel(...) LW_WIDE_CALL(lw_fetch_or_u64_acq_rel, 8, __VA_ARGS__)
#define lw_fetch_xor_u64(...) LW_WIDE_CALL(lw_fetch_xor_u64, 8, __VA_ARGS__)
#define lw_fetch_xor_u64_relaxed(...) LW_WIDE_CALL(lw_fetch_xor_u64_relaxed, 8, __VA_ARGS__)
#define lw_fetch_xor_u64_acquire(...) LW_WIDE_CALL(lw_fetch_xor_u64_acquire, 8, __VA_ARGS__)
#define lw_fetch_xor_u64_release(...) LW_WIDE_CALL(lw_fetch_xor_u64_release, 8, __VA_ARGS__)
#define lw_fetch_xor_u64_acq_rel(...) LW_WIDE_CALL(lw_fetch_xor_u64_acq_rel, 8, __VA_ARGS__)
#define lw_add_return_u64(...) LW_WIDE_CALL(lw_add_return_u64, 8, __VA_ARGS__)
#define lw_add_return_u64_relaxed(...) LW_WIDE_CALL(lw_add_return_u64_relaxed, 8, __VA_ARGS__)
#define lw_add_return_u64_acquire(...) LW_WIDE_CALL(lw_add_return_u64_acquire, 8, __VA_ARGS__)
#define lw_add_return_u64_release(...) LW_WIDE_CALL(lw_add_return_u64_release, 8, __VA_ARGS__)
#define lw_add_return_u64_acq_rel(...) LW_WIDE_CALL(lw_add_return_u64_acq_rel, 8, __VA_ARGS__)
#define lw_sub_return_u64(...) LW_WIDE_CALL(lw_sub_return_u64, 8, __VA_ARGS__)
#define lw_sub_return_u64_relaxed(...) LW_WIDE_CALL(lw_sub_return_u64_relaxed, 8, __VA_ARGS__)
#define lw_sub_return_u64_acquire(...) LW_WIDE_CALL(lw_sub_return_u64_acquire, 8, __VA_ARGS__)
#define lw_sub_return_u64_release(...) LW_WIDE_CALL(lw_sub_return_u64_release, 8, __VA_ARGS__)
#define lw_sub_return_u64_acq_rel(...) LW_WIDE_CALL(lw_sub_return_u64_acq_rel, 8, __VA_ARGS__)
#define lw_inc_return_u64(...) LW_WIDE_CALL(lw_inc_return_u64, 8, __VA_ARGS__)
#define lw_inc_return_u64_relaxed(...) LW_WIDE_CALL(lw_inc_return_u64_relaxed, 8, __VA_ARGS__)
#define lw_inc_return_u64_acquire(...) LW_WIDE_CALL(lw_inc_return_u64_acquire, 8, __VA_ARGS__)
#define lw_inc_return_u64_release(...) LW_WIDE_CALL(lw_inc_return_u64_release, 8, __VA_ARGS__)
#define lw_inc_return_u64_acq_rel(...) LW_WIDE_CALL(lw_inc_return_u64_acq_rel, 8, __VA_ARGS__)
#define lw_dec_return_u64(...) LW_WIDE_CALL(lw_dec_return_u64, 8, __VA_ARGS__)
#define lw_dec_return_u64_relaxed(...) LW_WIDE_CALL(lw_dec_return_u64_relaxed, 8, __VA_ARGS__)
#define lw_dec_return_u64_acquire(...) LW_WIDE_CALL(lw_dec_return_u64_acquire, 8, __VA_ARGS__)
#define lw_dec_return_u64_release(...) LW_WIDE_CALL(lw_dec_return_u64_release, 8, __VA_ARGS__)
#define lw_dec_return_u64_acq_rel(...) LW_WIDE_CALL(lw_dec_return_u64_acq_rel, 8, __VA_ARGS__)
#define lw_xchg_u64(...) LW_WIDE_CALL(lw_xchg_u64, 8, __VA_ARGS__)
#define lw_xchg_u64_relaxed(...) LW_WIDE_CALL(lw_xchg_u64_relaxed, 8, __VA_ARGS__)
#define lw_xchg_u64_acquire(...) LW_WIDE_CALL(lw_xchg_u64_acquire, 8, __VA_ARGS__)
#define lw_xchg_u64_release(...) LW_WIDE_CALL(lw_xchg_u64_release, 8, __VA_ARGS__)
#define lw_xchg_u64_acq_rel(...) LW_WIDE_CALL(lw_xchg_u64_acq_rel, 8, __VA_ARGS__)
#define lw_cmpxchg_u64(...) LW_WIDE_CALL(lw_cmpxchg_u64, 8, __VA_ARGS__)
#define lw_cmpxchg_u64_relaxed(...) LW_WIDE_CALL(lw_cmpxchg_u64_relaxed, 8, __VA_ARGS__)
#define lw_cmpxchg_u64_acquire(...) LW_WIDE_CALL(lw_cmpxchg_u64_acquire, 8, __VA_ARGS__)
#define lw_cmpxchg_u64_release(...) LW_WIDE_CALL(lw_cmpxchg_u64_release, 8, __VA_ARGS__)
#define lw_cmpxchg_u64_acq_rel(...) LW_WIDE_CALL(lw_cmpxchg_u64_acq_rel, 8, __VA_ARGS__)
#define lw_try_cmpxchg_u64(...) LW_WIDE_CALL(lw_try_cmpxchg_u64, 8, __VA_ARGS__)
#define lw_try_cmpxchg_u64_relaxed(...) LW_WIDE_CALL(lw_try_cmpxchg_u64_relaxed, 8, __VA_ARGS__)
#define lw_try_cmpxchg_u64_acquire(...) LW_WIDE_CALL(lw_try_cmpxchg_u64_acquire, 8, __VA_ARGS__)
#define lw_try_cmpxchg_u64_release(...) LW_WIDE_CALL(lw_try_cmpxchg_u64_release, 8, __VA_ARGS__)
#define lw_try_cmpxchg_u64_acq_rel(...) LW_WIDE_CALL(lw_try_cmpxchg_u64_acq_rel, 8, __VA_ARGS__)
#define lw_add_unless_u64(...) LW_WIDE_CALL(lw_add_unless_u64, 8, __VA_ARGS__)
#define lw_add_unless_u64_relaxed(...) LW_WIDE_CALL(lw_add_unless_u64_relaxed, 8, __VA_ARGS__)
#define lw_add_unless_u64_acquire(...) LW_WIDE_CALL(lw_add_unless_u64_acquire, 8, __VA_ARGS__)
#define lw_add_unless_u64_release(...) LW_WIDE_CALL(lw_add_unless_u64_release, 8, __VA_ARGS__)
#define lw_add_unless_u64_acq_rel(...) LW_WIDE_CALL(lw_add_unless_u64_acq_rel, 8, __VA_ARGS__)
#define lw_inc_not_zero_u64(...) LW_WIDE_CALL(lw_inc_not_zero_u64, 8, __VA_ARGS__)
#define lw_inc_not_zero_u64_relaxed(...) LW_WIDE_CALL(lw_inc_not_zero_u64_relaxed, 8, __VA_ARGS__)
#define lw_inc_not_zero_u64_acquire(...) LW_WIDE_CALL(lw_inc_not_zero_u64_acquire, 8, __VA_ARGS__)
#define lw_inc_not_zero_u64_release(...) LW_WIDE_CALL(lw_inc_not_zero_u64_release, 8, __VA_ARGS__)
#define lw_inc_not_zero_u64_acq_rel(...) LW_WIDE_CALL(lw_inc_not_zero_u64_acq_rel, 8, __VA_ARGS__)
#define lw_dec_if_positive_u64(...) LW_WIDE_CALL(lw_dec_if_positive_u64, 8, __VA_ARGS__)
#define lw_dec_if_positive_u64_relaxed(...) LW_WIDE_CALL(lw_dec_if_positive_u64_relaxed, 8, __VA_ARGS__)
#define lw_dec_if_positive_u64_acquire(...) LW_WIDE_CALL(lw_dec_if_positive_u64_acquire, 8, __VA_ARGS__)
#define lw_dec_if_positive_u64_release(...) LW_WIDE_CALL(lw_dec_if_positive_u64_release, 8, __VA_ARGS__)
#define lw_dec_if_positive_u64_acq_rel(...) LW_WIDE_CALL(lw_dec_if_positive_u64_acq_rel, 8, __VA_ARGS__)
#define lw_dec_and_test_u64(...) LW_WIDE_CALL(lw_dec_and_test_u64, 8, __VA_ARGS__)
#define lw_dec_and_test_u64_relaxed(...) LW_WIDE_CALL(lw_dec_and_test_u64_relaxed, 8, __VA_ARGS__)
#define lw_dec_and_test_u64_acquire(...) LW_WIDE_CALL(lw_dec_and_test_u64_acquire, 8, __VA_ARGS__)
#define lw_dec_and_test_u64_release(...) LW_WIDE_CALL(lw_dec_and_test_u64_release, 8, __VA_ARGS__)
#define lw_dec_and_test_u64_acq_rel(...) LW_WIDE_CALL(lw_dec_and_test_u64_acq_rel, 8, __VA_ARGS__)
#define lw_sub_and_test_u64(...) LW_WIDE_CALL(lw_sub_and_test_u64, 8, __VA_ARGS__)
#define lw_sub_and_test_u64_relaxed(...) LW_WIDE_CALL(lw_sub_and_test_u64_relaxed, 8, __VA_ARGS__)
#define lw_sub_and_test_u64_acquire(...) LW_WIDE_CALL(lw_sub_and_test_u64_acquire, 8, __VA_ARGS__)
#define lw_sub_and_test_u64_release(...) LW_WIDE_CALL(lw_sub_and_test_u64_release, 8, __VA_ARGS__)
#define lw_sub_and_test_u64_acq_rel(...) LW_WIDE_CALL(lw_sub_and_test_u64_acq_rel, 8, __VA_ARGS__)

#endif

#endif

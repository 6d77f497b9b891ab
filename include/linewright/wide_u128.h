/* SPDX-License-Identifier: MIT */
/* Sixteen bytes at once on 64-bit machines. Included by wide.h.
 *
 *   lw_has_u128()        the operations below work on this CPU (false: an x86-64 part without CMPXCHG16B)
 *   lw_has_read_u128()   there is a read that never writes
 *   lw_read_u128[_relaxed|_acquire]          that read: readable memory is enough, the line stays shared,
 *                                            copy-on-write is kept. Where the CPU has none: one line, abort()
 *   lw_read_u128_rw[_relaxed|_acquire]       a read that writes back what it found: memory must be writable,
 *                                            the line is dirtied, copy-on-write is broken, readers wait for each
 *                                            other. Works wherever lw_has_u128()
 *   lw_read_u128_any[_relaxed|_acquire]      the first of these where the CPU has it, else the second
 *   lw_write_u128[_release|_seq_cst]
 *   lw_xchg_u128, lw_cmpxchg_u128, lw_try_cmpxchg_u128 [_relaxed|_acquire|_release|_acq_rel]
 *
 * CPUs without a read that never writes:
 *   x86-64   without AVX: Intel before Sandy Bridge, Atom, Celeron and Pentium parts up to about 2021, AMD before Bulldozer
 *            and Jaguar, and any CPU whose AVX a hypervisor hides; with AVX of a vendor that has not documented it
 *   arm64    without FEAT_LSE2, which comes with Armv8.4: Cortex-A53 to A78, Neoverse N1 (Graviton 2, Altra), Kunpeng 920
 * A program that must run on those as well can be held to it when it is linked: with -Wl,--wrap=lw_wide_read_u128 the linker
 * refuses every object in which lw_read_u128 could end the program, and names it.
 *
 * lw_cmpxchg returns what was there; lw_try_cmpxchg whether it was `*expected`, and only if not puts what was there
 * into `*expected`. Orders are those of atomic.h: without suffix, what returns a value is sequentially consistent (and, but
 * for the reads, fully ordered as the kernel means it), a write is relaxed. A compare-exchange that fails is ordered
 * as a load (sequentially consistent, acquire or relaxed, as in atomic.h), and needs writable memory too. */
#ifndef LINEWRIGHT_WIDE_U128_H
#define LINEWRIGHT_WIDE_U128_H

#if defined(LW_WIDE_X86_64) || defined(LW_WIDE_ARM64) || defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16) || \
    defined(LW_THREAD_SANITIZER)

#ifdef LW_NO_POLICY
#define LW_WIDE_READ_UNKNOWN __attribute__((error("not known at compile time to exist: use lw_read_u128_any")))
#endif

#if defined(LW_WIDE_X86_64)

/* Whether the inline part knows the answer already. */
#if defined(__AVX__)
#define LW_U128_HAS_VECTOR() true
#elif defined(LW_NO_POLICY)
#define LW_U128_HAS_VECTOR() false
#define LW_U128_NO_READ
#else
#define LW_U128_HAS_VECTOR() __builtin_expect((lw_wide_caps & LW_WIDE_VECTOR) != 0, 1)
#endif

static inline void lw_u128_need_cas(const char *operation)
{
#if !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16) && !defined(LW_NO_POLICY)
    if (__builtin_expect(!(lw_wide_caps & LW_WIDE_CAS), 0) && !(lw_wide_detect() & LW_WIDE_CAS))
        lw_wide_refuse(operation, "the instruction cmpxchg16b");
#else
    (void)operation;
#endif
}

static inline bool lw_u128_cas(lw_u128 *p, lw_u128 *old, lw_u128 desired)
{
    lw_u128_need_cas("a 16-byte compare-exchange");
    LW_WIDE_DEBUG_CHECK(p, 16);
    return lw_cmpxchg16b_u128(p, old, desired);
}

static inline lw_u128 lw_u128_xchg(lw_u128 *p, lw_u128 v)
{
    lw_u128_need_cas("a 16-byte exchange");
    LW_WIDE_DEBUG_CHECK(p, 16);
    return lw_cmpxchg16b_loop_xchg_u128(p, v);
}

static inline lw_u128 lw_u128_read_rw(lw_u128 *p)
{
    lw_u128_need_cas("lw_read_u128_rw");
    LW_WIDE_DEBUG_CHECK(p, 16);
    return lw_cmpxchg16b_read_once_u128(p);
}

#ifndef LW_U128_NO_READ
/* The read itself, where LW_U128_HAS_VECTOR(). */
static inline lw_u128 lw_u128_plain_relaxed(const lw_u128 *p)
{
    return lw_movdqa_read_u128(p);
}

/* A plain x86 load is an acquire. Pairs with lw_write_u128_release or stronger */
static inline lw_u128 lw_u128_plain_acquire(const lw_u128 *p)
{
    lw_u128 v = lw_movdqa_read_u128(p);

    LW_WIDE_BARRIER();
    return v;
}

/* The fence of sequential consistency is the writer's: lw_write_u128_seq_cst */
static inline lw_u128 lw_u128_plain(const lw_u128 *p)
{
    lw_u128 v;

    LW_WIDE_BARRIER();
    v = lw_movdqa_read_u128(p);
    LW_WIDE_BARRIER();
    return v;
}
#endif

LW_INLINE void lw_write_u128(lw_u128 *p, lw_u128 v)
{
    LW_WIDE_DEBUG_CHECK(p, 16);
    if (LW_U128_HAS_VECTOR())
        lw_movdqa_write_u128(p, v);
    else
        lw_u128_xchg(p, v);
}

/* A plain x86 store is a release. Pairs with lw_read_u128_acquire or stronger */
LW_INLINE void lw_write_u128_release(lw_u128 *p, lw_u128 v)
{
    LW_WIDE_BARRIER();
    lw_write_u128(p, v);
}

/* The fence keeps a later read from being done before the store; pairs with itself in the other thread of a
 * store-buffering pair */
LW_INLINE void lw_write_u128_seq_cst(lw_u128 *p, lw_u128 v)
{
    LW_WIDE_DEBUG_CHECK(p, 16);
    if (LW_U128_HAS_VECTOR()) {
        LW_WIDE_BARRIER();
        lw_movdqa_write_u128(p, v);
        lw_full_fence();
    } else {
        lw_u128_xchg(p, v);
    }
}

/* A locked instruction is a full barrier: every order is the same instruction */
#define LW_U128_ORDER(suffix, casp, pair)                                             \
    LW_INLINE lw_u128 lw_xchg_u128##suffix(lw_u128 *p, lw_u128 v)                     \
    {                                                                                 \
        return lw_u128_xchg(p, v);                                                    \
    }                                                                                 \
    static inline bool lw_u128_try##suffix(lw_u128 *p, lw_u128 *old, lw_u128 desired) \
    {                                                                                 \
        return lw_u128_cas(p, old, desired);                                          \
    }
#define LW_U128_READ_RW(suffix, casp, pair)               \
    LW_INLINE lw_u128 lw_read_u128_rw##suffix(lw_u128 *p) \
    {                                                     \
        return lw_u128_read_rw(p);                        \
    }

#elif defined(LW_WIDE_ARM64)

#if defined(__ARM_FEATURE_ATOMICS)
#define LW_U128_HAS_LSE() true
#elif defined(LW_NO_POLICY)
#define LW_U128_HAS_LSE() false
#else
/* 0, not asked yet, means LL/SC, which runs everywhere */
#define LW_U128_HAS_LSE() __builtin_expect((lw_wide_caps & LW_WIDE_LSE) != 0, 1)
#endif
#ifdef LW_NO_POLICY
#define LW_U128_HAS_VECTOR() false
#define LW_U128_NO_READ
#else
#define LW_U128_HAS_VECTOR() __builtin_expect((lw_wide_caps & LW_WIDE_VECTOR) != 0, 1)
#endif

#ifndef LW_U128_NO_READ
/* The read itself, where LW_U128_HAS_VECTOR(). */
static inline lw_u128 lw_u128_plain_relaxed(const lw_u128 *p)
{
    return lw_ldp_read_u128(p);
}

/* Pairs with lw_write_u128_release or stronger */
static inline lw_u128 lw_u128_plain_acquire(const lw_u128 *p)
{
    return lw_ldp_dmb_read_u128(p);
}

/* Pairs with lw_write_u128_seq_cst and with every STLR before it in program order (arch/arm64/wide.h) */
static inline lw_u128 lw_u128_plain(const lw_u128 *p)
{
    return lw_ldar_ldp_dmb_read_u128(p);
}
#endif

#define LW_U128_WRITE(suffix, vector, casp, pair)               \
    LW_INLINE void lw_write_u128##suffix(lw_u128 *p, lw_u128 v) \
    {                                                           \
        LW_WIDE_DEBUG_CHECK(p, 16);                             \
        if (LW_U128_HAS_VECTOR())                               \
            lw_##vector##_write_u128(p, v);                     \
        else if (LW_U128_HAS_LSE())                             \
            lw_##casp##_loop_xchg_u128(p, v);                   \
        else                                                    \
            lw_##pair##_xchg_u128(p, v);                        \
    }
/* Pairs with nothing */
LW_U128_WRITE(, stp, casp, ldxp_stxp)
/* Pairs with lw_read_u128_acquire */
LW_U128_WRITE(_release, dmb_stp, caspl, ldxp_stlxp)
/* Pairs with lw_read_u128 */
LW_U128_WRITE(_seq_cst, dmb_stp_dmb, caspal, ldxp_stlxp_dmb)

#define LW_U128_ORDER(suffix, casp, pair)                                                                 \
    LW_INLINE lw_u128 lw_xchg_u128##suffix(lw_u128 *p, lw_u128 v)                                         \
    {                                                                                                     \
        LW_WIDE_DEBUG_CHECK(p, 16);                                                                       \
        return LW_U128_HAS_LSE() ? lw_##casp##_loop_xchg_u128(p, v) : lw_##pair##_xchg_u128(p, v);        \
    }                                                                                                     \
    static inline bool lw_u128_try##suffix(lw_u128 *p, lw_u128 *old, lw_u128 desired)                     \
    {                                                                                                     \
        LW_WIDE_DEBUG_CHECK(p, 16);                                                                       \
        return LW_U128_HAS_LSE() ? lw_##casp##_u128(p, old, desired) : lw_##pair##_u128(p, old, desired); \
    }
#define LW_U128_READ_RW(suffix, casp, pair)                                             \
    LW_INLINE lw_u128 lw_read_u128_rw##suffix(lw_u128 *p)                               \
    {                                                                                   \
        LW_WIDE_DEBUG_CHECK(p, 16);                                                     \
        return LW_U128_HAS_LSE() ? lw_##casp##_read_u128(p) : lw_##pair##_read_u128(p); \
    }

#else /* generic: the compiler's compare-and-swap is a full barrier, and no read without a write is known */

#ifdef LW_THREAD_SANITIZER
/* ThreadSanitizer's run-time part stands between every two accesses: its 16-byte load writes nothing. */
#define LW_U128_HAS_VECTOR() true
static inline lw_u128 lw_u128_plain(const lw_u128 *p)
{
    return LW_WIDE_LOAD(p, __ATOMIC_SEQ_CST);
}

static inline lw_u128 lw_u128_plain_acquire(const lw_u128 *p)
{
    return LW_WIDE_LOAD(p, __ATOMIC_ACQUIRE);
}

static inline lw_u128 lw_u128_plain_relaxed(const lw_u128 *p)
{
    return LW_WIDE_LOAD(p, __ATOMIC_RELAXED);
}
#else
#define LW_U128_NO_READ
#endif

LW_INLINE void lw_write_u128(lw_u128 *p, lw_u128 v)
{
    LW_WIDE_CHECK(p, 16);
    lw_sync_cas_loop_xchg_u128(p, v);
}

LW_INLINE void lw_write_u128_release(lw_u128 *p, lw_u128 v)
{
    lw_write_u128(p, v);
}

LW_INLINE void lw_write_u128_seq_cst(lw_u128 *p, lw_u128 v)
{
    lw_write_u128(p, v);
}

#define LW_U128_ORDER(suffix, casp, pair)                                             \
    LW_INLINE lw_u128 lw_xchg_u128##suffix(lw_u128 *p, lw_u128 v)                     \
    {                                                                                 \
        LW_WIDE_CHECK(p, 16);                                                         \
        return lw_sync_cas_loop_xchg_u128(p, v);                                      \
    }                                                                                 \
    static inline bool lw_u128_try##suffix(lw_u128 *p, lw_u128 *old, lw_u128 desired) \
    {                                                                                 \
        LW_WIDE_CHECK(p, 16);                                                         \
        return lw_sync_cas_u128(p, old, desired);                                     \
    }
#define LW_U128_READ_RW(suffix, casp, pair)               \
    LW_INLINE lw_u128 lw_read_u128_rw##suffix(lw_u128 *p) \
    {                                                     \
        LW_WIDE_CHECK(p, 16);                             \
        return lw_sync_cas_read_u128(p);                  \
    }

#endif

LW_U128_ORDER(, caspal, ldxp_stlxp_dmb)
LW_U128_ORDER(_relaxed, casp, ldxp_stxp)
LW_U128_ORDER(_acquire, caspa, ldaxp_stxp)
LW_U128_ORDER(_release, caspl, ldxp_stlxp)
LW_U128_ORDER(_acq_rel, caspal, ldaxp_stlxp)
LW_U128_READ_RW(, caspal, ldxp_stlxp_dmb)
LW_U128_READ_RW(_relaxed, casp, ldxp_stxp)
LW_U128_READ_RW(_acquire, caspa, ldaxp_stxp)
#undef LW_U128_ORDER
#undef LW_U128_READ_RW
#undef LW_U128_WRITE

#define LW_U128_CMPXCHG(suffix)                                                                \
    LW_INLINE lw_u128 lw_cmpxchg_u128##suffix(lw_u128 *p, lw_u128 expected, lw_u128 desired)   \
    {                                                                                          \
        lw_u128_try##suffix(p, &expected, desired);                                            \
        return expected;                                                                       \
    }                                                                                          \
    LW_INLINE bool lw_try_cmpxchg_u128##suffix(lw_u128 *p, lw_u128 *expected, lw_u128 desired) \
    {                                                                                          \
        lw_u128 old = *expected;                                                               \
                                                                                               \
        if (lw_u128_try##suffix(p, &old, desired))                                             \
            return true;                                                                       \
        *expected = old; /* not after a success: see LW_TRY_CMPXCHG_1 in atomic.h */           \
        return false;                                                                          \
    }
LW_U128_CMPXCHG()
LW_U128_CMPXCHG(_relaxed)
LW_U128_CMPXCHG(_acquire)
LW_U128_CMPXCHG(_release)
LW_U128_CMPXCHG(_acq_rel)
#undef LW_U128_CMPXCHG

#if defined(LW_U128_NO_READ) && defined(LW_WIDE_READ_UNKNOWN)
lw_u128 lw_read_u128(const lw_u128 *p) LW_WIDE_READ_UNKNOWN;
lw_u128 lw_read_u128_relaxed(const lw_u128 *p) LW_WIDE_READ_UNKNOWN;
lw_u128 lw_read_u128_acquire(const lw_u128 *p) LW_WIDE_READ_UNKNOWN;
#endif

/* lw_read_u128: never writes; out of line where the CPU is not known to have such a read, which asks it, or refuses.
 * lw_read_u128_any: on every CPU; where there is no such read as lw_read_u128_rw, which needs writable memory. */
#if defined(LW_U128_NO_READ)
#define LW_U128_READ(suffix)                               \
    LW_INLINE lw_u128 lw_read_u128_any##suffix(lw_u128 *p) \
    {                                                      \
        return lw_read_u128_rw##suffix(p);                 \
    }
#else
#if defined(LW_WIDE_X86_64) || defined(LW_WIDE_ARM64)
#define LW_U128_READ_ELSEWHERE(p) lw_wide_read_u128(p)
#else
#define LW_U128_READ_ELSEWHERE(p) lw_u128_plain(p)
#endif
#define LW_U128_READ(suffix)                                                                 \
    LW_INLINE lw_u128 lw_read_u128##suffix(const lw_u128 *p)                                 \
    {                                                                                        \
        LW_WIDE_DEBUG_CHECK(p, 16);                                                          \
        return LW_U128_HAS_VECTOR() ? lw_u128_plain##suffix(p) : LW_U128_READ_ELSEWHERE(p);  \
    }                                                                                        \
    LW_INLINE lw_u128 lw_read_u128_any##suffix(lw_u128 *p)                                   \
    {                                                                                        \
        LW_WIDE_DEBUG_CHECK(p, 16);                                                          \
        return LW_U128_HAS_VECTOR() ? lw_u128_plain##suffix(p) : lw_read_u128_rw##suffix(p); \
    }
#endif
LW_U128_READ()
LW_U128_READ(_relaxed)
LW_U128_READ(_acquire)
#undef LW_U128_READ
#undef LW_U128_READ_ELSEWHERE

/* Whether lw_read_u128 may be called. */
LW_INLINE bool lw_has_read_u128(void)
{
#if defined(LW_U128_NO_READ)
    return false;
#else
    return LW_U128_HAS_VECTOR() || (lw_wide_detect() & LW_WIDE_VECTOR) != 0;
#endif
}

/* Whether the others may be called. */
LW_INLINE bool lw_has_u128(void)
{
#if defined(LW_WIDE_X86_64) && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16) && !defined(LW_NO_POLICY)
    return (lw_wide_detect() & LW_WIDE_CAS) != 0;
#else
    return true;
#endif
}

#ifdef LW_WIDE_CALL
/* From here on each name looks at its operand's declared alignment as well. */
#define lw_read_u128(...) LW_WIDE_CALL(lw_read_u128, 16, __VA_ARGS__)
#define lw_read_u128_relaxed(...) LW_WIDE_CALL(lw_read_u128_relaxed, 16, __VA_ARGS__)
#define lw_read_u128_acquire(...) LW_WIDE_CALL(lw_read_u128_acquire, 16, __VA_ARGS__)
#define lw_read_u128_rw(...) LW_WIDE_CALL(lw_read_u128_rw, 16, __VA_ARGS__)
#define lw_read_u128_rw_relaxed(...) LW_WIDE_CALL(lw_read_u128_rw_relaxed, 16, __VA_ARGS__)
#define lw_read_u128_rw_acquire(...) LW_WIDE_CALL(lw_read_u128_rw_acquire, 16, __VA_ARGS__)
#define lw_read_u128_any(...) LW_WIDE_CALL(lw_read_u128_any, 16, __VA_ARGS__)
#define lw_read_u128_any_relaxed(...) LW_WIDE_CALL(lw_read_u128_any_relaxed, 16, __VA_ARGS__)
#define lw_read_u128_any_acquire(...) LW_WIDE_CALL(lw_read_u128_any_acquire, 16, __VA_ARGS__)
#define lw_write_u128(...) LW_WIDE_CALL(lw_write_u128, 16, __VA_ARGS__)
#define lw_write_u128_seq_cst(...) LW_WIDE_CALL(lw_write_u128_seq_cst, 16, __VA_ARGS__)
#define lw_write_u128_release(...) LW_WIDE_CALL(lw_write_u128_release, 16, __VA_ARGS__)
#define lw_xchg_u128(...) LW_WIDE_CALL(lw_xchg_u128, 16, __VA_ARGS__)
#define lw_xchg_u128_relaxed(...) LW_WIDE_CALL(lw_xchg_u128_relaxed, 16, __VA_ARGS__)
#define lw_xchg_u128_acquire(...) LW_WIDE_CALL(lw_xchg_u128_acquire, 16, __VA_ARGS__)
#define lw_xchg_u128_release(...) LW_WIDE_CALL(lw_xchg_u128_release, 16, __VA_ARGS__)
#define lw_xchg_u128_acq_rel(...) LW_WIDE_CALL(lw_xchg_u128_acq_rel, 16, __VA_ARGS__)
#define lw_cmpxchg_u128(...) LW_WIDE_CALL(lw_cmpxchg_u128, 16, __VA_ARGS__)
#define lw_cmpxchg_u128_relaxed(...) LW_WIDE_CALL(lw_cmpxchg_u128_relaxed, 16, __VA_ARGS__)
#define lw_cmpxchg_u128_acquire(...) LW_WIDE_CALL(lw_cmpxchg_u128_acquire, 16, __VA_ARGS__)
#define lw_cmpxchg_u128_release(...) LW_WIDE_CALL(lw_cmpxchg_u128_release, 16, __VA_ARGS__)
#define lw_cmpxchg_u128_acq_rel(...) LW_WIDE_CALL(lw_cmpxchg_u128_acq_rel, 16, __VA_ARGS__)
#define lw_try_cmpxchg_u128(...) LW_WIDE_CALL(lw_try_cmpxchg_u128, 16, __VA_ARGS__)
#define lw_try_cmpxchg_u128_relaxed(...) LW_WIDE_CALL(lw_try_cmpxchg_u128_relaxed, 16, __VA_ARGS__)
#define lw_try_cmpxchg_u128_acquire(...) LW_WIDE_CALL(lw_try_cmpxchg_u128_acquire, 16, __VA_ARGS__)
#define lw_try_cmpxchg_u128_release(...) LW_WIDE_CALL(lw_try_cmpxchg_u128_release, 16, __VA_ARGS__)
#define lw_try_cmpxchg_u128_acq_rel(...) LW_WIDE_CALL(lw_try_cmpxchg_u128_acq_rel, 16, __VA_ARGS__)

#endif

#endif
#endif

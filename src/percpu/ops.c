/* SPDX-License-Identifier: MIT */
/* Per-CPU operations out of line: further attempts, then the fall-back, which always ends; and sums.
 *
 * Counters fall back to an atomic add of a second word. It is never touched by a sequence: a plain add and an atomic add
 * of one word would lose counts.
 *
 * Values have one word. Where the process has no sequences, or no membarrier that aborts them, every thread uses atomic
 * instructions on it. Where it has both, and only this operation cannot use a sequence (its thread is not registered, or was
 * interrupted LW_PERCPU_TRIES times), the thread comes to own a CPU's words by its lock word (owned.c), then loads and
 * stores.
 */
#define _GNU_SOURCE
#include "rseq.h"

#include <errno.h>

#ifdef __i386__
typedef uint64_t word64 __attribute__((aligned(8))); /* a uint64_t is aligned to 4 there; per-CPU words are to 8 */
#else
typedef uint64_t word64;
#endif
typedef uint32_t word32;
typedef uint16_t word16;
typedef uint8_t word8;

/* ---- counters ---- */

/* The words of many counters added up copy by copy, so that each line of a copy is read once. `from`: of the first copy.
 * Relaxed: each word is one whole value, see "sum" in percpu.h for what that promises. */
#define COUNTER(bits)                                                                                                      \
    void lw__percpu_add_second_u##bits(uint##bits##_t *p, uint##bits##_t v)                                                \
    {                                                                                                                      \
        unsigned mine = lw__percpu_stripe();                                                                               \
        word##bits *second = (word##bits *)(void *)(lw__percpu_unit(p, mine) + LW_PERCPU_SECOND);                          \
        lw__percpu_mark(&lw__percpu_marks(p)->stripes, mine);                                                              \
        __atomic_fetch_add(second, v, __ATOMIC_RELAXED); /* read by the sums below */                                      \
    }                                                                                                                      \
                                                                                                                           \
    void lw__percpu_add_slow_u##bits(uint##bits##_t *p, uint##bits##_t v)                                                  \
    {                                                                                                                      \
        if (lw__rseq_thread_ready())                                                                                       \
            for (int i = 0; i < LW_PERCPU_TRIES; i++)                                                                      \
                if (lw_rseq_add_u##bits(p, v))                                                                             \
                    return;                                                                                                \
        lw__percpu_add_second_u##bits(p, v);                                                                               \
    }                                                                                                                      \
                                                                                                                           \
    static void add_copies_u##bits(uint##bits##_t *const *p, size_t n, uint##bits##_t *sums, unsigned copies, size_t from) \
    {                                                                                                                      \
        for (unsigned copy = 0; copy < copies; copy++)                                                                     \
            for (size_t i = 0; i < n; i++)                                                                                 \
                sums[i] += __atomic_load_n((const word##bits *)(const void *)(lw__percpu_unit(p[i], copy) + from),         \
                                           __ATOMIC_RELAXED);                                                              \
    }                                                                                                                      \
                                                                                                                           \
    void lw_percpu_sum_many_u##bits(uint##bits##_t *const *p, size_t n, uint##bits##_t *sums)                              \
    {                                                                                                                      \
        unsigned cpus = 0, stripes = 0;                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                                                   \
            unsigned used = lw__percpu_used_cpus(p[i]), striped = lw__percpu_used_stripes(p[i]);                           \
            sums[i] = 0;                                                                                                   \
            cpus = used > cpus ? used : cpus;                                                                              \
            stripes = striped > stripes ? striped : stripes;                                                               \
        }                                                                                                                  \
        add_copies_u##bits(p, n, sums, cpus, 0);                                                                           \
        add_copies_u##bits(p, n, sums, stripes, LW_PERCPU_SECOND);                                                         \
    }                                                                                                                      \
                                                                                                                           \
    static uint##bits##_t sum_copies_u##bits(const uint##bits##_t *p, unsigned copies, size_t from)                        \
    {                                                                                                                      \
        uint##bits##_t sum = 0;                                                                                            \
        for (unsigned copy = 0; copy < copies; copy++)                                                                     \
            sum += __atomic_load_n((const word##bits *)(const void *)(lw__percpu_unit(p, copy) + from), __ATOMIC_RELAXED); \
        return sum;                                                                                                        \
    }                                                                                                                      \
                                                                                                                           \
    uint##bits##_t lw_percpu_sum_u##bits(const uint##bits##_t *p)                                                          \
    {                                                                                                                      \
        return sum_copies_u##bits(p, lw__percpu_used_cpus(p), 0) +                                                         \
               sum_copies_u##bits(p, lw__percpu_used_stripes(p), LW_PERCPU_SECOND);                                        \
    }
COUNTER(32)
COUNTER(64)

int lw__percpu_add_cpu_slow(uint64_t *p, uint64_t v)
{
    char *q = LW__CPU0(p);
    uint64_t at;
    for (int i = 0; lw_percpu_rt.value_limit && i < LW_PERCPU_TRIES && lw__rseq_thread_ready(); i++)
        if (lw__seq_add_at_u64(q, v, 0, &at, lw_percpu_rt.offset, lw_percpu_rt.value_limit))
            return (int)LW__CPU_OF(at, q);
    lw__percpu_add_second_u64(p, v);
    return -1;
}

/* ---- values ---- */

#define VALUE(bits)                                                                                                  \
    static bool try_u##bits(uint##bits##_t *p, enum lw__op op, uint##bits##_t v, uint##bits##_t expected,            \
                            uint##bits##_t *old)                                                                     \
    {                                                                                                                \
        char *q = LW__CPU0(p);                                                                                       \
        ptrdiff_t off = lw_percpu_rt.offset;                                                                         \
        unsigned limit = lw_percpu_rt.value_limit;                                                                   \
        switch (op) {                                                                                                \
        case LW__READ:                                                                                               \
            return lw__seq_read_u##bits(q, v, expected, old, off, limit);                                            \
        case LW__WRITE:                                                                                              \
            return lw__seq_write_u##bits(q, v, expected, old, off, limit);                                           \
        case LW__XCHG:                                                                                               \
            return lw__seq_xchg_u##bits(q, v, expected, old, off, limit);                                            \
        case LW__AND:                                                                                                \
            return lw__seq_and_u##bits(q, v, expected, old, off, limit);                                             \
        case LW__OR:                                                                                                 \
            return lw__seq_or_u##bits(q, v, expected, old, off, limit);                                              \
        case LW__XOR:                                                                                                \
            return lw__seq_xor_u##bits(q, v, expected, old, off, limit);                                             \
        case LW__FETCH_ADD:                                                                                          \
            return lw__seq_fetch_add_u##bits(q, v, expected, old, off, limit);                                       \
        case LW__CMPXCHG:                                                                                            \
            return lw__seq_cmpxchg_u##bits(q, v, expected, old, off, limit);                                         \
        }                                                                                                            \
        return false;                                                                                                \
    }                                                                                                                \
                                                                                                                     \
    /* No value sequences in this process: one word, atomic instructions by every thread. */                         \
    static uint##bits##_t atomic_u##bits(word##bits *w, enum lw__op op, uint##bits##_t v, uint##bits##_t expected)   \
    {                                                                                                                \
        switch (op) {                                                                                                \
        case LW__READ:                                                                                               \
            break;                                                                                                   \
        case LW__WRITE:                                                                                              \
            __atomic_store_n(w, v, __ATOMIC_RELAXED);                                                                \
            return v;                                                                                                \
        case LW__XCHG:                                                                                               \
            return __atomic_exchange_n(w, v, __ATOMIC_RELAXED);                                                      \
        case LW__AND:                                                                                                \
            return __atomic_fetch_and(w, v, __ATOMIC_RELAXED);                                                       \
        case LW__OR:                                                                                                 \
            return __atomic_fetch_or(w, v, __ATOMIC_RELAXED);                                                        \
        case LW__XOR:                                                                                                \
            return __atomic_fetch_xor(w, v, __ATOMIC_RELAXED);                                                       \
        case LW__FETCH_ADD:                                                                                          \
            return __atomic_fetch_add(w, v, __ATOMIC_RELAXED);                                                       \
        case LW__CMPXCHG:                                                                                            \
            __atomic_compare_exchange_n(w, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                 \
            return expected;                                                                                         \
        }                                                                                                            \
        return __atomic_load_n(w, __ATOMIC_RELAXED);                                                                 \
    }                                                                                                                \
                                                                                                                     \
    /* The words are this thread's. The stores are single, for threads that read from another CPU. */                \
    static uint##bits##_t alone_u##bits(word##bits *w, enum lw__op op, uint##bits##_t v, uint##bits##_t expected)    \
    {                                                                                                                \
        uint##bits##_t old = __atomic_load_n(w, __ATOMIC_RELAXED);                                                   \
        LW__PAUSE(LW__LOADED);                                                                                       \
        uint##bits##_t new_value = op == LW__AND         ? (uint##bits##_t)(old & v)                                 \
                                   : op == LW__OR        ? (uint##bits##_t)(old | v)                                 \
                                   : op == LW__XOR       ? (uint##bits##_t)(old ^ v)                                 \
                                   : op == LW__FETCH_ADD ? (uint##bits##_t)(old + v)                                 \
                                                         : v;                                                        \
        if (op != LW__READ && (op != LW__CMPXCHG || old == expected))                                                \
            __atomic_store_n(w, new_value, __ATOMIC_RELAXED);                                                        \
        return old;                                                                                                  \
    }                                                                                                                \
                                                                                                                     \
    uint##bits##_t lw__percpu_value_slow_u##bits(uint##bits##_t *p, enum lw__op op, uint##bits##_t v,                \
                                                 uint##bits##_t expected)                                            \
    {                                                                                                                \
        uint##bits##_t old = 0;                                                                                      \
        if (!lw_percpu_rt.value_limit)                                                                               \
            return atomic_u##bits((word##bits *)(void *)lw__percpu_unit(p, lw__percpu_current(p)), op, v, expected); \
        if (lw__rseq_thread_ready())                                                                                 \
            for (int i = 0; i < LW_PERCPU_TRIES; i++)                                                                \
                if (try_u##bits(p, op, v, expected, &old))                                                           \
                    return old;                                                                                      \
        struct lw__owner owner = lw__percpu_own(p);                                                                  \
        old = alone_u##bits((word##bits *)(void *)lw__percpu_unit(p, owner.cpu), op, v, expected);                   \
        lw__percpu_disown(p, &owner);                                                                                \
        return old;                                                                                                  \
    }
VALUE(8)
VALUE(16)
VALUE(32)
VALUE(64)

/* SPDX-License-Identifier: MIT */
/* The loops of one side, SIDE: built once per guise; SIDE_LINEWRIGHT says whose operations they are. */
#ifdef SIDE_LINEWRIGHT
#include <linewright/wide.h>
#endif

#include <x86intrin.h>

#include "side.h"

#if defined(__i386__)
#define BITS u64
#else
#define BITS u128
#endif
#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#ifdef SIDE_LINEWRIGHT
#define READ(suffix, order) PASTE(lw_read_, BITS, suffix)(p)
#define WRITE(suffix, order) PASTE(lw_write_, BITS, suffix)(p, v)
#define DO_ADD PASTE(lw_add_, BITS, )(p, 1)
#define DO_FETCH_ADD PASTE(lw_fetch_add_, BITS, )(p, 1)
#define DO_XCHG PASTE(lw_xchg_, BITS, )(p, v)
#define DO_CMPXCHG PASTE(lw_try_cmpxchg_, BITS, )(p, &old, v)
#else
#define READ(suffix, order) __atomic_load_n(p, order)
#define WRITE(suffix, order) __atomic_store_n(p, v, order)
#define DO_ADD __atomic_fetch_add(p, 1, __ATOMIC_RELAXED)
#define DO_FETCH_ADD __atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST)
#define DO_XCHG __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST)
#define DO_CMPXCHG __atomic_compare_exchange_n(p, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#endif

/* One register made of both halves: a use of the value that costs the loop as little as any. */
static inline uintptr_t folded(wide_number v) { return (uintptr_t)v ^ (uintptr_t)(v >> (sizeof(v) * 4)); }

/* The padding runs once a call; the compiler may not align the loop behind it (CMakeLists.txt). */
#define LOOP_AT(placement, name, ...)                                                                \
    static __attribute__((noinline, aligned(64))) uint64_t name##_##placement(wide *p, uint64_t n) { \
        uintptr_t sum = 0;                                                                           \
        wide_number v = 0;                                                                           \
                                                                                                     \
        (void)v;                                                                                     \
        __asm__ volatile(".rept 8 * " #placement "\n\tnop\n\t.endr");                                \
        for (uintptr_t left = (uintptr_t)n; left; left--) {                                          \
            __VA_ARGS__;                                                                             \
        }                                                                                            \
        return sum;                                                                                  \
    }
#define LOOP(name, ...)           \
    LOOP_AT(0, name, __VA_ARGS__) \
    LOOP_AT(1, name, __VA_ARGS__) \
    LOOP_AT(2, name, __VA_ARGS__) \
    LOOP_AT(3, name, __VA_ARGS__) \
    LOOP_AT(4, name, __VA_ARGS__) \
    LOOP_AT(5, name, __VA_ARGS__) \
    LOOP_AT(6, name, __VA_ARGS__) \
    LOOP_AT(7, name, __VA_ARGS__)

/* Every value that is written differs from the one before in both halves. */
#define NEXT v = ~v + (wide_number)left

LOOP(read_relaxed, sum += folded(READ(_relaxed, __ATOMIC_RELAXED)))
LOOP(read_acquire, sum += folded(READ(_acquire, __ATOMIC_ACQUIRE)))
LOOP(read_seq_cst, sum += folded(READ(, __ATOMIC_SEQ_CST)))
LOOP(write_relaxed, NEXT; WRITE(, __ATOMIC_RELAXED))
LOOP(write_release, NEXT; WRITE(_release, __ATOMIC_RELEASE))
LOOP(write_seq_cst, NEXT; WRITE(_seq_cst, __ATOMIC_SEQ_CST))
LOOP(xchg, NEXT; sum += folded(DO_XCHG))
LOOP(cmpxchg, wide_number old = v; NEXT; sum += DO_CMPXCHG)
#if defined(__i386__)
LOOP(add, DO_ADD)
LOOP(fetch_add, sum += folded(DO_FETCH_ADD))

static void waiting_add(wide *p, uint64_t n, uint64_t *longest) {
    uint64_t most = *longest, last = __rdtsc();

    for (uintptr_t left = (uintptr_t)n; left; left--) {
        uint64_t now;

        DO_ADD;
        now = __rdtsc();
        if (now - last > most)
            most = now - last;
        last = now;
    }
    *longest = most;
}
#define ADDS(k) add_##k, fetch_add_##k
#else
#define ADDS(k) 0, 0
#define waiting_add 0
#endif

#define ROW(k)                                                                                    \
    {read_relaxed_##k,  read_acquire_##k, read_seq_cst_##k, write_relaxed_##k, write_release_##k, \
     write_seq_cst_##k, ADDS(k),          xchg_##k,         cmpxchg_##k}

const struct side PASTE(side_, SIDE, );
const struct side PASTE(side_, SIDE, ) = {
    TEXT(SIDE),
    {ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7)},
    waiting_add,
};

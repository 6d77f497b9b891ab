/* SPDX-License-Identifier: MIT */
/* The forms one by one: how long a read takes, and whether it ever tears. */
#include <linewright/wide.h>

#include <x86intrin.h>

#include "forms.h"

#define READS(name, call)                                            \
    static uint64_t read_##name(wide *p, uint64_t n) {               \
        uintptr_t sum = 0;                                           \
                                                                     \
        for (uintptr_t left = (uintptr_t)n; left; left--) {          \
            wide_number v = call(p);                                 \
            sum += (uintptr_t)v ^ (uintptr_t)(v >> (sizeof(v) * 4)); \
        }                                                            \
        return sum;                                                  \
    }
#define FORM(name, call)                                                  \
    READS(name, call)                                                     \
    static uint64_t torn_##name(wide *p, uint64_t n, uint64_t *changes) { \
        uintptr_t torn = 0, seen = 0;                                     \
        wide_number last = 0;                                             \
                                                                          \
        for (uintptr_t left = (uintptr_t)n; left; left--) {               \
            wide_number v = call(p);                                      \
            torn += v + 1 > 1; /* all ones + 1 is 0 */                    \
            seen += v != last;                                            \
            last = v;                                                     \
        }                                                                 \
        *changes += seen;                                                 \
        return torn;                                                      \
    }

#if defined(__i386__)
FORM(two_loads, lw_read_twice_read_u64)
FORM(movq, lw_movq_read_u64)
FORM(fild, lw_fild_read_u64)
FORM(fxam_fild, lw_fxam_fild_read_u64)
FORM(cmpxchg8b_read_once, lw_cmpxchg8b_read_once_u64)
FORM(read_twice_cmpxchg8b_verify, lw_read_twice_cmpxchg8b_verify_u64)
FORM(operation, lw_read_u64)
/* What limits every read of this width: the same load with half of its value brought to an integer register. */
static inline uint64_t half_of_movq(const wide *p) {
    uint32_t lo;

    __asm__ __volatile__("movq (%[p]), %%xmm0\n\tmovd %%xmm0, %[lo]" : [lo] "=r"(lo) : [p] "r"(p), "m"(*p));
    return lo;
}
READS(half_of_movq, half_of_movq)
#define ROW(name, tears) {#name, read_##name, torn_##name, tears}
const struct read_form read_forms[] = {
    ROW(two_loads, 1),
    ROW(movq, 0),
    ROW(fild, 0),
    ROW(fxam_fild, 0),
    ROW(cmpxchg8b_read_once, 0),
    ROW(read_twice_cmpxchg8b_verify, 0),
    ROW(operation, 0),
    {"half_of_movq", read_half_of_movq, 0, 0},
    {0, 0, 0, 0},
};
#define FLIP(p, v) lw_movq_write_u64(p, v)

#define ADD_FORM(name, call)                                             \
    static uint64_t add_##name(wide *p, uint64_t n) {                    \
        uint64_t last = 0, sum = 0;                                      \
                                                                         \
        (void)last;                                                      \
        for (uintptr_t left = (uintptr_t)n; left; left--)                \
            sum += (uintptr_t)call;                                      \
        return sum;                                                      \
    }                                                                    \
    static void waiting_##name(wide *p, uint64_t n, uint64_t *longest) { \
        uint64_t most = *longest, before = __rdtsc(), last = 0;          \
                                                                         \
        (void)last;                                                      \
        for (uintptr_t left = (uintptr_t)n; left; left--) {              \
            uint64_t now;                                                \
                                                                         \
            (void)call;                                                  \
            now = __rdtsc();                                             \
            if (now - before > most)                                     \
                most = now - before;                                     \
            before = now;                                                \
        }                                                                \
        *longest = most;                                                 \
    }
ADD_FORM(torn_first, lw_cmpxchg8b_loop_torn_first_fetch_add_u64(p, 1))
ADD_FORM(read_first, lw_cmpxchg8b_loop_read_first_add_u64(p, 1))
ADD_FORM(guess_first, lw_cmpxchg8b_loop_guess_first_add_u64(p, 1))
ADD_FORM(last_value, lw_cmpxchg8b_loop_last_value_add_u64(p, 1, &last))
const struct add_form add_forms[] = {
    {"torn_first", add_torn_first, waiting_torn_first},
    {"read_first", add_read_first, waiting_read_first},
    {"guess_first", add_guess_first, waiting_guess_first},
    {"last_value", add_last_value, waiting_last_value},
    {0, 0, 0},
};
#else
FORM(two_loads, lw_read_twice_read_u128)
FORM(movdqa, lw_movdqa_read_u128)
FORM(cmpxchg16b_read_once, lw_cmpxchg16b_read_once_u128)
FORM(read_twice_cmpxchg16b_verify, lw_read_twice_cmpxchg16b_verify_u128)
FORM(operation, lw_read_u128)
#define ROW(name, tears) {#name, read_##name, torn_##name, tears}
const struct read_form read_forms[] = {
    ROW(two_loads, 1), ROW(movdqa, 0), ROW(cmpxchg16b_read_once, 0), ROW(read_twice_cmpxchg16b_verify, 0),
    ROW(operation, 0), {0, 0, 0, 0},
};
#define FLIP(p, v) lw_movdqa_write_u128(p, v)

const struct add_form add_forms[] = {{0, 0, 0}};
#endif

uint64_t store(wide *p, uint64_t n) {
    for (uintptr_t left = (uintptr_t)n; left; left--)
        FLIP(p, left);
    return 0;
}

void flip(wide *p, const volatile int *stop) {
    for (wide_number v = 0; !*stop; v = ~v)
        FLIP(p, v);
}

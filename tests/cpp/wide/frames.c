/* SPDX-License-Identifier: MIT */
/* Forms with fixed registers in functions whose frame an old clang addresses by one of these: over-aligned variables beside an array of variable length.
 * Exit code 0, or 1 with a line. */
#include <linewright/percpu.h>
#include <linewright/wide.h>

#include <stdio.h>
#include <string.h>

#ifdef __i386__
typedef lw_u64 word;
#define WIDE(operation) operation##_u64
#else
typedef lw_u128 word;
#define WIDE(operation) operation##_u128
#endif

static int failures;

static void holds(const char *sentence, int condition) {
    if (condition)
        return;
    printf("not so: %s\n", sentence);
    failures = 1;
}

static void fill(char *with, size_t bytes) {
    memset(with, 7, bytes);
    __asm__ volatile("" : : "r"(with) : "memory");
}

#define FRAME                                \
    __attribute__((aligned(64))) char a[64]; \
    char more[count];                        \
    volatile unsigned kept = count;          \
    fill(a, sizeof a);                       \
    fill(more, count)

static __attribute__((noinline)) void changes_wide_words(word *w, unsigned count) {
    FRAME;
    word expected = count, before = WIDE(lw_xchg)(w, count);
    holds("an exchange returns what was there", before == 0);
    holds("a compare-and-exchange finds it", WIDE(lw_try_cmpxchg)(w, &expected, 5));
    holds("and what it stored is read", WIDE(lw_cmpxchg)(w, 5, 0) == 5);
    fill(a, sizeof a);
    holds("the frame is as it was", kept == count && a[63] == 7 && more[count - 1] == 7);
}

static __attribute__((noinline)) void changes_values(uint32_t *narrow, uint64_t *wide, unsigned count) {
    FRAME;
    lw_this_cpu_fetch_add_u32(narrow, count);
    lw_this_cpu_fetch_add_u64(wide, (uint64_t)count << 32);
    lw_this_cpu_add_u64(wide + 1, (uint64_t)count << 32 | 1);
    fill(a, sizeof a);
    holds("the frame is as it was", kept == count && a[63] == 7 && more[count - 1] == 7);
}

int main(int count, char **words) {
    static word w;
    uint64_t *p = lw_percpu_alloc(4 * sizeof *p, 8), sum = 0;
    (void)words;
    changes_wide_words(&w, (unsigned)count + 40);
    changes_values((uint32_t *)p, p + 1, (unsigned)count + 40);
    for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)
        sum += *(uint64_t *)lw_per_cpu_ptr(p + 1, cpu);
    holds("a value was added to", sum == (uint64_t)(count + 40) << 32);
    holds("a counter was", lw_percpu_sum_u64(p + 2) == ((uint64_t)(count + 40) << 32 | 1));
    return failures;
}

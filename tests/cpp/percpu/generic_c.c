/* SPDX-License-Identifier: MIT */
/* The type-generic names as C11 sees them: every type, const where nothing is written. Returns the line of a failure, or
 * 0. */
#include <linewright/percpu.h>

#define CHECK(x)             \
    do                       \
        if (!(x))            \
            return __LINE__; \
    while (0)

#define CHECK_TYPE(T)                                                             \
    do {                                                                          \
        T *p = lw_percpu_alloc(sizeof(T), sizeof(T));                             \
        const T *c = p;                                                           \
        CHECK(p);                                                                 \
        for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++)                  \
            *(T *)lw_per_cpu_ptr(p, cpu) = 3;                                     \
        CHECK(lw_this_cpu_read(c) == 3);                                          \
        (void)lw_this_cpu_fetch_add(p, 0);                                        \
        (void)lw_this_cpu_add_return(p, 0);                                       \
        (void)lw_this_cpu_cmpxchg(p, 77, 1);                                      \
        lw_this_cpu_and(p, 3);                                                    \
        lw_this_cpu_or(p, 3);                                                     \
        lw_this_cpu_andnot(p, 4);                                                 \
        CHECK(lw_this_cpu_read(p) == 3);                                          \
        lw_this_cpu_write(p, 3);                                                  \
        CHECK(lw_this_cpu_xchg(p, 3) == 3);                                       \
        lw_this_cpu_xor(p, 1);                                                    \
        T expected = 3;                                                           \
        CHECK(!lw_this_cpu_try_cmpxchg(p, &expected, 9) && expected == 2);        \
        CHECK(lw_this_cpu_try_cmpxchg(p, &expected, 9) && expected == 2);         \
        CHECK(lw_this_cpu_inc_return(p) == 10 && lw_this_cpu_dec_return(p) == 9); \
        CHECK(lw_this_cpu_sub_return(p, 4) == 5);                                 \
        CHECK(lw_percpu_free(p) == 0);                                            \
    } while (0)

#define CHECK_COUNTER(T)                                       \
    do {                                                       \
        T *p = lw_percpu_alloc(sizeof(T), sizeof(T));          \
        const T *c = p;                                        \
        CHECK(p);                                              \
        lw_this_cpu_inc(p);                                    \
        lw_this_cpu_add(p, 10);                                \
        lw_this_cpu_dec(p);                                    \
        lw_this_cpu_sub(p, 4);                                 \
        CHECK(lw_percpu_sum(c) == 6 && lw_percpu_sum(p) == 6); \
        CHECK(lw_percpu_free(p) == 0);                         \
    } while (0)

struct pair {
    uint64_t first, second;
};
LW_DEFINE_PERCPU(struct pair, defined_pair);
LW_DEFINE_STATIC_PERCPU(uint32_t, defined_count);

static int definitions_and_iteration(void) {
    unsigned copies = 0;
    struct pair *copy;
    lw_percpu_for_each(copy, defined_pair) { copy->second = copies++; }
    lw_percpu_for_each(copy, defined_pair) copies -= copy->first == 0;
    CHECK(copies == 0);
    lw_this_cpu_inc(defined_count);
    CHECK(lw_percpu_sum(defined_count) == 1);
    return 0;
}

int c_interface_works(void);
int c_interface_works(void) {
    CHECK_TYPE(uint8_t);
    CHECK_TYPE(uint16_t);
    CHECK_TYPE(uint32_t);
    CHECK_TYPE(uint64_t);
    CHECK_TYPE(unsigned long);
    CHECK_TYPE(unsigned long long);
    CHECK_TYPE(uintptr_t);
    CHECK_COUNTER(uint32_t);
    CHECK_COUNTER(uint64_t);
    CHECK_COUNTER(unsigned long);
    CHECK_COUNTER(unsigned long long);
    void **p = lw_percpu_alloc(sizeof *p, sizeof *p);
    CHECK(p && lw_this_cpu_cmpxchg(p, 0, 0) == 0 && lw_this_cpu_read(p) == 0);
    CHECK(lw_percpu_free(p) == 0);
    CHECK(definitions_and_iteration() == 0);
    return 0;
}

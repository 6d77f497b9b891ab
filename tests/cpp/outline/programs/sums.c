/* SPDX-License-Identifier: MIT */
/* Four threads do every kind of C11 read-modify-write; prints "sums exact" or says which sum is wrong. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 4000 };

static _Atomic uint8_t add1;
static _Atomic uint16_t add2;
static _Atomic uint32_t add4, bits_or, bits_and = 0xffffffff, bits_xor, turns;
static _Atomic uint64_t add8, by_cas;
static uint64_t sync_sum;

static void *work(void *arg) {
    unsigned self = (unsigned)(uintptr_t)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t seen = atomic_load_explicit(&by_cas, memory_order_relaxed);

        atomic_fetch_add_explicit(&add1, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&add2, 1, memory_order_acquire);
        atomic_fetch_sub_explicit(&add4, 1, memory_order_release);
        atomic_fetch_add(&add8, 3);
        __sync_fetch_and_add(&sync_sum, 5);
        atomic_fetch_or(&bits_or, 1u << (i % 32));
        atomic_fetch_and_explicit(&bits_and, ~(1u << (i % 32)), memory_order_acq_rel);
        atomic_fetch_xor(&bits_xor, 1u << self);
        while (!atomic_compare_exchange_weak(&by_cas, &seen, seen + 1))
            ;
        if (atomic_exchange_explicit(&turns, self, memory_order_acq_rel) >= THREADS)
            return "a turn that no thread took";
    }
    return NULL;
}

static int wrong(const char *what, uint64_t have, uint64_t want) {
    if (have != want)
        printf("%s is %llx, not %llx\n", what, (unsigned long long)have, (unsigned long long)want);
    return have != want;
}

int sums(void) {
    const uint64_t n = (uint64_t)THREADS * ROUNDS;
    pthread_t thread[THREADS];
    int bad = 0;

    for (uintptr_t t = 0; t < THREADS; t++)
        bad |= pthread_create(&thread[t], NULL, work, (void *)t) != 0;
    for (int t = 0; t < THREADS; t++) {
        void *complaint;

        pthread_join(thread[t], &complaint);
        if (complaint)
            bad |= puts(complaint) >= 0;
    }
    bad |= wrong("add1", add1, (uint8_t)n) | wrong("add2", add2, (uint16_t)n) | wrong("add4", add4, (uint32_t)-n);
    bad |= wrong("add8", add8, 3 * n) | wrong("sync_sum", sync_sum, 5 * n) | wrong("by_cas", by_cas, n);
    bad |= wrong("or", bits_or, 0xffffffff) | wrong("and", bits_and, 0) | wrong("xor", bits_xor, 0);
    puts(bad ? "sums wrong" : "sums exact");
    return bad;
}

#ifndef SUMS_IN_A_LIBRARY
#ifdef TELL
void tell(const char *path);
#else
#define tell(path) ((void)(path))
#endif

int main(int argc, char **argv) {
    (void)argc;
    tell(argv[0]);
    return sums();
}
#endif

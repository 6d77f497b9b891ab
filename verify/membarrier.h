/* A membarrier for the harnesses of a stateless model checker: who asks for it waits until each of READERS threads has met
 * it, which a thread does between any two of its accesses. */
#ifndef LINEWRIGHT_VERIFY_MEMBARRIER_H
#define LINEWRIGHT_VERIFY_MEMBARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

extern void __VERIFIER_assume(bool); /* GenMC: only executions where it holds */

static atomic_int requested, met[READERS];

static int fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return 0;
}

static void poll(size_t me)
{
    int number = atomic_load_explicit(&requested, memory_order_relaxed);
    if (number != atomic_load_explicit(&met[me], memory_order_relaxed)) {
        fence();
        atomic_store_explicit(&met[me], number, memory_order_relaxed);
    }
}

/* A thread that has ended takes part in every barrier. */
static void poll_for_ever(size_t me)
{
    fence();
    atomic_store_explicit(&met[me], -1, memory_order_relaxed);
}

static int heavy_barrier(void)
{
    fence();
    int number = atomic_load_explicit(&requested, memory_order_relaxed) + 1;
    atomic_store_explicit(&requested, number, memory_order_relaxed);
    for (int i = 0; i < READERS; i++) {
        int seen = atomic_load_explicit(&met[i], memory_order_relaxed);
        __VERIFIER_assume(seen == number || seen == -1);
    }
    return fence();
}

#endif

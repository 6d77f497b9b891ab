/* SPDX-License-Identifier: MIT */
/* The engine's own proof, beside litmus.c: neither what its calls leave below a frame nor its own stack is part of a state.
 *
 * A thread that waits leaves another value there in each round. Were it part of a state, every round would be a state of its own. */
#include "rc11.h"

#include <x86intrin.h>

static uint32_t own, flag;
static unsigned rounds; /* of all executions together */

static void leave_a_value(void) {
    uint32_t expected = (uint32_t)__rdtsc() | 1;
    (void)__atomic_compare_exchange_n(&own, &expected, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED); /* it is 0 */
}

static uint32_t look(void) {
    char unset[256];
    __asm__ volatile("" ::"r"(unset) : "memory");
    return __atomic_load_n(&flag, __ATOMIC_RELAXED);
}

__attribute__((no_sanitize("thread"))) static bool go_on(void) { return ++rounds < 1000; } /* the engine does not see it */

static void wait_for_flag(void) {
    do {
        rc11_check(go_on(), "each round of a loop is another state");
        leave_a_value();
    } while (!look());
}

static void look_at(volatile uint64_t *all, size_t many) {
    for (size_t i = 0; i < many; i++)
        all[i] = i;
}

/* Where its variables are, the engine has its own soon. */
static void write_variables(void) {
    uint64_t variables[512];
    look_at(variables, sizeof variables / sizeof *variables);
}

static void set_flag(void) { __atomic_store_n(&flag, 1, __ATOMIC_RELAXED); }

struct rc11_scenario rc11_scenarios[] = {
    {.name = "values below a frame", .run = {set_flag, wait_for_flag}},
    {.name = "the engine's own stack", .run = {set_flag, wait_for_flag}, .begin = write_variables},
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;

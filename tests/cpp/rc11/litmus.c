/* SPDX-License-Identifier: MIT */
/* The engine's own proof: classic litmus tests, each with all its outcomes under RC11.
 *
 * Threads are separated by |. x=1 stores, x? loads, x+1 adds, x!1 exchanges, x:01 swaps 0 for 1; F is a fence and M a membarrier. The order
 * follows: a acquire, r release, b both, s sequentially consistent; nothing is relaxed. A word in upper case is a plain one. An outcome has
 * what each load or read-modify-write returned, in the order of the text, and then the last values of the words that `last` names. */
#include "rc11.h"

#include <string.h>

struct test {
    const char *name, *text, *last, *outcomes;
};
#ifndef LITMUS /* programs that a test draws */
#define LITMUS "litmus.def"
#endif
#define TEST(name, text, last, outcomes) {name, text, last, outcomes},
static const struct test tests[] = {
#include LITMUS
};
#define TESTS (sizeof tests / sizeof *tests)

static uint32_t word[26], plain[26];
static char seen[RC11_THREADS][8];
static const struct test *test;

static uint32_t do_store(uint32_t *w, uint32_t v, char order) {
    if (order == 's')
        __atomic_store_n(w, v, __ATOMIC_SEQ_CST);
    else if (order == 'r')
        __atomic_store_n(w, v, __ATOMIC_RELEASE);
    else
        __atomic_store_n(w, v, __ATOMIC_RELAXED);
    return 0;
}

static uint32_t do_load(uint32_t *w, char order) {
    return order == 's'   ? __atomic_load_n(w, __ATOMIC_SEQ_CST)
           : order == 'a' ? __atomic_load_n(w, __ATOMIC_ACQUIRE)
                          : __atomic_load_n(w, __ATOMIC_RELAXED);
}

#define BY_ORDER(call)                       \
    (order == 's'   ? call(__ATOMIC_SEQ_CST) \
     : order == 'b' ? call(__ATOMIC_ACQ_REL) \
     : order == 'a' ? call(__ATOMIC_ACQUIRE) \
     : order == 'r' ? call(__ATOMIC_RELEASE) \
                    : call(__ATOMIC_RELAXED))

static uint32_t do_rmw(uint32_t *w, char what, const char *digits, char order) {
    uint32_t v = (uint32_t)(digits[0] - '0');
#define ADD(o) __atomic_fetch_add(w, v, o)
#define EXCHANGE(o) __atomic_exchange_n(w, v, o)
    if (what == '+')
        return BY_ORDER(ADD);
    if (what == '!')
        return BY_ORDER(EXCHANGE);
    uint32_t old = v;
#define SWAP(o) __atomic_compare_exchange_n(w, &old, (uint32_t)(digits[1] - '0'), false, o, __ATOMIC_RELAXED)
    (void)BY_ORDER(SWAP);
    return old;
}

static void do_fence(char order) {
    if (order == 's')
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else if (order == 'b')
        __atomic_thread_fence(__ATOMIC_ACQ_REL);
    else if (order == 'a')
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    else
        __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void do_plain_store(uint32_t *w, uint32_t v) { *w = v; }

static uint32_t do_plain_load(const uint32_t *w) { return *w; }

static void note(unsigned read, uint32_t got) { seen[rc11_me()][read] = (char)('0' + got); }

__attribute__((no_sanitize("thread"))) static void step(const char *p, char order, unsigned *read) {
    char what = *p == 'F' || *p == 'M' ? *p : p[1];
    unsigned at = (unsigned)(*p | 32) - 'a';
    uint32_t value = (uint32_t)(p[2] - '0');
    if (what == 'M')
        rc11_membarrier();
    else if (what == 'F')
        do_fence(order);
    else if (what == '=' && *p < 'a')
        do_plain_store(&plain[at], value);
    else if (what == '=')
        do_store(&word[at], value, order);
    else
        note((*read)++, *p < 'a'      ? do_plain_load(&plain[at])
                        : what == '?' ? do_load(&word[at], order)
                                      : do_rmw(&word[at], what, p + 2, order));
}

__attribute__((no_sanitize("thread"))) static void run(void) {
    unsigned bars = 0, read = 0;
    const char *p = test->text;
    for (; bars < rc11_me(); p++)
        bars += *p == '|';
    for (p += strspn(p, " "); *p && *p != '|'; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        char last = p[length - 1];
        step(p, length > 1 && strchr("arbs", last) ? last : 0, &read);
        p += length;
    }
}

static void begin(void) { test = &tests[rc11_number()]; }

static void end(void) {
    for (unsigned t = 0; t < RC11_THREADS; t++)
        rc11_outcome(seen[t]);
    for (const char *p = test->last; *p; p++) {
        char text[2] = {(char)('0' + word[*p - 'a']), 0};
        rc11_outcome(text);
    }
}

struct rc11_scenario rc11_scenarios[TESTS];
const size_t rc11_count = TESTS;

__attribute__((constructor)) static void make(void) {
    for (size_t i = 0; i < TESTS; i++) {
        struct rc11_scenario *s = &rc11_scenarios[i];
        s->name = tests[i].name, s->begin = begin, s->end = end, s->outcomes = tests[i].outcomes;
        s->run[0] = run;
        size_t threads = 1;
        for (const char *p = tests[i].text; *p; p++)
            if (*p == '|')
                s->run[threads++] = run;
    }
}

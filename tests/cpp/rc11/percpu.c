/* SPDX-License-Identifier: MIT */
/* Per-CPU words and lists of threads that have no sequences: programs' calls of src/percpu/owned.c, the lock words and lists of lock.h.
 *
 * Written by hand: no sequence exists (they are assembly, which tests/cpp/percpu/interleave.cpp explores instruction by instruction), so none
 * has to be aborted; a chunk's memory, without the allocator; which CPU a thread runs on. */
#include "rc11.h"

#define sched_getcpu runs_on
static int runs_on(void);
#include "src/percpu/owned.c"

struct lw_percpu_rt lw_percpu_rt = {.nr_cpus = 2};

#define THREADS RC11_THREADS

static struct lw_percpu_node **list;
static struct node { /* `data` is plain: a race where a node is in two hands */
    struct lw_percpu_node node;
    uint32_t data, times;
} nodes[THREADS];
static unsigned moved; /* bit i: thread i runs on CPU 1 */

static int runs_on(void) { return moved >> rc11_me() & 1; }

bool lw__rseq_abort_cpu(unsigned cpu) { return (void)cpu, false; }
bool lw__rseq_thread_ready(void) { return false; }

/* ---- beginnings ---- */

static void one_cpu(void) {
    char *units = mmap(NULL, 4 * LW_PERCPU_STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t aligned = ((uintptr_t)units + LW_PERCPU_STRIDE - 1) & ~(uintptr_t)(LW_PERCPU_STRIDE - 1);
    list = (struct lw_percpu_node **)(aligned - LW_PERCPU_STRIDE + LW_PERCPU_RESERVED);
    lw__percpu_number_process();
    moved = 0;
}

static void two_cpus(void) {
    one_cpu();
    moved = 2;
}

/* One node is on CPU 0's list. */
static void one_listed(void) {
    two_cpus();
    lw_percpu_push(list, &nodes[2].node);
}

/* A child of fork(): a thread that it does not have was in an operation. */
static void lock_inherited(void) {
    one_cpu();
    *lock_of(list, 0) = 7 | LW_LOCK_SLEEPERS;
}

/* ---- threads ---- */

static void push_own(void) {
    struct node *n = &nodes[rc11_me()];
    n->data = 1;
    lw_percpu_push(list, &n->node);
}

static void use(struct lw_percpu_node *node) {
    struct node *n = (struct node *)(void *)node;
    if (n) {
        n->data++;
        n->times++;
    }
}

static void pop(void) { use(lw_percpu_pop(list)); }

static void pushes_and_pops(void) {
    push_own();
    pop();
}

static void pops_any(void) { use(lw_percpu_pop_any(list)); }

static void takes_all(void) {
    struct lw_percpu_node *next;
    for (struct lw_percpu_node *node = lw_percpu_pop_all(list); node; node = next) {
        next = node->next;
        use(node);
    }
}

/* ---- ends ---- */

static void each_once(unsigned those) {
    takes_all();
    for (unsigned i = 0; i < THREADS; i++)
        rc11_check(nodes[i].times == (those >> i & 1), "each node was popped once");
    rc11_check(lw_percpu_length(list) == 0, "no node is left");
    rc11_check(!*lock_of(list, 0) && !*lock_of(list, 1), "each lock word is free");
}

static void two_once(void) { each_once(3); }
static void first_once(void) { each_once(1); }
static void third_once(void) { each_once(4); }
static void first_and_third_once(void) { each_once(5); }
static void all_once(void) { each_once(7); }

struct rc11_scenario rc11_scenarios[] = {
    {.name = "one CPU: two threads push and pop",
     .run = {pushes_and_pops, pushes_and_pops},
     .begin = one_cpu,
     .end = two_once},
    {.name = "one CPU: push, pop", .run = {push_own, pop}, .begin = one_cpu, .end = first_once},
    {.name = "two CPUs: push, another takes all lists", .run = {push_own, takes_all}, .begin = two_cpus, .end = first_once},
    {.name = "two CPUs: push, another pops from any list",
     .run = {push_own, pops_any},
     .begin = two_cpus,
     .end = first_once},
    {.name = "two CPUs: pop, another takes all lists", .run = {pop, takes_all}, .begin = one_listed, .end = third_once},
    {.name = "two CPUs: push, another pops one and moves the rest",
     .run = {push_own, pops_any},
     .begin = one_listed,
     .end = first_and_third_once},
    {.name = "a lock that a child inherited: two threads push and pop",
     .run = {pushes_and_pops, pushes_and_pops},
     .begin = lock_inherited,
     .end = two_once},
    {.name = "one CPU: three threads push",
     .run = {push_own, push_own, push_own},
     .begin = one_cpu,
     .end = all_once,
     .slow = true},
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;

/* Every file that includes percpu.h calls these at load. */
void lw__check_interface(unsigned interface) { (void)interface; }
void lw__percpu_pin(const void *here) { (void)here; }

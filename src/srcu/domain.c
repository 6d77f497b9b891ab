/* The life of SRCU domains: start-up, fork, making and ending them. */
#define _GNU_SOURCE
#include "domain.h"

#include "../common/environment.h"
#include "debug.h"
#include "membarrier.h"
#include "queue.h"
#include "records.h"
#include "worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lw__srcu_domain *lw__srcu_domains;
uint32_t lw__srcu_registry;

#ifdef LW_SRCU_TEST
void (*volatile lw__srcu_test_point)(enum lw__srcu_point where);
int (*volatile lw__srcu_test_membarrier)(int command);
volatile unsigned lw__srcu_test_slots = LW__SRCU_SLOTS;
void lw__srcu_test_at(enum lw__srcu_point where)
{
    void (*point)(enum lw__srcu_point) = __atomic_load_n(&lw__srcu_test_point, __ATOMIC_ACQUIRE); /* once: it may be reset */
    if (point)
        point(where);
}
#endif

/* ---- fork ---- */

static void before_fork(void)
{
    lw__srcu_worker_before_fork();
    lw_futex_lock(&lw__srcu_registry);
    lw__srcu_records_before_fork();
    lw__srcu_debug_before_fork();
}

static void after_fork_in_parent(void)
{
    lw__srcu_records_after_fork(false);
    lw_futex_unlock(&lw__srcu_registry);
    lw__srcu_worker_after_fork(false);
}

/* Only this thread exists in the child: waiters, the worker and any holder of a step lock are gone. A grace period in progress
 * begins anew, because the fork may have copied it between two stores. */
static void after_fork_in_child(void)
{
    lw__srcu_membarrier_after_fork();
    lw__srcu_records_after_fork(true);
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        d->step_lock = d->driver = d->waiters = d->sleepers = d->expedited = 0;
        d->phase = d->seq & 1 ? LW__SRCU_FIRST_SCAN : LW__SRCU_IDLE;
    }
    lw__srcu_registry = 0;
    lw__srcu_queue_after_fork();
    lw__srcu_worker_after_fork(true);
    lw__srcu_debug_after_fork();
}

/* ---- start-up ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void)
{
    lw__srcu_worker_at_load();
    lw__srcu_membarrier_start();
    lw__srcu_records_start();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Early, so that the thread-specific key is among the first. */
__attribute__((constructor(101))) static void start_early(void)
{
    pthread_once(&once, start);
}

/* ---- making ---- */

static bool fast(enum lw_srcu_flavour flavour)
{
    return flavour == LW_SRCU_FAST || flavour == LW_SRCU_FAST_UPDOWN;
}

/* The value of lw_srcu.pair for index 0. */
static uintptr_t first_pair(const struct lw__srcu_domain *d)
{
    if (d->why) /* a fast flavour without membarrier: its inline functions have no barriers, so readers must go out of line */
        return 2;
    if (!LW_HAVE_THREAD_WORDS)
        return (uintptr_t)d->cpu;
    return d->slot ? lw__srcu_first_pair(d->slot) : 2;
}

static void free_domain(struct lw__srcu_domain *d)
{
    lw_percpu_free(d->cpu);
    free(d);
}

/* Under the registry. Reads nothing of *s, which may be uninitialised. */
static bool is_live(const struct lw_srcu *s)
{
    const struct lw__srcu_domain *d = lw__srcu_domains;
    while (d && d->srcu != s)
        d = d->next;
    return d;
}

static struct lw__srcu_domain *new_domain(struct lw_srcu *s, enum lw_srcu_flavour flavour)
{
    struct lw__srcu_domain *d = aligned_alloc(LW__SRCU_APART, sizeof *d);
    if (!d)
        return NULL;
    memset(d, 0, sizeof *d);
    d->cpu = lw_percpu_alloc(sizeof *d->cpu, sizeof *d->cpu);
    if (!d->cpu) {
        free(d);
        return NULL;
    }
    d->srcu = s;
    d->home = lw__srcu_home();
    d->stall_ms = 10000;
    d->reader_barriers = !fast(flavour) || !lw__srcu_have_membarrier(); /* a filter may have come since start-up */
    d->why = fast(flavour) && d->reader_barriers ? "membarrier is not available" : NULL;
    return d;
}

int lw_srcu_init(struct lw_srcu *s, enum lw_srcu_flavour flavour)
{
    if (!s || flavour < LW_SRCU_NORMAL || flavour > LW_SRCU_FAST_UPDOWN)
        return -EINVAL;
    int err = pthread_once(&once, start);
    if (err)
        return -err;
    struct lw__srcu_domain *d = new_domain(s, flavour);
    if (!d)
        return -ENOMEM;
    lw_futex_lock(&lw__srcu_registry);
    if (is_live(s)) {
        lw_futex_unlock(&lw__srcu_registry);
        free_domain(d);
        return -EBUSY;
    }
    d->slot = lw__srcu_take_slot();
    d->cpu_words = !d->slot;
    s->flavour = flavour;
    s->name = NULL;
    __atomic_store_n(&s->pair, first_pair(d), __ATOMIC_RELAXED); /* the caller orders init before use */
    __atomic_store_n(&s->domain, d, __ATOMIC_RELEASE); /* pairs with lw__srcu_domain_of() */
    d->next = lw__srcu_domains;
    lw__srcu_domains = d;
    lw_futex_unlock(&lw__srcu_registry);
    return 0;
}

void lw__srcu_define(struct lw_srcu *s, const char *name, enum lw_srcu_flavour flavour)
{
    int err = lw_srcu_init(s, flavour);
    if (err)
        fprintf(stderr, "linewright: LW_DEFINE_SRCU(%s): %s\n", name, strerror(-err));
    s->name = name;
}

/* ---- ending ---- */

/* 0: no reader is inside; -EBUSY: one is; other errors: membarrier's, and it is not known. `ordered`: the caller has ordered all
 * earlier readers before. */
static int readers_inside(struct lw__srcu_domain *d, bool ordered)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned long unlocks = lw__srcu_sum(d, i, true);
        int err = ordered ? 0 : lw__srcu_heavy_barrier(d);
        if (err)
            return -err;
        if (lw__srcu_sum(d, i, false) != unlocks)
            return -EBUSY;
    }
    return 0;
}

static void say_why_not(const struct lw_srcu *s, int err)
{
    char text[400];
    lw_srcu_describe(s, text, sizeof text);
    fprintf(stderr, "linewright: lw_srcu_cleanup refused (%s): %s\n", strerror(-err), text);
}

/* Takes the domain off the list, or returns why not. Under the registry, so that the worker does not use the domain. */
static int unlink_domain(struct lw__srcu_domain *d, bool ordered)
{
    int err = readers_inside(d, ordered);
    if (err)
        return err;
    if (lw__srcu_queued(d) || __atomic_load_n(&d->waiters, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&d->driver, __ATOMIC_ACQUIRE))
        return -EAGAIN; /* acquire: pairs with the releases of the worker and of wait_for() */
    struct lw__srcu_domain **link = &lw__srcu_domains;
    while (*link && *link != d)
        link = &(*link)->next;
    if (!*link)
        return -EINVAL;
    *link = d->next;
    lw__srcu_give_slot(d->slot);
    return 0;
}

static int cleanup(struct lw_srcu *s, struct lw__srcu_domain *d, bool ordered)
{
    lw_futex_lock(&lw__srcu_registry);
    int err = unlink_domain(d, ordered);
    lw_futex_unlock(&lw__srcu_registry);
    if (err) {
        if (lw_verbose())
            say_why_not(s, err);
        return err;
    }
    __atomic_store_n(&s->pair, 2, __ATOMIC_RELAXED);
    __atomic_store_n(&s->domain, NULL, __ATOMIC_RELAXED); /* no other thread uses it any more */
    free_domain(d);
    return 0;
}

int lw_srcu_cleanup(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    return d ? cleanup(s, d, false) : -EINVAL;
}

int lw_srcu_cleanup_idle(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d)
        return -EINVAL;
    if (lw__srcu_in_callback())
        return -EDEADLK;
    int err = readers_inside(d, true);
    if (!err)
        lw__srcu_run_all(d);
    return err ? err : cleanup(s, d, true);
}

int lw_srcu_forget_readers(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d)
        return -EINVAL;
    for (unsigned i = 0; i < 2; i++)
        d->base.locks[i] += lw__srcu_sum(d, i, false) - lw__srcu_sum(d, i, true);
    lw__srcu_debug_forget(s);
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* The life of SRCU domains: start-up, fork, making and ending them. */
#define _GNU_SOURCE
#include "domain.h"

#include "../common/environment.h"
#include "arena.h"
#include "debug.h"
#include "membarrier.h"
#include "queue.h"
#include "records.h"
#include "worker.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

uint32_t lw__srcu_registry;

#ifdef LW_SRCU_TEST
void (*volatile lw__srcu_test_point)(enum lw__srcu_point where);
int (*volatile lw__srcu_test_membarrier)(int command);
volatile unsigned lw__srcu_test_slots = UINT_MAX;
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

/* Only this thread exists in the child: waiters, the worker and any holder of a step lock are gone. A grace period in
 * progress begins anew, because the fork may have copied it between two stores. */
static void after_fork_in_child(void)
{
    lw__srcu_membarrier_after_fork();
    lw__srcu_records_after_fork(true);
    lw__srcu_arena_after_fork();
    struct lw__srcu_domain *d;
    for (unsigned i = 0; (d = lw__srcu_arena_at(i)); i++) {
        d->step_lock = d->driver = d->waiters = d->check.sleepers = d->expedited = 0;
        d->phase = d->seq & 1 ? LW__SRCU_FIRST_SCAN : LW__SRCU_IDLE;
        if (!d->srcu) /* free, being made by another thread, or ended and not given back yet */
            lw__srcu_arena_give(d);
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

static bool fast(enum lw__srcu_flavour flavour)
{
    return flavour == LW__SRCU_FAST || flavour == LW__SRCU_FAST_UPDOWN;
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

struct lw__srcu_domain *lw__srcu_own_domain(const struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d || !lw__srcu_in_arena(d)) /* another copy of the library made it */
        return NULL;
    return __atomic_load_n(&d->srcu, __ATOMIC_RELAXED) == s ? d : NULL; /* relaxed: differs only where it may not be used */
}

/* Words for the readers' counts: a slot in the threads' records, or, where that does not exist, words per CPU. */
static bool get_words(struct lw__srcu_domain *d)
{
    d->slot = lw__srcu_take_slot(lw__srcu_arena_index(d));
    if (d->slot)
        return true;
    lw_futex_unlock(
        &lw__srcu_registry); /* which may not be held while memory is allocated; the entry is no other thread's */
    d->cpu = lw_percpu_alloc(sizeof *d->cpu, sizeof *d->cpu);
    lw_futex_lock(&lw__srcu_registry);
    return d->cpu;
}

/* Under the registry, which it may give up in between. */
static int make(struct lw_srcu *s, enum lw__srcu_flavour flavour, bool reader_barriers)
{
    if (lw__srcu_live(s))
        return -EBUSY;
    struct lw__srcu_domain *d = lw__srcu_arena_take();
    if (!d)
        return -ENOMEM;
    d->stall_ms = 10000;
    d->reader_barriers = reader_barriers;
    d->why = fast(flavour) && reader_barriers ? "membarrier is not available" : NULL;
    if (!get_words(d)) {
        lw__srcu_arena_give(d);
        return -ENOMEM;
    }
    s->flavour = flavour;
    s->name = NULL;
    __atomic_store_n(&d->srcu, s, __ATOMIC_RELAXED); /* the caller orders init before use */
    __atomic_store_n(&s->pair, first_pair(d), __ATOMIC_RELAXED);
    __atomic_store_n(&s->domain, d, __ATOMIC_RELEASE); /* pairs with lw__srcu_domain_of() */
    lw__srcu_live_add(d);
    return 0;
}

int lw__srcu_init(struct lw_srcu *s, enum lw__srcu_flavour flavour)
{
    if (!s || flavour < LW__SRCU_NORMAL || flavour > LW__SRCU_FAST_UPDOWN)
        return -EINVAL;
    int err = pthread_once(&once, start);
    if (err)
        return -err;
    bool reader_barriers = !fast(flavour) || !lw__srcu_have_membarrier(); /* a filter may have come since start-up */
    lw_futex_lock(&lw__srcu_registry);
    err = make(s, flavour, reader_barriers);
    lw_futex_unlock(&lw__srcu_registry);
    return err;
}

void lw__srcu_named(struct lw_srcu *s, const char *name, int err)
{
    if (err)
        fprintf(stderr, "linewright: LW_DEFINE_SRCU(%s): %s\n", name, strerror(-err));
    s->name = name;
}

/* ---- ending ---- */

#define LW_END_DOMAIN struct lw__srcu_domain
#define LW_END_SUM_UNLOCKS(d, i) lw__srcu_sum(d, i, true)
#define LW_END_SUM_LOCKS(d, i) lw__srcu_sum(d, i, false)
#define LW_END_HEAVY_BARRIER(d) lw__srcu_heavy_barrier(d)
#define LW_END_QUEUED(d) lw__srcu_queued(d)
#define LW_END_WAITERS(d) \
    __atomic_load_n(&(d)->waiters, __ATOMIC_ACQUIRE) /* pairs with the releases in wait.c and callbacks.c */
#include "end.h"

static void say_why_not(const struct lw_srcu *s, int err)
{
    char text[400];
    lw_srcu_describe(s, text, sizeof text);
    fprintf(stderr, "linewright: lw_srcu_cleanup refused (%s): %s\n", strerror(-err), text);
}

/* Under the registry and step_lock. */
static struct lw__srcu_words *unmake(struct lw__srcu_domain *d)
{
    struct lw__srcu_words *cpu = d->cpu;
    lw__srcu_live_remove(d);
    d->cpu = NULL;
    d->requested = 0;
    __atomic_store_n(&d->srcu, NULL,
                     __ATOMIC_RELAXED); /* no other thread uses it any more; queue.c looks under the same locks */
    return cpu;
}

static int cleanup(struct lw_srcu *s, struct lw__srcu_domain *d, bool ordered)
{
    struct lw__srcu_words *cpu = NULL;
    lw_futex_lock(&d->step_lock); /* the worker may be in a step that a poll's cookie asked for */
    lw_futex_lock(&lw__srcu_registry);
    int err = end_refused(d, ordered);
    bool listed = !err && d->listed;
    if (!err)
        cpu = unmake(d);
    lw_futex_unlock(&d->step_lock); /* before the entry is another domain's */
    if (!err && !listed) /* else the holder of the list gives it back */
        lw__srcu_arena_give(d);
    lw_futex_unlock(&lw__srcu_registry);
    if (err) {
        if (lw_verbose())
            say_why_not(s, err);
        return err;
    }
    __atomic_store_n(&s->pair, 2, __ATOMIC_RELAXED);
    __atomic_store_n(&s->domain, NULL, __ATOMIC_RELAXED); /* no other thread uses it any more */
    lw_percpu_free(cpu);
    if (listed && !lw__srcu_worker_exists())
        lw__srcu_give_back_ended();
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
    int err = end_readers(d, true);
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

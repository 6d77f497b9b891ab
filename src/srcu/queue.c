/* SPDX-License-Identifier: MIT */
/* The domains' queues of callbacks: advancing what they wait for, and running them in turns. */
#define _GNU_SOURCE
#include "queue.h"

#include "arena.h"
#include "debug.h"
#include "grace.h"

#include <limits.h>
#include <stdlib.h>

/* What is left of the callbacks being run, and of which domain. Written by the holder of `runner`; a child of fork() has
 * them. */
static struct lw_srcu_head *batch;
static struct lw__srcu_domain *batch_of;
static uint32_t runner; /* lock: held by the thread that runs callbacks */
static struct lw__srcu_event batches; /* a batch has been run */
static __thread bool in_callback __attribute__((tls_model("initial-exec")));

/* Domains that have work: each is on one of the lists, or is the one that is being served. */
struct list {
    struct lw__srcu_domain *first, *last;
};
static struct lw__srcu_domain *listed; /* newest first; any thread pushes, the holder of `runner` takes all */
static struct list now, next; /* to be served in this round, and in the next one; under runner */
static struct lw__srcu_domain *serving; /* under runner */

bool lw__srcu_in_callback(void)
{
    return in_callback;
}

/* ---- domains that have work ---- */

static void append(struct list *l, struct lw__srcu_domain *d)
{
    d->next_listed = NULL;
    if (l->first)
        l->last->next_listed = d;
    else
        l->first = d;
    l->last = d;
}

static struct lw__srcu_domain *first_of(struct list *l)
{
    struct lw__srcu_domain *d = l->first;
    if (d)
        l->first = d->next_listed;
    return d;
}

static void push_listed(struct lw__srcu_domain *d)
{
    d->next_listed = __atomic_load_n(&listed, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&listed, &d->next_listed, d, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ; /* release: pairs with take_listed() */
}

/* Adds those that were listed since, oldest first. Under runner. */
static void take_listed(struct list *l)
{
    struct lw__srcu_domain *d = __atomic_exchange_n(&listed, NULL, __ATOMIC_ACQUIRE),
                           *oldest = NULL; /* pairs with push_listed() */
    while (d) {
        struct lw__srcu_domain *older = d->next_listed;
        d->next_listed = oldest;
        oldest = d;
        d = older;
    }
    while ((d = oldest)) {
        oldest = d->next_listed;
        append(l, d);
    }
}

/* ---- queueing ---- */

bool lw__srcu_push(struct lw__srcu_domain *d, struct lw_srcu_head *head)
{
    struct lw_srcu_head *newest = __atomic_load_n(&d->incoming, __ATOMIC_RELAXED);
    do
        head->next = newest; /* release: pairs with the acquire in take_incoming() */
    while (!__atomic_compare_exchange_n(&d->incoming, &newest, head, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return !newest;
}

/* Moves what was pushed to `arrived`, oldest first, and counts it. Under the registry. */
static void take_incoming(struct lw__srcu_domain *d)
{
    struct lw_srcu_head *newest = __atomic_exchange_n(&d->incoming, NULL, __ATOMIC_ACQUIRE); /* pairs with lw__srcu_push() */
    struct lw_srcu_head *list = newest, *oldest = NULL;
    if (!newest)
        return;
    while (list) {
        struct lw_srcu_head *next = list->next;
        list->next = oldest;
        oldest = list;
        list = next;
        d->taken++;
    }
    if (d->arrived)
        d->arrived_last->next = oldest;
    else
        d->arrived = oldest;
    d->arrived_last = newest;
}

unsigned long lw__srcu_queued(struct lw__srcu_domain *d)
{
    take_incoming(d);
    return d->taken - __atomic_load_n(&d->returned, __ATOMIC_ACQUIRE); /* pairs with run_batch() */
}

unsigned long lw__srcu_count(struct lw__srcu_domain *d, unsigned long *taken)
{
    lw_futex_lock(&lw__srcu_registry);
    unsigned long queued = lw__srcu_queued(d);
    *taken = d->taken;
    lw_futex_unlock(&lw__srcu_registry);
    return queued;
}

/* Under the registry. */
static void take_arrived(struct lw__srcu_domain *d)
{
    take_incoming(d);
    d->waiting = d->arrived;
    d->arrived = NULL;
}

static bool has_work_left(struct lw__srcu_domain *d)
{
    /* Relaxed: whose domain was listed already is seen by the exchange in batch_over(). */
    return d->srcu && (__atomic_load_n(&d->incoming, __ATOMIC_RELAXED) || d->arrived || d->waiting || d->ready ||
                       lw__srcu_requested(d));
}

#define LW_BATCH_DOMAIN struct lw__srcu_domain
#define LW_BATCH_WAITING(d) ((d)->waiting)
#define LW_BATCH_TAKE(d) take_arrived(d)
#define LW_BATCH_COOKIE(d) lw__srcu_cookie(d)
#define LW_BATCH_SET_COOKIE(d, c) ((d)->waiting_cookie = (c))
#define LW_BATCH_SWAP_LISTED(d, v) __atomic_exchange_n(&(d)->listed, v, __ATOMIC_ACQ_REL)
#define LW_BATCH_LIST(d) push_listed(d)
#define LW_BATCH_LEFT(d) has_work_left(d)
#include "batch.h"

void lw__srcu_has_work(struct lw__srcu_domain *d)
{
    batch_list(d);
}

/* ---- running ---- */

static void call_back(struct lw_srcu_head *head)
{
    uintptr_t offset = (uintptr_t)head->fn;
    lw__srcu_debug_returned(head);
    if (offset < LW__SRCU_FREE_OFFSETS)
        free((char *)head - offset);
    else
        head->fn(head);
}

/* No lock that fork() takes is held: fork() would wait for it, and the callback may wait for what the forking thread holds.
 * fork() copies memory as it is at one point of each thread's program: no store is in the child without those that the same
 * thread made before. So the child never has the effects of a callback that is still in its batch. A domain stays alive
 * until its last callback has been counted as returned. */
static void run_batch(void)
{
    struct lw_srcu_head *head;
    while ((head = batch)) {
        batch = head->next; /* before the callback, which may free it */
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* for fork(), as said */
        LW__SRCU_POINT(LW__SRCU_AT_CALLBACK);
        in_callback = true;
        call_back(head);
        in_callback = false;
        __atomic_store_n(&batch_of->returned, batch_of->returned + 1, __ATOMIC_RELEASE); /* pairs with lw__srcu_queued() */
    }
    wake_sleepers(&batches);
}

uint32_t lw__srcu_batches(void)
{
    return __atomic_load_n(&batches.number, __ATOMIC_ACQUIRE); /* before the caller reads `returned`: see run_batch() */
}

void lw__srcu_wait_for_batch(uint32_t seen, uint64_t ns)
{
    wake_sleep(&batches, seen, ns);
}

/* ---- advancing ---- */

/* The cookie that the domain's callbacks and poll requests need next; 0: none. Under the registry. */
static unsigned long needed_cookie(struct lw__srcu_domain *d)
{
    if (!d->srcu)
        return 0;
    batch_next(d);
    unsigned long requested = lw__srcu_requested(d);
    if (d->waiting && (!requested || d->waiting_cookie - requested <= ULONG_MAX / 2))
        return d->waiting_cookie;
    return requested;
}

/* One step of the domain's grace period, unless another thread takes one. Without the registry: a step may call the
 * program's stall hook. Under step_lock the domain does not end. An error stays with the domain, and the next round tries
 * again. */
static int step(struct lw__srcu_domain *d, unsigned long needed, unsigned scans, uint64_t *pause_ns)
{
    int err = 0;
    if (!lw_futex_trylock(&d->step_lock))
        return 0;
    if (__atomic_load_n(&d->srcu, __ATOMIC_RELAXED)) {
        err = lw__srcu_step(d, needed);
        *pause_ns = lw__srcu_pause_ns(d, scans);
    }
    lw_futex_unlock(&d->step_lock);
    return err;
}

int lw__srcu_advance(struct lw__srcu_domain *d, unsigned scans, uint64_t *pause_ns)
{
    *pause_ns = 0;
    lw_futex_lock(&lw__srcu_registry);
    unsigned long needed = needed_cookie(d);
    lw_futex_unlock(&lw__srcu_registry);
    int err = 0;
    if (needed && !lw__srcu_reached(d, needed))
        err = step(d, needed, scans, pause_ns);
    lw_futex_lock(&lw__srcu_registry);
    if (!d->ready && d->waiting && lw__srcu_reached(d, d->waiting_cookie)) {
        d->ready = d->waiting;
        d->waiting = NULL;
    }
    bool more = needed && !lw__srcu_reached(d, needed);
    int state = d->ready ? 1 : err;
    lw_futex_unlock(&lw__srcu_registry);
    if (!more)
        *pause_ns = 0;
    else if (*pause_ns < 5000)
        *pause_ns = 5000;
    return state;
}

/* Takes the domain's first callbacks for run_batch(). Under the registry. */
static void take_batch(struct lw__srcu_domain *d)
{
    struct lw_srcu_head *last = d->ready;
    for (unsigned n = 1; n < LW__SRCU_BATCH && last->next; n++)
        last = last->next;
    batch = d->ready;
    batch_of = d;
    d->ready = last->next;
    last->next = NULL;
}

/* The domain is served. */
static void put_back(struct lw__srcu_domain *d)
{
    lw_futex_lock(&lw__srcu_registry);
    if (!batch_over(d))
        append(&next, d);
    else if (!d->srcu && !d->listed)
        lw__srcu_arena_give(d); /* lw_srcu_cleanup() left it to this */
    serving = NULL;
    lw_futex_unlock(&lw__srcu_registry);
}

/* True: callbacks have run. Under runner. */
static bool serve(struct lw__srcu_domain *d, unsigned scans, uint64_t *soonest)
{
    uint64_t pause;
    bool ready = lw__srcu_advance(d, scans, &pause) > 0;
    if (ready) {
        lw_futex_lock(&lw__srcu_registry);
        take_batch(d);
        lw_futex_unlock(&lw__srcu_registry);
        run_batch();
    } else if (pause && pause < *soonest) {
        *soonest = pause;
    }
    put_back(d);
    return ready;
}

uint64_t lw__srcu_serve_all(unsigned scans)
{
    uint64_t soonest = LW_FUTEX_FOREVER;
    bool ran = false;
    lw_futex_lock(&runner);
    run_batch(); /* in a child of fork(): the rest of the batch that its parent was running */
    now = next;
    next.first = NULL;
    take_listed(&now);
    while ((serving = first_of(&now))) /* a callback may fork: the child makes the lists anew */
        ran |= serve(serving, scans, &soonest);
    lw_futex_unlock(&runner);
    return ran ? 0 : soonest;
}

void lw__srcu_give_back_ended(void)
{
    struct lw__srcu_domain *d;
    if (in_callback || !lw_futex_trylock(&runner))
        return; /* its holder does it */
    now = next;
    next.first = NULL;
    take_listed(&now);
    while ((d = first_of(&now)))
        put_back(d);
    lw_futex_unlock(&runner);
}

static struct lw_srcu_head *joined(struct lw_srcu_head *first, struct lw_srcu_head *second)
{
    struct lw_srcu_head *last = first;
    if (!first)
        return second;
    while (last->next)
        last = last->next;
    last->next = second;
    return first;
}

void lw__srcu_run_all(struct lw__srcu_domain *d)
{
    lw_futex_lock(&runner);
    run_batch();
    for (bool more = true; more;) {
        lw_futex_lock(&lw__srcu_registry);
        d->ready = joined(d->ready, d->waiting);
        take_incoming(d);
        d->ready = joined(d->ready, d->arrived);
        d->waiting = d->arrived = NULL;
        more = d->ready;
        if (more)
            take_batch(d);
        lw_futex_unlock(&lw__srcu_registry);
        run_batch();
    }
    lw_futex_unlock(&runner);
}

/* ---- fork ---- */

static unsigned long length(const struct lw_srcu_head *list)
{
    unsigned long n = 0;
    for (; list; list = list->next)
        n++;
    return n;
}

/* What was taken is counted anew: a thread that the child does not have may have been in a callback. Where a callback forks,
 * the child's one thread runs the rest of the batch, and then puts back the domain that it serves. */
void lw__srcu_queue_after_fork(void)
{
    struct lw__srcu_domain *d;
    runner = in_callback;
    batches.sleepers = 0;
    if (!in_callback)
        serving = NULL;
    listed = now.first = next.first = NULL;
    for (unsigned i = 0; (d = lw__srcu_arena_at(i)); i++) {
        unsigned long queued = length(d->arrived) + length(d->waiting) + length(d->ready);
        if (d == batch_of)
            queued += length(batch) + in_callback;
        d->returned = d->taken - queued;
        d->listed = d == serving || has_work_left(d);
        if (d->listed && d != serving)
            append(&next, d);
    }
}

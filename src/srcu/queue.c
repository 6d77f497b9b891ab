/* The domains' queues of callbacks: advancing what they wait for, and running them in turns. */
#define _GNU_SOURCE
#include "queue.h"

#include "debug.h"
#include "grace.h"

#include <limits.h>
#include <stdlib.h>

/* What is left of the callbacks being run, and of which domain. Written by the holder of `runner`; a child of fork() has them. */
static struct lw_srcu_head *batch;
static struct lw__srcu_domain *batch_of;
static uint32_t runner; /* lock: held by the thread that runs callbacks */
static uint32_t batches; /* futex: changes when a batch has been run */
static uint32_t batch_sleepers;
static __thread bool in_callback __attribute__((tls_model("initial-exec")));
static __thread bool in_step __attribute__((tls_model("initial-exec"))); /* this thread holds the registry */

bool lw__srcu_in_callback(void)
{
    return in_callback;
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
    if (!in_step)
        lw_futex_lock(&lw__srcu_registry);
    unsigned long queued = lw__srcu_queued(d);
    *taken = d->taken;
    if (!in_step)
        lw_futex_unlock(&lw__srcu_registry);
    return queued;
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

/* No lock that fork() takes is held: fork() would wait for it, and the callback may wait for what the forking thread holds. fork()
 * copies memory as it is at one point of each thread's program: no store is in the child without those that the same thread
 * made before. So the child never has the effects of a callback that is still in its batch. A domain stays alive until its
 * last callback has been counted as returned. */
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
    /* Either this sees the sleeper that lw__srcu_wait_for_batch() has counted, or the sleeper's kernel sees the new number: both
     * are sequentially consistent. */
    __atomic_fetch_add(&batches, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&batch_sleepers, __ATOMIC_SEQ_CST))
        lw_futex_wake_all(&batches);
}

uint32_t lw__srcu_batches(void)
{
    return __atomic_load_n(&batches, __ATOMIC_ACQUIRE); /* before the caller reads `returned` */
}

void lw__srcu_wait_for_batch(uint32_t seen, uint64_t ns)
{
    __atomic_fetch_add(&batch_sleepers, 1, __ATOMIC_SEQ_CST); /* pairs with run_batch() */
    lw_futex_wait(&batches, seen, ns);
    __atomic_fetch_sub(&batch_sleepers, 1, __ATOMIC_RELAXED);
}

/* ---- advancing ---- */

/* The cookie that the domain's callbacks and poll requests need next; 0: none. */
static unsigned long needed_cookie(struct lw__srcu_domain *d)
{
    if (!d->waiting) {
        take_incoming(d);
        d->waiting = d->arrived;
        d->arrived = NULL;
        if (d->waiting)
            d->waiting_cookie = lw__srcu_cookie(d);
    }
    unsigned long requested = lw__srcu_requested(d);
    if (d->waiting && (!requested || d->waiting_cookie - requested <= ULONG_MAX / 2))
        return d->waiting_cookie;
    return requested;
}

static int advance(struct lw__srcu_domain *d, unsigned scans, uint64_t *pause_ns)
{
    unsigned long needed = needed_cookie(d);
    bool more = needed && !lw__srcu_reached(d, needed);
    int err = 0;
    *pause_ns = 0;
    if (more && lw_futex_trylock(&d->step_lock)) {
        in_step = true;
        err = lw__srcu_step(d, needed); /* an error stays with the domain, and the next round tries again */
        in_step = false;
        *pause_ns = lw__srcu_pause_ns(d, scans);
        lw_futex_unlock(&d->step_lock);
        more = !lw__srcu_reached(d, needed);
    }
    if (!d->ready && d->waiting && lw__srcu_reached(d, d->waiting_cookie)) {
        d->ready = d->waiting;
        d->waiting = NULL;
    }
    if (more && *pause_ns < 5000)
        *pause_ns = 5000;
    return d->ready ? 1 : err;
}

int lw__srcu_advance(struct lw__srcu_domain *d, unsigned scans, uint64_t *pause_ns)
{
    lw_futex_lock(&lw__srcu_registry);
    int state = advance(d, scans, pause_ns);
    lw_futex_unlock(&lw__srcu_registry);
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

/* Advances the domains that have not had their turn in this round, until callbacks of one have run; then true, and the walk has to
 * begin again, because callbacks may make and end domains. Under the registry, but for the callbacks. */
static bool serve_next(unsigned round, unsigned scans, uint64_t *soonest)
{
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        uint64_t pause = 0;
        if (d->round == round)
            continue;
        d->round = round;
        if (advance(d, scans, &pause) > 0) {
            take_batch(d);
            lw_futex_unlock(&lw__srcu_registry);
            run_batch();
            lw_futex_lock(&lw__srcu_registry);
            return true;
        }
        if (pause && pause < *soonest)
            *soonest = pause;
    }
    return false;
}

uint64_t lw__srcu_serve_all(unsigned scans)
{
    static unsigned round; /* under runner */
    uint64_t soonest = LW_FUTEX_FOREVER;
    lw_futex_lock(&runner);
    run_batch(); /* in a child of fork(): the rest of the batch that its parent was running */
    lw_futex_lock(&lw__srcu_registry);
    round++;
    bool ran = false;
    while (serve_next(round, scans, &soonest))
        ran = true;
    lw_futex_unlock(&lw__srcu_registry);
    lw_futex_unlock(&runner);
    return ran ? 0 : soonest;
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

/* What was taken is counted anew: a thread that the child does not have may have been in a callback. Where a callback forks, the
 * child's one thread runs the rest of the batch. */
void lw__srcu_queue_after_fork(void)
{
    runner = in_callback;
    batch_sleepers = 0;
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        unsigned long queued = length(d->arrived) + length(d->waiting) + length(d->ready);
        if (d == batch_of)
            queued += length(batch) + in_callback;
        d->returned = d->taken - queued;
    }
}

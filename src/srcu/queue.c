/* The domains' queues of callbacks: advancing what they wait for, and running them in turns. */
#define _GNU_SOURCE
#include "queue.h"

#include "debug.h"
#include "grace.h"

#include <limits.h>
#include <stdlib.h>

static struct lw_srcu_head
    *batch; /* what is left of the callbacks being run, under the registry: a child of fork() has it */
static struct lw__srcu_domain *batch_of;
static uint32_t runner; /* lock: held by the thread that runs callbacks */
static uint32_t batches; /* futex: changes when a batch has been run */
static uint32_t batch_sleepers;
static __thread bool in_callback __attribute__((tls_model("initial-exec")));

bool lw__srcu_in_callback(void)
{
    return in_callback;
}

bool lw__srcu_push(struct lw__srcu_domain *d, struct lw_srcu_head *head)
{
    __atomic_fetch_add(&d->called, 1, __ATOMIC_RELAXED); /* before the push: never less than what is queued */
    struct lw_srcu_head *newest = __atomic_load_n(&d->incoming, __ATOMIC_RELAXED);
    do
        head->next = newest; /* release: pairs with the acquire in lw__srcu_advance() */
    while (!__atomic_compare_exchange_n(&d->incoming, &newest, head, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return !newest;
}

/* ---- running ---- */

static struct lw_srcu_head *next_of_batch(void)
{
    lw_futex_lock(&lw__srcu_registry);
    struct lw_srcu_head *head = batch;
    if (head)
        batch = head->next; /* before the callback, which may free it */
    lw_futex_unlock(&lw__srcu_registry);
    return head;
}

static void call_back(struct lw_srcu_head *head)
{
    uintptr_t offset = (uintptr_t)head->fn;
    lw__srcu_debug_returned(head);
    if (offset < LW__SRCU_FREE_OFFSETS)
        free((char *)head - offset);
    else
        head->fn(head);
}

/* No lock that fork() takes is held while a callback runs: fork() would wait for it, and the callback may wait for what the
 * forking thread holds. A domain stays alive until its last callback has been counted as returned. */
static void run_batch(void)
{
    struct lw_srcu_head *head;
    while ((head = next_of_batch())) {
        LW__SRCU_POINT(LW__SRCU_AT_CALLBACK);
        in_callback = true;
        call_back(head);
        in_callback = false;
        __atomic_fetch_add(&batch_of->returned, 1, __ATOMIC_RELEASE); /* pairs with lw__srcu_queued() */
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

static struct lw_srcu_head *reversed(struct lw_srcu_head *list)
{
    struct lw_srcu_head *out = NULL;
    while (list) {
        struct lw_srcu_head *next = list->next;
        list->next = out;
        out = list;
        list = next;
    }
    return out;
}

/* The cookie that the domain's callbacks and poll requests need next; 0: none. */
static unsigned long needed_cookie(struct lw__srcu_domain *d)
{
    if (!d->waiting) {
        d->waiting = reversed(__atomic_exchange_n(&d->incoming, NULL, __ATOMIC_ACQUIRE)); /* pairs with lw__srcu_push() */
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
        err = lw__srcu_step(d, needed); /* an error stays with the domain, and the next round tries again */
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
        d->ready = joined(d->ready,
                          reversed(__atomic_exchange_n(&d->incoming, NULL, __ATOMIC_ACQUIRE))); /* as in needed_cookie() */
        d->waiting = NULL;
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

/* What is queued is counted anew: a thread that the child does not have may have been between counting and queueing, or in a
 * callback. Where a callback forks, the child's one thread runs the rest of the batch. */
void lw__srcu_queue_after_fork(void)
{
    runner = in_callback;
    batch_sleepers = 0;
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        unsigned long queued = length(d->incoming) + length(d->waiting) + length(d->ready);
        if (d == batch_of)
            queued += length(batch) + in_callback;
        d->returned = d->called - queued;
    }
}

/* SPDX-License-Identifier: MIT */
/* Callbacks after a grace period: queueing them, and waiting for them. */
#define _GNU_SOURCE
#include "debug.h"
#include "queue.h"
#include "records.h"
#include "worker.h"

#include <errno.h>

/* The functions themselves, also in a library compiled with LW_DEBUG. */
#undef lw_srcu_call
#undef lw__srcu_call_free

static int call(struct lw_srcu *s, struct lw_srcu_head *head, void (*fn)(struct lw_srcu_head *))
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d || !head)
        return -EINVAL;
    int err = lw__srcu_worker_ensure();
    if (err)
        return err;
    head->fn = fn;
    if (lw__srcu_push(d, head)) { /* the first of a batch: the worker takes all that are queued by then */
        lw__srcu_has_work(d);
        (void)lw__srcu_worker_wake();
    }
    return 0;
}

int lw_srcu_call(struct lw_srcu *s, struct lw_srcu_head *head, void (*fn)(struct lw_srcu_head *))
{
    return fn ? call(s, head, fn) : -EINVAL;
}

int lw__srcu_call_free(struct lw_srcu *s, struct lw_srcu_head *head, size_t offset)
{
    if (offset >= LW__SRCU_FREE_OFFSETS)
        return -EINVAL;
    return call(s, head, (void (*)(struct lw_srcu_head *))offset);
}

/* The worker may be missing, or unable to end grace periods. Then the calling thread does its work. 0, or the error of a
 * domain whose grace periods this thread cannot end either. */
static int help(struct lw__srcu_domain *d, unsigned scans, uint64_t *pause_ns)
{
    *pause_ns = 50000000; /* the worker wakes the caller; not for ever, because errors do not */
    if (!lw__srcu_worker_exists()) {
        uint64_t pause = lw__srcu_serve_all(scans);
        *pause_ns = pause < *pause_ns ? pause : *pause_ns;
        return -__atomic_load_n(&d->error, __ATOMIC_RELAXED);
    }
    if (!__atomic_load_n(&d->error, __ATOMIC_RELAXED))
        return 0;
    int state = lw__srcu_advance(d, scans, pause_ns);
    if (state > 0) /* ready: for the worker */
        (void)lw__srcu_worker_wake();
    if (state > 0 || !*pause_ns) /* or running */
        *pause_ns = 50000000;
    return state < 0 ? state : 0;
}

static int wait_for_callbacks(struct lw__srcu_domain *d, unsigned long last)
{
    for (unsigned scans = 0;; scans++) {
        uint32_t seen = lw__srcu_batches();
        uint64_t pause;
        /* Acquire: pairs with run_batch(). What the callbacks did comes before the return. */
        if (__atomic_load_n(&d->returned, __ATOMIC_ACQUIRE) - last <= ~0ul / 2)
            return 0;
        int err = help(d, scans, &pause);
        if (err)
            return err;
        if (pause)
            lw__srcu_wait_for_batch(seen, pause);
    }
}

/* Callbacks return in the order in which they were queued, so it is enough to count them. */
int lw_srcu_barrier(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d)
        return -EINVAL;
    lw__srcu_debug_waiting(s, __func__);
    if (lw__srcu_in_callback() || lw__srcu_would_wait_for_itself(d))
        return -EDEADLK;
    int saved = errno;
    __atomic_fetch_add(&d->waiters, 1, __ATOMIC_RELAXED);
    unsigned long last;
    bool queued = lw__srcu_count(d, &last); /* every push that is ordered before this call */
    __atomic_store_n(&d->error, 0, __ATOMIC_RELAXED); /* left by an earlier step; the next step sets it again */
    if (queued)
        (void)lw__srcu_worker_wake(); /* without a worker, help() does its work */
    int err = wait_for_callbacks(d, last);
    __atomic_fetch_sub(&d->waiters, 1, __ATOMIC_RELEASE); /* pairs with end_refused(): last access of the domain */
    errno = saved;
    return err;
}

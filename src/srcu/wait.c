/* SPDX-License-Identifier: MIT */
/* Waiting for grace periods: one waiter advances them for all others, which sleep; and polling. */
#define _GNU_SOURCE
#include "debug.h"
#include "grace.h"
#include "queue.h"
#include "records.h"
#include "worker.h"

#include "../common/clock.h"

#include <errno.h>
#include <sched.h>

#define NEVER UINT64_MAX

/* Nanoseconds until `deadline`; 0: it has passed. LW_FUTEX_FOREVER: there is none. */
static uint64_t left_until(uint64_t deadline)
{
    if (deadline == NEVER)
        return LW_FUTEX_FOREVER;
    uint64_t now = now_ns();
    return now < deadline ? deadline - now : 0;
}

/* Sleeps until the number is no longer `seen`, or for `ns`. */
static void sleep_on(struct lw__srcu_domain *d, uint32_t seen, uint64_t ns)
{
    LW__SRCU_POINT(LW__SRCU_AT_SLEEP);
    wake_sleep(&d->check, seen, ns);
}

/* Advances grace periods until `cookie` is reached. The caller holds `driver`. */
static int drive(struct lw__srcu_domain *d, unsigned long cookie, uint64_t deadline)
{
    for (unsigned scans = 0;; scans++) {
        uint32_t seen = __atomic_load_n(&d->check.number, __ATOMIC_RELAXED); /* the step's barrier comes behind it */
        lw_futex_lock(&d->step_lock);
        unsigned long before = d->seq;
        int err = lw__srcu_step(d, cookie);
        bool ended = d->seq != before && !(d->seq & 1);
        uint64_t pause = lw__srcu_pause_ns(d, scans);
        lw_futex_unlock(&d->step_lock);
        if (lw__srcu_reached(d, cookie))
            return 0;
        if (err)
            return err;
        uint64_t left = left_until(deadline);
        if (!left)
            return -ETIMEDOUT;
        if (ended)
            scans = 0;
        else if (pause)
            sleep_on(d, seen, pause < left ? pause : left);
        else
            sched_yield();
    }
}

static int wait_for(struct lw__srcu_domain *d, unsigned long cookie, bool expedited, uint64_t deadline)
{
    static __thread bool waiting __attribute__((tls_model("initial-exec")));
    int err = 0;
    if (waiting) /* in a signal handler or a stall hook: the wait that it interrupted may hold what this one needs */
        return -EDEADLK;
    waiting = true;
    __atomic_fetch_add(&d->waiters, 1, __ATOMIC_RELAXED); /* who ends the domain knows that no call begins meanwhile */
    if (expedited) {
        __atomic_fetch_add(&d->expedited, 1, __ATOMIC_RELAXED);
        wake_sleepers(&d->check); /* a driver in a long pause scans again and pauses for less from then on */
    }
    while (!err) {
        uint32_t seen = __atomic_load_n(&d->check.number, __ATOMIC_ACQUIRE); /* pairs with wake_sleepers() */
        if (lw__srcu_reached(d, cookie))
            break;
        if (lw_futex_trylock(&d->driver)) {
            err = drive(d, cookie, deadline);
            __atomic_store_n(&d->driver, 0, __ATOMIC_RELEASE); /* pairs with the acquire of the next driver */
            wake_sleepers(&d->check);
        } else {
            uint64_t left = left_until(deadline);
            if (left)
                sleep_on(d, seen, left);
            else
                err = -ETIMEDOUT;
        }
    }
    if (expedited)
        __atomic_fetch_sub(&d->expedited, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&d->waiters, 1, __ATOMIC_RELEASE); /* pairs with end_refused(): last access of the domain */
    waiting = false;
    return err;
}

static int synchronize(struct lw_srcu *s, bool expedited, uint64_t deadline, const char *where)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d)
        return -EINVAL;
    lw__srcu_debug_waiting(s, where);
    if (lw__srcu_would_wait_for_itself(d))
        return -EDEADLK;
    int saved = errno;
    int err = wait_for(d, lw__srcu_cookie(d), expedited, deadline);
    errno = saved;
    return err;
}

int lw_srcu_synchronize(struct lw_srcu *s)
{
    return synchronize(s, false, NEVER, __func__);
}

int lw_srcu_synchronize_expedited(struct lw_srcu *s)
{
    return synchronize(s, true, NEVER, __func__);
}

int lw_srcu_synchronize_timeout(struct lw_srcu *s, uint64_t ns)
{
    uint64_t now = now_ns();
    return synchronize(s, false, ns < NEVER - now ? now + ns : NEVER, __func__);
}

int lw_srcu_cond_synchronize(struct lw_srcu *s, unsigned long cookie)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d || !cookie)
        return -EINVAL;
    if (lw__srcu_reached(d, cookie))
        return 0;
    lw__srcu_debug_waiting(s, __func__);
    if (lw__srcu_would_wait_for_itself(d))
        return -EDEADLK;
    int saved = errno;
    int err = wait_for(d, cookie, false, NEVER);
    errno = saved;
    return err;
}

int lw_srcu_on_stall(struct lw_srcu *s, unsigned after_ms, lw_srcu_stall_hook hook, void *argument)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d)
        return -EINVAL;
    lw_futex_lock(&d->step_lock);
    d->stall_ms = after_ms;
    d->stall_hook = hook;
    d->stall_argument = argument;
    d->next_report_ms = after_ms;
    lw_futex_unlock(&d->step_lock);
    return 0;
}

/* ---- polling ---- */

unsigned long lw_srcu_get_state(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    return d ? lw__srcu_cookie(d) : 0;
}

unsigned long lw_srcu_start_poll(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d)
        return 0;
    unsigned long cookie = lw__srcu_cookie(d);
    lw__srcu_request(d, cookie);
    lw__srcu_has_work(d);
    return lw__srcu_worker_wake() ? 0 : cookie;
}

/* Without a worker, polling advances what was requested; it does not wait. */
static void step_for_poll(struct lw__srcu_domain *d)
{
    unsigned long requested = lw__srcu_requested(d);
    if (requested && lw_futex_trylock(&d->step_lock)) {
        (void)lw__srcu_step(d, requested); /* an error stays with the domain */
        lw_futex_unlock(&d->step_lock);
    }
}

bool lw_srcu_poll(struct lw_srcu *s, unsigned long cookie)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    if (!d || !cookie)
        return false;
    if (!lw__srcu_reached(d, cookie) && !lw__srcu_worker_exists())
        step_for_poll(d);
    return lw__srcu_reached(d, cookie);
}

/* Waiting for grace periods: the step machine driven by one waiter for all, polling, and reports of stuck readers. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* Readers flip between two neighbouring words, or between 2 and 3: one exclusive or either way. */
unsigned lw__srcu_index_now(const struct lw__srcu_domain *d)
{
    uintptr_t pair = __atomic_load_n(&d->srcu->pair, __ATOMIC_RELAXED); /* written under step_lock only */
    return (unsigned)(pair < LW__SRCU_FIRST ? pair : pair / LW__SRCU_WORD) & 1;
}

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* tens of cycles; YIELD takes none on most cores */
#endif
}

static void flip(struct lw__srcu_domain *d)
{
    uintptr_t pair = __atomic_load_n(&d->srcu->pair, __ATOMIC_RELAXED);
    /* Relaxed: readers may take either index at any time, the next scan's barrier orders what matters. */
    __atomic_store_n(&d->srcu->pair, pair ^ (pair < LW__SRCU_FIRST ? 1 : LW__SRCU_WORD), __ATOMIC_RELAXED);
}

/* Readers that had taken the index before they could see the flip count on it a moment later. Where they do, the scan's barrier
 * would be spent on finding them: so a few looks, tens of ns apart, until none comes. Proves nothing; the scan does. */
static void flip_and_let_see(struct lw__srcu_domain *d)
{
    if (d->reader_barriers) { /* looking again costs no more than this would */
        flip(d);
        return;
    }
    unsigned index = lw__srcu_index_now(d);
    unsigned long seen = lw__srcu_sum(d, index, false);
    flip(d);
    lw__srcu_full_fence(); /* the flip has left this CPU; orders nothing that the scan relies on */
    for (unsigned looks = 0; looks < 8; looks++) {
        unsigned long now = lw__srcu_sum(d, index, false);
        if (now == seen)
            return;
        seen = now;
        for (unsigned i = 0; i < 4; i++)
            cpu_relax();
    }
}

#define LW_GP_DOMAIN struct lw__srcu_domain
#define LW_GP_SUM_UNLOCKS(d, i) lw__srcu_sum(d, i, true)
#define LW_GP_SUM_LOCKS(d, i) lw__srcu_sum(d, i, false)
#define LW_GP_HEAVY_BARRIER(d) lw__srcu_heavy_barrier(d)
#define LW_GP_FENCE() lw__srcu_full_fence()
#define LW_GP_INDEX(d) lw__srcu_index_now(d)
#define LW_GP_FLIP(d) flip_and_let_see(d)
#define LW_GP_LOAD_SEQ(d) __atomic_load_n(&(d)->seq, __ATOMIC_RELAXED)
#define LW_GP_STORE_SEQ(d, v) __atomic_store_n(&(d)->seq, v, __ATOMIC_RELEASE) /* release: pairs with lw__srcu_reached() */
#define LW_GP_POINT(name) LW__SRCU_POINT(LW__SRCU_AT_##name)
#include "gp.h"

/* ---- states ---- */

bool lw__srcu_reached(struct lw__srcu_domain *d, unsigned long state)
{
    /* Acquire: what the caller does next comes after the scans. Pairs with STORE_SEQ in gp_step(). */
    return gp_passed(__atomic_load_n(&d->seq, __ATOMIC_ACQUIRE), state);
}

/* ---- stuck readers ---- */

static void report(struct lw__srcu_domain *d, uint64_t age_ms)
{
    char text[4096];
    size_t at =
        (size_t)snprintf(text, sizeof text, "grace period of domain %p%s%s not over after %llu ms (scan %u, index %u)\n",
                         (void *)d->srcu, d->srcu->name ? " " : "", d->srcu->name ? d->srcu->name : "",
                         (unsigned long long)age_ms, d->phase, lw__srcu_index_now(d) ^ 1);
    lw__srcu_counts(d, text + at, sizeof text - at);
    if (d->stall_hook)
        d->stall_hook(d->srcu, (unsigned)age_ms, text, d->stall_argument);
    else if (lw__srcu_verbose())
        fprintf(stderr, "linewright: %s", text);
}

static void maybe_report(struct lw__srcu_domain *d)
{
    uint64_t age_ms = (lw__srcu_now_ns() - d->started_ns) / 1000000;
    if (!d->stall_ms || age_ms < d->next_report_ms)
        return;
    d->next_report_ms = 2 * age_ms;
    report(d, age_ms);
}

int lw_srcu_on_stall(struct lw_srcu *s, unsigned after_ms, lw_srcu_stall_hook hook, void *argument)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d)
        return -EINVAL;
    lw__srcu_lock_word(&d->step_lock);
    d->stall_ms = after_ms;
    d->stall_hook = hook;
    d->stall_argument = argument;
    d->next_report_ms = after_ms;
    lw__srcu_unlock_word(&d->step_lock);
    return 0;
}

/* ---- moving on ---- */

static void wake_waiters(struct lw__srcu_domain *d)
{
    /* Either this sees the sleeper that sleep_on() has counted, or the sleeper's kernel sees the new generation and does not
     * let it sleep: both are total. */
    __atomic_fetch_add(&d->generation, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&d->sleepers, __ATOMIC_SEQ_CST))
        lw__srcu_wake_all(&d->generation);
}

static void sleep_on(struct lw__srcu_domain *d, uint32_t generation, uint64_t ns)
{
    LW__SRCU_POINT(LW__SRCU_AT_SLEEP);
    __atomic_fetch_add(&d->sleepers, 1, __ATOMIC_SEQ_CST); /* pairs with wake_waiters() */
    lw__srcu_sleep(&d->generation, generation, ns);
    __atomic_fetch_sub(&d->sleepers, 1, __ATOMIC_RELAXED); /* before this thread leaves `waiters` */
}

int lw__srcu_step(struct lw__srcu_domain *d, unsigned long wish)
{
    if (d->phase == LW__SRCU_IDLE) {
        if (gp_passed(d->seq, wish))
            return 0;
        d->started_ns = lw__srcu_now_ns();
        d->next_report_ms = d->stall_ms;
    }
    int ended = gp_step(d);
    if (ended < 0) {
        /* Taken away by a seccomp filter, say. Readers without barriers cannot be waited for by anything else that is as
         * certain, so this grace period never ends; the next look tries again. */
        if (!__atomic_load_n(&d->error, __ATOMIC_RELAXED) && lw__srcu_verbose())
            fprintf(stderr, "linewright: membarrier refused: grace periods of domain %p cannot end\n", (void *)d->srcu);
        __atomic_store_n(&d->error, -ended, __ATOMIC_RELAXED);
        return ended;
    }
    __atomic_store_n(&d->error, 0, __ATOMIC_RELAXED);
    if (ended)
        wake_waiters(d);
    else
        maybe_report(d);
    return 0;
}

/* An eighth of the grace period's age, so that it lasts at most that much longer than its readers. */
uint64_t lw__srcu_pause_ns(struct lw__srcu_domain *d, unsigned looks)
{
    if (looks < 3)
        return 0;
    uint64_t pause = (lw__srcu_now_ns() - d->started_ns) / 8;
    uint64_t most = __atomic_load_n(&d->hurried, __ATOMIC_RELAXED) ? 50000 : 4000000;
    return pause < 5000 ? 5000 : pause > most ? most : pause;
}

/* Looks until `state` is reached, for everybody. */
static int drive(struct lw__srcu_domain *d, unsigned long state)
{
    for (unsigned looks = 0;; looks++) {
        uint32_t generation = __atomic_load_n(&d->generation, __ATOMIC_ACQUIRE); /* pairs with wake_waiters() */
        lw__srcu_lock_word(&d->step_lock);
        unsigned long before = d->seq;
        int err = lw__srcu_step(d, state);
        bool moved = d->seq != before && !(d->seq & 1);
        uint64_t pause = lw__srcu_pause_ns(d, looks);
        lw__srcu_unlock_word(&d->step_lock);
        if (lw__srcu_reached(d, state))
            return 0;
        if (err)
            return err;
        if (moved)
            looks = 0;
        else if (pause)
            sleep_on(d, generation, pause);
        else
            sched_yield();
    }
}

static int wait_for(struct lw__srcu_domain *d, unsigned long state, bool expedited)
{
    int err = 0;
    __atomic_fetch_add(&d->waiters, 1, __ATOMIC_SEQ_CST); /* before the generation is read: see wake_waiters() */
    if (expedited) {
        __atomic_fetch_add(&d->hurried, 1, __ATOMIC_RELAXED);
        wake_waiters(d); /* a driver in a long pause looks again, and finds somebody in a hurry */
    }
    while (!err) {
        uint32_t generation = __atomic_load_n(&d->generation, __ATOMIC_SEQ_CST);
        if (lw__srcu_reached(d, state))
            break;
        if (lw__srcu_trylock_word(&d->driver)) {
            err = drive(d, state);
            __atomic_store_n(&d->driver, 0, __ATOMIC_RELEASE); /* pairs with the acquire of the next driver */
            wake_waiters(d);
        } else {
            sleep_on(d, generation, FUTEX_FOREVER);
        }
    }
    if (expedited)
        __atomic_fetch_sub(&d->hurried, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&d->waiters, 1, __ATOMIC_RELEASE); /* pairs with unlink_domain(): not touched any more */
    return err;
}

static int synchronize(struct lw_srcu *s, bool expedited, const char *where)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d)
        return -EINVAL;
    lw__srcu_debug_waiting(s, where);
    int saved = errno;
    int err = wait_for(d, gp_state(d), expedited);
    errno = saved;
    return err;
}

int lw_srcu_synchronize(struct lw_srcu *s)
{
    return synchronize(s, false, __func__);
}

int lw_srcu_synchronize_expedited(struct lw_srcu *s)
{
    return synchronize(s, true, __func__);
}

/* ---- polling ---- */

unsigned long lw_srcu_get_state(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    return d ? gp_state(d) : 0;
}

unsigned long lw_srcu_start_poll(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d)
        return 0;
    unsigned long state = gp_state(d);
    unsigned long wanted = __atomic_load_n(&d->wanted, __ATOMIC_RELAXED);
    /* Release: pairs with the worker's acquire. Only ever raised, also against others. */
    while ((!wanted || !gp_passed(wanted, state)) && /* 0: nothing is wanted; not a state, whatever the number is */
           !__atomic_compare_exchange_n(&d->wanted, &wanted, state, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return lw__srcu_worker_wake() ? 0 : state;
}

bool lw_srcu_poll(struct lw_srcu *s, unsigned long state)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    return d && state && lw__srcu_reached(d, state);
}

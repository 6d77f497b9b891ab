/* SPDX-License-Identifier: MIT */
/* Advancing a domain's grace period: the step machine of gp.h on the library's counters, and the report of one that does not
 * end. */
#define _GNU_SOURCE
#include "grace.h"

#include "../common/clock.h"
#include "../common/environment.h"
#include "describe.h"
#include "membarrier.h"
#include "records.h"

#include <linewright/relax.h>

#include <errno.h>
#include <stdio.h>

static void flip(struct lw__srcu_domain *d)
{
    uintptr_t pair = __atomic_load_n(&d->srcu->pair, __ATOMIC_RELAXED);
    /* Relaxed: readers may take either index at any time; the next scan's barrier orders what matters. */
    __atomic_store_n(&d->srcu->pair, pair ^ (pair < LW__SRCU_FIRST ? 1 : LW__SRCU_WORD), __ATOMIC_RELAXED);
}

/* Readers that loaded the index before they could see the flip count on it a moment later. An early membarrier would only
 * reveal them and would have to be repeated. So this polls the sum, tens of nanoseconds apart, until it stops changing. That
 * proves nothing; the scan does. */
static void flip_and_settle(struct lw__srcu_domain *d)
{
    if (d->reader_barriers) { /* another scan costs no more than the polling would */
        flip(d);
        return;
    }
    unsigned index = lw__srcu_index_now(d);
    unsigned long seen = lw__srcu_sum(d, index, false);
    flip(d);
    if (seen == d->entered) /* no reader has entered during the first scan: probably none is about to */
        return;
    lw_full_fence(); /* the flip has left this CPU; orders nothing that the scan relies on */
    /* Three equal sums: each takes the line from a reader that counts, who needs longer to take it back than two of them
     * last. */
    for (unsigned polls = 0, equal = 0; polls < 16 && equal < 2; polls++) {
        for (unsigned i = 0; i < 4; i++)
            lw_relax();
        unsigned long now = lw__srcu_sum(d, index, false);
        equal = now == seen ? equal + 1 : 0;
        seen = now;
    }
}

#define LW_GP_DOMAIN struct lw__srcu_domain
#define LW_GP_SUM_UNLOCKS(d, i) lw__srcu_sum(d, i, true)
#define LW_GP_SUM_LOCKS(d, i) lw__srcu_sum(d, i, false)
#define LW_GP_HEAVY_BARRIER(d) lw__srcu_heavy_barrier(d)
#define LW_GP_FENCE() lw_full_fence()
#define LW_GP_INDEX(d) lw__srcu_index_now(d)
#define LW_GP_FLIP(d) flip_and_settle(d)
#define LW_GP_LOAD_SEQ(d) __atomic_load_n(&(d)->seq, __ATOMIC_RELAXED)
#define LW_GP_STORE_SEQ(d, v) __atomic_store_n(&(d)->seq, v, __ATOMIC_RELEASE) /* release: pairs with lw__srcu_reached() */
#define LW_GP_POINT(name) LW__SRCU_POINT(LW__SRCU_AT_##name)
#ifndef LW_SRCU_GP /* the mutants' */
#define LW_SRCU_GP "gp.h"
#endif
#include LW_SRCU_GP

unsigned long lw__srcu_cookie(struct lw__srcu_domain *d)
{
    return gp_cookie(d);
}

bool lw__srcu_reached(struct lw__srcu_domain *d, unsigned long cookie)
{
    /* Acquire: what the caller does next comes after the scans. Pairs with STORE_SEQ in gp_step(). */
    return gp_passed(__atomic_load_n(&d->seq, __ATOMIC_ACQUIRE), cookie);
}

void lw__srcu_request(struct lw__srcu_domain *d, unsigned long cookie)
{
    unsigned long requested = __atomic_load_n(&d->requested, __ATOMIC_RELAXED);
    /* Relaxed, as in lw__srcu_requested(): a number alone, and gp_cookie() and lw__srcu_reached() order what it stands for.
     * Concurrent callers only ever raise it. 0 means no request, whatever seq is. */
    while ((!requested || !gp_passed(requested, cookie)) &&
           !__atomic_compare_exchange_n(&d->requested, &requested, cookie, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

unsigned long lw__srcu_requested(struct lw__srcu_domain *d)
{
    unsigned long requested = __atomic_load_n(&d->requested, __ATOMIC_RELAXED);
    /* A request that was reached is cleared, before seq overflows and makes it look like a future one. */
    if (requested && lw__srcu_reached(d, requested) &&
        __atomic_compare_exchange_n(&d->requested, &requested, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return 0;
    return requested;
}

/* ---- advancing ---- */

static void report_if_late(struct lw__srcu_domain *d)
{
    uint64_t age_ms = (now_ns() - d->started_ns) / 1000000;
    if (!d->stall_ms || age_ms < d->next_report_ms)
        return;
    d->next_report_ms = 2 * age_ms;
    char text[4096];
    lw__srcu_stall_text(d, age_ms, text, sizeof text);
    if (d->stall_hook)
        d->stall_hook(d->srcu, (unsigned)age_ms, text, d->stall_argument);
    else if (lw_verbose())
        fprintf(stderr, "linewright: %s", text);
}

int lw__srcu_step(struct lw__srcu_domain *d, unsigned long needed)
{
    if (d->phase == LW__SRCU_IDLE) {
        if (gp_passed(d->seq, needed))
            return 0;
        if (!d->reader_barriers)
            d->entered = lw__srcu_sum(d, lw__srcu_index_now(d), false);
        d->started_ns = now_ns();
        d->next_report_ms = d->stall_ms;
    }
    int ended = gp_step(d);
    if (ended < 0) {
        /* A seccomp filter denies it, for example. Nothing else tells as surely that readers without barriers are done, so
         * this grace period does not end; the next step tries again. */
        if (!__atomic_load_n(&d->error, __ATOMIC_RELAXED) && lw_verbose())
            fprintf(stderr, "linewright: membarrier refused: grace periods of domain %p cannot end\n", (void *)d->srcu);
        __atomic_store_n(&d->error, -ended, __ATOMIC_RELAXED);
        return ended;
    }
    __atomic_store_n(&d->error, 0, __ATOMIC_RELAXED);
    if (ended)
        wake_sleepers(&d->check);
    else
        report_if_late(d);
    return 0;
}

/* An eighth of the grace period's age, so that it lasts at most that much longer than its readers. */
uint64_t lw__srcu_pause_ns(struct lw__srcu_domain *d, unsigned scans)
{
    if (scans < 3)
        return 0;
    uint64_t pause = (now_ns() - d->started_ns) / 8;
    uint64_t most = __atomic_load_n(&d->expedited, __ATOMIC_RELAXED) ? 50000 : 4000000;
    return pause < 5000 ? 5000 : pause > most ? most : pause;
}

#ifdef LW_SRCU_TEST
/* Makes both of the domain's counters `value`, as if `value` critical sections had begun and ended. */
void lw__srcu_test_set_counts(struct lw__srcu_domain *d, unsigned long value)
{
    for (unsigned i = 0; i < 2; i++) {
        d->base.locks[i] += lw__srcu_sum(d, i, false) - value;
        d->base.unlocks[i] += lw__srcu_sum(d, i, true) - value;
    }
}

/* Puts the domain into grace period `seq` at `phase`: as after that many grace periods, or after a fork within one. */
void lw__srcu_test_set_seq(struct lw__srcu_domain *d, unsigned long seq, unsigned phase)
{
    lw_futex_lock(&d->step_lock);
    __atomic_store_n(&d->seq, seq, __ATOMIC_RELEASE); /* pairs with lw__srcu_reached() */
    d->phase = phase;
    lw_futex_unlock(&d->step_lock);
}
#endif

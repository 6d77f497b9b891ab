/* SPDX-License-Identifier: MIT */
/* What a domain says of itself: its line of description, and the report of a reader that does not leave. */
#define _GNU_SOURCE
#include "describe.h"

#include "arena.h"
#include "queue.h"
#include "records.h"

#include <stdarg.h>
#include <stdio.h>

/* Appends to text, never beyond `size`; *at counts what would have been written. */
__attribute__((format(printf, 4, 5))) static void say(char *text, size_t size, size_t *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(*at < size ? text + *at : NULL, *at < size ? size - *at : 0, format, arguments);
    va_end(arguments);
    *at += n > 0 ? (size_t)n : 0;
}

static const char *flavour_name(unsigned flavour)
{
    static const char *const names[] = {"no flavour", "normal", "fast", "fast-updown"};
    return names[flavour <= LW__SRCU_FAST_UPDOWN ? flavour : 0];
}

static const char *barrier_text(const struct lw__srcu_domain *d)
{
    if (__atomic_load_n(&d->error, __ATOMIC_RELAXED))
        return "grace periods cannot end: membarrier has been denied since the domain was made";
    if (!d->reader_barriers)
        return "grace periods by membarrier(PRIVATE_EXPEDITED)";
    return d->why ? "readers have full barriers, because membarrier is not available" : "readers have full barriers";
}

int lw_srcu_describe(const struct lw_srcu *s, char *text, size_t size)
{
    struct lw__srcu_domain *d = lw__srcu_own_domain(s);
    size_t at = 0;
    if (!d) {
        d = lw__srcu_domain_of(s);
        say(text, size, &at, "%s",
            !d                     ? "not initialised"
            : lw__srcu_in_arena(d) ? "a copy of a domain, which may not be copied"
                                   : "made by another copy of the library");
        return (int)at;
    }
    unsigned long open[2], taken;
    for (unsigned i = 0; i < 2; i++) {
        unsigned long unlocks = lw__srcu_sum(d, i, true);
        open[i] = lw__srcu_sum(d, i, false) - unlocks;
    }
    say(text, size, &at, "%s%sflavour %s; counts per %s; %s; %lu readers inside, %lu callbacks queued",
        s->name ? s->name : "", s->name ? ": " : "", flavour_name(s->flavour), d->slot ? "thread" : "CPU", barrier_text(d),
        open[0] + open[1], lw__srcu_count(d, &taken));
    return (int)at;
}

static void say_thread(const char *who, const struct lw__srcu_words *w, char *text, size_t size, size_t *at)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned long locks = __atomic_load_n(&w->locks[i], __ATOMIC_RELAXED);
        unsigned long unlocks = __atomic_load_n(&w->unlocks[i], __ATOMIC_RELAXED);
        if (locks != unlocks)
            say(text, size, at, "  %s, index %u: locks - unlocks = %ld\n", who, i, (long)(locks - unlocks));
    }
}

static void say_threads(struct lw__srcu_domain *d, char *text, size_t size, size_t *at)
{
    struct lw__srcu_cursor at_record = {0};
    for (struct lw__srcu_record *r; d->slot && (r = lw__srcu_next_record(&at_record));) {
        char who[40];
        snprintf(who, sizeof who, "thread %d", __atomic_load_n(&r->tid, __ATOMIC_RELAXED));
        say_thread(who, lw__srcu_words_of(r, d->slot), text, size, at);
    }
    if (d->slot)
        say_thread("threads that have ended", lw__srcu_folded(d->slot), text, size, at);
    say_thread("threads without a record", &d->others, text, size, at);
}

static void say_cpus(struct lw__srcu_domain *d, char *text, size_t size, size_t *at)
{
    for (unsigned cpu = 0; d->cpu && cpu < lw_percpu_nr_cpus(); cpu++) {
        const struct lw__srcu_words *w = (const void *)(LW__CPU0(d->cpu) + (size_t)cpu * LW_PERCPU_STRIDE);
        const struct lw__srcu_words *second = (const void *)((const char *)w + LW_PERCPU_SECOND);
        for (unsigned i = 0; i < 2; i++) {
            unsigned long locks =
                __atomic_load_n(&w->locks[i], __ATOMIC_RELAXED) + __atomic_load_n(&second->locks[i], __ATOMIC_RELAXED);
            unsigned long unlocks =
                __atomic_load_n(&w->unlocks[i], __ATOMIC_RELAXED) + __atomic_load_n(&second->unlocks[i], __ATOMIC_RELAXED);
            if (locks || unlocks)
                say(text, size, at, "  CPU %u, index %u: %lu locks, %lu unlocks\n", cpu, i, locks, unlocks);
        }
    }
}

void lw__srcu_stall_text(struct lw__srcu_domain *d, uint64_t age_ms, char *text, size_t size)
{
    size_t at = 0;
    say(text, size, &at, "grace period of domain %p%s%s not over after %llu ms (scan %u, index %u)\n", (void *)d->srcu,
        d->srcu->name ? " " : "", d->srcu->name ? d->srcu->name : "", (unsigned long long)age_ms, d->phase,
        lw__srcu_index_now(d) ^ 1);
    say_threads(d, text, size, &at);
    say_cpus(d, text, size, &at);
}

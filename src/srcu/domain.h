/* SPDX-License-Identifier: MIT */
/* A domain's update side, the list of all domains, and the points where tests step in. */
#ifndef LINEWRIGHT_SRC_SRCU_DOMAIN_H
#define LINEWRIGHT_SRC_SRCU_DOMAIN_H

#include "event.h"

#define LW_SRCU_LIBRARY /* functions only, by their pointers' common type */
#include <linewright/srcu.h>

#include <limits.h>

/* The counters of both indices, in a thread's record and in a CPU's copy alike; srcu.h relies on this order. */
struct lw__srcu_words {
    unsigned long locks[2];
    unsigned long unlocks[2];
};
_Static_assert(offsetof(struct lw__srcu_words, unlocks) == 2 * LW__SRCU_WORD, "srcu.h counts unlocks two words further on");

#define LW__SRCU_APART 128 /* bytes between words that different threads write often */

enum lw__srcu_phase { LW__SRCU_IDLE, LW__SRCU_FIRST_SCAN, LW__SRCU_SECOND_SCAN };

/* `seq` counts grace periods in steps of two; it is odd while one is in progress. */
struct lw__srcu_domain {
    struct lw_srcu
        *srcu; /* NULL: none. Written under the registry and step_lock, read under either or by a user of the domain */
    struct lw__srcu_domain *next; /* of the free entries, or of the live domains with the same hash; under the registry */
    unsigned slot; /* plus one; 0: none, readers count per CPU */
    bool reader_barriers; /* readers have full barriers, so grace periods need no membarrier */
    const char *why; /* the reason for reader_barriers with a fast flavour, else NULL */
    struct lw__srcu_words *cpu; /* per-CPU handle; NULL where there is a slot */
    struct lw__srcu_words others; /* what threads without a record have counted, by atomic adds */
    struct lw__srcu_words base; /* subtracted from every sum: see lw_srcu_forget_readers() */

    uint32_t step_lock; /* held to advance the grace period; guards what follows up to error, but for seq and requested */
    unsigned phase;
    unsigned long seq;
    unsigned long requested; /* the furthest cookie that lw_srcu_start_poll() returned and that is not reached; 0: none */
    uint64_t started_ns;
    unsigned long entered; /* locks of the index in use when the grace period began: see flip_and_settle() */
    uint64_t next_report_ms;
    int error; /* errno that keeps grace periods from ending; a hint, accessed relaxed everywhere */

    uint32_t driver; /* lock: the one waiter that advances the grace period for all */
    struct lw__srcu_event check; /* a waiter should check again */
    uint32_t waiters;
    uint32_t expedited; /* waiters that asked for an expedited grace period */

    /* Callbacks, newest first; any thread pushes. Alone in two lines (CPUs fetch pairs): threads that push do not wait for a
     * line that the worker writes. */
    _Alignas(LW__SRCU_APART) struct lw_srcu_head *incoming;

    _Alignas(LW__SRCU_APART) struct lw_srcu_head
        *arrived; /* oldest first, no cookie yet; this and the next five under the registry */
    struct lw_srcu_head *arrived_last;
    struct lw_srcu_head *waiting; /* oldest first, until waiting_cookie is reached */
    unsigned long waiting_cookie;
    struct lw_srcu_head *ready; /* oldest first; their grace period is over */
    unsigned long taken; /* callbacks that were taken off `incoming`, ever */
    unsigned long returned; /* callbacks that have returned, ever; written by the runner (queue.c) */
    bool listed; /* among the domains that have work (queue.c), or just about to be */
    struct lw__srcu_domain *next_listed;
    unsigned long seen_by_tsan; /* ThreadSanitizer cannot see per-CPU counts; used in its builds only */

    unsigned stall_ms;
    lw_srcu_stall_hook stall_hook;
    void *stall_argument;
};

static inline struct lw__srcu_domain *lw__srcu_domain_of(const struct lw_srcu *s)
{
    return s ? __atomic_load_n(&s->domain, __ATOMIC_ACQUIRE) : NULL; /* pairs with the store in lw_srcu_init() */
}

/* For updaters: NULL as well for a copy of an initialised structure, and where another copy of the library made the domain:
 * this copy's sums do not have its readers. */
struct lw__srcu_domain *lw__srcu_own_domain(const struct lw_srcu *s);

/* The index that new readers take. Their two values of `pair` are neighbouring words, or 2 and 3, so one bit tells them
 * apart. */
static inline unsigned lw__srcu_index_now(const struct lw__srcu_domain *d)
{
    uintptr_t pair = __atomic_load_n(&d->srcu->pair, __ATOMIC_RELAXED); /* written under step_lock only */
    return (unsigned)(pair < LW__SRCU_FIRST ? pair : pair / LW__SRCU_WORD) & 1;
}

/* The lock of what all domains share. fork() takes it, so its holder calls nothing that may allocate, wait, or be the
 * program's. */
extern uint32_t lw__srcu_registry;

/* ---- for tests; LW_SRCU_TEST builds only ---- */
enum lw__srcu_point {
    LW__SRCU_AT_START,
    LW__SRCU_AT_UNLOCKS_SUMMED,
    LW__SRCU_AT_BARRIER,
    LW__SRCU_AT_LOCKS_SUMMED,
    LW__SRCU_AT_FLIP,
    LW__SRCU_AT_END,
    LW__SRCU_AT_CALLBACK,
    LW__SRCU_AT_SLEEP, /* a waiter has checked and does not sleep yet */
    LW__SRCU_AT_TAKE, /* a thread has a record of its own and does not know it yet */
};
#ifdef LW_SRCU_TEST
extern void (*volatile lw__srcu_test_point)(enum lw__srcu_point where);
extern int (*volatile lw__srcu_test_membarrier)(int command); /* returns 0 or an errno */
extern volatile unsigned lw__srcu_test_slots; /* domains made from now on take slots below this */
void lw__srcu_test_count(struct lw__srcu_domain *d, unsigned word); /* as a reader does, on any word of lw__srcu_words */
void lw__srcu_test_set_counts(struct lw__srcu_domain *d, unsigned long value);
void lw__srcu_test_set_seq(struct lw__srcu_domain *d, unsigned long seq, unsigned phase);
void lw__srcu_test_at(enum lw__srcu_point where);
#define LW__SRCU_POINT(where) lw__srcu_test_at(where)
#define LW__SRCU_USABLE_SLOTS lw__srcu_test_slots
#else
#define LW__SRCU_POINT(where) ((void)0)
#define LW__SRCU_USABLE_SLOTS UINT_MAX
#endif

#endif

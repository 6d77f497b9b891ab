/* SPDX-License-Identifier: MIT */
/* What LW_DEBUG checks: each open critical section has a ticket, and each queued callback an entry, in tables that need no
 * lock and no allocation. */
#define _GNU_SOURCE
#include "debug.h"

#include "readers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Maximum number of open critical sections that are checked; any beyond this get ticket 0 and go unchecked. A power of
 * two. */
#define TICKETS 4096u

struct ticket {
    uintptr_t number; /* 0 free, 1 being written, else the ticket: TICKETS * use + index into the table */
    const struct lw_srcu *srcu;
    int32_t thread; /* 0: may be ended by any thread */
};
static struct ticket tickets[TICKETS];
static uintptr_t uses = 1;

__attribute__((noreturn)) static void complain(const struct lw_srcu *s, const char *where, const char *what)
{
    fprintf(stderr, "linewright: %s(%p%s%s): %s\n", where, (const void *)s, s && s->name ? " " : "",
            s && s->name ? s->name : "", what);
    abort();
}

static void check_flavour(const struct lw_srcu *s, unsigned flavour, const char *where)
{
    if (!lw__srcu_domain_of(s))
        complain(s, where, "the domain is not initialised, or has been cleaned up");
    if (lw__srcu_foreign(lw__srcu_domain_of(s)))
        complain(s, where, "another copy of the library made the domain; its grace periods would not wait for this reader");
    if (s->flavour != flavour)
        complain(s, where, "the domain has another flavour; a domain is used through its own functions only");
}

static int32_t this_thread(void)
{
    return (int32_t)syscall(SYS_gettid);
}

uintptr_t lw__srcu_debug_lock(struct lw_srcu *s, unsigned flavour, bool handed_on, const char *where)
{
    check_flavour(s, flavour, where);
    uintptr_t use = __atomic_fetch_add(&uses, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < TICKETS; i++) {
        unsigned place = (unsigned)(use + i) % TICKETS;
        struct ticket *t = &tickets[place];
        uintptr_t free = 0;
        if (!__atomic_compare_exchange_n(&t->number, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            continue;
        uintptr_t number = use * TICKETS + place;
        if (number < 2) /* the count overflowed */
            number += TICKETS;
        __atomic_store_n(&t->srcu, s, __ATOMIC_RELAXED);
        __atomic_store_n(&t->thread, handed_on ? 0 : this_thread(), __ATOMIC_RELAXED);
        __atomic_store_n(&t->number, number, __ATOMIC_RELEASE); /* pairs with the acquires in the other functions here */
        return number;
    }
    return 0;
}

void lw__srcu_debug_unlock(struct lw_srcu *s, unsigned flavour, lw_srcu_index index, const char *where)
{
    check_flavour(s, flavour, where);
    if (!index.ticket)
        return;
    struct ticket *t = &tickets[index.ticket % TICKETS];
    if (__atomic_load_n(&t->number, __ATOMIC_ACQUIRE) != index.ticket)
        complain(s, where, "the index was used before, or no lock returned it");
    if (__atomic_load_n(&t->srcu, __ATOMIC_RELAXED) != s)
        complain(s, where, "the index belongs to another domain");
    if (__atomic_load_n(&t->thread, __ATOMIC_RELAXED) && t->thread != this_thread() && flavour != LW__SRCU_FAST_UPDOWN)
        complain(s, where,
                 "the critical section began in another thread; only one begun by lw_srcu_down_read_fast() may end there");
    if (!__atomic_compare_exchange_n(&t->number, &index.ticket, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        complain(s, where, "two threads use the index at once");
}

/* Code compiled without LW_DEBUG takes no tickets; this then finds nothing. */
void lw__srcu_debug_waiting(struct lw_srcu *s, const char *where)
{
    if (__atomic_load_n(&uses, __ATOMIC_RELAXED) == 1)
        return;
    int32_t me = this_thread();
    for (unsigned i = 0; i < TICKETS; i++)
        if (__atomic_load_n(&tickets[i].number, __ATOMIC_ACQUIRE) > 1 &&
            __atomic_load_n(&tickets[i].srcu, __ATOMIC_RELAXED) == s &&
            __atomic_load_n(&tickets[i].thread, __ATOMIC_RELAXED) == me)
            complain(s, where,
                     "called inside a critical section of the same domain by the same thread: it would wait for itself");
}

/* ---- fork: the child's one thread has another number; the other threads' critical sections may be ended by any ---- */

static int32_t forking; /* under the registry */

void lw__srcu_debug_before_fork(void)
{
    forking = this_thread();
}

void lw__srcu_debug_after_fork(void)
{
    int32_t me = this_thread();
    for (unsigned i = 0; uses > 1 && i < TICKETS; i++) /* without LW_DEBUG no page of the table is touched */
        if (tickets[i].thread)
            tickets[i].thread = tickets[i].thread == forking ? me : 0;
}

void lw__srcu_debug_forget(const struct lw_srcu *s)
{
    for (unsigned i = 0; uses > 1 && i < TICKETS; i++)
        if (tickets[i].srcu == s && tickets[i].number > 1)
            tickets[i].number = 0;
}

bool lw__srcu_debug_held(const struct lw_srcu *s)
{
    int32_t me = this_thread();
    bool full = true; /* then some critical section may have no ticket */
    for (unsigned i = 0; i < TICKETS; i++) {
        uintptr_t number = __atomic_load_n(&tickets[i].number, __ATOMIC_ACQUIRE);
        full &= number != 0;
        if (number > 1 && __atomic_load_n(&tickets[i].srcu, __ATOMIC_RELAXED) == s &&
            __atomic_load_n(&tickets[i].thread, __ATOMIC_RELAXED) == me)
            return true;
    }
    return full;
}

/* ---- callback heads: those that are queued, in a table by address ---- */

#define HEADS 4096u /* those beyond go unchecked */
#define WAYS 8u
static const struct lw_srcu_head *heads[HEADS];
static bool heads_used;

static const struct lw_srcu_head **set_of(const struct lw_srcu_head *head)
{
    uintptr_t hash = ((uintptr_t)head >> 3) * UINT32_C(0x9e3779b1);
    return &heads[(hash >> 7) % (HEADS / WAYS) * WAYS];
}

void lw__srcu_debug_queued(const struct lw_srcu *s, const struct lw_srcu_head *head, const char *where)
{
    const struct lw_srcu_head **set = set_of(head);
    if (!where)
        lw__srcu_debug_returned(head);
    if (!where || !lw__srcu_domain_of(s) || !head)
        return; /* lw_srcu_call() refuses */
    __atomic_store_n(&heads_used, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < WAYS; i++)
        if (__atomic_load_n(&set[i], __ATOMIC_RELAXED) ==
            head) /* relaxed: a race of two calls is the caller's mistake too */
            complain(s, where, "the callback's head is queued already");
    for (unsigned i = 0; i < WAYS; i++) {
        const struct lw_srcu_head *none = NULL;
        if (__atomic_compare_exchange_n(&set[i], &none, head, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
}

void lw__srcu_debug_returned(const struct lw_srcu_head *head)
{
    const struct lw_srcu_head **set = set_of(head);
    for (unsigned i = 0; __atomic_load_n(&heads_used, __ATOMIC_RELAXED) && i < WAYS; i++)
        if (__atomic_load_n(&set[i], __ATOMIC_RELAXED) == head)
            __atomic_store_n(&set[i], NULL, __ATOMIC_RELAXED);
}

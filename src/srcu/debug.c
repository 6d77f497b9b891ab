/* What LW_DEBUG checks of readers: each open section has a ticket, in a table that needs no lock and no allocation. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* So many sections at once are checked; further ones get ticket 0 and are not. A power of two. */
#define TICKETS 4096u

struct ticket {
    uintptr_t number; /* 0 free, 1 being written, else the ticket: TICKETS * use + place */
    const struct lw_srcu *srcu;
    int32_t thread; /* 0: handed on, belongs to none */
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
        complain(s, where, "the domain is not initialised, or cleaned up");
    if (lw__srcu_foreign(lw__srcu_domain_of(s)))
        complain(s, where, "another copy of the library made the domain; its grace periods would not wait");
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
        if (number < 2) /* the count came round */
            number += TICKETS;
        __atomic_store_n(&t->srcu, s, __ATOMIC_RELAXED);
        __atomic_store_n(&t->thread, handed_on ? 0 : this_thread(), __ATOMIC_RELAXED);
        __atomic_store_n(&t->number, number, __ATOMIC_RELEASE); /* pairs with the acquires of those who look */
        return number;
    }
    return 0;
}

void lw__srcu_debug_unlock(struct lw_srcu *s, unsigned flavour, lw_srcu_index c, const char *where)
{
    check_flavour(s, flavour, where);
    if (!c.ticket)
        return;
    struct ticket *t = &tickets[c.ticket % TICKETS];
    if (__atomic_load_n(&t->number, __ATOMIC_ACQUIRE) != c.ticket)
        complain(s, where, "the cookie was used before, or was never given out");
    if (__atomic_load_n(&t->srcu, __ATOMIC_RELAXED) != s)
        complain(s, where, "the cookie is of another domain");
    if (__atomic_load_n(&t->thread, __ATOMIC_RELAXED) && t->thread != this_thread() && flavour != LW_SRCU_FAST_UPDOWN)
        complain(s, where, "the section began in another thread; only lw_srcu_down_read_fast() may be handed on");
    if (!__atomic_compare_exchange_n(&t->number, &c.ticket, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        complain(s, where, "the cookie is being used twice");
}

/* Threads that never debugged have no tickets: in other builds this finds nothing. */
void lw__srcu_debug_waiting(struct lw_srcu *s, const char *where)
{
    if (__atomic_load_n(&uses, __ATOMIC_RELAXED) == 1)
        return;
    int32_t me = this_thread();
    for (unsigned i = 0; i < TICKETS; i++)
        if (__atomic_load_n(&tickets[i].number, __ATOMIC_ACQUIRE) > 1 &&
            __atomic_load_n(&tickets[i].srcu, __ATOMIC_RELAXED) == s &&
            __atomic_load_n(&tickets[i].thread, __ATOMIC_RELAXED) == me)
            complain(s, where, "called inside a section of the same domain by the same thread: it would wait for itself");
}

/* ---- fork: the one thread of the child has another number, and what the others were in belongs to none ---- */

static int32_t forking; /* under the registry */

void lw__srcu_debug_before_fork(void)
{
    forking = this_thread();
}

void lw__srcu_debug_after_fork(void)
{
    int32_t me = this_thread();
    for (unsigned i = 0; uses > 1 && i < TICKETS; i++) /* other builds: no page of the table comes into being */
        if (tickets[i].thread)
            tickets[i].thread = tickets[i].thread == forking ? me : 0;
}

void lw__srcu_debug_forget(const struct lw_srcu *s)
{
    for (unsigned i = 0; uses > 1 && i < TICKETS; i++)
        if (tickets[i].srcu == s && tickets[i].number > 1)
            tickets[i].number = 0;
}

/* SPDX-License-Identifier: MIT */
/* The domains' memory, and the table that finds a live domain by its address. */
#define _GNU_SOURCE
#include "arena.h"

#include <string.h>
#include <sys/mman.h>

#define STEP 65536u /* bytes that are made accessible at a time; a multiple of every page size in use */

static struct lw__srcu_domain *first; /* stored once, with release */
static unsigned top; /* entries below were taken at least once */
static size_t accessible; /* bytes */
static struct lw__srcu_domain *free_entries;

static bool reserve(void)
{
    void *m = mmap(NULL, LW__SRCU_DOMAINS * sizeof *first, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED)
        return false;
    __atomic_store_n(&first, m, __ATOMIC_RELEASE); /* pairs with lw__srcu_in_arena() */
    return true;
}

static bool open_up_to(size_t bytes)
{
    if (bytes <= accessible)
        return true;
    if (mprotect((char *)first + accessible, STEP, PROT_READ | PROT_WRITE))
        return false;
    accessible += STEP;
    return true;
}

struct lw__srcu_domain *lw__srcu_arena_take(void)
{
    struct lw__srcu_domain *d = free_entries;
    if (d) {
        free_entries = d->next;
        memset(d, 0, sizeof *d);
        return d;
    }
    if (top == LW__SRCU_DOMAINS || (!first && !reserve()) || !open_up_to((top + 1) * sizeof *d))
        return NULL;
    return &first[top++];
}

void lw__srcu_arena_give(struct lw__srcu_domain *d)
{
    d->next = free_entries;
    free_entries = d;
}

struct lw__srcu_domain *lw__srcu_arena_at(unsigned i)
{
    return i < top ? &first[i] : NULL;
}

unsigned lw__srcu_arena_index(const struct lw__srcu_domain *d)
{
    return (unsigned)(d - first);
}

bool lw__srcu_in_arena(const struct lw__srcu_domain *d)
{
    /* Acquire: pairs with reserve(). A caller that has a domain of this copy comes after it anyway. */
    uintptr_t begin = (uintptr_t)__atomic_load_n(&first, __ATOMIC_ACQUIRE);
    return begin && (uintptr_t)d - begin < LW__SRCU_DOMAINS * sizeof *d;
}

void lw__srcu_arena_after_fork(void)
{
    free_entries = NULL;
}

/* ---- live domains by address ---- */

#define BUCKETS (LW__SRCU_DOMAINS / 4)
static struct lw__srcu_domain *buckets[BUCKETS];

static struct lw__srcu_domain **bucket_of(const struct lw_srcu *s)
{
    return &buckets[(uint32_t)((uintptr_t)s / sizeof(void *) * UINT32_C(0x9e3779b1)) / (UINT32_MAX / BUCKETS + 1)];
}

struct lw__srcu_domain *lw__srcu_live(const struct lw_srcu *s)
{
    struct lw__srcu_domain *d = *bucket_of(s);
    while (d && d->srcu != s)
        d = d->next;
    return d;
}

void lw__srcu_live_add(struct lw__srcu_domain *d)
{
    struct lw__srcu_domain **bucket = bucket_of(d->srcu);
    d->next = *bucket;
    *bucket = d;
}

void lw__srcu_live_remove(struct lw__srcu_domain *d)
{
    struct lw__srcu_domain **link = bucket_of(d->srcu);
    while (*link != d)
        link = &(*link)->next;
    *link = d->next;
}

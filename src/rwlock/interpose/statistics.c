/* SPDX-License-Identifier: MIT */
/* Counts of each lock in a table of fixed size, found by the lock's address. */
#define _GNU_SOURCE
#include "statistics.h"

#include "../../common/environment.h"
#include "../../srcu/membarrier.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES 65536u
#define LINES 50

struct entry {
    const struct lw_rwlock *lock; /* set once, by compare-and-swap */
    void *where; /* the caller that made it, or was first to use it */
    unsigned long counts[COUNTED];
};

bool lw__rw_counting; /* written before main */
static struct entry *table;
static unsigned long beyond; /* operations on locks that found no entry */

static struct entry *entry_of(const struct lw_rwlock *l, void *where)
{
    uintptr_t hash = (uintptr_t)l / sizeof(void *);
    for (unsigned i = 0; i < 64; i++) {
        struct entry *e = &table[(hash + hash / ENTRIES + i) % ENTRIES];
        const struct lw_rwlock *has = __atomic_load_n(&e->lock, __ATOMIC_RELAXED);
        if (!has && __atomic_compare_exchange_n(&e->lock, &has, l, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_store_n(&e->where, where, __ATOMIC_RELAXED);
            return e;
        }
        if (has == l)
            return e;
    }
    __atomic_fetch_add(&beyond, 1, __ATOMIC_RELAXED);
    return NULL;
}

void count_lock(const struct lw_rwlock *l, enum counted what, void *where)
{
    struct entry *e = entry_of(l, where);
    if (e)
        __atomic_fetch_add(&e->counts[what], 1, __ATOMIC_RELAXED);
}

void count_begins(const struct lw_rwlock *l, void *where)
{
    struct entry *e = entry_of(l, where);
    if (e)
        __atomic_store_n(&e->where, where, __ATOMIC_RELAXED);
}

void lw__rw_count_revocation(struct lw_rwlock *l)
{
    count_lock(l, REVOCATIONS, NULL);
}

static int by_uses(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    unsigned long of_x = x->counts[READS] + x->counts[WRITES], of_y = y->counts[READS] + y->counts[WRITES];
    return of_x < of_y ? 1 : of_x > of_y ? -1 : 0;
}

static void print_entry(const struct entry *e)
{
    Dl_info place = {0};
    (void)dladdr(e->where, &place);
    const char *file = place.dli_fname ? place.dli_fname : "?";
    unsigned long offset = (unsigned long)((uintptr_t)e->where - (uintptr_t)place.dli_fbase);
    dprintf(STDERR_FILENO, "%12lu %12lu %12lu  %p  %s+0x%lx%s%s\n", e->counts[READS], e->counts[WRITES],
            e->counts[REVOCATIONS], (const void *)e->lock, file, offset, place.dli_sname ? " " : "",
            place.dli_sname ? place.dli_sname : "");
}

__attribute__((constructor(101))) static void begin(void)
{
    const char *value = secure_getenv("LINEWRIGHT_RWLOCK_STATISTICS");
    if (!value || !*value || !strcmp(value, "0"))
        return;
    if (strcmp(value, "1")) {
        dprintf(STDERR_FILENO,
                "linewright-rwlock[%d %s]: LINEWRIGHT_RWLOCK_STATISTICS=%.40s counts nothing (allowed: 1, or 0)\n",
                (int)getpid(), program_invocation_short_name, value);
        return;
    }
    table = mmap(NULL, ENTRIES * sizeof *table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    lw__rw_counting = table != MAP_FAILED;
}

__attribute__((destructor(101))) static void end(void)
{
    if (!lw__rw_counting)
        return;
    lw__rw_counting = false;
    unsigned used = 0;
    for (unsigned i = 0; i < ENTRIES; i++)
        if (table[i].lock)
            table[used++] = table[i]; /* the table is not looked up again */
    qsort(table, used, sizeof *table, by_uses);
    dprintf(STDERR_FILENO, "linewright-rwlock[%d %s]: %u lock%s%s\n", (int)getpid(), program_invocation_short_name, used,
            used == 1 ? "" : "s", lw__srcu_have_membarrier() ? "" : "; all stayed plain: membarrier is not available");
    if (used)
        dprintf(STDERR_FILENO, "%12s %12s %12s  lock, and where it was made or first used\n", "reads", "writes",
                "revocations");
    for (unsigned i = 0; i < used && i < LINES; i++)
        print_entry(&table[i]);
    if (used > LINES)
        dprintf(STDERR_FILENO, "and %u more\n", used - LINES);
    if (beyond)
        dprintf(STDERR_FILENO, "%lu operations are not counted: the table of %u locks is full\n", beyond, ENTRIES);
}

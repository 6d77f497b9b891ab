/* SPDX-License-Identifier: MIT */
/* Readers whose inline path in srcu.h does not apply: a thread's first critical section, domains that count per CPU, signal
 * handlers in between. */
#define _GNU_SOURCE
#include "readers.h"

#include "arena.h"
#include "records.h"

#include <stdio.h>
#include <stdlib.h>

bool lw__srcu_foreign(const struct lw__srcu_domain *d)
{
    return d->slot && !lw__srcu_in_arena(d);
}

static struct lw__srcu_domain *reader_domain(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d) {
        fprintf(stderr, "linewright: a reader entered a domain that is not initialised, or has been cleaned up (%p)\n",
                (void *)s);
        abort();
    }
    if (lw__srcu_foreign(d)) {
        fprintf(stderr,
                "linewright: a reader entered a domain that another copy of the library made (%p): grace periods would not "
                "wait for it\n",
                (void *)s);
        abort();
    }
    if (__atomic_load_n(&d->srcu, __ATOMIC_RELAXED) != s) { /* relaxed: as in lw__srcu_own_domain() */
        fprintf(
            stderr,
            "linewright: a reader entered a copy of a domain (%p): a domain stays where it was initialised, or is not copied\n",
            (void *)s);
        abort();
    }
    return d;
}

static unsigned index_of(uintptr_t pair)
{
    return pair < LW__SRCU_FIRST ? (unsigned)pair & 1 : (unsigned)(pair / LW__SRCU_WORD) & 1;
}

static unsigned long *word_of(struct lw__srcu_words *w, unsigned word)
{
    return &w->locks[0] + word;
}

/* On a word of the domain that all threads share. */
static void count_others(struct lw__srcu_domain *d, unsigned word)
{
    /* On x86, the only architecture whose domains have slots, a full barrier: B and C of gp.h. */
    __atomic_fetch_add(word_of(&d->others, word), 1, __ATOMIC_SEQ_CST);
}

static void count_per_cpu(struct lw__srcu_domain *d, unsigned word)
{
    /* Fences: B after the lock's count and C before the unlock's; pair with HEAVY_BARRIER in gp.h. */
    if (d->reader_barriers)
        lw_full_fence();
    unsigned long *p = word_of(d->cpu, word);
#ifdef LW_THREAD_SANITIZER
    __atomic_fetch_add(&d->seen_by_tsan, 1, __ATOMIC_RELEASE); /* pairs with sum_cpus(); no acquire: orders no readers */
#endif
#ifdef __LP64__
    lw__percpu_add_slow_u64((uint64_t *)p, 1);
#else
    lw__percpu_add_slow_u32((uint32_t *)p, 1);
#endif
    if (d->reader_barriers)
        lw_full_fence();
}

static void count(struct lw__srcu_domain *d, unsigned word)
{
#if LW_HAVE_THREAD_WORDS
    struct lw__srcu_record *r = d->slot ? lw__srcu_own_record() : NULL;
    if (r) {
        lw__srcu_add((char *)word_of(lw__srcu_words_of(r, d->slot), word), d->reader_barriers);
        return;
    }
#endif
    if (d->slot)
        count_others(d, word);
    else
        count_per_cpu(d, word);
}

uintptr_t lw__srcu_lock_slow(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = reader_domain(s);
    uintptr_t pair = __atomic_load_n(&s->pair, __ATOMIC_RELAXED); /* as in lw__srcu_lock() */
    count(d, index_of(pair));
    return pair;
}

void lw__srcu_unlock_slow(struct lw_srcu *s, uintptr_t pair)
{
    count(reader_domain(s), 2 + index_of(pair));
}

#ifdef LW_SRCU_TEST
void lw__srcu_test_count(struct lw__srcu_domain *d, unsigned word)
{
    count(d, word);
}
#endif

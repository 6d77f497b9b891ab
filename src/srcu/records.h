/* SPDX-License-Identifier: MIT */
/* The threads' records of counters, and sums over them and over the CPUs' counters. */
#ifndef LINEWRIGHT_SRC_SRCU_RECORDS_H
#define LINEWRIGHT_SRC_SRCU_RECORDS_H

#include "domain.h"

/* A thread's counters: a page with words for so many domains, and further pages a fixed distance apart for further ones. */
#define LW__SRCU_PAGE_BYTES 4096
#define LW__SRCU_PAGE_SLOTS ((LW__SRCU_PAGE_BYTES - LW__SRCU_FIRST) / sizeof(struct lw__srcu_words))
struct lw__srcu_record {
    int32_t tid; /* for reports */
    char pad[LW__SRCU_FIRST - sizeof(int32_t)];
    struct lw__srcu_words slot[LW__SRCU_PAGE_SLOTS];
};
_Static_assert(sizeof(struct lw__srcu_record) <= LW__SRCU_PAGE_BYTES, "a record's part is a page");
_Static_assert(offsetof(struct lw__srcu_record, slot) == LW__SRCU_FIRST, "pairs begin at LW__SRCU_FIRST");

void lw__srcu_records_start(void);
/* Locks out threads that end; after the fork, in the child, the counts of the threads that it does not have are folded. */
void lw__srcu_records_before_fork(void);
void lw__srcu_records_after_fork(bool child);

/* The calling thread's record, taken at its first critical section. NULL: count per CPU. Async-signal-safe. */
struct lw__srcu_record *lw__srcu_own_record(void);

/* Walks the live threads' records: begin with {0}. NULL: no further one. */
struct lw__srcu_cursor {
    void *chunk;
    unsigned next;
    bool begun;
};
struct lw__srcu_record *lw__srcu_next_record(struct lw__srcu_cursor *at);
/* A record's counters for a slot (its number plus one). */
struct lw__srcu_words *lw__srcu_words_of(struct lw__srcu_record *r, unsigned slot);
/* What threads that have ended counted in a slot. */
const struct lw__srcu_words *lw__srcu_folded(unsigned slot);

/* The value of lw_srcu.pair for index 0 of a slot. */
uintptr_t lw__srcu_first_pair(unsigned slot);

/* Under the registry. Makes slot number `index` usable, with counts of 0 in all records. Its number plus one; 0:
 * impossible. */
unsigned lw__srcu_take_slot(unsigned index);

/* True: the calling thread is in a critical section of the domain that it has to end itself, so it must not wait for
 * readers. False also where that is not known: only words of the thread itself show it. */
bool lw__srcu_would_wait_for_itself(const struct lw__srcu_domain *d);

/* Adds up one kind of counter of one index. */
unsigned long lw__srcu_sum(const struct lw__srcu_domain *d, unsigned index, bool unlocks);

#endif

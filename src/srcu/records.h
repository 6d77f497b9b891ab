/* The threads' records of counters, and sums over them and over the CPUs' counters. */
#ifndef LINEWRIGHT_SRC_SRCU_RECORDS_H
#define LINEWRIGHT_SRC_SRCU_RECORDS_H

#include "domain.h"

/* A thread's counters for as many domains as there are slots. Records stay for the life of the process: when a thread ends, the
 * next one takes its record over, counts included, so that no sum ever misses or doubles one. */
#define LW__SRCU_RECORD_BYTES 4096
#define LW__SRCU_SLOTS ((LW__SRCU_RECORD_BYTES - LW__SRCU_FIRST) / sizeof(struct lw__srcu_words))
struct lw__srcu_record {
    struct lw__srcu_record *next;
    uint32_t in_use;
    int32_t tid;
    char pad[LW__SRCU_FIRST - sizeof(void *) - 8];
    struct lw__srcu_words slot[LW__SRCU_SLOTS];
};
_Static_assert(sizeof(struct lw__srcu_record) <= LW__SRCU_RECORD_BYTES, "a record is a page");
_Static_assert(offsetof(struct lw__srcu_record, slot) == LW__SRCU_FIRST, "pairs begin at LW__SRCU_FIRST");

void lw__srcu_records_start(void);
void lw__srcu_records_after_fork(void); /* in the child */

/* Every record, oldest last; the list only grows. */
struct lw__srcu_record *lw__srcu_first_record(void);
/* The calling thread's record, taken at its first critical section. NULL: count per CPU. Async-signal-safe. */
struct lw__srcu_record *lw__srcu_own_record(void);

/* Identifies this copy of the library in lw__srcu_domain.home. */
const void *lw__srcu_home(void);

/* Under the registry. A slot's number plus one; 0: all are taken. */
unsigned lw__srcu_take_slot(void);
void lw__srcu_give_slot(unsigned slot);

/* Adds up one kind of counter of one index, by relaxed loads. */
unsigned long lw__srcu_sum(struct lw__srcu_domain *d, unsigned index, bool unlocks);

#endif

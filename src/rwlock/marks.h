/* SPDX-License-Identifier: MIT */
/* The threads' marks: who has which, and a walk over all of them. */
#ifndef LINEWRIGHT_SRC_RWLOCK_MARKS_H
#define LINEWRIGHT_SRC_RWLOCK_MARKS_H

#include <linewright/rwlock.h>

/* What a writer leaves in the place of a mark whose read locks other threads released: the address of no lock. */
#define LW__RW_RETIRED ((struct lw_rwlock *)1)

/* Whose marks `lw__rw_self` is where the thread has none: each position is taken, by no lock. */
extern const struct lw__rw_thread lw__rw_none __attribute__((visibility("hidden")));
#define LW__RW_NONE ((struct lw__rw_thread *)(uintptr_t)&lw__rw_none)

/* The calling thread's marks, taken at its first read of a biased lock. NULL: the thread ends, or memory is lacking, or, `in_handler`, taking them might
 * allocate; it counts in the plain lock then. Async-signal-safe if `in_handler`; keeps errno. */
struct lw__rw_thread *lw__rw_own_marks(bool in_handler);

/* The first marks for NULL, else the next; NULL: there are no further ones. Also those that no living thread has: a thread that
 * ended inside a lock left its mark. */
struct lw__rw_thread *lw__rw_next_thread(struct lw__rw_thread *t);

/* In a child of fork(), before it goes on: undoes what a thread that is not there left in locks' states. In rwlock.c. */
void lw__rw_leave_behind(struct lw__rw_thread *t) __attribute__((visibility("hidden")));

#endif

/* SPDX-License-Identifier: MIT */
/* What the library's locks are asked where they stand in for pthread_rwlock_t: src/rwlock/rwlock.c includes this in the interposer's build. */
#ifndef LINEWRIGHT_SRC_RWLOCK_HOOKS_H
#define LINEWRIGHT_SRC_RWLOCK_HOOKS_H

#include <pthread.h>

#include <linewright/rwlock.h>

/* As glibc's: every kind but PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP lets readers pass a writer that waits. Programs rely on it without
 * knowing: a reader that waits for another thread's read lock would never end otherwise. */
static inline bool lw__rw_readers_first(const struct lw_rwlock *l)
{
    return ((const pthread_rwlock_t *)(const void *)l)->__data.__flags != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

extern bool lw__rw_counting;
void lw__rw_count_revocation(struct lw_rwlock *l);

#define LW_RW_READERS_FIRST(l) lw__rw_readers_first(l)
#define LW_RW_HANDLERS_TRY false /* POSIX has no such locks in signal handlers */
#define LW_RW_REVOKED(l) ((void)(lw__rw_counting && (lw__rw_count_revocation(l), true)))

#endif

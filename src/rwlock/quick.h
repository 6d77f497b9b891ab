/* What a thread does with a lock that is plain and that no other thread keeps it from, and what each thread counts of its own: the library's
 * functions and the interposer's are made of it. The including file defines LW_RW_READERS_FIRST() before. */
#ifndef LINEWRIGHT_SRC_RWLOCK_QUICK_H
#define LINEWRIGHT_SRC_RWLOCK_QUICK_H

#include "plain.h"

#define LOOK_EVERY 64u /* plain reads of a thread between two looks, which a lock counts until its next writer */

struct lw__rw_own {
    unsigned reads; /* plain reads that waited for no writer, modulo LOOK_EVERY */
    unsigned writes; /* since the thread's last look */
    int held; /* plain read locks that the thread holds: it passes waiting writers then */
    uint32_t id; /* not 0 once used; the same after fork() */
    uint64_t waited; /* ns that this thread, as a writer, waited for marks since it began to end a bias */
};
extern __thread struct lw__rw_own lw__rw_own __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Whether the lock should turn biased. For a thread that holds the plain lock for reading. Keeps errno. */
void lw__rw_consider_bias(struct lw_rwlock *l) __attribute__((visibility("hidden")));

/* The thread has counted itself in the plain lock, and has not waited. */
static inline void has_counted(struct lw_rwlock *l)
{
    lw__rw_own.held++;
    if (__builtin_expect(++lw__rw_own.reads % LOOK_EVERY == 0, 0))
        lw__rw_consider_bias(l);
}

/* The thread has left the plain lock; the read lock may have been another thread's. */
static inline void has_left(void)
{
    if (lw__rw_own.held)
        lw__rw_own.held--;
}

/* The thread holds the plain lock for writing, and no marked reader is inside. */
static inline void has_entered(struct lw_rwlock *l, uint32_t id)
{
    __atomic_store_n(&l->writer, id, __ATOMIC_RELAXED);
    lw__rw_own.writes++;
}

/* False: the lock is as it was. */
static inline bool quick_read(struct lw_rwlock *l)
{
    if (!plain_read_at_once(l))
        return false;
    has_counted(l);
    return true;
}

static inline bool quick_read_unlock(struct lw_rwlock *l)
{
    if (!plain_leave_at_once(l))
        return false;
    has_left();
    return true;
}

static inline bool quick_write(struct lw_rwlock *l)
{
    uint32_t id = lw__rw_own.id;
    if (!id || plain_try_write(l, false))
        return false;
    uint32_t biased = __atomic_load_n(&l->biased, __ATOMIC_RELAXED); /* stored by who held the lock before */
    if (biased & (LW__RW_BIASED | LW__RW_ENDING)) { /* since the caller looked */
        plain_write_unlock(l, LW_RW_READERS_FIRST(l));
        return false;
    }
    if (biased & LW__RW_LOOKS)
        __atomic_store_n(&l->biased, 0, __ATOMIC_RELEASE); /* pairs as the writer's that ended the bias */
    has_entered(l, id);
    return true;
}

/* For the thread that holds the lock for writing. */
static inline void quick_write_unlock(struct lw_rwlock *l)
{
    __atomic_store_n(&l->writer, 0, __ATOMIC_RELAXED);
    plain_write_unlock(l, LW_RW_READERS_FIRST(l));
}

#endif

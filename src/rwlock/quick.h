/* SPDX-License-Identifier: MIT */
/* What a thread does with a lock that is plain and that no other thread keeps it from, and what each thread counts of its own: the library's
 * functions and the interposer's are made of it. The including file defines LW_RW_READERS_FIRST() before. */
#ifndef LINEWRIGHT_SRC_RWLOCK_QUICK_H
#define LINEWRIGHT_SRC_RWLOCK_QUICK_H

#include "plain.h"

#include "../wait/hints.h"

#define LOOK_EVERY 64u /* plain reads of a thread between two looks, which a lock counts until its next writer */

#define NOTED_LOCKS 8u

struct lw__rw_own {
    unsigned reads; /* plain reads that waited for no writer, modulo LOOK_EVERY */
    unsigned writes; /* since the thread's last look */
    uint32_t id; /* not 0 once used; the same after fork() */
    unsigned held; /* plain read locks that the thread holds */
    const struct lw_rwlock *own[NOTED_LOCKS]; /* the first ones, which it passes waiting writers of; NULL: any */
    uint64_t waited; /* ns that this thread, as a writer, waited for marks since it began to end a bias */
    unsigned sections; /* time slice sections that it began with write locks and has not ended */
};
extern __thread struct lw__rw_own lw__rw_own __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Whether the lock should turn biased. For a thread that holds the plain lock for reading. Keeps errno. */
void lw__rw_consider_bias(struct lw_rwlock *l) __attribute__((visibility("hidden")));

/* The thread has counted itself in the plain lock. A signal handler that comes between the two steps leaves things as they were. */
static inline void now_holds(const struct lw_rwlock *l)
{
    unsigned at = lw__rw_own.held++;
    LW_RW_COMPILER_BARRIER();
    if (__builtin_expect(at < NOTED_LOCKS, 1))
        lw__rw_own.own[at] = l;
}

/* Where the thread has noted the lock, from 1 on; 0: nowhere. */
static inline unsigned noted_at(const struct lw_rwlock *l)
{
    unsigned at = lw__rw_own.held < NOTED_LOCKS ? lw__rw_own.held : NOTED_LOCKS;
    while (at > 0 && lw__rw_own.own[at - 1] != l)
        at--;
    return at;
}

/* Whether the thread holds it by a count, or may: a lock that it holds is not noted. */
static inline bool holds(const struct lw_rwlock *l)
{
    return lw__rw_own.held > NOTED_LOCKS || noted_at(l) || noted_at((const struct lw_rwlock *)0);
}

/* The thread has left the plain lock, not the one that it took last, or by a release of another thread's read lock. */
static __attribute__((noinline)) void has_left_another(const struct lw_rwlock *l)
{
    unsigned held = lw__rw_own.held, at = noted_at(l);
    bool more = held > NOTED_LOCKS; /* than are noted: of which nothing is known */
    if (!at && !more)
        at = noted_at((const struct lw_rwlock *)0);
    if (!at && !more)
        return;
    if (at)
        lw__rw_own.own[at - 1] = more ? (const struct lw_rwlock *)0 : lw__rw_own.own[held - 1];
    LW_RW_COMPILER_BARRIER();
    lw__rw_own.held--;
}

static inline void has_left(const struct lw_rwlock *l)
{
    unsigned last = lw__rw_own.held - 1; /* more than any where it holds none */
    if (__builtin_expect(last < NOTED_LOCKS && lw__rw_own.own[last] == l, 1))
        lw__rw_own.held = last;
    else if (last != UINT32_MAX)
        has_left_another(l);
}

/* The thread has counted itself, and has not waited. */
static inline void has_counted(struct lw_rwlock *l)
{
    now_holds(l);
    if (__builtin_expect(++lw__rw_own.reads % LOOK_EVERY == 0, 0))
        lw__rw_consider_bias(l);
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
    has_left(l);
    return true;
}

/* For a thread that holds the plain lock for writing. False: the lock has marks, or may have. */
static inline bool may_enter_at_once(struct lw_rwlock *l)
{
    uint32_t biased = __atomic_load_n(&l->biased, __ATOMIC_RELAXED); /* stored by who held the lock before */
    if (biased & (LW__RW_BIASED | LW__RW_ENDING))
        return false;
    if (biased & LW__RW_LOOKS)
        __atomic_store_n(&l->biased, 0, __ATOMIC_RELEASE); /* pairs as the writer's that ended the bias */
    return true;
}

/* Whether a writer's section asks for a time slice extension. */
static inline bool asks_for_slices(void)
{
    return __builtin_expect(__atomic_load_n(&lw__wait_choice.slices, __ATOMIC_RELAXED), 0);
}

static inline bool quick_write(struct lw_rwlock *l)
{
    uint32_t id = lw__rw_own.id;
    if (!id || asks_for_slices() || plain_try_write(l, false))
        return false;
    if (!may_enter_at_once(l)) { /* biased since the caller looked */
        plain_write_unlock(l);
        return false;
    }
    has_entered(l, id);
    return true;
}

/* For the thread that holds the lock for writing. False: its sections asked. */
static inline bool quick_write_unlock(struct lw_rwlock *l)
{
    if (__builtin_expect(lw__rw_own.sections, 0))
        return false;
    __atomic_store_n(&l->writer, 0, __ATOMIC_RELAXED);
    plain_write_unlock(l);
    return true;
}

#endif

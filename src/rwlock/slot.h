/* SPDX-License-Identifier: MIT */
/* Who has a thread's marks, and which of a chunk's threads a writer looks at: the library and the interleaver compile this text.
 *
 * A successor takes the marks over as they are, since a thread that ended inside a lock left its mark, and a writer still waits for it. What
 * the predecessor stored comes before what the successor stores: else a mark that it took back late would take back the successor's.
 *
 * The including file defines:
 *   struct chunk               `thread`, CHUNK_THREADS of them, of which writers look at the first `ever` */
#ifndef LW_RW_TAKE
#define LW_RW_SWAP(p, old, new, order) \
    __atomic_compare_exchange_n((p), &(uint32_t){(old)}, (new), false, __ATOMIC_##order, __ATOMIC_RELAXED)
#define LW_RW_TAKE(p) __atomic_compare_exchange_n((p), &(uint32_t){0}, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#endif

/* True: the calling thread has `t` now. */
static inline bool take_slot(struct lw__rw_thread *t)
{
    return !LW_RW_LOAD(&t->used, RELAXED) && LW_RW_TAKE(&t->used); /* acquire: pairs with the release below */
}

/* Has writers look at the first `count` threads. Relaxed: a thread does this before its first mark, so the barrier that shows a writer the mark
 * (F in revoke.h) shows it this, too, also where another thread stored it. It never falls, since marks outlive the threads that set them. */
static inline void raise_ever(struct chunk *c, uint32_t count)
{
    for (uint32_t seen; (seen = LW_RW_LOAD(&c->ever, RELAXED)) < count;)
        if (LW_RW_SWAP(&c->ever, seen, count, RELAXED))
            return;
}

/* Marks that are the calling thread's now; NULL: each has a thread. */
static inline struct lw__rw_thread *take_from(struct chunk *c)
{
    for (uint32_t i = 0; i < CHUNK_THREADS; i++)
        if (take_slot(&c->thread[i])) {
            raise_ever(c, i + 1);
            return &c->thread[i];
        }
    return (struct lw__rw_thread *)0;
}

static inline void give_slot_back(struct lw__rw_thread *t)
{
    LW_RW_STORE(&t->used, 0, RELEASE);
}

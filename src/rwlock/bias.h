/* SPDX-License-Identifier: MIT */
/* How a lock's bias begins, how a waiting writer or a release by another thread ends it, and which locks have no marks: the library and the
 * interleaver compile this text.
 *
 * Readers that mark do not look at the plain lock's state, so a writer that sleeps for readers of the plain lock would be passed by marks
 * for ever. Who gives the bias and who waits are each other's store buffering test:
 *
 *   a reader that is counted in the plain lock   a writer
 *   biased = LW__RW_BIASED                       the state says that a writer waits
 *   G: full fence                                W: full fence
 *   does a writer wait? then end it              is the lock biased? then end it
 *
 * At least one of them sees the other's store. LW__RW_ENDING is not 0, because marks may be there already: the writer that gets the plain
 * lock looks for them, and no reader gives the bias before: another thread may have taken its count out, so that such a writer is in the lock
 * already and has looked for some of the marks.
 *
 * The including file defines:
 *   LW_RW_WRITER_WAITS(l)      whether a writer sleeps for the plain lock, or is about to */
#ifndef LW_RW_FENCE
#define LW_RW_FENCE() lw_full_fence()
#define LW_RW_SWAP(p, old, new, order) \
    __atomic_compare_exchange_n((p), &(uint32_t){(old)}, (new), false, __ATOMIC_##order, __ATOMIC_RELAXED)
#define LW_RW_AND(p, bits, order) __atomic_fetch_and((p), (bits), __ATOMIC_##order)
#endif

/* For a writer that has set what LW_RW_WRITER_WAITS() reads: from now on readers do not mark. */
static inline void keep_marks_out(struct lw_rwlock *l)
{
    LW_RW_FENCE(); /* W; pairs with G */
    (void)LW_RW_SWAP(&l->biased, LW__RW_BIASED, LW__RW_ENDING, RELAXED);
}

/* The lock turns biased no more. False: it has no marks, and nothing has changed. */
static inline bool bias_ends_for_good(struct lw_rwlock *l)
{
    uint32_t biased = LW_RW_LOAD(&l->biased, RELAXED);
    while (biased & (LW__RW_BIASED | LW__RW_ENDING)) {
        if (biased & LW__RW_STAYS_PLAIN || LW_RW_SWAP(&l->biased, biased, LW__RW_ENDING | LW__RW_STAYS_PLAIN, RELAXED))
            return true;
        biased = LW_RW_LOAD(&l->biased, RELAXED);
    }
    return false;
}

/* Whether the calling thread has no mark for the lock: the writer that ends a bias clears LW__RW_ENDING once no mark is left. Not for signal
 * handlers: they may interrupt lw__rw_mark(). */
static inline bool is_plain(struct lw_rwlock *l)
{
    return !(LW_RW_LOAD(&l->biased, ACQUIRE) &
             (LW__RW_BIASED | LW__RW_ENDING)); /* pairs with the release in revoke_bias() */
}

/* For a thread that is counted in the plain lock and has seen `plain` in `biased`: from now on readers mark, unless a writer waits. */
static inline void give_bias(struct lw_rwlock *l, uint32_t plain)
{
    if (!LW_RW_SWAP(&l->biased, plain, LW__RW_BIASED, RELEASE)) /* pairs with R in rwlock_mark.h */
        return;
    LW_RW_FENCE(); /* G; pairs with W */
    if (LW_RW_WRITER_WAITS(l))
        keep_marks_out(l);
}

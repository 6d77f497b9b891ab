/* How a lock's bias begins, and how a waiting writer ends it: the library and the interleaver compile this text.
 *
 * Readers that mark do not look at the plain lock's state, so a writer that sleeps for readers of the plain lock would be passed by marks
 * for ever. Who gives the bias and who waits are each other's store buffering test:
 *
 *   a reader that holds the plain lock      a writer
 *   biased = LW__RW_BIASED                  the state says that a writer waits
 *   G: full fence                           W: full fence
 *   does a writer wait? then end it         is the lock biased? then end it
 *
 * At least one of them sees the other's store. LW__RW_ENDING is not 0, because marks may be there already: the writer that gets the plain
 * lock looks for them.
 *
 * The including file defines:
 *   LW_RW_WRITER_WAITS(l)      whether a writer sleeps for the plain lock, or is about to */
#ifndef LW_RW_FENCE
#define LW_RW_FENCE() lw_full_fence()
#define LW_RW_SWAP(p, old, new) \
    __atomic_compare_exchange_n((p), &(uint32_t){(old)}, (new), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#endif

/* For a writer that has set what LW_RW_WRITER_WAITS() reads: from now on readers do not mark. */
static inline void keep_marks_out(struct lw_rwlock *l)
{
    LW_RW_FENCE(); /* W; pairs with G */
    (void)LW_RW_SWAP(&l->biased, LW__RW_BIASED, LW__RW_ENDING);
}

/* For a thread that holds the plain lock for reading: from now on readers mark, unless a writer waits. */
static inline void give_bias(struct lw_rwlock *l)
{
    LW_RW_STORE(&l->biased, LW__RW_BIASED, RELEASE); /* pairs with R in rwlock_mark.h */
    LW_RW_FENCE(); /* G; pairs with W */
    if (LW_RW_WRITER_WAITS(l))
        keep_marks_out(l);
}

/* How a lock's bias begins, how a waiting writer ends it, and which locks have no marks: the library and the interleaver compile this text.
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

/* Whether the calling thread has no mark for the lock. The writer that ends a bias stores 0 once no marked reader is inside; the marks are gone then,
 * but those of readers for whom other threads released, and `handed` counts these. Not for signal handlers: they may interrupt lw__rw_mark(). */
static inline bool is_plain(struct lw_rwlock *l)
{
    uint32_t biased = LW_RW_LOAD(&l->biased, ACQUIRE); /* pairs with the release in revoke_bias() */
    return !(biased & (LW__RW_BIASED | LW__RW_ENDING)) && !LW_RW_LOAD(&l->handed, RELAXED);
}

/* For a thread that holds the plain lock for reading: from now on readers mark, unless a writer waits. */
static inline void give_bias(struct lw_rwlock *l)
{
    LW_RW_STORE(&l->biased, LW__RW_BIASED, RELEASE); /* pairs with R in rwlock_mark.h */
    LW_RW_FENCE(); /* G; pairs with W */
    if (LW_RW_WRITER_WAITS(l))
        keep_marks_out(l);
}

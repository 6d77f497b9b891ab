/* SPDX-License-Identifier: MIT */
/* How a writer ends a lock's bias and waits for the marks: the library and the interleaver compile this text.
 * include/linewright/rwlock_mark.h has the reader's half and the argument, with the letters that are used here.
 *
 * The including file defines:
 *   LW_RW_HEAVY_BARRIER()      0 after every thread of the process has executed a full barrier during the call, or an errno
 *   LW_RW_NEXT_THREAD(t)       the first thread's marks for NULL, else the next; NULL: there is no further one
 *   LW_RW_WAIT(t, l, limit)    sleeps until `t`'s mark or the count may have changed: true, or until the limit is reached: false
 */

/* Read locks of `l` that a thread's mark stands for. Racy while the thread runs. */
static unsigned long marked_in(struct lw__rw_thread *t, struct lw_rwlock *l)
{
    uintptr_t at = lw__rw_position(l);
    if (LW_RW_LOAD(&t->mark[at], ACQUIRE) != l) /* S; pairs with U */
        return 0;
    return 1ul + LW_RW_LOAD(&t->again[at], ACQUIRE); /* pairs with the releases in again.h */
}

/* Those of all threads. */
static long marked(struct lw_rwlock *l)
{
    unsigned long sum = 0;
    for (struct lw__rw_thread *t = LW_RW_NEXT_THREAD((struct lw__rw_thread *)0); t; t = LW_RW_NEXT_THREAD(t))
        sum += marked_in(t, l);
    return (long)sum;
}

/* Whether no reader is inside, though marks are left: other threads have released what they stood for. Conclusive for a thread that holds the
 * plain lock for writing, after F: the argument is in again.h. */
static bool all_released(struct lw_rwlock *l)
{
    int32_t counted = readers_in(
        LW_RW_LOAD(&l->state, ACQUIRE)); /* K, which L makes an acquire, too, though not for ThreadSanitizer; pairs with the
                                                                     releases in plain.h and again.h */
    LW_RW_FENCE(); /* L; pairs with N in again.h */
    return marked(l) + counted <= 0;
}

/* Keeps further marks out and makes those that are there visible. For the thread that holds the plain lock for writing. 0, or membarrier's errno: then
 * the lock is biased as before, and readers may be inside. */
static int end_bias(struct lw_rwlock *l)
{
    (void)LW_RW_SWAP(&l->biased, LW__RW_BIASED, LW__RW_ENDING, RELAXED); /* B; pairs with R */
    int error = LW_RW_HEAVY_BARRIER(); /* F; pairs with M and R */
    if (error)
        (void)LW_RW_SWAP(&l->biased, LW__RW_ENDING, LW__RW_BIASED, RELAXED); /* R pairs with give_bias(), as before */
    return error;
}

/* Waits for every mark after end_bias(). False: the limit was reached; readers may be inside. */
static bool wait_for_marks(struct lw_rwlock *l, const struct limit *limit)
{
    for (struct lw__rw_thread *t = LW_RW_NEXT_THREAD((struct lw__rw_thread *)0); t; t = LW_RW_NEXT_THREAD(t))
        while (marked_in(t, l)) {
            if (readers_in(LW_RW_LOAD(&l->state, RELAXED)) < 0 && all_released(l))
                return true;
            if (!LW_RW_WAIT(t, l, limit))
                return false;
        }
    return true;
}

/* Takes the marks of a lock that no thread holds from their threads, which clear the places themselves. */
static void retire_marks(struct lw_rwlock *l)
{
    uintptr_t at = lw__rw_position(l);
    for (struct lw__rw_thread *t = LW_RW_NEXT_THREAD((struct lw__rw_thread *)0); t; t = LW_RW_NEXT_THREAD(t))
        (void)LW_RW_RETIRE(&t->mark[at], l);
}

#define LIMIT_REACHED (-1)

/* Ends the bias and waits for the marked readers. For the thread that holds the plain lock for writing. 0: none is inside, and no mark is left. Membarrier's
 * errno: nothing has changed. LIMIT_REACHED: readers may be inside; the lock is biased again if `restores`, else later writers look for them. */
static int revoke_bias(struct lw_rwlock *l, const struct limit *limit, bool restores)
{
    int error = end_bias(l);
    if (error)
        return error;
    if (!wait_for_marks(l, limit)) {
        if (restores)
            (void)LW_RW_SWAP(&l->biased, LW__RW_ENDING, LW__RW_BIASED, RELAXED); /* as in end_bias() */
        return LIMIT_REACHED;
    }
    uint32_t s = LW_RW_LOAD(&l->state, RELAXED);
    if (readers_in(s) < 0) {
        retire_marks(l);
        while (!EXCHANGE(l, &s, s & ~READERS, RELEASE)) /* pairs with the acquire in mark_again() */
            ;
    }
    (void)LW_RW_AND(&l->biased, LW__RW_STAYS_PLAIN, RELEASE); /* pairs with the acquire in is_plain() */
    return 0;
}

/* How a writer ends a lock's bias and waits for the marks: the library, the interleaver and the model checker's harness compile this
 * text. include/linewright/rwlock_mark.h has the reader's half and the argument, with the letters that are used here.
 *
 * The including file defines:
 *   LW_RW_HEAVY_BARRIER()      0 after every thread of the process has executed a full barrier during the call, or an errno
 *   LW_RW_NEXT_THREAD(t)       the first thread's marks for NULL, else the next; NULL: there is no further one
 *   LW_RW_WAIT(t, l, limit)    sleeps until `t`'s mark may have changed: true, or until the limit is reached: false
 */

/* Read locks of `l` that a thread's mark stands for. Racy while the thread runs; see inside(). */
static unsigned long marked_in(struct lw__rw_thread *t, struct lw_rwlock *l)
{
    uintptr_t at = lw__rw_position(l);
    if (LW_RW_LOAD(&t->mark[at], ACQUIRE) != l) /* S; pairs with U */
        return 0;
    return 1ul + LW_RW_LOAD(&t->again[at], ACQUIRE); /* pairs with the release in lw__rw_read_unlock_slow() */
}

/* Whether a marked reader is inside, where `handed` read locks were released by threads that had no mark.
 *
 * `handed` is read before the marks. While the writer waits, a thread's count falls and never rises: a further read lock of a thread
 * with a mark is counted only while `handed` is 0, and marks that are taken back only add. So the sum is at least the sum at its end,
 * and `handed` is at most what it is at its end: if they are equal, no reader is left. */
static bool inside_handed(struct lw_rwlock *l)
{
    unsigned long handed = LW_RW_LOAD(&l->handed, ACQUIRE); /* pairs with the release in hand_over() in rwlock.c */
    unsigned long sum = 0;
    for (struct lw__rw_thread *t = LW_RW_NEXT_THREAD((struct lw__rw_thread *)0); t; t = LW_RW_NEXT_THREAD(t))
        sum += marked_in(t, l);
    return sum != handed;
}

/* Waits until one thread's mark is not this lock, or no marked reader is inside for whom other threads released. */
static bool wait_for_thread(struct lw__rw_thread *t, struct lw_rwlock *l, const struct limit *limit)
{
    while (marked_in(t, l)) {
        if (LW_RW_LOAD(&l->handed, RELAXED) && !inside_handed(l))
            return true;
        if (!LW_RW_WAIT(t, l, limit))
            return false;
    }
    return true;
}

/* Keeps further marks out and makes those that are there visible. For the thread that holds the plain lock for writing. 0, or membarrier's errno: then
 * the lock is biased as before, and readers may be inside. */
static int end_bias(struct lw_rwlock *l)
{
    LW_RW_STORE(&l->biased, LW__RW_ENDING, RELAXED); /* B; pairs with R */
    int error = LW_RW_HEAVY_BARRIER(); /* F; pairs with M and R */
    if (error)
        LW_RW_STORE(&l->biased, LW__RW_BIASED, RELEASE);
    return error;
}

/* Waits for every mark after end_bias(). False: the limit was reached; readers may be inside. */
static bool wait_for_marks(struct lw_rwlock *l, const struct limit *limit)
{
    for (struct lw__rw_thread *t = LW_RW_NEXT_THREAD((struct lw__rw_thread *)0); t; t = LW_RW_NEXT_THREAD(t))
        if (!wait_for_thread(t, l, limit))
            return false;
    return true;
}

#define LIMIT_REACHED (-1)

/* Ends the bias and waits for the marked readers. For the thread that holds the plain lock for writing. 0: none is inside. Membarrier's errno:
 * nothing has changed. LIMIT_REACHED: readers may be inside, and `biased` is `again`: LW__RW_BIASED, or LW__RW_ENDING, by which a later writer
 * looks for them. */
static int revoke_bias(struct lw_rwlock *l, const struct limit *limit, uint32_t again)
{
    int error = end_bias(l);
    if (error)
        return error;
    if (wait_for_marks(l, limit)) {
        LW_RW_STORE(&l->biased, 0, RELEASE); /* pairs with the acquire in is_plain() */
        return 0;
    }
    LW_RW_STORE(&l->biased, again, RELEASE); /* pairs with R */
    return LIMIT_REACHED;
}

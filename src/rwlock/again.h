/* SPDX-License-Identifier: MIT */
/* What a thread does with a mark that it has already, and with a read lock for which it has none: the library and the interleaver compile this text.
 *
 * Read locks have no names: a thread releases with its mark if it has one, and else takes one from the plain lock's count. The count is signed,
 * so that one number holds both what is counted there and what is released there. Of a lock, at every moment,
 *
 *   read locks that are held = those that marks stand for (1 + again each) + the count
 *
 * and every step adds one to the right side or takes one from it. Marks whose read locks other threads released stay, with a count below 0, until
 * the next writer retires them. The lock turns biased no more then: a program that hands read locks over has a plain lock, which knows no
 * threads.
 *
 * The writer. It may hold the plain lock for writing while the count is 0 or less. From then on nothing adds to the count; a release by
 * another thread makes it less. After its barrier F no mark comes that stays. So if it reads the count first (K) and the marks then, and the
 * sum is 0, no reader is left, but for threads that mark again meanwhile:
 *
 *   mark_again()   again = again + 1                  writer   K: read the count (acquire), which is below 0
 *                  N: full fence                               L: full fence
 *                  read the count (acquire),                   S: read every `again`
 *                  and the mark once more
 *
 * If the count that the thread reads is older than the one that the writer read, the writer sees `again`, and its sum is not 0. Else it
 * is below 0, or the writer has set it to 0 with release; the mark was retired before. In both cases the thread takes `again` back and counts
 * itself, as if it had no mark. Where the count is 0 when the writer has ended the bias, it waits until each mark has gone; and a thread without
 * a mark does not mark again.
 *
 * Waiting. A reader that the writer waits for may be released by any other thread: by the one whose mark the writer looks at, which looks at
 * `waited`; by one that has no mark, which takes the count below 0 and looks at every thread's `waited`; or, where the count is below 0, by
 * a thread whose mark the writer does not look at. So where the count is below 0 the writer does not wait to be woken, but looks every ms.
 * A lock is in that state once, before its first writer after the first read lock that was handed over. */

/* The position is marked with this lock: a further read lock of the same thread. True: the thread is inside. */
static bool mark_again(struct lw__rw_thread *self, struct lw_rwlock *l)
{
    uintptr_t at = lw__rw_position(l);
    uint32_t again = LW_RW_LOAD(&self->again[at], RELAXED);
    if (LW_RW_LOAD(&self->mark[at], RELAXED) != l || again == UINT32_MAX)
        return false;
    LW_RW_STORE(&self->again[at], again + 1, RELAXED);
    LW_RW_FENCE(); /* N; pairs with L in revoke.h */
    /* Acquire: pairs with the release in revoke_bias(), so that the mark is seen to be retired. */
    if (readers_in(LW_RW_LOAD(&l->state, ACQUIRE)) >= 0 && LW_RW_LOAD(&self->mark[at], RELAXED) == l)
        return true;
    LW_RW_STORE(&self->again[at], again, RELEASE); /* for ThreadSanitizer, which sees no N; pairs as below */
    return false;
}

/* False: this thread has no mark for the lock. For a thread that lw__rw_unmark() refused. */
static bool unmark_again(struct lw__rw_thread *self, struct lw_rwlock *l)
{
    uintptr_t at = lw__rw_position(l);
    if (LW_RW_LOAD(&self->mark[at], RELAXED) != l)
        return false;
    LW_RW_STORE(&self->again[at], LW_RW_LOAD(&self->again[at], RELAXED) - 1,
                RELEASE); /* pairs with the second acquire in marked_in() */
    return true;
}

/* Clears a place whose mark a writer retired. */
static void clear_retired(struct lw__rw_thread *self, uintptr_t at)
{
    struct lw_rwlock *none = 0;
    if (LW_RW_LOAD(&self->mark[at], RELAXED) != LW__RW_RETIRED)
        return;
    LW_RW_STORE(&self->again[at], 0, RELAXED);
    /* Relaxed: S reads nothing else behind it, and the thread's next mark comes before an F that does not see it. */
    LW_RW_STORE(&self->mark[at], none, RELAXED);
}

/* Whether a marked reader may be inside. The bias has ended for good, so no mark comes after the barrier, and a thread without one does not mark
 * again: if none is seen then, there is none. Where the barrier is refused the caller is believed. */
static bool may_be_marked(struct lw_rwlock *l)
{
    return marked(l) != 0 || LW_RW_HEAVY_BARRIER() != 0 || marked(l) != 0;
}

#define COUNTED_AGAIN 1

/* Releases a marked read lock of another thread: takes the count, in which the caller has seen none, below 0. 0; -EPERM: no thread holds the
 * lock for reading; -EOVERFLOW: 2^19 read locks are handed over; COUNTED_AGAIN: the count has changed.
 *
 * Acquire: a release that took the last count was, as this one, of a read lock that was taken before. If it is seen here, so is what came before it:
 * the mark that is left, and that the lock was biased then. */
static int hand_over(struct lw_rwlock *l)
{
    uint32_t s = LW_RW_LOAD(&l->state, ACQUIRE); /* pairs with the releases in plain.h and below */
    if (readers_in(s) > 0)
        return COUNTED_AGAIN;
    if (!bias_ends_for_good(l))
        return -EPERM;
    if (readers_in(s) == 0 && !may_be_marked(l)) /* a count below 0 is not summed up: what the sum is of moves meanwhile */
        return readers_in(LW_RW_LOAD(&l->state, RELAXED)) > 0 ? COUNTED_AGAIN : -EPERM; /* the barrier makes it new enough */
    if (readers_in(s) == FEWEST_READERS)
        return -EOVERFLOW;
    /* Pairs with K, and the acquires above and in plain.h. */
    return EXCHANGE(l, &s, counting(s, READERS), RELEASE) ? 0 : COUNTED_AGAIN;
}

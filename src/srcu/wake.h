/* SPDX-License-Identifier: MIT */
/* Wake-ups without a lock: of waiters for a grace period, of threads that wait for callbacks, of the worker. The library and
 * the interleaver compile this text.
 *
 * A sleeper reads the number, checks that it has nothing to do, and calls wake_sleep() with that number. A waker makes
 * something to do and calls wake_sleepers(). Either the waker sees that the sleeper has counted itself, or the sleeper's
 * kernel sees the new number and does not let it sleep.
 *
 * The including file defines, for a type LW_WAKE that holds both words:
 *   LW_WAKE_NOTE(e)             adds one to the number, sequentially consistent
 *   LW_WAKE_SLEEPERS(e)         threads that may sleep, sequentially consistent load
 *   LW_WAKE_ALL(e)              futex: wakes all threads that sleep on the number
 *   LW_WAKE_ENTER(e), LW_WAKE_LEAVE(e)   count the calling thread in, sequentially consistent, and out, relaxed
 *   LW_WAKE_SLEEP(e, seen, ns)  futex: sleeps if the number is `seen`, for at most ns
 *
 * and, for a worker of type LW_WAKE_WORKER that ends when it is idle:
 *   LW_WAKE_WORKER_NUMBER(w)    load the number, sequentially consistent
 *   LW_WAKE_WORKER_SET(w, n)    store which worker is to work, 0 for none, sequentially consistent; under the worker's lock */

static inline void wake_sleepers(LW_WAKE *e)
{
    LW_WAKE_NOTE(e);
    if (LW_WAKE_SLEEPERS(e))
        LW_WAKE_ALL(e);
}

static inline void wake_sleep(LW_WAKE *e, uint32_t seen, uint64_t ns)
{
    LW_WAKE_ENTER(e);
    LW_WAKE_SLEEP(e, seen, ns);
    LW_WAKE_LEAVE(e);
}

/* Under the worker's lock. True: worker `me` has ended, having had nothing to do since `seen` was read. Either a caller that
 * has made something to do, and then changed the number, sees that there is no worker and starts one, or this sees the new
 * number. */
static inline bool wake_end_worker(LW_WAKE_WORKER *w, uint32_t me, uint32_t seen)
{
    LW_WAKE_WORKER_SET(w, 0);
    bool end = LW_WAKE_WORKER_NUMBER(w) == seen;
    if (!end)
        LW_WAKE_WORKER_SET(w, me);
    return end;
}

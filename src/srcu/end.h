/* SPDX-License-Identifier: MIT */
/* Whether a domain may end. The library and the interleaver compile this text.
 *
 * The including file defines, for a domain type LW_END_DOMAIN:
 *   LW_END_SUM_UNLOCKS(d, i), LW_END_SUM_LOCKS(d, i)   adds up every counter of index i
 *   LW_END_HEAVY_BARRIER(d)    0 after every thread of the process has executed a full barrier during the call; or an errno
 *   LW_END_QUEUED(d)           callbacks that have not returned; acquire
 *   LW_END_WAITERS(d)          threads that wait in one of the domain's functions; acquire, and the last thing that such a thread
 *                              does with the domain is to count itself out, with release */

/* 0: no reader is inside; -EBUSY: one is; other errors: the barrier's, and it is not known. `ordered`: the caller has
 * ordered all earlier readers before. The sums are those of a scan in gp.h, for both indices. */
static int end_readers(LW_END_DOMAIN *d, bool ordered)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned long unlocks = LW_END_SUM_UNLOCKS(d, i);
        int err = ordered ? 0 : LW_END_HEAVY_BARRIER(d);
        if (err)
            return -err;
        if (LW_END_SUM_LOCKS(d, i) != unlocks)
            return -EBUSY;
    }
    return 0;
}

/* 0: it may end; else why not. */
static int end_refused(LW_END_DOMAIN *d, bool ordered)
{
    int err = end_readers(d, ordered);
    if (err)
        return err;
    return LW_END_QUEUED(d) || LW_END_WAITERS(d) ? -EAGAIN : 0;
}

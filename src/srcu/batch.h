/* SPDX-License-Identifier: MIT */
/* Callbacks on their way from lw_srcu_call() to a grace period. The library and the interleaver compile this text.
 *
 * The including file defines, for a domain type LW_BATCH_DOMAIN:
 *   LW_BATCH_WAITING(d)         callbacks wait for the domain's next cookie
 *   LW_BATCH_TAKE(d)            makes all that were pushed wait; acquire, pairs with the release of the push
 *   LW_BATCH_COOKIE(d)          gp_cookie(): begins with a full barrier
 *   LW_BATCH_SET_COOKIE(d, c)   what they wait for
 *   LW_BATCH_SWAP_LISTED(d, v)  exchanges the domain's mark that it is listed among those with work; acquire and release
 *   LW_BATCH_LIST(d)            puts it on the list of newly listed domains
 *   LW_BATCH_LEFT(d)            callbacks that are pushed, wait or are ready, or a request by lw_srcu_start_poll() */

/* What was pushed gets a cookie that is taken after it was: a grace period that began before a push is not the one to wait
 * for. */
static void batch_next(LW_BATCH_DOMAIN *d)
{
    if (LW_BATCH_WAITING(d))
        return;
    LW_BATCH_TAKE(d);
    if (LW_BATCH_WAITING(d))
        LW_BATCH_SET_COOKIE(d, LW_BATCH_COOKIE(d));
}

/* After something was left to do. One thread lists the domain; the others' work is seen by the server, or by
 * batch_over(). */
static void batch_list(LW_BATCH_DOMAIN *d)
{
    if (!LW_BATCH_SWAP_LISTED(d, 1))
        LW_BATCH_LIST(d);
}

/* The domain was served. False: it has to be served again. True: it is off the server's list, and the one that leaves
 * something to do from now on lists it. The exchange reads the mark of each thread that found it set, whose work is seen
 * therefore. */
static bool batch_over(LW_BATCH_DOMAIN *d)
{
    if (LW_BATCH_LEFT(d))
        return false;
    (void)LW_BATCH_SWAP_LISTED(d, 0);
    return !LW_BATCH_LEFT(d) || LW_BATCH_SWAP_LISTED(d, 1); /* listed again by another thread: on the other list */
}

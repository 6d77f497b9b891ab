/* SPDX-License-Identifier: MIT */
/* SRCU's grace period as a step machine: the library and the interleaver compile this text.
 *
 * The including file defines, for a domain type LW_GP_DOMAIN with the fields phase and seq:
 *   LW_GP_SUM_UNLOCKS(d, i), LW_GP_SUM_LOCKS(d, i)   adds up every counter of index i with relaxed loads
 *   LW_GP_HEAVY_BARRIER(d)   0 after every thread of the process has executed a full barrier during the call; or an errno
 *   LW_GP_FENCE()            a full barrier of the calling thread
 *   LW_GP_INDEX(d)           the index that new readers take (relaxed load)
 *   LW_GP_FLIP(d)            makes new readers take the other index (relaxed store)
 *   LW_GP_LOAD_SEQ(d), LW_GP_STORE_SEQ(d, v)         relaxed load, release store
 *   LW_GP_POINT(name)        nothing, or a test's delay
 *
 * A reader loads the index, adds one to that index's locks (1), runs its critical section (2), and adds one to the same
 * index's unlocks (3). Normal flavours have a full barrier B between 1 and 2 and a barrier C between 2 and 3, of which only
 * the order of 2 before 3 is needed: x86 has it without an instruction. Fast flavours have compiler barriers there.
 *
 * Equal sums prove that every reader the scan had to wait for is done. The scan adds up unlocks first. An unlock that it saw
 * was counted after its lock, so the later sum of locks includes that lock too; the barrier between the two sums keeps them
 * in order and makes what the first sum saw hold for the second. Hence locks >= unlocks, and equality means that the unlock
 * of every lock that was seen was seen as well. Consider one reader and the barrier that its thread executes for the scan:
 *   - Its lock was counted before that barrier. Then the sum of locks includes it, so its unlock was summed, so the unlock was
 *     counted before that barrier too. The whole critical section is before the barrier, and no access of it can be
 *     delayed past the barrier. Whatever the updater does after the scan comes later.
 *   - Its lock was counted after that barrier. Then its critical section is after the barrier as well, and sees everything that
 *     the updater did before the grace period. It need not be waited for.
 * For normal flavours B and C stand for the barrier of the reader's thread (store buffering and message passing).
 *
 * Both indices are scanned. A reader may load the index, be preempted for long, and count only then. If one index were
 * scanned without a flip, new readers could keep the sums from ever becoming equal. If only the index in use before the flip
 * were scanned, a reader that loaded the other index before an EARLIER flip would count where no scan looks: it may have
 * begun before this grace period and would be missed. So the idle index is scanned before the flip and the other one after
 * it.
 *
 * Overflow: sums are modulo 2^64 (2^32 on 32-bit machines). Equality is wrong only with exactly that many readers inside.
 */

/* True: no reader that the grace period has to wait for is left on `index`. False: scan again later. Sets *error to the
 * errno of a barrier that failed; then nothing is known. */
static bool gp_scan(LW_GP_DOMAIN *d, unsigned index, int *error)
{
    unsigned long unlocks = LW_GP_SUM_UNLOCKS(d, index);
    LW_GP_POINT(UNLOCKS_SUMMED);
    /* This first sum of locks proves nothing. While readers are inside it saves the barrier, and the interrupts that come
     * with it. */
    if (LW_GP_SUM_LOCKS(d, index) != unlocks)
        return false;
    *error = LW_GP_HEAVY_BARRIER(d);
    LW_GP_POINT(BARRIER);
    unsigned long locks = LW_GP_SUM_LOCKS(d, index);
    LW_GP_POINT(LOCKS_SUMMED);
    return !*error && locks == unlocks;
}

/* Advances the grace period as far as it goes without waiting. 1: a grace period has ended; 0: not yet; negative: the
 * barrier's errno.
 *
 * No barriers are needed beside those of the scans. A waiter that still reads the even number relies on this grace period:
 * what it stored before gp_cookie() is before the first scan's barrier. A thread that sees the final number sees it after
 * the second scan's barrier. */
static int gp_step(LW_GP_DOMAIN *d)
{
    int error = 0;
    if (d->phase == LW__SRCU_IDLE) {
        LW_GP_STORE_SEQ(d, LW_GP_LOAD_SEQ(d) + 1);
        LW_GP_POINT(START);
        d->phase = LW__SRCU_FIRST_SCAN;
    }
    if (d->phase == LW__SRCU_FIRST_SCAN) {
        if (!gp_scan(d, LW_GP_INDEX(d) ^ 1, &error))
            return -error;
        LW_GP_FLIP(d);
        LW_GP_POINT(FLIP);
        d->phase = LW__SRCU_SECOND_SCAN;
    }
    if (!gp_scan(d, LW_GP_INDEX(d) ^ 1, &error))
        return -error;
    LW_GP_POINT(END);
    LW_GP_STORE_SEQ(d, LW_GP_LOAD_SEQ(d) + 1);
    d->phase = LW__SRCU_IDLE;
    return 1;
}

/* The value of `seq` at which a whole grace period, begun after this call, is certain to be over. */
static unsigned long gp_cookie(LW_GP_DOMAIN *d)
{
    /* Orders the caller's earlier stores before any grace period that begins later: store buffering with the store of the
     * odd number and the barrier of the first scan in gp_step(). */
    LW_GP_FENCE();
    unsigned long cookie = (LW_GP_LOAD_SEQ(d) + 3) & ~1ul;
    return cookie ? cookie : 2; /* 0 means "no cookie"; waiting for one grace period more is harmless */
}

static bool gp_passed(unsigned long seq, unsigned long cookie)
{
    return seq - cookie <= ~0ul / 2;
}

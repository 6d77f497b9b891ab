/* The grace period of SRCU as a step machine: the one text that the library, the interleaver and a model checker compile.
 *
 * Whoever includes this defines, for a domain type LW_GP_DOMAIN with fields phase and seq:
 *   LW_GP_SUM_UNLOCKS(d, i), LW_GP_SUM_LOCKS(d, i)   relaxed loads of every word of index i, added up
 *   LW_GP_HEAVY_BARRIER(d)   0, and then every thread of the process has executed a full barrier in between; or an errno
 *   LW_GP_FENCE()            a full barrier of this thread
 *   LW_GP_INDEX(d), LW_GP_FLIP(d)   the index that readers take; the other one from now on (relaxed)
 *   LW_GP_LOAD_SEQ(d), LW_GP_STORE_SEQ(d, v)         relaxed
 *   LW_GP_POINT(name)        nothing, or a test's delay
 *
 * Readers: load the index; count a lock on it (1); section (2); count an unlock on the same index (3). They have a full
 * barrier B between 1 and 2 and C between 2 and 3, or (fast flavours) compiler barriers only.
 *
 * Why a scan that finds equal sums proves that every section it had to wait for is over. Unlocks are summed first: an unlock
 * in the sum has its lock counted before it, by its own or another thread, so the later sum of locks has it too (the barrier in
 * between keeps the two sums in order, and makes what one of them saw hold for the other). So locks >= unlocks, and
 * equality means that each lock that was seen has its unlock among those seen. For a section and the barrier, either
 *   - the lock count comes before the barrier of its thread: the sum of locks sees it, so its unlock was summed, so that was
 *     counted before the barrier of that thread, and the whole section is over before it: nothing of it can be delayed past
 *     the barrier. What the updater does after the scan comes later than all of it; or
 *   - the lock count comes after the barrier of its thread: then so does the section, and it sees everything that the updater
 *     did before the grace period. It need not be waited for.
 * With reader barriers, B and C stand for the barrier of the reader's thread (store buffering and message passing).
 *
 * Why two scans. A reader may load the index, be put aside for long, and count then. With one scan of one index, new readers
 * could keep the sum from ever becoming equal; with a flip and one scan after it, a reader that loaded the old index before
 * an EARLIER flip counts on an index that nobody looks at any more: its section may have begun before this grace
 * period and would be missed. So both indices are scanned: the idle one before the flip, the one in use after it.
 *
 * Wrap: the sums are modulo 2^64 (2^32 on 32-bit machines). Equality is wrong only if exactly that many sections are open.
 */

/* LW_SRCU_MUTANT names one thing to leave out; the tests build each and see it caught. */
#define LW_GP_KEEP_ALL 0
#define LW_GP_NO_HEAVY_FIRST 1
#define LW_GP_NO_HEAVY_SECOND 2
#define LW_GP_LOCKS_FIRST 3
#define LW_GP_ONLY_FIRST_SCAN 4
#define LW_GP_ONLY_SECOND_SCAN 5
#define LW_GP_NO_FLIP 6
#define LW_GP_NO_STATE_FENCE 7
#ifndef LW_SRCU_MUTANT
#define LW_SRCU_MUTANT LW_GP_KEEP_ALL
#endif

/* True: no section on `index` that the grace period has to wait for. False: look again later. Sets *error when the barrier
 * could not be had; then nothing is known. */
static bool gp_scan(LW_GP_DOMAIN *d, unsigned index, bool barrier, int *error)
{
#if LW_SRCU_MUTANT == LW_GP_LOCKS_FIRST
    unsigned long locks = LW_GP_SUM_LOCKS(d, index);
    LW_GP_POINT(UNLOCKS_SUMMED);
    *error = LW_GP_HEAVY_BARRIER(d);
    LW_GP_POINT(BARRIER);
    unsigned long unlocks = LW_GP_SUM_UNLOCKS(d, index);
    (void)barrier;
#else
    unsigned long unlocks = LW_GP_SUM_UNLOCKS(d, index);
    LW_GP_POINT(UNLOCKS_SUMMED);
    /* A first look, which proves nothing, spares the barrier, and all that run its interruption, while sections are open. */
    if (LW_GP_SUM_LOCKS(d, index) != unlocks)
        return false;
    if (barrier)
        *error = LW_GP_HEAVY_BARRIER(d);
    LW_GP_POINT(BARRIER);
    unsigned long locks = LW_GP_SUM_LOCKS(d, index);
#endif
    LW_GP_POINT(LOCKS_SUMMED);
    return !*error && locks == unlocks;
}

/* One look. 1: a grace period has ended; 0: not yet; negative: the barrier's errno.
 * No barriers of its own beyond those of the scans: a waiter that still reads the even number relies on this grace period, and
 * what it stored before (see gp_state()) is before the first scan's barrier; whoever sees the number of the end sees it after
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
        if (LW_SRCU_MUTANT != LW_GP_ONLY_SECOND_SCAN &&
            !gp_scan(d, LW_GP_INDEX(d) ^ 1, LW_SRCU_MUTANT != LW_GP_NO_HEAVY_FIRST, &error))
            return -error;
        if (LW_SRCU_MUTANT != LW_GP_NO_FLIP)
            LW_GP_FLIP(d);
        LW_GP_POINT(FLIP);
        d->phase = LW__SRCU_SECOND_SCAN;
    }
    if (LW_SRCU_MUTANT != LW_GP_ONLY_FIRST_SCAN &&
        !gp_scan(d, LW_GP_INDEX(d) ^ 1, LW_SRCU_MUTANT != LW_GP_NO_HEAVY_SECOND, &error))
        return -error;
    LW_GP_POINT(END);
    LW_GP_STORE_SEQ(d, LW_GP_LOAD_SEQ(d) + 1);
    d->phase = LW__SRCU_IDLE;
    return 1;
}

/* The number that `seq` has once a grace period is over that had not begun when this was called. */
static unsigned long gp_state(LW_GP_DOMAIN *d)
{
    /* What the caller stored before comes before any grace period that begins later: store buffering with the store of the
     * odd number and the barrier of the first scan in gp_step(). */
    if (LW_SRCU_MUTANT != LW_GP_NO_STATE_FENCE)
        LW_GP_FENCE();
    unsigned long state = (LW_GP_LOAD_SEQ(d) + 3) & ~1ul;
    return state ? state : 2; /* 0 says "none"; one grace period more does no harm */
}

static bool gp_passed(unsigned long seq, unsigned long state)
{
    return seq - state <= ~0ul / 2;
}

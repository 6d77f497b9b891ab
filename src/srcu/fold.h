/* SPDX-License-Identifier: MIT */
/* Counts of threads that have ended: moving them, and sums that overlap a move. The library, the interleaver and the model
 * checker's harness compile this text.
 *
 * When a thread ends, its record's counts are added to one set for all ended threads, and the record is free for another
 * thread. A count is in two places or in none meanwhile, so a number that is odd during a move tells sums to begin again.
 *
 * The including file defines, for types LW_FOLD_WORD, LW_FOLD_RECORD and LW_FOLD_KIND (which counts to add up):
 *   LW_FOLD_GROUPS(), LW_FOLD_WORDS                  words of a record: the number of groups, and of words in each
 *   LW_FOLD_FROM(r, g, w), LW_FOLD_TO(g, w)          the word in a record, and in the set for ended threads
 *   LW_FOLD_LOAD(word), LW_FOLD_STORE(word, v)       relaxed load, release store
 *   LW_FOLD_BEGIN(), LW_FOLD_END()                   add one to the number: acquire and release, release
 *   LW_FOLD_GIVE(r)                                  frees the record: release; pairs with the acquire of the thread that takes it
 *   LW_FOLD_NUMBER(), LW_FOLD_NUMBER_AGAIN()         load the number: acquire, relaxed
 *   LW_FOLD_ADD_UP(k)                                adds up the ended threads' counts and the records in use, acquire loads
 *   LW_FOLD_TRIES                                    sums that may be in vain before the lock is taken
 *   LW_FOLD_LOCK(), LW_FOLD_UNLOCK()                 the lock that excludes fold_record() */

static void fold_move(LW_FOLD_WORD *to, LW_FOLD_WORD *from)
{
    unsigned long count = LW_FOLD_LOAD(from);
    if (!count)
        return;
    /* Release: a sum that sees one of these sees the odd number. Pairs with the acquires of LW_FOLD_ADD_UP(). */
    LW_FOLD_STORE(to, LW_FOLD_LOAD(to) + count);
    LW_FOLD_STORE(from, 0);
}

/* Under the lock. The record's thread does not count any more. */
static void fold_record(LW_FOLD_RECORD *r)
{
    LW_FOLD_BEGIN(); /* acquire: no store below comes before it */
    for (unsigned g = 0; g < LW_FOLD_GROUPS(); g++)
        for (unsigned w = 0; w < LW_FOLD_WORDS; w++)
            fold_move(LW_FOLD_TO(g, w), LW_FOLD_FROM(r, g, w));
    LW_FOLD_GIVE(r);
    LW_FOLD_END(); /* pairs with LW_FOLD_NUMBER() */
}

static unsigned long fold_sum(LW_FOLD_KIND *k)
{
    for (unsigned tries = 0; tries < LW_FOLD_TRIES; tries++) {
        uint32_t before = LW_FOLD_NUMBER();
        unsigned long sum = LW_FOLD_ADD_UP(k);
        if (!(before & 1) && LW_FOLD_NUMBER_AGAIN() == before)
            return sum;
    }
    LW_FOLD_LOCK(); /* many threads end just now */
    unsigned long sum = LW_FOLD_ADD_UP(k);
    LW_FOLD_UNLOCK();
    return sum;
}

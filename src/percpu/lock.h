/* SPDX-License-Identifier: MIT */
/* How a thread that cannot use a sequence comes to own one CPU's words, and what it does to a list then: the library and the
 * interleaver (tests/cpp/percpu/interleave.cpp) compile this text.
 *
 * The including file defines, for a type LW_LOCK of places that hold a lock word:
 *   LW_LOCK_LOAD(l)                  relaxed load
 *   LW_LOCK_SWAP(l, seen, value)     sequentially consistent compare-and-swap; false: seen, a variable, has the word
 *   LW_LOCK_FREE(l)                  exchange for 0 with release order; the word before
 *   LW_LOCK_SLEEP(l, seen)           sleeps while the word is `seen`; may wake early
 *   LW_LOCK_WAKE(l)                  wakes one sleeper
 *   LW_LOCK_ME()                     the number of this process, never 0
 *   LW_LOCK_HERE(cpu)                whether the calling thread runs on that CPU at this moment
 *   LW_LOCK_ABORT(cpu)               aborts the sequences that run on the CPU; false: not available
 *   LW_LOCK_POINT(name)              nothing, or a test's delay
 * and for lists, with types LW_LIST_PLACE of a pointer's place and LW_LIST_NODE of a pointer (0 or NULL: none):
 *   LW_LIST_LOAD(place), LW_LIST_STORE(place, node)     relaxed
 *   LW_LIST_NEXT(node)               the place in the node
 *
 * A lock word is 0 while free, else the number of the holder's process, with the top bit set while a thread may sleep for
 * it. The number identifies a lock that a child inherited in the middle of another thread's operation: its holder does not
 * exist in the child.
 *
 * Why the words are the caller's after own_cpu(): every sequence tests the lock word before it stores. One that tested it
 * before this thread stored the lock is still on its way, or was aborted, or is over. If this thread finds itself on that
 * CPU after it stored the lock, all others there were switched out since they tested, and the kernel aborts them. Otherwise
 * the abort on request ends them. One that tests the word later finds it held. The store of the lock comes before both
 * questions: it is sequentially consistent, and so is what the kernel does for an abort. */

#define LW_LOCK_SLEEPERS 0x80000000u

static void lock_word(LW_LOCK l)
{
    uint32_t me = LW_LOCK_ME();
    uint32_t want = me;
    for (;;) {
        uint32_t seen = LW_LOCK_LOAD(l);
        if (!seen || (seen & ~LW_LOCK_SLEEPERS) != me) { /* free, or inherited */
            if (LW_LOCK_SWAP(l, seen, want)) /* acquire: pairs with the release in unlock_word() */
                return;
        } else if (seen & LW_LOCK_SLEEPERS || LW_LOCK_SWAP(l, seen, seen | LW_LOCK_SLEEPERS)) {
            LW_LOCK_SLEEP(l, seen | LW_LOCK_SLEEPERS);
            want = me | LW_LOCK_SLEEPERS; /* other threads may still sleep */
        }
    }
}

/* Release: what the holder stored is seen by the next holder, and by sequences that find the lock free (x86 keeps load
 * order; arm64 has an address dependency, LW__SEQ_TEST_LOCK in arch/arm64/rseq.h). */
static void unlock_word(LW_LOCK l)
{
    if (LW_LOCK_FREE(l) & LW_LOCK_SLEEPERS)
        LW_LOCK_WAKE(l);
}

/* True: the CPU's words are this thread's alone until unlock_word(). False: sequences there can be neither ruled out nor
 * aborted, and the lock is free again. */
static bool own_cpu(LW_LOCK l, unsigned cpu)
{
    lock_word(l);
    LW_LOCK_POINT(LW__LOCKED);
    if (LW_LOCK_HERE(cpu) || LW_LOCK_ABORT(cpu))
        return true;
    unlock_word(l);
    return false;
}

/* ---- lists of an owned CPU ---- */

/* A chain of nodes, or one that is first and last. */
static void push_owned(LW_LIST_PLACE head, LW_LIST_NODE first, LW_LIST_NODE last)
{
    LW_LIST_STORE(LW_LIST_NEXT(last), LW_LIST_LOAD(head));
    LW_LOCK_POINT(LW__LOADED);
    LW_LIST_STORE(head, first);
}

static LW_LIST_NODE pop_owned(LW_LIST_PLACE head)
{
    LW_LIST_NODE node = LW_LIST_LOAD(head);
    LW_LOCK_POINT(LW__LOADED);
    if (node)
        LW_LIST_STORE(head, LW_LIST_LOAD(LW_LIST_NEXT(node)));
    return node;
}

/* The whole list, as a chain. */
static LW_LIST_NODE take_owned(LW_LIST_PLACE head)
{
    LW_LIST_NODE first = LW_LIST_LOAD(head);
    LW_LOCK_POINT(LW__LOADED);
    LW_LIST_STORE(head, 0);
    return first;
}

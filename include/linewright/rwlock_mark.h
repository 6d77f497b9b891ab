/* SPDX-License-Identifier: MIT */
/* A reader's mark on a biased lock; part of rwlock.h. The library and the interleaver compile this text and the
 * writer's half, src/rwlock/revoke.h.
 *
 * Reader and writer are each other's store buffering test:
 *
 *   reader   M: mark = lock                   writer   (holds the plain lock)
 *            R: read biased                            B: biased = LW__RW_ENDING
 *            read-side critical section                F: a barrier in every thread (membarrier)
 *            U: mark = NULL (release)                  S: read every thread's mark (acquire), wait until it is not the lock
 *
 * Consider the barrier that F has the reader's thread execute. M before it: S sees the mark, or what came after it; if it sees
 * NULL again it sees the store U, a release, and the critical section comes before what the writer does. M after it: so is R, which
 * sees B; the reader takes its mark back and takes the plain lock, which the writer holds. Compiler barriers keep M before R.
 *
 * R is an acquire: what it reads was stored with release by a reader that held the plain lock after the last writer, so a marked
 * reader sees what that writer did.
 *
 * A mark that is taken back was never inside; a writer that sees it waits a moment longer than it must. While a writer waits in S no
 * thread adds a mark that stays: a thread whose mark is set counts further read locks in `again`, and others see B. So one
 * pass over the threads is enough.
 *
 * Further read locks of a marked lock, and those that other threads release: src/rwlock/again.h.
 *
 * A writer that waits for readers of the plain lock makes `biased` LW__RW_ENDING, too: later readers do not mark, and the writer that gets
 * the plain lock ends the bias as above. It stores 0 once no marked reader is inside. */
#ifndef LINEWRIGHT_RWLOCK_H
#include <linewright/rwlock.h> /* it includes this file where it belongs */
#elif !defined(LINEWRIGHT_RWLOCK_MARK_H)
#define LINEWRIGHT_RWLOCK_MARK_H

#ifndef LW_RW_LOAD
#define LW_RW_LOAD(p, order) __atomic_load_n((p), __ATOMIC_##order)
#define LW_RW_STORE(p, v, order) __atomic_store_n((p), (v), __ATOMIC_##order)
/* The compiler keeps what is before it before; the CPU need not: F pairs with it. */
#define LW_RW_COMPILER_BARRIER() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* U. A writer that sleeps for this thread looks at the marks again. It makes `waited` odd, runs a membarrier and then reads the mark
 * (S): if that still showed the lock, then U and the load after it come after that barrier in this thread. It loads that odd number and wakes
 * the writer, or a later number: then another thread has woken it, since a number comes again after 2^31 wake-ups at the soonest. */
__attribute__((always_inline)) static inline void lw__rw_take_back(struct lw__rw_thread *self, uintptr_t at)
{
    struct lw_rwlock *none = 0;
    LW_RW_STORE(&self->mark[at], none, RELEASE); /* pairs with the acquire in marked_in() in src/rwlock/revoke.h */
    LW_RW_COMPILER_BARRIER();
    if (__builtin_expect((LW_RW_LOAD(&self->waited, RELAXED) & 1) != 0, 0))
        lw__rw_wake_writer(self);
}

/* True: the calling thread is inside. False: the lock is not biased, or the position is taken, also by this lock. */
__attribute__((always_inline)) static inline bool lw__rw_mark(struct lw__rw_thread *self, struct lw_rwlock *l)
{
    uintptr_t at = lw__rw_position(l);
    if (LW_RW_LOAD(&l->biased, RELAXED) != LW__RW_BIASED ||
        LW_RW_LOAD(&self->mark[at], RELAXED)) /* written by this thread */
        return false;
    LW_RW_STORE(&self->mark[at], l, RELAXED); /* M; pairs with F and S in src/rwlock/revoke.h */
    LW_RW_COMPILER_BARRIER();
    if (__builtin_expect(LW_RW_LOAD(&l->biased, ACQUIRE) == LW__RW_BIASED,
                         1)) /* R; pairs with the releases in src/rwlock/ */
        return true;
    lw__rw_take_back(self, at);
    return false;
}

/* True: one read lock of this thread's mark is released. False: there is none, or it is not the last one. */
__attribute__((always_inline)) static inline bool lw__rw_unmark(struct lw__rw_thread *self, struct lw_rwlock *l)
{
    uintptr_t at = lw__rw_position(l);
    if (LW_RW_LOAD(&self->mark[at], RELAXED) != l || LW_RW_LOAD(&self->again[at], RELAXED))
        return false;
    lw__rw_take_back(self, at);
    return true;
}

#endif

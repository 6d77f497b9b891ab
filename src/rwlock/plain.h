/* The plain lock under every lw_rwlock: two words and the futex system call.
 *
 * `state` holds
 *   bits 0 to 27   readers inside that counted themselves here: 2^28 - 1 at most, more than there can be threads
 *   bit 28         a writer is inside, or waits for marked readers
 *   bit 30         readers sleep on `state`
 *   bit 31         writers sleep on `queue`, whose value changes with each wake-up
 *
 * A waiting writer keeps later readers out (bit 31), but for threads that hold a read lock already: those would wait for themselves.
 * Who releases the lock last wakes one writer, or all readers where no writer sleeps. A writer that slept sets bit 31 again when it
 * takes the lock, since the wake-up cleared it and others may sleep. */
#ifndef LINEWRIGHT_SRC_RWLOCK_PLAIN_H
#define LINEWRIGHT_SRC_RWLOCK_PLAIN_H

#include "limit.h"

#include <errno.h>

#include <linewright/arch/cpu.h>

#define READERS 0x0fffffffu
#define WRITER 0x10000000u
#define READERS_SLEEP 0x40000000u
#define WRITERS_SLEEP 0x80000000u

#define LW_RW_WRITER_WAITS(l) ((LW_RW_LOAD(&(l)->state, RELAXED) & WRITERS_SLEEP) != 0)
#include "bias.h"

#define SPINS 100 /* looks at the word before a thread sleeps, a few microseconds: about what sleeping and waking costs */

/* The word after it has changed from what blocks, or after some looks. Nothing is ordered by it. */
static inline uint32_t spin_while(const uint32_t *word, uint32_t blocking, uint32_t or_set)
{
    uint32_t s = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (int i = 0; i < SPINS && s & blocking && !(s & or_set); i++) {
        lw_cpu_relax();
        s = __atomic_load_n(word, __ATOMIC_RELAXED);
    }
    return s;
}

static inline int plain_read_lock(struct lw_rwlock *l, bool passes_writers, const struct limit *limit)
{
    uint32_t blocking = passes_writers ? WRITER : WRITER | WRITERS_SLEEP;
    uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    for (;;) {
        if (!(s & blocking)) {
            if ((s & READERS) == READERS)
                return -EAGAIN;
            /* Acquire: pairs with the release in plain_write_unlock(). */
            if (__atomic_compare_exchange_n(&l->state, &s, s + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
                return 0;
            continue;
        }
        if (limit->ns == 0)
            return -EBUSY;
        s = spin_while(&l->state, blocking, READERS_SLEEP);
        if (!(s & blocking))
            continue;
        if (!(s & READERS_SLEEP) &&
            !__atomic_compare_exchange_n(&l->state, &s, s | READERS_SLEEP, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        if (!sleep_until(&l->state, s | READERS_SLEEP, limit))
            return -ETIMEDOUT;
        s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    }
}

/* A writer's limit is reached, and it cannot know whether others sleep: all who sleep look again, so that the others set their bits again. */
static inline void plain_give_up(struct lw_rwlock *l)
{
    uint32_t s = __atomic_fetch_and(&l->state, ~(READERS_SLEEP | WRITERS_SLEEP), __ATOMIC_RELAXED);
    if (s & WRITERS_SLEEP) {
        __atomic_fetch_add(&l->queue, 1, __ATOMIC_RELEASE); /* pairs with the acquire in plain_write_lock() */
        lw_futex_wake_all(&l->queue);
    }
    if (s & READERS_SLEEP)
        lw_futex_wake_all(&l->state);
}

static inline int plain_write_lock(struct lw_rwlock *l, const struct limit *limit)
{
    uint32_t slept = 0; /* WRITERS_SLEEP once this thread has slept: other writers may, too */
    uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    for (;;) {
        if (!(s & (WRITER | READERS))) {
            /* Acquire: pairs with the releases in plain_read_unlock() and plain_write_unlock(). */
            if (__atomic_compare_exchange_n(&l->state, &s, s | WRITER | slept, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
                return 0;
            continue;
        }
        if (limit->ns == 0)
            return -EBUSY;
        s = spin_while(&l->state, WRITER | READERS, WRITERS_SLEEP);
        if (!(s & (WRITER | READERS)))
            continue;
        if (!(s & WRITERS_SLEEP) &&
            !__atomic_compare_exchange_n(&l->state, &s, s | WRITERS_SLEEP, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        slept = WRITERS_SLEEP;
        keep_marks_out(l);
        /* Acquire: the state is read after it. A wake-up clears bit 31 first and changes `queue` then (release in wake()), so where bit
         * 31 is still set here, the wake-up that clears it changes `queue` after this value. */
        uint32_t turn = __atomic_load_n(&l->queue, __ATOMIC_ACQUIRE);
        s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
        if (!(s & (WRITER | READERS)) || !(s & WRITERS_SLEEP))
            continue;
        if (!sleep_until(&l->queue, turn, limit)) {
            plain_give_up(l);
            return -ETIMEDOUT;
        }
        s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    }
}

/* Wakes one writer, else the readers. `s`: the state that the release left, without a thread inside. A thread that takes the lock
 * meanwhile wakes the others when it releases. */
static inline void plain_wake(struct lw_rwlock *l, uint32_t s)
{
    if (s & WRITERS_SLEEP) {
        if (!__atomic_compare_exchange_n(&l->state, &s, s & ~WRITERS_SLEEP, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
            !(s == (READERS_SLEEP | WRITERS_SLEEP) &&
              __atomic_compare_exchange_n(&l->state, &s, READERS_SLEEP, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)))
            return;
        __atomic_fetch_add(&l->queue, 1, __ATOMIC_RELEASE); /* pairs with the acquire in plain_write_lock() */
        if (lw_futex_wake(&l->queue, 1) > 0)
            return;
        s &= ~WRITERS_SLEEP; /* it had reached its limit, or did not sleep yet and looks again */
    }
    if (s == READERS_SLEEP && __atomic_compare_exchange_n(&l->state, &s, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        lw_futex_wake_all(&l->state);
}

/* False: no reader is counted here. */
static inline bool plain_read_unlock(struct lw_rwlock *l)
{
    uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    do {
        if (!(s & READERS))
            return false;
        /* Release: pairs with the acquire in plain_write_lock(). */
    } while (!__atomic_compare_exchange_n(&l->state, &s, s - 1, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    s -= 1;
    if (!(s & READERS) && s & (READERS_SLEEP | WRITERS_SLEEP))
        plain_wake(l, s);
    return true;
}

/* `readers_first`: readers sleep for this writer alone, so they are woken beside any writer. */
static inline void plain_write_unlock(struct lw_rwlock *l, bool readers_first)
{
    uint32_t clear = WRITER | (readers_first ? READERS_SLEEP : 0);
    /* Release: pairs with the acquires above. */
    uint32_t before = __atomic_fetch_and(&l->state, ~clear, __ATOMIC_RELEASE), s = before & ~clear;
    if (before & clear & READERS_SLEEP)
        lw_futex_wake_all(&l->state);
    if (s & (READERS_SLEEP | WRITERS_SLEEP))
        plain_wake(l, s);
}

#endif

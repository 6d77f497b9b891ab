/* SPDX-License-Identifier: MIT */
/* The plain lock under every lw_rwlock: two words and the futex system call.
 *
 * `state` is in state.h; `queue`, on which writers sleep, changes with each wake-up.
 *
 * A waiting writer keeps later readers out until it has had the lock, but for threads that hold it for reading already: those would wait for
 * themselves. Where readers go first, as with preloaded locks, it keeps them out only while none is inside: no reader waits for a writer that waits
 * for another reader. One that has slept for a writer passes further ones. Who releases the lock last wakes one writer; a writer, and a reader
 * where no writer waits, wakes all readers. A thread that comes while a woken one is on its way may take the lock before it: handing the lock to a
 * thread that does not run yet would leave it idle for so long.
 *
 * Neither side passes the other for ever. A writer that has waited for PATIENCE keeps out those that do not wait yet. A reader that has looked some
 * times and finds a writer inside asks for the readers' turn: no writer that waits is woken after that one, and none enters, but for a try, before
 * the reader that asked has entered, or has given up. Its entry ends the turn; others may ask again. It asks before it sleeps: one that must run
 * again to ask, beside writers that lock and unlock all the time, has to wait for a CPU until the scheduler takes one from them, some ms. A reader
 * that only waiting writers keep out passes them after PATIENCE.
 *
 * The step that releases the lock is its thread's last access to the lock's memory, since another thread may take it, destroy it and unmap
 * it at once. So WOKEN is set and `queue` changed before; where WOKEN has gone meanwhile, both are done again. A writer reads `queue`
 * first and then sees in `state` that the lock is held and that WOKEN is not set: the thread that releases it changes `queue` later. */
#ifndef LINEWRIGHT_SRC_RWLOCK_PLAIN_H
#define LINEWRIGHT_SRC_RWLOCK_PLAIN_H

#include "limit.h"
#include "state.h"

#include <linewright/relax.h>

#define LW_RW_WRITER_WAITS(l) ((LW_RW_LOAD(&(l)->state, RELAXED) & WRITERS_WAIT) != 0)
#include "bias.h"

#ifndef LONGEST_PAUSE
#define LONGEST_PAUSE \
    256u /* lw_relax() between two looks, before a thread sleeps: 511 in all, some 20 us, as long as a membarrier or a sleep */
#endif
#ifndef BACK_OFF
#define BACK_OFF \
    256u /* lw_relax(), after another thread has changed the state first: 4 to 12 us, for which the line stays with that thread's CPU */
#endif
#define PAUSE_BEFORE_ASKING 16u /* as LONGEST_PAUSE: a reader asks for its turn after a longer one, some us */
#define PATIENCE UINT64_C(1000000) /* ns; then a waiting writer keeps later threads out, or a reader passes it */

/* The state with `by` added to the count alone. */
static inline uint32_t counting(uint32_t s, uint32_t by)
{
    return (s & ~READERS) | ((s + by) & READERS);
}

#define UNLESS_READ 1u /* of `blocking`: nothing keeps a thread out beside readers that are counted */

/* Whether something of `blocking` keeps a thread out: a bit, or for READERS readers that are counted. */
static inline bool keeps_out(uint32_t s, uint32_t blocking)
{
    if (blocking & READERS && readers_in(s) > 0)
        return (blocking & READERS) == READERS;
    return (s & blocking & ~READERS) != 0;
}

/* Exchanges `state`, or updates `seen`. */
#define EXCHANGE(l, seen, value, order) \
    __atomic_compare_exchange_n(&(l)->state, (seen), (value), false, __ATOMIC_##order, __ATOMIC_RELAXED)

/* The state once it has nothing of `blocking`, or after some looks, ever farther apart: each takes the line from the CPU that has the lock. After
 * few looks once it has something of `enough`. */
static inline uint32_t look_again(struct lw_rwlock *l, uint32_t blocking, uint32_t enough)
{
    uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    for (unsigned pauses = 1; pauses <= LONGEST_PAUSE && keeps_out(s, blocking); pauses *= 2) {
        if (pauses > PAUSE_BEFORE_ASKING && s & enough)
            break;
        for (unsigned i = 0; i < pauses; i++)
            lw_relax();
        s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    }
    return s;
}

/* Two CPUs that lock and unlock at once move the line to and fro for each step, 40 to 160 ns; one alone takes 10 to 20 ns for both steps. */
static __attribute__((noinline, cold)) void back_off(void)
{
    for (unsigned i = 0; i < BACK_OFF; i++)
        lw_relax();
}

enum passing { PASSES_NEVER, PASSES_BESIDE_READERS, PASSES_ALWAYS }; /* writers that wait */

/* What keeps a reader out. */
static inline uint32_t kept_out_by(enum passing passing)
{
    return passing == PASSES_ALWAYS ? WRITER : WRITER | WRITERS_WAIT | (passing == PASSES_BESIDE_READERS ? UNLESS_READ : 0);
}

/* `asked`: READERS_TURN, if the thread asked for it. */
static inline int enter_to_read(struct lw_rwlock *l, uint32_t blocking, uint32_t asked)
{
    for (;;) {
        uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
        if (keeps_out(s, blocking))
            return -EBUSY;
        if (readers_in(s) == MOST_READERS)
            return -EAGAIN;
        if (EXCHANGE(l, &s, counting(s & ~asked, 1), ACQUIRE)) /* pairs with the release in release() */
            return 0;
        back_off();
    }
}

static inline int plain_try_read(struct lw_rwlock *l, enum passing passing)
{
    return enter_to_read(l, kept_out_by(passing), 0);
}

/* True: the lock is taken, which no thread has for writing or waits for. */
static inline bool plain_read_at_once(struct lw_rwlock *l)
{
    for (;;) {
        uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
        if (s >= (uint32_t)MOST_READERS)
            return false;
        if (EXCHANGE(l, &s, s + 1, ACQUIRE)) /* as in enter_to_read() */
            return true;
        back_off();
    }
}

/* Lets writers that read `queue` before look again. */
static inline void change_queue(struct lw_rwlock *l)
{
    __atomic_fetch_add(&l->queue, 1, __ATOMIC_RELEASE); /* pairs with the acquire in wait_to_write() */
}

/* A thread that waited does so no longer. A writer, which was counted, may be the one that was woken: then another must be. `asked`: what it
 * kept others out by. Other readers that sleep may have asked for the same turn: they are woken, to ask again. */
static inline void give_up(struct lw_rwlock *l, uint32_t counted, uint32_t asked)
{
    uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED), left;
    do {
        left = (s - counted) & ~(WOKEN | asked);
        if (!keeps_out(left, WRITER | READERS | READERS_TURN) && left & WRITERS_WAIT)
            left |= WOKEN;
        else if (asked & READERS_TURN || !(left & (WRITER | WRITERS_WAIT)))
            left &= ~READERS_SLEEP;
    } while (!EXCHANGE(l, &s, left, RELAXED));
    if (left & WOKEN) {
        change_queue(l);
        lw_futex_wake(&l->queue, 1);
    }
    if (s & ~left & READERS_SLEEP)
        lw_futex_wake_all(&l->state);
}

/* What a thread that waits knows from one look to the next. */
struct waiting {
    uint32_t blocking; /* bits that keep it out */
    uint32_t counted; /* what it has said in the state: a writer ONE_WAITS, a reader READERS_TURN */
    uint64_t since; /* when it began; 0: it has not slept yet */
};

static inline struct waiting waits_to_read(enum passing passing)
{
    struct waiting w = {kept_out_by(passing), 0, 0};
    return w;
}

/* Sleeps while the state is `s`. */
static inline int sleep_to_read(struct lw_rwlock *l, uint32_t s, struct waiting *w, const struct limit *limit)
{
    if (w->blocking & UNLESS_READ)
        w->blocking = WRITER; /* from now on: it has waited for one */
    if (w->counted)
        return sleep_until(&l->state, s, limit) ? -EBUSY : -ETIMEDOUT;
    uint64_t now = now_ns();
    if (!w->since)
        w->since = now;
    if (now - w->since >= PATIENCE) {
        w->blocking = WRITER;
        return -EBUSY;
    }
    struct limit until = sooner(limit, w->since + PATIENCE);
    return sleep_until(&l->state, s, &until) || until.end != limit->end ? -EBUSY : -ETIMEDOUT;
}

/* Asks for the readers' turn while a writer is inside, or sleeps. */
static inline int ask_or_sleep(struct lw_rwlock *l, uint32_t s, struct waiting *w, const struct limit *limit)
{
    bool asks = !w->counted && s & WRITER;
    uint32_t said = s | (asks ? READERS_TURN : READERS_SLEEP | w->counted);
    if (said != s && !EXCHANGE(l, &s, said, RELAXED))
        return -EBUSY;
    if (!asks)
        return sleep_to_read(l, said, w, limit);
    w->counted = READERS_TURN;
    w->blocking = WRITER;
    return -EBUSY;
}

/* Waits once: 0, the lock is taken; -EBUSY: it is not, yet; -EAGAIN; -ETIMEDOUT. */
static inline int wait_to_read(struct lw_rwlock *l, struct waiting *w, const struct limit *limit)
{
    uint32_t s = look_again(l, w->blocking, w->counted ? 0 : WRITER);
    int error = keeps_out(s, w->blocking) ? ask_or_sleep(l, s, w, limit) : enter_to_read(l, w->blocking, w->counted);
    if (error && error != -EBUSY && w->counted)
        give_up(l, 0, READERS_TURN);
    return error;
}

static inline int plain_read_lock(struct lw_rwlock *l, enum passing passing, const struct limit *limit)
{
    struct waiting w = waits_to_read(passing);
    int error;
    do
        error = wait_to_read(l, &w, limit);
    while (error == -EBUSY);
    return error;
}

/* `passes_others`: also those that have waited for too long. The first exchange guesses: a load before it would bring the line twice, first to
 * be read and then to be written. Readers do not guess, since others are often inside with them. */
static inline int plain_try_write(struct lw_rwlock *l, bool passes_others)
{
    uint32_t blocking = WRITER | READERS | (passes_others ? 0 : STARVES | READERS_TURN), s = 0;
    do {
        if (keeps_out(s, blocking))
            return -EBUSY;
    } while (!EXCHANGE(l, &s, s | WRITER, ACQUIRE)); /* pairs with the release in release() */
    return 0;
}

/* What keeps a writer out that has slept. */
static inline uint32_t kept_out_once_woken(void)
{
    return WRITER | READERS | READERS_TURN;
}

static inline struct waiting waits_to_write(void)
{
    struct waiting w = {kept_out_once_woken() | STARVES, 0, 0};
    return w;
}

static inline bool take(struct lw_rwlock *l, uint32_t s, const struct waiting *w)
{
    uint32_t left = w->counted ? (s - w->counted) & ~(WOKEN | STARVES) : s;
    return EXCHANGE(l, &s, left | WRITER, ACQUIRE); /* pairs with the release in release() */
}

/* Says in the state that the writer is about to sleep. False: the state was no longer `s`. */
static inline bool announce(struct lw_rwlock *l, uint32_t s, struct waiting *w)
{
    uint32_t waits = s & ~WOKEN; /* not on its way now; a release that finds it gone wakes again */
    if (!w->counted) {
        if (!EXCHANGE(l, &s, waits + ONE_WAITS, RELAXED))
            return false;
        w->counted = ONE_WAITS;
        w->since = now_ns();
        keep_marks_out(l);
        return true;
    }
    if (now_ns() - w->since > PATIENCE) {
        waits |= STARVES;
        w->blocking = kept_out_once_woken();
    }
    return waits == s || EXCHANGE(l, &s, waits, RELAXED);
}

/* Waits once: 0, the lock is taken; -EAGAIN: it is not, yet; -ETIMEDOUT. */
static inline int wait_to_write(struct lw_rwlock *l, struct waiting *w, const struct limit *limit)
{
    uint32_t s = look_again(l, w->blocking, 0);
    if (!keeps_out(s, w->blocking))
        return take(l, s, w) ? 0 : -EAGAIN;
    if (!w->counted && (s & WRITERS_WAIT) == WRITERS_WAIT) /* too many to be counted */
        return nap(limit) ? -EAGAIN : -ETIMEDOUT;
    if (!announce(l, s, w))
        return -EAGAIN;
    uint32_t turn = __atomic_load_n(&l->queue, __ATOMIC_ACQUIRE); /* pairs with the release in change_queue() */
    s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    if (!keeps_out(s, w->blocking) || s & WOKEN)
        return -EAGAIN;
    if (!sleep_until(&l->queue, turn, limit)) {
        give_up(l, ONE_WAITS, STARVES);
        return -ETIMEDOUT;
    }
    w->blocking = kept_out_once_woken();
    return -EAGAIN;
}

static inline int plain_write_lock(struct lw_rwlock *l, const struct limit *limit)
{
    struct waiting w = waits_to_write();
    int error;
    do
        error = wait_to_write(l, &w, limit);
    while (error == -EAGAIN);
    return error;
}

/* Takes `held` out of the state, which was `s`: a reader, or the writer. Readers may sleep for this writer alone, so it wakes them beside any
 * writer, and first: a thread that wakes another may lose its CPU to it. False: there is no such reader. Out of line: where no thread waits,
 * others release the lock by one exchange. */
static __attribute__((noinline)) bool release(struct lw_rwlock *l, uint32_t s, uint32_t held)
{
    bool wakes = false, held_it;
    uint32_t slept = 0;
    while ((held_it = held == WRITER || readers_in(s) > 0)) {
        uint32_t left = s - held;
        bool last = readers_in(left) <= 0;
        if (last && left & WRITERS_WAIT && !(left & (WOKEN | READERS_TURN))) {
            if (EXCHANGE(l, &s, s | WOKEN, RELAXED)) {
                change_queue(l);
                wakes = true;
                s |= WOKEN;
            }
            continue;
        }
        slept = last && (held == WRITER || !(left & WRITERS_WAIT)) ? left & READERS_SLEEP : 0;
        if (EXCHANGE(l, &s, left & ~slept, RELEASE)) /* pairs with the acquires above; the lock's memory may be gone now */
            break;
        slept = 0;
    }
    if (slept)
        lw_futex_wake_all(&l->state);
    if (wakes)
        lw_futex_wake(&l->queue, 1);
    return held_it;
}

/* The writer inside becomes a reader that is counted: in one step, so that no other writer comes in between. Readers that sleep may come in as
 * beside any reader. */
static inline void plain_downgrade(struct lw_rwlock *l)
{
    uint32_t s = WRITER, slept;
    do
        slept = s & READERS_SLEEP;
    while (!EXCHANGE(l, &s, counting(s & ~(WRITER | slept), 1), RELEASE)); /* pairs with the acquires above */
    if (slept)
        lw_futex_wake_all(&l->state);
}

/* Whether a reader that leaves this state behind wakes no thread: others are inside, the writer to wake is on its way, or no writer waits.
 * Readers sleep for a writer that is inside or waits alone, and who ends that wakes them. One that asks for its turn sleeps for one inside. */
static inline bool wakes_none(uint32_t left)
{
    return readers_in(left) > 0 || left & WOKEN || !(left & WRITERS_WAIT);
}

/* True: a reader that was counted here has left, and wakes no thread. If another thread changed the state first, it backs off afterwards, unless it leaves
 * the lock to no one: the thread that came in its way has left, too, and the lock would be idle while both back off. */
static inline bool plain_leave_at_once(struct lw_rwlock *l)
{
    uint32_t s = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    bool slower = false;
    while (s - 1 < (uint32_t)MOST_READERS || (readers_in(s) > 0 && wakes_none(s - 1))) {
        if (EXCHANGE(l, &s, s - 1, RELEASE)) { /* as in release() */
            if (__builtin_expect(slower && s != 1, 0))
                back_off();
            return true;
        }
        slower = true;
    }
    return false;
}

/* False: no reader is counted here. */
static inline bool plain_read_unlock(struct lw_rwlock *l)
{
    return plain_leave_at_once(l) || release(l, __atomic_load_n(&l->state, __ATOMIC_RELAXED), 1);
}

static inline void plain_write_unlock(struct lw_rwlock *l)
{
    uint32_t s = WRITER;
    if (!EXCHANGE(l, &s, 0, RELEASE)) /* as in release() */
        (void)release(l, s, WRITER);
}

#endif

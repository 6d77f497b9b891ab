/* SPDX-License-Identifier: MIT */
/* Readers-writer locks: the plain lock, what readers and writers do beyond their fast paths, and when a lock is biased. */
#define _GNU_SOURCE
#include "marks.h"

#include "../common/environment.h"
#include "../srcu/membarrier.h"

#define LW__SLICE_WITHOUT_AREAS
#include <linewright/slice.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LW_RW_HOOKS /* the interposer's: src/rwlock/interpose/hooks.h */
#include LW_RW_HOOKS
#else
#define LW_RW_READERS_FIRST(l) ((void)(l), false)
#define LW_RW_REVOKED(l) ((void)(l))
#define LW_RW_HANDLERS_TRY true /* signal handlers may call lw_rwlock_try_read() */
#endif
#include "quick.h"

/* The functions themselves, also in a library compiled with LW_DEBUG. */
#undef lw_rwlock_read_unlock
#undef lw_rwlock_write_unlock
#undef lw_rwlock_downgrade
#undef lw_rwlock_destroy

/* ---- the writer's half ---- */

#define LW_RW_HEAVY_BARRIER() barrier_in_every_thread()
#define LW_RW_NEXT_THREAD(t) lw__rw_next_thread(t)
#define LW_RW_WAIT(t, l, limit) wait_for_mark((t), (l), (limit))

static int barrier_in_every_thread(void)
{
    lw_full_fence(); /* membarrier orders this thread, too; ThreadSanitizer does not know */
    return lw__srcu_membarrier();
}

static bool wait_for_mark(struct lw__rw_thread *t, struct lw_rwlock *l, const struct limit *limit);

#define LW_RW_RETIRE(mark, l)                                                                                \
    __atomic_compare_exchange_n((mark), &(struct lw_rwlock *){(l)}, LW__RW_RETIRED, false, __ATOMIC_RELAXED, \
                                __ATOMIC_RELAXED)

#ifndef LW_RW_REVOKE /* tests name one with a mistake in it */
#define LW_RW_REVOKE "revoke.h"
#endif
#include LW_RW_REVOKE
#include "again.h"

__thread struct lw__rw_own lw__rw_own
    __attribute__((tls_model("initial-exec"))); /* else a call each time: the declaration's does not count */

#define LOOKS_AT_A_MARK 100 /* before a writer sleeps: a few microseconds */

/* Sleeps until `t` takes a mark back, or another thread takes the count below 0; for a ms where it is: again.h. Several writers may do so at once, of this
 * lock or of others: the number that this one sleeps on is gone once any of them was to be woken. */
static bool sleep_for_mark(struct lw__rw_thread *t, struct lw_rwlock *l, const struct limit *limit)
{
    for (int i = 0; i < LOOKS_AT_A_MARK; i++) {
        lw_relax();
        if (!marked_in(t, l))
            return true;
    }
    if (limit->ns == 0)
        return false;
    if (readers_in(__atomic_load_n(&l->state, __ATOMIC_RELAXED)) < 0)
        return nap(limit);
    uint32_t turn = __atomic_fetch_or(&t->waited, 1, __ATOMIC_RELAXED) | 1;
    /* Pairs with the compiler barriers in lw__rw_take_back() and wake_writers(). Where it is refused, the sleep is short
     * instead, since the wake-up may be missed. */
    struct limit brief = limit_of(1000000);
    uint64_t begun = now_ns();
    bool sure = !barrier_in_every_thread();
    lw__rw_own.waited -= now_ns() - begun; /* the barrier is part of the price, the wait is not */
    if (!marked_in(t, l) || readers_in(__atomic_load_n(&l->state, __ATOMIC_RELAXED)) < 0)
        return true;
    return sleep_until(&t->waited, turn, sure ? limit : &brief) || !sure;
}

static bool wait_for_mark(struct lw__rw_thread *t, struct lw_rwlock *l, const struct limit *limit)
{
    uint64_t begun = now_ns();
    bool changed = sleep_for_mark(t, l, limit);
    lw__rw_own.waited += now_ns() - begun;
    return changed;
}

void lw__rw_wake_writer(struct lw__rw_thread *self)
{
    uint32_t turn = __atomic_load_n(&self->waited, __ATOMIC_RELAXED);
    while (turn & 1)
        if (__atomic_compare_exchange_n(&self->waited, &turn, turn + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            lw_futex_wake_all(&self->waited);
            return;
        }
}

/* ---- when a lock is biased ---- */

#define WORTH_LOOKS \
    2048u /* ns of a bias's price that one more look must be worth: what a marked read saves, 20 to 40 ns, for LOOK_EVERY reads */
#define MOST_LOOKS 64u
#define WRITES_A_LOOK 2u /* writes of a thread since its last look that want one look more */
#ifndef WORTH /* tests choose another */
#define WORTH 24u /* what ended a bias puts off the next one by this many times its own cost: at most 4 % of the time */
#endif
#define LONGEST \
    UINT64_C(1000000000) /* for one bias: what takes longer is no barrier, but a thread that was stopped meanwhile */

/* No lock of this process turns biased before this time of CLOCK_MONOTONIC, in ns. One for all locks: a bound for each would be none for a
 * program with a thousand of them. Relaxed: it guards nothing. A child of fork() goes on with it. */
static uint64_t next_bias __attribute__((aligned(8)));

/* What the end of a bias costs, in ns. Relaxed: it guards nothing. */
static uint64_t price __attribute__((aligned(8)));

static bool stay_plain; /* relaxed: only whether later locks turn biased */

void lw_rwlock_stay_plain(void)
{
    __atomic_store_n(&stay_plain, true, __ATOMIC_RELAXED);
}

/* Puts off the next bias of any lock, behind what was put off before. The time that has passed since then counts: where biases end so seldom that
 * the share of the time is kept, the next one may begin at once. */
static void put_off(uint64_t now, uint64_t cost)
{
    uint64_t by = WORTH * cost < LONGEST ? WORTH * cost : LONGEST;
    uint64_t old = __atomic_load_n(&next_bias, __ATOMIC_RELAXED), next;
    do
        next = old + by > now ? old + by : now;
    while (!__atomic_compare_exchange_n(&next_bias, &old, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/* The price falls to a lower cost at once and rises by an eighth of a difference: a thread may have been stopped while it ended a bias. */
static void learn_price(uint64_t cost)
{
    uint64_t old = __atomic_load_n(&price, __ATOMIC_RELAXED);
    __atomic_store_n(&price, cost > old ? old + (cost - old + 7) / 8 : cost, __ATOMIC_RELAXED);
}

/* Looks without a writer in between, after which a lock turns biased: the more an end costs, the more reads it must be worth. Of many locks that are
 * written often, one that was not written between two looks is there by chance: what the thread wrote since it looked last says so. */
static uint32_t looks_wanted(uint32_t written)
{
    uint64_t looks = 1 + __atomic_load_n(&price, __ATOMIC_RELAXED) / WORTH_LOOKS + written / WRITES_A_LOOK;
    return looks < MOST_LOOKS ? (uint32_t)looks : MOST_LOOKS;
}

void lw__rw_consider_bias(struct lw_rwlock *l)
{
    uint32_t looks = __atomic_load_n(&l->biased, __ATOMIC_RELAXED);
    uint32_t written = lw__rw_own.writes;
    lw__rw_own.writes = 0;
    if (looks & ~LW__RW_LOOKS || LW_RW_WRITER_WAITS(l) || __atomic_load_n(&stay_plain, __ATOMIC_RELAXED))
        return;
    if (looks < looks_wanted(written) * LW__RW_LOOK) {
        /* Of two threads that look at once one counts. No writer is inside, who would set it back. */
        __atomic_compare_exchange_n(&l->biased, &looks, looks + LW__RW_LOOK, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        return;
    }
    uint64_t begun = now_ns();
    if (begun < __atomic_load_n(&next_bias, __ATOMIC_RELAXED))
        return;
    bool may_end = lw__srcu_may_membarrier();
    uint64_t now = now_ns();
    put_off(now, now - begun);
    if (!may_end) {
        int saved = errno;
        if (!__atomic_exchange_n(&stay_plain, true, __ATOMIC_RELAXED) && lw_verbose())
            dprintf(STDERR_FILENO, "linewright: membarrier is not available: readers-writer locks stay plain\n");
        errno = saved;
        return;
    }
    give_bias(l, looks); /* its cost is paid back by the first readers: a reader pair is some ns cheaper */
}

/* ---- what other threads' releases leave, and fork() ---- */

/* Locks whose read locks were handed over and whose marks may be left, at a place that follows from the address; SEVERAL where two met there. So a
 * lock that is made costs one look, with any number of threads. Relaxed: a lock is made after the last release of one that was there. */
#define PLACES 256u
#define SEVERAL ((struct lw_rwlock *)1)
static struct lw_rwlock *handed[PLACES];

static struct lw_rwlock **place_of(const struct lw_rwlock *l)
{
    uintptr_t a = (uintptr_t)l / sizeof *l;
    return &handed[(a ^ a >> 8 ^ a >> 16) % PLACES];
}

/* Before the release: after it the lock may be gone. */
static void note_handed(struct lw_rwlock *l)
{
    struct lw_rwlock **place = place_of(l), *old = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (old != l && old != SEVERAL &&
           !__atomic_compare_exchange_n(place, &old, old ? SEVERAL : l, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static bool may_have_left_marks(struct lw_rwlock *l)
{
    struct lw_rwlock *noted = __atomic_load_n(place_of(l), __ATOMIC_RELAXED);
    return noted == l || noted == SEVERAL;
}

/* No mark is left. */
static void forget_handed(struct lw_rwlock *l)
{
    if (__atomic_load_n(place_of(l), __ATOMIC_RELAXED) == l)
        __atomic_compare_exchange_n(place_of(l), &(struct lw_rwlock *){l}, NULL, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* From now on the state may say that this thread waits. NULL: it has no marks, and a child of fork() keeps what the state says. */
static struct lw__rw_thread *begins_to_wait(struct lw_rwlock *l)
{
    struct lw__rw_thread *self = lw__rw_own_marks(false);
    if (self) {
        __atomic_store_n(&self->waits_for, l, __ATOMIC_RELAXED);
        lw_full_fence(); /* a child that has what the thread stores later has this, too */
    }
    return self;
}

static void waits_no_more(struct lw__rw_thread *self)
{
    if (self)
        __atomic_store_n(&self->waits_for, NULL, __ATOMIC_RELEASE); /* as above: after what it did to the state */
}

/* Read locks are counted in the plain lock from now on, so that a lock that is made again, in any way, has none. Of a lock whose marks may be
 * left of released read locks the memory may be gone: those stay. A mark for a plain lock is of a thread that was about to look at it, and not inside. */
static void count_mark(struct lw__rw_thread *t, uintptr_t at)
{
    struct lw_rwlock *l = t->mark[at];
    if (!l || l == LW__RW_RETIRED || may_have_left_marks(l))
        return;
    if (!is_plain(l)) {
        if (readers_in(l->state) > MOST_READERS - 1 - (int32_t)(t->again[at] & READERS))
            return;
        l->state = counting(l->state, 1 + t->again[at]);
    }
    t->mark[at] = NULL;
    t->again[at] = 0;
}

/* Of a lock that a thread waited for no other thread of the child waits, and a writer that was not inside yet will not be. */
void lw__rw_leave_behind(struct lw__rw_thread *t)
{
    for (uintptr_t at = 0; at < LW__RW_MARKS; at++)
        count_mark(t, at);
    struct lw_rwlock *l = t->waits_for;
    t->waits_for = NULL;
    if (l && lw__rw_self->waits_for != l) /* else a handler of a signal forks while its thread waits */
        l->state &= l->writer ? READERS | WRITER : READERS;
}

/* ---- readers ---- */

/* A try by a signal handler may have interrupted lw__rw_mark() between M and R: the mark is set, and a writer may be inside. Where the lock is still
 * biased this is the thread's R. Else the handler neither knows whether its thread is inside, nor may it count in the plain lock, since its release
 * would take the mark back. */
static bool mark_is_doubtful(const struct lw__rw_thread *self, const struct lw_rwlock *l, uint64_t ns)
{
    return LW_RW_HANDLERS_TRY && ns == 0 && LW_RW_LOAD(&self->mark[lw__rw_position(l)], RELAXED) == l &&
           __atomic_load_n(&l->biased, __ATOMIC_ACQUIRE) != LW__RW_BIASED; /* pairs as R in rwlock_mark.h */
}

static uint32_t own_id(void)
{
    static uint32_t last;
    while (!lw__rw_own.id)
        lw__rw_own.id = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    return lw__rw_own.id;
}

/* Which writers a thread passes that does not hold the lock. Beside marks any: readers may be inside that the state does not count. */
static inline enum passing passes(struct lw_rwlock *l)
{
    return !LW_RW_READERS_FIRST(l) ? PASSES_NEVER : is_plain(l) ? PASSES_BESIDE_READERS : PASSES_ALWAYS;
}

/* Counts the thread in the plain lock, unless a writer keeps it out. */
static inline int count(struct lw_rwlock *l)
{
    int error = plain_try_read(l, passes(l));
    if (error == -EBUSY && holds(l))
        error = plain_try_read(l, PASSES_ALWAYS);
    if (error)
        return error;
    has_counted(l);
    return 0;
}

/* All but the common case. */
static __attribute__((noinline)) int read_otherwise(struct lw_rwlock *l, uint64_t ns)
{
    struct lw__rw_thread *self = lw__rw_self;
    if (__atomic_load_n(&l->biased, __ATOMIC_RELAXED) & (LW__RW_BIASED | LW__RW_ENDING))
        self = lw__rw_own_marks(LW_RW_HANDLERS_TRY && !ns);
    else if (LW_RW_LOAD(&self->mark[lw__rw_position(l)], RELAXED) != l)
        self = NULL;
    if (self)
        clear_retired(self, lw__rw_position(l));
    if (self && mark_is_doubtful(self, l, ns))
        return -EBUSY;
    if (self && (mark_again(self, l) || lw__rw_mark(self, l)))
        return 0;
    int error = count(l);
    if (error != -EBUSY || !ns)
        return error;
    if (__atomic_load_n(&l->writer, __ATOMIC_RELAXED) == own_id()) /* only this thread stores its id */
        return -EDEADLK;
    struct limit limit = limit_of(ns);
    self = begins_to_wait(l);
    error = plain_read_lock(l, holds(l) ? PASSES_ALWAYS : passes(l), &limit);
    waits_no_more(self);
    if (!error)
        now_holds(l);
    return error;
}

/* First what is common: the lock is plain, and no writer keeps the thread out. */
int lw__rw_read_slow(struct lw_rwlock *l, uint64_t ns)
{
    bool may_look = !LW_RW_HANDLERS_TRY || ns; /* a handler looks at the thread's mark, too: mark_is_doubtful() */
    return may_look && is_plain(l) && count(l) == 0 ? 0 : read_otherwise(l, ns);
}

/* A limit of 0 ns is no try, but for what it takes: a thread that would wait for itself gets -EDEADLK. */
int lw_rwlock_read_lock_timeout(struct lw_rwlock *l, uint64_t ns)
{
    return lw__rw_mark(lw__rw_self, l) ? 0 : lw__rw_read_slow(l, ns ? ns : 1);
}

/* Wakes writers that wait for marks: what they sum up has changed. */
static void wake_writers(void)
{
    __atomic_signal_fence(
        __ATOMIC_SEQ_CST); /* after the release, as in lw__rw_take_back(): sleep_for_mark() has the barrier */
    for (struct lw__rw_thread *t = lw__rw_next_thread(NULL); t; t = lw__rw_next_thread(t))
        if (__atomic_load_n(&t->waited, __ATOMIC_RELAXED) & 1)
            lw__rw_wake_writer(t);
}

int lw__rw_read_unlock_slow(struct lw_rwlock *l)
{
    if (unmark_again(lw__rw_self, l))
        return 0;
    int error;
    do {
        if (plain_read_unlock(l)) {
            has_left(l);
            return 0;
        }
        note_handed(l);
        error = hand_over(l);
    } while (error == COUNTED_AGAIN);
    if (error)
        return error;
    wake_writers();
    return 0;
}

/* ---- writers ---- */

/* The section of a writer that has entered, for a time slice extension: until it has released the lock. A thread ends as many as it began, whatever the
 * setting says by then; which of its locks an end is of makes no difference. */
static __attribute__((noinline, cold)) int begin_section(void)
{
    lw__rw_own.sections++;
    lw_slice_begin();
    return 0;
}

/* Behind the release: it may give the CPU away. */
static __attribute__((noinline, cold)) void end_section(void)
{
    lw__rw_own.sections--;
    lw_slice_end();
}

static __attribute__((noinline, cold)) int unlock_section(struct lw_rwlock *l)
{
    __atomic_store_n(&l->writer, 0, __ATOMIC_RELAXED);
    plain_write_unlock(l);
    end_section();
    return 0;
}

/* Ends the bias and waits for the marked readers, holding the plain lock for writing. 0, -EBUSY, -ETIMEDOUT, or membarrier's error:
 * then the lock is as before. -EAGAIN: readers go first, and some are inside; later ones count in the plain lock. */
static int make_way(struct lw_rwlock *l, const struct limit *limit)
{
    if (limit->ns == 0 && !all_released(l))
        return -EBUSY; /* as a barrier would show, too */
    bool steps_back = limit->ns != 0 && LW_RW_READERS_FIRST(l);
    uint64_t begun = now_ns();
    lw__rw_own.waited = 0;
    int error = revoke_bias(l, steps_back ? &(const struct limit){0, 0} : limit, !steps_back);
    uint64_t ended = now_ns();
    uint64_t cost =
        ended - begun - lw__rw_own.waited; /* barriers and the scan: waiting for readers is no part of the price */
    put_off(ended, cost);
    learn_price(cost);
    LW_RW_REVOKED(l);
    if (error > 0)
        return -error;
    if (error == LIMIT_REACHED && !steps_back)
        return limit->ns ? -ETIMEDOUT : -EBUSY;
    if (!error)
        forget_handed(l);
    return error ? -EAGAIN : 0;
}

static int enters(struct lw_rwlock *l)
{
    has_entered(l, own_id());
    return asks_for_slices() ? begin_section() : 0;
}

/* `error`: what a try for the plain lock returned. */
static __attribute__((noinline)) int write_by_waiting(struct lw_rwlock *l, const struct limit *limit, int error)
{
    struct lw__rw_thread *self = begins_to_wait(l);
    do {
        if (error)
            error = plain_write_lock(l, limit);
        if (error)
            break;
        error = may_enter_at_once(l) ? 0 : make_way(l, limit);
        if (error)
            plain_write_unlock(l);
        if (error == -EAGAIN && !wait_for_marks(l, limit)) /* the lock is free meanwhile */
            error = -ETIMEDOUT;
    } while (error == -EAGAIN);
    if (!error)
        enters(l);
    waits_no_more(self);
    return error;
}

static int write_lock(struct lw_rwlock *l, const struct limit *limit)
{
    int error = plain_try_write(l, limit->ns == 0);
    if (error && __atomic_load_n(&l->writer, __ATOMIC_RELAXED) == own_id()) /* only this thread stores its id */
        return -EDEADLK;
    if (error ? limit->ns != 0 : !may_enter_at_once(l))
        return write_by_waiting(l, limit, error);
    return error ? error : enters(l);
}

int lw_rwlock_write_lock(struct lw_rwlock *l)
{
    return write_lock(l, &(const struct limit){LW_RWLOCK_FOREVER, 0});
}

int lw_rwlock_try_write(struct lw_rwlock *l)
{
    int error = write_lock(l, &(const struct limit){0, 0});
    return error == -EDEADLK ? -EBUSY : error;
}

int lw_rwlock_write_lock_timeout(struct lw_rwlock *l, uint64_t ns)
{
    struct limit limit = limit_of(ns);
    int error = write_lock(l, &limit);
    return error == -EBUSY ? -ETIMEDOUT : error;
}

int lw_rwlock_write_unlock(struct lw_rwlock *l)
{
    if (__atomic_load_n(&l->writer, __ATOMIC_RELAXED) != own_id())
        return -EPERM;
    return quick_write_unlock(l) ? 0 : unlock_section(l);
}

/* Of a lock that was not biased when the caller looked: most likely plain. */
int lw__rw_read_unlock_plain(struct lw_rwlock *l)
{
    if (is_plain(l) && quick_read_unlock(l))
        return 0;
    return lw__rw_unmark(lw__rw_self, l) ? 0 : lw__rw_read_unlock_slow(l);
}

int lw_rwlock_downgrade(struct lw_rwlock *l)
{
    if (__atomic_load_n(&l->writer, __ATOMIC_RELAXED) != own_id())
        return -EPERM;
    __atomic_store_n(&l->writer, 0, __ATOMIC_RELAXED);
    plain_downgrade(l);
    now_holds(l);
    if (__builtin_expect(lw__rw_own.sections, 0))
        end_section();
    return 0;
}

/* What is left until a time of CLOCK_MONOTONIC, a clock that is never set: at least 1 ns, so that a thread that would wait for itself gets -EDEADLK. */
static uint64_t left_until(uint64_t end)
{
    uint64_t now = now_ns();
    return end == LW_RWLOCK_FOREVER ? end : end > now ? end - now : 1;
}

int lw_rwlock_write_lock_until(struct lw_rwlock *l, uint64_t end)
{
    int error = lw_rwlock_try_write(l);
    return error == -EBUSY ? lw_rwlock_write_lock_timeout(l, left_until(end)) : error;
}

int lw_rwlock_read_lock_until(struct lw_rwlock *l, uint64_t end)
{
    int error = lw_rwlock_try_read(l);
    return error == -EBUSY ? lw_rwlock_read_lock_timeout(l, left_until(end)) : error;
}

/* ---- beginning and end ---- */

void lw_rwlock_init(struct lw_rwlock *l)
{
    if (may_have_left_marks(l)) {
        retire_marks(l);
        forget_handed(l);
    }
    *l = (struct lw_rwlock)LW_RWLOCK_INIT;
}

void lw_rwlock_init_plain(struct lw_rwlock *l)
{
    lw_rwlock_init(l);
    l->biased = LW__RW_STAYS_PLAIN;
}

#define MARKS_LOOKED_AT 8u /* so destroy takes as long with 5,000 threads as with 8 */

/* Whether the lock is marked by the caller or by one of the first threads. */
static bool is_seen_marked(struct lw_rwlock *l)
{
    struct lw__rw_thread *t = NULL;
    if (marked_in(lw__rw_self, l))
        return true;
    for (unsigned i = 0; i < MARKS_LOOKED_AT && (t = lw__rw_next_thread(t)); i++)
        if (marked_in(t, l))
            return true;
    return false;
}

/* Of a lock that no thread holds no mark is left where the count is 0, since they are as many together as the read locks (again.h). So a lock that
 * readers may mark stays as it is: a reader that was not seen still keeps writers out. */
int lw_rwlock_destroy(struct lw_rwlock *l)
{
    uint32_t state = __atomic_load_n(&l->state, __ATOMIC_ACQUIRE); /* pairs with the releases of plain.h */
    if (keeps_out(state, READERS | WRITER))
        return -EBUSY;
    if (readers_in(state) == 0 && !is_plain(l))
        return is_seen_marked(l) ? -EBUSY : 0;
    if (readers_in(state) < 0) {
        if (!all_released(l))
            return -EBUSY;
        retire_marks(l);
        forget_handed(l);
    }
    *l = (struct lw_rwlock)LW_RWLOCK_INIT;
    return 0;
}

int lw__rw_destroy_checked(struct lw_rwlock *l)
{
    return is_plain(l) || all_released(l) ? lw_rwlock_destroy(l) : -EBUSY;
}

void lw__rw_complain(const struct lw_rwlock *l, const char *release, const char *file, int line)
{
    uint32_t state = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
    bool read = readers_in(state) > 0 || marked((struct lw_rwlock *)l) != 0;
    fprintf(stderr, "linewright: %s(%p) at %s:%d, called from %p: %s\n", release, (const void *)l, file, line,
            __builtin_return_address(0),
            state & WRITER ? "a thread holds the lock for writing"
            : read         ? "threads hold the lock for reading only"
                           : "no thread holds the lock");
    abort();
}

/* A program that has no SRCU domain is registered for membarrier here. */
__attribute__((constructor(101))) static void start(void)
{
    if (!lw__srcu_registered())
        lw__srcu_membarrier_start();
}

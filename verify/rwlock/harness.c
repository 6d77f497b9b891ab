/* For a stateless model checker of C11 (GenMC), run by verify/srcu/run: the real texts of a biased lock (rwlock_mark.h, bias.h, plain.h,
 * revoke.h, again.h, slot.h), which the interleaver explores as well, between readers and writers.
 *
 * What the lock protects is plain data, so that the checker reports a reader's access that races with a writer's. The heavy barrier is a
 * membarrier: a reader meets a requested one before any of its accesses, and the writer waits for all readers. Choose with -D:
 *   READERS, SECTIONS   threads that read (default 1), so many times each (default 1)
 *   WRITERS             threads that write once (default 1); each gives the bias again
 *   REFUSED             membarrier is refused to the first writer
 *   LIMIT               a writer that would wait for a mark gives up, as at its time limit
 *   ASKS                a reader that has a mark asks whether the lock is plain
 *   HANDED              reader 0's lock is released by another thread, which has no mark
 *   ENDS, ENDS_INSIDE   reader 0 ends, outside or inside the lock, and reader 1 takes its marks over
 *   ARRIVES             readers take their marks first
 *   WAITING             the writer has waited for a reader of the plain lock before
 *   SLEEPER             a writer sleeps for the plain lock: no later reader marks
 *   GIVER               the same beside a reader of the plain lock that gives the bias
 * A writer that would sleep is followed no further: what it would see later it sees in another execution. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef READERS
#define READERS 1
#endif
#ifndef SECTIONS
#define SECTIONS 1
#endif
#ifndef WRITERS
#define WRITERS 1
#endif

#define LW__RW_BIASED 1u
#define LW__RW_ENDING 2u
#define LW__RW_STAYS_PLAIN 0x80000000u
#define LW__RW_RETIRED ((struct lw_rwlock *)1)
struct lw_rwlock {
    atomic_uint state, queue, biased;
};
struct lw__rw_thread {
    _Atomic(struct lw_rwlock *) mark[1];
    atomic_uint again[1], waited, used;
};
struct limit {
    uint64_t ns, end;
};

#define CHUNK_THREADS READERS
struct chunk {
    atomic_uint ever;
    struct lw__rw_thread thread[CHUNK_THREADS];
};

static struct lw_rwlock lock;
static struct chunk marks;
static atomic_int plain, told; /* the plain lock; one thread tells another that it has gone on */
static int data[2]; /* plain; equal outside of writers */

/* ---- the heavy barrier ---- */

#include "../membarrier.h"

static __thread int me = READERS; /* a reader's number; others meet no barrier */
static __thread int refused;

static void meet(void)
{
    if (me != READERS)
        poll(me);
}

/* ---- the texts ---- */

#define swap(p, from, to, order) \
    (meet(), atomic_compare_exchange_strong_explicit((p), &(unsigned){(from)}, (to), (order), memory_order_relaxed))

static bool retire(_Atomic(struct lw_rwlock *) *p, struct lw_rwlock *l)
{
    return atomic_compare_exchange_strong_explicit(p, &l, LW__RW_RETIRED, memory_order_relaxed, memory_order_relaxed);
}

/* What sleeps is followed no further. */
static bool sleeps(void)
{
    __VERIFIER_assume(false);
    return false;
}

static bool take_one(atomic_uint *p)
{
    unsigned from = 0;
    return atomic_compare_exchange_strong_explicit(p, &from, 1, memory_order_acquire, memory_order_relaxed);
}

static struct limit sooner(const struct limit *l, uint64_t end)
{
    (void)end;
    return *l;
}

static struct lw__rw_thread *next_thread(struct lw__rw_thread *t)
{
    struct lw__rw_thread *next = t ? t + 1 : marks.thread;
    return next < marks.thread + atomic_load_explicit(&marks.ever, memory_order_relaxed) ? next : NULL;
}

static bool wait_in_vain(void)
{
#ifndef LIMIT
    __VERIFIER_assume(false);
#endif
    return false;
}

static uintptr_t lw__rw_position(const struct lw_rwlock *l)
{
    (void)l;
    return 0;
}

static void lw__rw_wake_writer(struct lw__rw_thread *t)
{
    (void)t;
}

#define RELAXED memory_order_relaxed
#define ACQUIRE memory_order_acquire
#define RELEASE memory_order_release
#define LW_RW_LOAD(p, order) (meet(), atomic_load_explicit((p), order))
#define LW_RW_STORE(p, v, order) (meet(), atomic_store_explicit((p), (v), order))
#define LW_RW_COMPILER_BARRIER() meet()
#define LW_RW_HEAVY_BARRIER() (refused ? EPERM : heavy_barrier())
#define LW_RW_NEXT_THREAD(t) next_thread(t)
#define LW_RW_WAIT(t, l, limit) wait_in_vain()
#define LW_RW_FENCE() fence()
#define LW_RW_SWAP(p, old, new, order) swap((p), (old), (new), order)
#define LW_RW_AND(p, bits, order) (meet(), atomic_fetch_and_explicit((p), (bits), order))
#define LW_RW_RETIRE(p, l) (meet(), retire((p), (l)))
#define LW_RW_TAKE(p) take_one(p)
#define LONGEST_PAUSE 0u
#define lw_cpu_relax() ((void)0)
#define lw_futex_wake(p, count) ((void)0)
#define lw_futex_wake_all(p) ((void)0)
#define sleep_until(p, seen, limit) sleeps()
#define nap(limit) sleeps()
#define now_ns() UINT64_C(0)
#define ORDER(order) ((order) == __ATOMIC_RELEASE ? RELEASE : (order) == __ATOMIC_ACQUIRE ? ACQUIRE : RELAXED)
#define __atomic_load_n(p, order) (meet(), atomic_load_explicit((p), ORDER(order)))
#define __atomic_fetch_add(p, v, order) (meet(), atomic_fetch_add_explicit((p), (v), ORDER(order)))
#define __atomic_compare_exchange_n(p, seen, v, weak, order, failure) \
    (meet(), atomic_compare_exchange_strong_explicit((p), (seen), (v), ORDER(order), RELAXED))
enum { THREADS_READ = READERS };
#undef READERS /* plain.h has another */
#include "biased.h" /* the originals, or a mutant: from the folder that the command names */

/* ---- the threads ---- */

static void tell(void)
{
    atomic_store_explicit(&told, 1, memory_order_release);
}

static bool was_told(void)
{
    return atomic_load_explicit(&told, memory_order_acquire) == 1;
}

static void look(void)
{
    meet(); /* between R and the first access, too */
    assert(data[0] == data[1]);
    meet();
}

/* For a reader that has a mark. */
static void ask(void)
{
#ifdef ASKS
    assert(!is_plain(&lock) || atomic_load_explicit(&marks.thread[0].mark[0], memory_order_relaxed) != &lock);
#endif
}

static void read_once(struct lw__rw_thread *self)
{
    if (!lw__rw_mark(self, &lock))
        return; /* it would take the plain lock, which excludes writers */
    look();
    ask();
    lw__rw_unmark(self, &lock);
}

/* The thread that has told it was inside is released by this one. */
static void release_handed_over(void)
{
    look();
    int error;
    do
        error = plain_read_unlock(&lock) ? 0 : hand_over(&lock);
    while (error == COUNTED_AGAIN);
    assert(!error);
}

static void *reader(void *number)
{
    me = (int)(intptr_t)number;
    struct lw__rw_thread *self = &marks.thread[me];
#ifdef ARRIVES
    self = take_from(&marks);
#endif
#ifdef SLEEPER
    if (was_told())
        assert(!lw__rw_mark(self, &lock));
#elif defined(ENDS) || defined(ENDS_INSIDE)
    self = &marks.thread[0]; /* reader 1 is the successor */
    if (me == 1 && !take_slot(self)) {
        poll_for_ever(me);
        return NULL;
    }
#ifdef ENDS
    read_once(self);
    if (me == 0)
        give_slot_back(self);
#else
    if (me == 1 && was_told()) {
        release_handed_over();
    } else if (me == 0 && lw__rw_mark(self, &lock)) {
        look();
        tell();
        give_slot_back(self);
    }
#endif
#elif defined(HANDED)
    if (me == 0 && lw__rw_mark(self, &lock)) {
        look();
        tell();
        ask();
    } else if (me == 1) {
        read_once(self);
    }
#else
    for (int i = 0; i < SECTIONS; i++)
        read_once(self);
#endif
    poll_for_ever(me);
    return NULL;
}

/* A writer that is about to sleep for a reader of the plain lock. */
static void waits(void)
{
    atomic_store_explicit(&lock.state, ONE_WAITS, memory_order_relaxed);
    keep_marks_out(&lock);
}

static void *writer(void *number)
{
    (void)number;
#if defined(SLEEPER) || defined(GIVER)
    waits();
    tell();
#else
#ifdef WAITING
    waits();
#endif
#ifdef REFUSED
    refused = number == NULL;
#endif
    int none = 0;
    __VERIFIER_assume(atomic_compare_exchange_strong_explicit(&plain, &none, 1, memory_order_acquire, memory_order_relaxed));
    struct limit limit = {0};
    if (!atomic_load_explicit(&lock.biased, memory_order_relaxed) || !revoke_bias(&lock, &limit, true)) {
        data[0]++;
        data[1]++;
        (void)swap(&lock.biased, 0, LW__RW_BIASED, memory_order_release); /* by a reader that held the plain lock */
    }
    atomic_store_explicit(&plain, 0, memory_order_release);
#endif
    return NULL;
}

static void *helper(void *nothing)
{
#ifdef HANDED
    if (was_told())
        release_handed_over();
#elif defined(GIVER)
    give_bias(&lock, 0);
#endif
    return nothing;
}

int main(void)
{
    pthread_t all[THREADS_READ + WRITERS + 1];
    int count = 0;
#ifndef GIVER
    atomic_store(&lock.biased, LW__RW_BIASED);
#ifndef ARRIVES
    atomic_store(&marks.ever, THREADS_READ);
    for (int i = 0; i < THREADS_READ; i++)
        atomic_store(&marks.thread[i].used, 1);
#endif
    for (intptr_t i = 0; i < THREADS_READ; i++) {
        pthread_create(&all[count++], NULL, reader, (void *)i);
    }
#endif
    for (intptr_t i = 0; i < WRITERS; i++)
        pthread_create(&all[count++], NULL, writer, (void *)i);
    pthread_create(&all[count++], NULL, helper, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(all[i], NULL);
#if defined(SLEEPER) || defined(GIVER)
    assert(atomic_load(&lock.biased) != LW__RW_BIASED);
#endif
    return 0;
}

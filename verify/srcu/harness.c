/* For a stateless model checker of C11 (GenMC): the real step machine gp.h, with fold.h, batch.h and end.h, between readers,
 * updaters and waiters.
 *
 * Objects are plain variables, so that the checker reports a reader's access that races with the updater's free. Choose with
 * -D:
 *   FAST        readers without barriers; the heavy barrier is a membarrier: each reader meets a requested barrier at its next
 *               poll point, of which there is one between any two of its accesses, and the updater waits for all of them
 *   READERS     threads that read (default 1), CRITICAL_SECTIONS times each (default 2)
 *   PERIODS     objects that the updater replaces and frees, each after a grace period (default 2)
 *   WAITER      another thread replaces the object and relies on the grace periods that the updater's thread advances
 *   BATCH       as WAITER, and the object is freed by a callback: one thread queues it, another runs batch.h
 *   END         instead of an updater, a thread ends the domain by end.h while its last reader leaves, and frees the object then
 *   FOLD        each reader's counts are folded when it ends, by fold.h
 *   C_ORDERS_ONLY                         the reader's second barrier orders what comes before it and is no full one, as on x86
 *   WITHOUT_B, WITHOUT_C                  leave out a reader's barrier
 * Steps are bounded: whatever ends after more steps ends after fewer in another execution. */
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
#ifndef CRITICAL_SECTIONS
#define CRITICAL_SECTIONS 2
#endif
#ifndef PERIODS
#define PERIODS 2
#endif
#ifndef STEPS
#define STEPS 1
#endif

enum { LW__SRCU_IDLE, LW__SRCU_FIRST_SCAN, LW__SRCU_SECOND_SCAN };

struct domain {
    unsigned phase;
    atomic_ulong seq;
};
static struct domain domain;
static atomic_uint readers_index;
static atomic_ulong lock_words[READERS][2], unlock_words[READERS][2];
static atomic_int pointer;
static int objects[PERIODS + 1]; /* plain; 1: freed */

/* ---- the heavy barrier ---- */

#include "../membarrier.h"
#ifdef FAST
#define B() ((void)0)
#define C() ((void)0)
#else
#define poll(me) ((void)(me))
#define poll_for_ever(me) ((void)(me))
#define heavy_barrier() fence()
#ifdef WITHOUT_B
#define B() ((void)0)
#else
#define B() fence()
#endif
#ifdef WITHOUT_C
#define C() ((void)0)
#elif defined(C_ORDERS_ONLY)
#define C() atomic_thread_fence(memory_order_release)
#else
#define C() fence()
#endif
#endif

/* ---- sums ---- */

#ifdef FOLD
static atomic_ulong folded_lock_words[2], folded_unlock_words[2];
static atomic_uint fold_seq, live[READERS]; /* live: 0 after the thread has ended */
static pthread_mutex_t fold_lock = PTHREAD_MUTEX_INITIALIZER;

struct kind {
    atomic_ulong (*words)[2], *folded;
    unsigned index;
};

static unsigned long add_up(const struct kind *k)
{
    unsigned long total = atomic_load_explicit(&k->folded[k->index], memory_order_acquire);
    for (int i = 0; i < READERS; i++)
        if (atomic_load_explicit(&live[i], memory_order_acquire))
            total += atomic_load_explicit(&k->words[i][k->index], memory_order_acquire);
    return total;
}

#define LW_FOLD_WORD atomic_ulong
#define LW_FOLD_RECORD const size_t
#define LW_FOLD_KIND const struct kind
#define LW_FOLD_GROUPS() 1u
#define LW_FOLD_WORDS 4u
#define LW_FOLD_FROM(r, g, w) ((w) < 2 ? &lock_words[*(r)][w] : &unlock_words[*(r)][(w) - 2])
#define LW_FOLD_TO(g, w) ((w) < 2 ? &folded_lock_words[w] : &folded_unlock_words[(w) - 2])
#define LW_FOLD_LOAD(word) atomic_load_explicit(word, memory_order_relaxed)
#define LW_FOLD_STORE(word, v) atomic_store_explicit(word, v, memory_order_release)
#define LW_FOLD_BEGIN() atomic_fetch_add_explicit(&fold_seq, 1, memory_order_acq_rel)
#define LW_FOLD_END() atomic_fetch_add_explicit(&fold_seq, 1, memory_order_release)
#define LW_FOLD_GIVE(r) atomic_store_explicit(&live[*(r)], 0, memory_order_release)
#define LW_FOLD_NUMBER() atomic_load_explicit(&fold_seq, memory_order_acquire)
#define LW_FOLD_NUMBER_AGAIN() atomic_load_explicit(&fold_seq, memory_order_relaxed)
#define LW_FOLD_ADD_UP(k) add_up(k)
#define LW_FOLD_TRIES 1
#define LW_FOLD_LOCK() __VERIFIER_assume(0) /* a sum that was in vain is no different from one that begins later */
#define LW_FOLD_UNLOCK() ((void)0)
#include "fold.h" /* the original, or a mutant: from the folder that the command names */

static void fold(size_t me)
{
    pthread_mutex_lock(&fold_lock);
    fold_record(&me);
    pthread_mutex_unlock(&fold_lock);
}

static unsigned long sum(atomic_ulong words[READERS][2], atomic_ulong *folded, unsigned index)
{
    const struct kind k = {words, folded, index};
    return fold_sum(&k);
}
#define SUM(words, i) sum(words, folded_##words, i)
#else
static unsigned long sum(atomic_ulong words[READERS][2], unsigned index)
{
    unsigned long total = 0;
    for (int i = 0; i < READERS; i++)
        total += atomic_load_explicit(&words[i][index], memory_order_relaxed);
    return total;
}
#define SUM(words, i) sum(words, i)
#define fold(me) ((void)(me))
#endif

#define LW_GP_DOMAIN struct domain
#define LW_GP_SUM_UNLOCKS(d, i) SUM(unlock_words, i)
#define LW_GP_SUM_LOCKS(d, i) SUM(lock_words, i)
#define LW_GP_HEAVY_BARRIER(d) heavy_barrier()
#define LW_GP_FENCE() fence()
#define LW_GP_INDEX(d) atomic_load_explicit(&readers_index, memory_order_relaxed)
#define LW_GP_FLIP(d)                                                                                     \
    atomic_store_explicit(&readers_index, atomic_load_explicit(&readers_index, memory_order_relaxed) ^ 1, \
                          memory_order_relaxed)
#define LW_GP_LOAD_SEQ(d) atomic_load_explicit(&(d)->seq, memory_order_relaxed)
#define LW_GP_STORE_SEQ(d, v) atomic_store_explicit(&(d)->seq, v, memory_order_release)
#define LW_GP_POINT(name) ((void)0)
#include "gp.h" /* the original, or a mutant: from the folder that the command names */

/* ---- the threads ---- */

static void count(atomic_ulong *word)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void *reader(void *number)
{
    size_t me = (size_t)number;
    for (int i = 0; i < CRITICAL_SECTIONS; i++) {
        unsigned index = atomic_load_explicit(&readers_index, memory_order_relaxed);
        poll(me);
        count(&lock_words[me][index]);
        B();
        poll(me);
        int object = atomic_load_explicit(&pointer, memory_order_acquire);
        poll(me);
        assert(!objects[object]); /* races with the free in a wrong grace period */
        C();
        poll(me);
        count(&unlock_words[me][index]);
        poll(me);
    }
    fold(me);
    poll_for_ever(me);
    return NULL;
}

#ifdef BATCH
#define WAITER
static atomic_int queued;

struct batch {
    bool waiting;
    unsigned long cookie;
};

static void take(struct batch *b)
{
    b->waiting = atomic_load_explicit(&queued, memory_order_acquire); /* pairs with the release in caller() */
}

#define LW_BATCH_DOMAIN struct batch
#define LW_BATCH_WAITING(b) ((b)->waiting)
#define LW_BATCH_TAKE(b) take(b)
#define LW_BATCH_COOKIE(b) ((void)(b), gp_cookie(&domain))
#define LW_BATCH_SET_COOKIE(b, c) ((b)->cookie = (c))
#define LW_BATCH_SWAP_LISTED(b, v) ((void)(b), v) /* the list is in protocols.c */
#define LW_BATCH_LIST(b) ((void)(b))
#define LW_BATCH_LEFT(b) ((void)(b), 0)
#include "batch.h" /* the original, or a mutant: from the folder that the command names */

static void *caller(void *unused)
{
    atomic_store_explicit(&pointer, 1, memory_order_release);
    atomic_store_explicit(&queued, 1, memory_order_release);
    return unused;
}
#endif

#ifdef END
static atomic_int entered;

#define LW_END_DOMAIN struct domain
#define LW_END_SUM_UNLOCKS(d, i) ((void)(d), SUM(unlock_words, i))
#define LW_END_SUM_LOCKS(d, i) ((void)(d), SUM(lock_words, i))
#define LW_END_HEAVY_BARRIER(d) heavy_barrier()
#define LW_END_QUEUED(d) 0
#define LW_END_WAITERS(d) 0
#include "end.h" /* the original, or a mutant: from the folder that the command names */

/* A program ends no domain that a thread may still enter: the reader says that it is inside, as in the interleaver. */
static void *last_reader(void *number)
{
    size_t me = (size_t)number;
    count(&lock_words[me][0]);
    fence();
    atomic_store_explicit(&entered, 1, memory_order_relaxed);
    poll(me);
    assert(!objects[0]);
    C();
    poll(me);
    count(&unlock_words[me][0]);
    poll(me);
    poll_for_ever(me);
    return NULL;
}

static void *cleaner(void *unused)
{
    if (atomic_load_explicit(&entered, memory_order_acquire) && end_refused(&domain, false) == 0)
        objects[0] = 1;
    return unused;
}
#endif

static bool reached(unsigned long cookie)
{
    return gp_passed(atomic_load_explicit(&domain.seq, memory_order_acquire), cookie);
}

static void *updater(void *unused)
{
#ifdef WAITER
    for (int i = 0; i < PERIODS && gp_step(&domain) == 1; i++)
        ;
#else
    for (int object = 0; object < PERIODS; object++) {
        atomic_store_explicit(&pointer, object + 1, memory_order_release);
        unsigned long cookie = gp_cookie(&domain);
        int left = STEPS + 1;
        while (!reached(cookie))
            if (gp_step(&domain) == 0 && --left == 0)
                return unused;
        objects[object] = 1;
    }
#endif
    return unused;
}

#ifdef WAITER
static void *waiter(void *unused)
{
#ifdef BATCH
    struct batch b = {false, 0};
    batch_next(&b);
    if (b.waiting && reached(b.cookie))
        objects[0] = 1;
#else
    atomic_store_explicit(&pointer, 1, memory_order_release);
    if (reached(gp_cookie(&domain)))
        objects[0] = 1;
#endif
    return unused;
}
#endif

int main(void)
{
    pthread_t threads[READERS + 3];
#ifdef FOLD
    for (int i = 0; i < READERS; i++)
        atomic_store_explicit(&live[i], 1, memory_order_relaxed);
#endif
#ifdef END
    pthread_create(&threads[READERS], NULL, cleaner, NULL);
    (void)reader, (void)updater;
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, last_reader, (void *)i);
#else
    pthread_create(&threads[READERS], NULL, updater, NULL);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, reader, (void *)i);
#endif
#ifdef BATCH
    pthread_create(&threads[READERS + 2], NULL, caller, NULL);
#endif
#ifdef WAITER
    pthread_create(&threads[READERS + 1], NULL, waiter, NULL);
    pthread_join(threads[READERS + 1], NULL);
#endif
#ifdef BATCH
    pthread_join(threads[READERS + 2], NULL);
#endif
    for (int i = 0; i <= READERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

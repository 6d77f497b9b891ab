/* For a stateless model checker of C11 (GenMC): the real wake.h, batch.h (its list) and end.h, each between the threads that
 * use it.
 *
 * What goes wrong is an assertion that fails after all threads, or a race with `dead`. Choose one with -D:
 *   WAKE        a sleeper and its waker: no thread sleeps beside work (SLEEPERS: how many sleep, default 1)
 *   WORKER      a worker that ends idle, and a caller that has made work for it: one of the two does it
 *   LISTED      a domain that is served while callers leave work in it: it is on exactly one list (CALLERS, default 1)
 *   END         lw_srcu_cleanup() while a waiter leaves the domain; END_CALLBACK: while its last callback returns
 * The including macros' memory orders are the library's (src/srcu/event.h, queue.c, domain.c). */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef SLEEPERS
#define SLEEPERS 1
#endif
#ifndef CALLERS
#define CALLERS 1
#endif

static void start(pthread_t *thread, void *(*run)(void *), size_t number)
{
    pthread_create(thread, NULL, run, (void *)number);
}

#if defined(WAKE) || defined(WORKER)

/* ---- the futex: the kernel compares and enqueues under a lock that a waker takes, too ---- */

static atomic_uint number, sleepers, current = 1;
static atomic_int work;
static pthread_mutex_t bucket = PTHREAD_MUTEX_INITIALIZER;
static bool asleep[SLEEPERS + 1]; /* under the bucket; a thread that stays asleep does nothing more */

static bool sleeps(size_t me)
{
    pthread_mutex_lock(&bucket);
    bool is = asleep[me];
    pthread_mutex_unlock(&bucket);
    return is;
}

static void futex_wait(size_t me, unsigned seen)
{
    pthread_mutex_lock(&bucket);
    asleep[me] = atomic_load(&number) == seen;
    pthread_mutex_unlock(&bucket);
}

static void futex_wake_all(void)
{
    pthread_mutex_lock(&bucket);
    for (size_t i = 0; i <= SLEEPERS; i++)
        asleep[i] = false;
    pthread_mutex_unlock(&bucket);
}

#define LW_WAKE const size_t /* the calling thread's number */
#define LW_WAKE_NOTE(e) ((void)(e), atomic_fetch_add(&number, 1))
#define LW_WAKE_SLEEPERS(e) ((void)(e), atomic_load(&sleepers))
#define LW_WAKE_ALL(e) ((void)(e), futex_wake_all())
#define LW_WAKE_ENTER(e) (sleeps(*(e)) ? 0u : atomic_fetch_add(&sleepers, 1))
#define LW_WAKE_LEAVE(e) (sleeps(*(e)) ? 0u : atomic_fetch_sub_explicit(&sleepers, 1, memory_order_relaxed))
#define LW_WAKE_SLEEP(e, seen, ns) ((void)(ns), futex_wait(*(e), seen))
#define LW_WAKE_WORKER atomic_uint
#define LW_WAKE_WORKER_NUMBER(w) ((void)(w), atomic_load(&number))
#define LW_WAKE_WORKER_SET(w, n) atomic_store(w, n)
#include "wake.h" /* the original, or a mutant: from the folder that the command names */

static void make_work(size_t me)
{
    atomic_store_explicit(&work, 1, memory_order_release);
    wake_sleepers(&me);
}

#ifdef WAKE
static void *sleeper(void *argument)
{
    size_t me = (size_t)argument;
    unsigned seen = atomic_load_explicit(&number, memory_order_acquire);
    if (!atomic_load_explicit(&work, memory_order_acquire))
        wake_sleep(&me, seen, 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[SLEEPERS];
    for (size_t i = 0; i < SLEEPERS; i++)
        start(&threads[i], sleeper, i + 1);
    make_work(0);
    for (size_t i = 0; i < SLEEPERS; i++) {
        pthread_join(threads[i], NULL);
        assert(!sleeps(i + 1));
    }
    return 0;
}
#else
static pthread_mutex_t worker_lock = PTHREAD_MUTEX_INITIALIZER;
static bool done; /* by the worker, or by one that the caller started */

static void *worker(void *unused)
{
    unsigned seen = atomic_load(&number);
    bool has_work = atomic_load_explicit(&work, memory_order_acquire);
    if (!has_work) {
        pthread_mutex_lock(&worker_lock);
        bool ended = wake_end_worker(&current, 1, seen);
        pthread_mutex_unlock(&worker_lock);
        has_work = !ended && atomic_load_explicit(&work, memory_order_acquire);
    }
    pthread_mutex_lock(&worker_lock);
    done |= has_work;
    pthread_mutex_unlock(&worker_lock);
    return unused;
}

int main(void)
{
    pthread_t thread;
    start(&thread, worker, 0);
    make_work(0);
    if (!atomic_load(&current)) {
        pthread_mutex_lock(&worker_lock);
        done |= !atomic_load_explicit(&current, memory_order_relaxed); /* starts another */
        pthread_mutex_unlock(&worker_lock);
    }
    pthread_join(thread, NULL);
    assert(done);
    return 0;
}
#endif

#elif defined(LISTED)

static atomic_int listed = 1, left; /* the server holds the domain */
static atomic_int new_listings;

#define LW_BATCH_DOMAIN void
#define LW_BATCH_WAITING(d) ((void)(d), true) /* batch_next() is in harness.c, with a grace period */
#define LW_BATCH_TAKE(d) ((void)(d))
#define LW_BATCH_COOKIE(d) ((void)(d), 0)
#define LW_BATCH_SET_COOKIE(d, c) ((void)(d), (void)(c))
#define LW_BATCH_SWAP_LISTED(d, v) ((void)(d), atomic_exchange_explicit(&listed, v, memory_order_acq_rel))
#define LW_BATCH_LIST(d) ((void)(d), atomic_fetch_add_explicit(&new_listings, 1, memory_order_relaxed))
#define LW_BATCH_LEFT(d) ((void)(d), atomic_load_explicit(&left, memory_order_acquire))
#include "batch.h" /* the original, or a mutant: from the folder that the command names */

static void *caller(void *unused)
{
    atomic_fetch_add_explicit(&left, 1, memory_order_release);
    batch_list(NULL);
    return unused;
}

int main(void)
{
    pthread_t threads[CALLERS];
    for (size_t i = 0; i < CALLERS; i++)
        start(&threads[i], caller, i);
    int kept = !batch_over(NULL);
    for (size_t i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    (void)batch_next; /* not used here */
    assert(kept + atomic_load_explicit(&new_listings, memory_order_relaxed) == 1);
    return 0;
}

#else

static atomic_int inside = 1;
static int dead; /* plain */

#define LW_END_DOMAIN void
#define LW_END_SUM_UNLOCKS(d, i) ((void)(d), (void)(i), 0ul)
#define LW_END_SUM_LOCKS(d, i) ((void)(d), (void)(i), 0ul)
#define LW_END_HEAVY_BARRIER(d) ((void)(d), 0)
#ifdef END_CALLBACK
#define LW_END_QUEUED(d) ((void)(d), atomic_load_explicit(&inside, memory_order_acquire))
#define LW_END_WAITERS(d) ((void)(d), 0)
#else
#define LW_END_QUEUED(d) ((void)(d), 0)
#define LW_END_WAITERS(d) ((void)(d), atomic_load_explicit(&inside, memory_order_acquire))
#endif
#include "end.h" /* the original, or a mutant: from the folder that the command names */

static void *leaves(void *unused)
{
    assert(!dead);
    atomic_fetch_sub_explicit(&inside, 1, memory_order_release);
    return unused;
}

int main(void)
{
    pthread_t thread;
    start(&thread, leaves, 0);
    if (end_refused(NULL, true) == 0)
        dead = 1;
    pthread_join(thread, NULL);
    return 0;
}
#endif

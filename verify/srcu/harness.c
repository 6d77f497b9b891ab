/* For a stateless model checker of C11 (GenMC): the real step machine gp.h with readers, updaters and waiters around it.
 *
 * Objects are plain variables, so that the checker reports a reader's access that races with the updater's free. Choose with -D:
 *   FAST        readers without barriers; the heavy barrier is a membarrier: each reader meets a requested barrier at its next
 *               poll point, of which there is one between any two of its accesses, and the updater waits for all of them
 *   READERS     threads that read (default 1), CRITICAL_SECTIONS times each (default 2)
 *   PERIODS     objects that the updater replaces and frees, each after a grace period (default 2)
 *   WAITER      another thread replaces the object and relies on the grace periods that the updater's thread advances
 *   FOLD        each reader's counts are folded when it ends, as src/srcu/records.c does it
 *   C_ORDERS_ONLY                         the reader's second barrier orders what comes before it and is no full one, as on x86
 *   WITHOUT_B, WITHOUT_C, WITHOUT_SEQ     leave out a reader's barrier, or the check of fold_seq
 * Steps are bounded: whatever ends after more steps ends after fewer in another execution. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

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

extern void __VERIFIER_assume(bool); /* GenMC: only executions where it holds */

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

static int fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return 0;
}

/* ---- the heavy barrier ---- */

#ifdef FAST
static atomic_int requested, met[READERS];

static void poll(size_t me)
{
    int number = atomic_load_explicit(&requested, memory_order_relaxed);
    if (number != atomic_load_explicit(&met[me], memory_order_relaxed)) {
        fence();
        atomic_store_explicit(&met[me], number, memory_order_relaxed);
    }
}

/* A thread that has ended takes part in every barrier. */
static void poll_for_ever(size_t me)
{
    fence();
    atomic_store_explicit(&met[me], -1, memory_order_relaxed);
}

static int heavy_barrier(void)
{
    fence();
    int number = atomic_load_explicit(&requested, memory_order_relaxed) + 1;
    atomic_store_explicit(&requested, number, memory_order_relaxed);
    for (int i = 0; i < READERS; i++) {
        int seen = atomic_load_explicit(&met[i], memory_order_relaxed);
        __VERIFIER_assume(seen == number || seen == -1);
    }
    return fence();
}
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

static void move_count(atomic_ulong *to, atomic_ulong *from)
{
    unsigned long count = atomic_load_explicit(from, memory_order_relaxed);
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + count, memory_order_release);
    atomic_store_explicit(from, 0, memory_order_release);
}

static void fold(size_t me)
{
    pthread_mutex_lock(&fold_lock);
    atomic_fetch_add_explicit(&fold_seq, 1, memory_order_acq_rel);
    for (int i = 0; i < 2; i++) {
        move_count(&folded_lock_words[i], &lock_words[me][i]);
        move_count(&folded_unlock_words[i], &unlock_words[me][i]);
    }
    atomic_store_explicit(&live[me], 0, memory_order_release);
    atomic_fetch_add_explicit(&fold_seq, 1, memory_order_release);
    pthread_mutex_unlock(&fold_lock);
}

static unsigned long sum(atomic_ulong words[READERS][2], atomic_ulong *folded, unsigned index)
{
    unsigned before = atomic_load_explicit(&fold_seq, memory_order_acquire);
    unsigned long total = atomic_load_explicit(&folded[index], memory_order_acquire);
    for (int i = 0; i < READERS; i++)
        if (atomic_load_explicit(&live[i], memory_order_acquire))
            total += atomic_load_explicit(&words[i][index], memory_order_acquire);
#ifndef WITHOUT_SEQ
    __VERIFIER_assume(!(before & 1) && atomic_load_explicit(&fold_seq, memory_order_relaxed) == before);
#endif
    return total;
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
    atomic_store_explicit(&pointer, 1, memory_order_release);
    if (reached(gp_cookie(&domain)))
        objects[0] = 1;
    return unused;
}
#endif

int main(void)
{
    pthread_t threads[READERS + 2];
#ifdef FOLD
    for (int i = 0; i < READERS; i++)
        atomic_store_explicit(&live[i], 1, memory_order_relaxed);
#endif
    pthread_create(&threads[READERS], NULL, updater, NULL);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, reader, (void *)i);
#ifdef WAITER
    pthread_create(&threads[READERS + 1], NULL, waiter, NULL);
    pthread_join(threads[READERS + 1], NULL);
#endif
    for (int i = 0; i <= READERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

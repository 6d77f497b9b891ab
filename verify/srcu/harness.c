/* For a stateless model checker of C11 (GenMC): the real step machine, two readers with their own barriers, one updater.
 *
 * Such checkers have no membarrier, so this is the normal flavour: the heavy barrier is the updater's own fence, B and C are
 * the readers'. The number of steps is bounded, as in tests/cpp/srcu/interleave.cpp. GP names the step machine to include;
 * WITHOUT_B and WITHOUT_C leave the readers' barriers out. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef STEPS
#define STEPS 2
#endif
#define READERS 1
#define SECTIONS 2
#define PERIODS 2

enum { LW__SRCU_IDLE, LW__SRCU_FIRST_SCAN, LW__SRCU_SECOND_SCAN };

struct domain {
    unsigned phase;
    atomic_ulong seq;
};
static struct domain domain;
static atomic_uint readers_index;
static atomic_ulong lock_words[READERS][2], unlock_words[READERS][2];
static atomic_int pointer, freed[PERIODS + 1];

static unsigned long sum(atomic_ulong words[READERS][2], unsigned index)
{
    unsigned long total = 0;
    for (int i = 0; i < READERS; i++)
        total += atomic_load_explicit(&words[i][index], memory_order_relaxed);
    return total;
}

static int fence(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return 0;
}

#define LW_GP_DOMAIN struct domain
#define LW_GP_SUM_UNLOCKS(d, i) sum(unlock_words, i)
#define LW_GP_SUM_LOCKS(d, i) sum(lock_words, i)
#define LW_GP_HEAVY_BARRIER(d) fence()
#define LW_GP_FENCE() fence()
#define LW_GP_INDEX(d) atomic_load_explicit(&readers_index, memory_order_relaxed)
#define LW_GP_FLIP(d)                                                                                     \
    atomic_store_explicit(&readers_index, atomic_load_explicit(&readers_index, memory_order_relaxed) ^ 1, \
                          memory_order_relaxed)
#define LW_GP_LOAD_SEQ(d) atomic_load_explicit(&(d)->seq, memory_order_relaxed)
#define LW_GP_STORE_SEQ(d, v) atomic_store_explicit(&(d)->seq, v, memory_order_release)
#define LW_GP_POINT(name) ((void)0)
#include GP

static void count(atomic_ulong *word)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + 1, memory_order_relaxed);
}

static void *reader(void *words)
{
    size_t me = (size_t)words;
    for (int i = 0; i < SECTIONS; i++) {
        unsigned index = atomic_load_explicit(&readers_index, memory_order_relaxed);
        count(&lock_words[me][index]);
#ifndef WITHOUT_B
        fence();
#endif
        int object = atomic_load_explicit(&pointer, memory_order_acquire);
        assert(!atomic_load_explicit(&freed[object], memory_order_relaxed));
#ifndef WITHOUT_C
        fence();
#endif
        count(&unlock_words[me][index]);
    }
    return NULL;
}

static void *updater(void *unused)
{
    for (int object = 0; object < PERIODS; object++) {
        atomic_store_explicit(&pointer, object + 1, memory_order_release);
        unsigned long cookie = gp_cookie(&domain);
        int left = STEPS;
        while (!gp_passed(atomic_load_explicit(&domain.seq, memory_order_acquire), cookie))
            if (gp_step(&domain) == 0 && --left == 0)
                return unused;
        atomic_store_explicit(&freed[object], 1, memory_order_relaxed);
    }
    return unused;
}

int main(void)
{
    pthread_t threads[READERS + 1];
    pthread_create(&threads[READERS], NULL, updater, NULL);
    for (size_t i = 0; i < READERS; i++)
        pthread_create(&threads[i], NULL, reader, (void *)i);
    for (int i = 0; i <= READERS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

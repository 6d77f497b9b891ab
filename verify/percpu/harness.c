/* For a stateless model checker of C11 (GenMC): the real lock.h around one CPU's words, of which one is a plain variable, so
 * that the checker reports two threads that use it at once, and one is a list.
 *
 * A sequence is what its thread does between two polls of the kernel, which a mutex stands for: it is aborted where an abort
 * was requested in between. Choose with -D:
 *   LOCKERS     threads without a sequence (default 1)
 *   SEQUENCES   threads of the CPU with one (default 1)
 * A thread that would sleep for the lock goes on only in executions where the word has changed: wake-ups are checked by the
 * interleaver (tests/cpp/percpu/interleave.cpp). The sequence reads the lock word with acquire order, which stands for load
 * order (x86) and an address dependency (arm64; verify/litmus percpu-lock-with-dependency). */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef LOCKERS
#define LOCKERS 1
#endif
#ifndef SEQUENCES
#define SEQUENCES 1
#endif
#define ME 1u

extern void __VERIFIER_assume(bool); /* GenMC: only executions where it holds */

static atomic_uint word;
static pthread_mutex_t kernel = PTHREAD_MUTEX_INITIALIZER;
static bool aborted[SEQUENCES]; /* under the kernel's lock */

static bool abort_all(void)
{
    pthread_mutex_lock(&kernel);
    for (int i = 0; i < SEQUENCES; i++)
        aborted[i] = true;
    pthread_mutex_unlock(&kernel);
    return true;
}

struct node {
    _Atomic(struct node *) next;
};
static _Atomic(struct node *) head;
static struct node nodes[LOCKERS + SEQUENCES];
static int number; /* plain */

#define LW_LOCK atomic_uint *
#define LW_LOCK_LOAD(l) atomic_load_explicit(l, memory_order_relaxed)
#define LW_LOCK_SWAP(l, seen, value) \
    atomic_compare_exchange_strong_explicit(l, &(seen), value, memory_order_seq_cst, memory_order_relaxed)
#define LW_LOCK_FREE(l) atomic_exchange_explicit(l, 0, memory_order_release)
#define LW_LOCK_SLEEP(l, seen) __VERIFIER_assume(atomic_load_explicit(l, memory_order_relaxed) != (seen))
#define LW_LOCK_WAKE(l) ((void)(l))
#define LW_LOCK_ME() ME
#define LW_LOCK_HERE(cpu) ((void)(cpu), false) /* runs on another CPU */
#define LW_LOCK_ABORT(cpu) ((void)(cpu), abort_all())
#define LW_LOCK_POINT(name) ((void)0)
#define LW_LIST_PLACE _Atomic(struct node *) *
#define LW_LIST_NODE struct node *
#define LW_LIST_LOAD(place) atomic_load_explicit(place, memory_order_relaxed)
#define LW_LIST_STORE(place, node) atomic_store_explicit(place, node, memory_order_relaxed)
#define LW_LIST_NEXT(node) (&(node)->next)
#include "lock.h" /* the original, or a mutant: from the folder that the command names */

static void *locker(void *argument)
{
    struct node *node = &nodes[(size_t)argument];
    if (!own_cpu(&word, 0))
        return NULL;
    number++;
    push_owned(&head, node, node);
    unlock_word(&word);
    return NULL;
}

/* Reads between its first poll and its last one, and commits if it was not aborted in between. */
static void *sequence(void *argument)
{
    size_t me = (size_t)argument;
    struct node *node = &nodes[LOCKERS + me], *first = NULL;
    int was = 0;
    pthread_mutex_lock(&kernel);
    aborted[me] = false;
    bool is_free = !atomic_load_explicit(&word, memory_order_acquire); /* pairs with LW_LOCK_FREE() */
    if (is_free) {
        was = number;
        first = atomic_load_explicit(&head, memory_order_relaxed);
        atomic_store_explicit(&node->next, first, memory_order_relaxed);
    }
    pthread_mutex_unlock(&kernel);
    pthread_mutex_lock(&kernel);
    if (is_free && !aborted[me]) {
        for (int i = 0; i < SEQUENCES; i++)
            aborted[i] |= i != (int)me; /* two sequences of one CPU do not run at once */
        number = was + 1;
        atomic_store_explicit(&head, node, memory_order_relaxed);
    } else {
        node = NULL;
    }
    pthread_mutex_unlock(&kernel);
    return node;
}

int main(void)
{
    pthread_t threads[LOCKERS + SEQUENCES];
    int expected = LOCKERS, listed = 0;
    for (size_t i = 0; i < LOCKERS; i++)
        pthread_create(&threads[i], NULL, locker, (void *)i);
    for (size_t i = 0; i < SEQUENCES; i++)
        pthread_create(&threads[LOCKERS + i], NULL, sequence, (void *)i);
    for (size_t i = 0; i < LOCKERS + SEQUENCES; i++) {
        void *committed = NULL;
        pthread_join(threads[i], &committed);
        expected += committed != NULL;
    }
    assert(number == expected);
    if (!own_cpu(&word, 0))
        return 0;
    struct node *one = pop_owned(&head), *rest = take_owned(&head);
    unlock_word(&word);
    for (listed = one != NULL; rest; rest = atomic_load_explicit(&rest->next, memory_order_relaxed))
        listed++;
    assert(listed == expected && !atomic_load_explicit(&head, memory_order_relaxed));
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* A program that has used up the thread-specific keys for which glibc allocates nothing: a signal handler that is its thread's first reader counts in the
 * plain lock, since it must not allocate, and the thread marks once it reads itself. */
#include <linewright/rwlock.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#define READERS 0xfffffu /* of the state: src/rwlock/state.h */

static struct lw_rwlock lock = LW_RWLOCK_INIT;
static volatile sig_atomic_t in_handler, in_thread;

__attribute__((constructor(101))) static void use_up_keys(void) /* linked before the library's own */
{
    pthread_key_t key;
    for (int i = 0; i < 40; i++)
        (void)pthread_key_create(&key, NULL);
}

static int counted(int error) {
    int readers = error ? -1 : (int)(__atomic_load_n(&lock.state, __ATOMIC_RELAXED) & READERS);
    if (!error)
        (void)lw_rwlock_read_unlock(&lock);
    return readers;
}

static void handler(int signal) {
    (void)signal;
    in_handler = counted(lw_rwlock_try_read(&lock));
}

static void *thread(void *unused) {
    (void)raise(SIGUSR1);
    in_thread = counted(lw_rwlock_read_lock(&lock));
    return unused;
}

static int is_biased(void) { return __atomic_load_n(&lock.biased, __ATOMIC_RELAXED) == LW__RW_BIASED; }

int main(void) {
    pthread_t reader;
    for (int i = 0; i < 10000000 && !is_biased(); i++)
        (void)counted(lw_rwlock_read_lock(&lock));
    int marks = is_biased(); /* not without membarrier */
    (void)signal(SIGUSR1, handler);
    if (pthread_create(&reader, NULL, thread, NULL) || pthread_join(reader, NULL))
        return 1;
    printf("readers that the lock counts: %d of a handler, %d of its thread\n", (int)in_handler, (int)in_thread);
    return in_handler != 1 || in_thread != !marks;
}

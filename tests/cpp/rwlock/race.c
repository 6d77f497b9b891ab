/* SPDX-License-Identifier: MIT */
/* Two threads read and write under a lock, rightly; with an argument they also write while they read, which is a race. For a race detector: it
 * must be silent about the one and report the other. */
#include <linewright/rwlock.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

static struct lw_rwlock lock = LW_RWLOCK_INIT;
static pthread_barrier_t begin;
static long first, second, third; /* plain, so that a race is seen */
static bool racing, marked; /* marked: atomic, whether readers came to mark */
static int racers; /* atomic */

static void write_once(void) {
    if (lw_rwlock_write_lock(&lock))
        abort();
    first++;
    second++;
    lw_rwlock_write_unlock(&lock);
}

static void read_once(void) {
    if (lw_rwlock_read_lock(&lock))
        abort();
    if (first != second)
        abort();
    if (__atomic_load_n(&lock.biased, __ATOMIC_RELAXED) == LW__RW_BIASED)
        __atomic_store_n(&marked, true, __ATOMIC_RELAXED);
    if (racing) {
        __atomic_fetch_add(&racers, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&racers, __ATOMIC_RELAXED) < 2) /* else one thread may have ended before the other begins */
            sched_yield();
        third++;
    }
    lw_rwlock_read_unlock(&lock);
}

static void *works(void *unused) {
    pthread_barrier_wait(&begin);
    for (int i = 0; i < 20000; i++) {
        if (i % 1000 == 999)
            write_once();
        else
            read_once();
    }
    return unused;
}

int main(int count, char **words) {
    pthread_t threads[2];
    racing = count > 1 && *words[1];
    pthread_barrier_init(&begin, NULL, 2);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, works, NULL))
            return 2;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return marked ? 0 : 3;
}

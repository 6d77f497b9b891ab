/* SPDX-License-Identifier: MIT */
/* Forks while threads allocate per-CPU memory, linked with one allocator or another. An allocator with fork handlers of its
 * own holds its locks while the library's handler runs, so the library must not hold a lock of its handler's while it
 * allocates. The child allocates too. Ends with a line and exit code 1 where a fork does not come back.
 *
 *   percpu_fork_allocators FORKS */
#define _GNU_SOURCE
#include <linewright/percpu.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS_FOR_A_FORK 300
#define THREADS 3

/* Before main, and so before the first malloc() of many programs: the library's handlers are then the first ones registered,
 * and run after the allocator's. */
LW_DEFINE_STATIC_PERCPU(uint64_t, early);

static volatile sig_atomic_t over;

static void hangs(int number) {
    (void)number;
    static const char text[] = "fork_allocators: a fork, or its child, hangs\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    _exit(written > 0 ? 1 : 2);
}

/* Chunks come and go, so that the library's own bookkeeping allocates as often as it ever does. */
static void churn(void) {
    void *large[3], *small[16];
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        small[i] = malloc(64u << i % 12);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        large[i] = lw_percpu_alloc(LW_PERCPU_MAX_SIZE, 8);
    lw_this_cpu_inc(early);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        lw_percpu_free(large[i]);
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        free(small[i]);
}

static void *thread(void *unused) {
    while (!over)
        churn();
    return unused;
}

static int child_ends_well(void) {
    alarm(SECONDS_FOR_A_FORK); /* a fork that waits for a lock is in the parent, one that inherited a lock in the child */
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_FOR_A_FORK);
        churn();
        _exit(0);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv) {
    int forks = argc == 2 ? atoi(argv[1]) : 0;
    if (forks < 1) {
        fprintf(stderr, "usage: fork_allocators FORKS\n");
        return 2;
    }
    signal(SIGALRM, hangs);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread, NULL))
            return 3;
    int failed = 0;
    for (int i = 0; i < forks; i++)
        failed += !child_ends_well();
    over = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("fork_allocators: %d forks, %d failed\n", forks, failed);
    return failed != 0;
}

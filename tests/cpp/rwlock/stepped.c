/* SPDX-License-Identifier: MIT */
/* A writer's try, stopped after each of its instructions in turn, while another thread reads the lock until readers mark it and then stays inside: the two are
 * never inside together. Where the reader comes between the writer's look at the bias and its exchange, only a second look keeps the writer out.
 * For pthread's locks as they are and with liblinewright-rwlock.so preloaded, and with OWN_LOCKS for the library's. Exit code: 0, or 1. */
#define _GNU_SOURCE
#include "either.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum reader { NOT_YET, INSIDE, KEPT_OUT };

static struct shared { /* by parent and child; each is atomic */
    bool come, leave, tried; /* the reader may; the writer's try is over */
    enum reader reader;
    int result; /* of the try */
} *shared;
static either_t lock = EITHER_INIT;

static void *reads(void *unused) {
    while (!__atomic_load_n(&shared->come, __ATOMIC_ACQUIRE))
        usleep(10);
    int error = 0;
    for (int n = 0; !error && (has_bias() ? !is_biased(&lock) : n < 1000); n++)
        error = try_read(&lock) || unlock_either(&lock, false);
    error = error || try_read(&lock);
    __atomic_store_n(&shared->reader, error ? KEPT_OUT : INSIDE, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&shared->leave, __ATOMIC_ACQUIRE))
        usleep(10);
    return error || !unlock_either(&lock, false) ? unused : &lock;
}

/* The child: the writer is traced, and the reader is not. */
static int tries_to_write(void) {
    pthread_t thread;
    void *failed = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* Both have locked once: what a thread's first lock does is no part of the steps. */
    if (write_lock(&lock) || unlock_either(&lock, true) || pthread_create(&thread, NULL, reads, NULL) ||
        ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        return 2;
    raise(SIGSTOP);
    shared->result = try_write(&lock);
    __atomic_store_n(&shared->tried, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&shared->reader, __ATOMIC_ACQUIRE))
        usleep(10);
    bool together = !shared->result && shared->reader == INSIDE;
    if (!shared->result && unlock_either(&lock, true))
        return 2;
    __atomic_store_n(&shared->leave, true, __ATOMIC_RELEASE);
    if (pthread_join(thread, &failed) || failed)
        return 2;
    return together ? 1 : shared->result && shared->result != EBUSY ? 2 : 0;
}

/* The reader comes after this number of the writer's steps. What the child says, or -1; `over`: the try was over by then. */
static int after(int steps, bool *over) {
    *shared = (struct shared){false, false, false, NOT_YET, 0};
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(tries_to_write());
    waitpid(child, &status, 0);
    for (int i = 0; i < steps && WIFSTOPPED(status); i++) {
        ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
        waitpid(child, &status, 0);
    }
    if (WIFSTOPPED(status)) {
        *over = __atomic_load_n(&shared->tried, __ATOMIC_ACQUIRE);
        __atomic_store_n(&shared->come, true, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&shared->reader, __ATOMIC_ACQUIRE))
            usleep(10);
        ptrace(PTRACE_CONT, child, NULL, NULL);
        waitpid(child, &status, 0);
    }
    if (WIFSTOPPED(status))
        kill(child, SIGKILL);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
    alarm(800);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    int inside = 0, kept_out = 0, failures = 0;
    bool over = false;
    for (int steps = 0; !over; steps++) {
        int said = after(steps, &over);
        inside += shared->reader == INSIDE;
        kept_out += shared->reader == KEPT_OUT;
        if (said) {
            printf("a reader that comes after %d steps: %s\n", steps, said == 1 ? "both are inside" : "a lock fails");
            failures++;
        }
    }
    printf("%d times the reader was inside, %d times it was kept out\n", inside, kept_out);
    return failures || !inside || !kept_out;
}

/* SPDX-License-Identifier: MIT */
/* fork() beside the worker's start, with an allocator whose own fork handlers are registered later than the library's and so
 * stop all allocation before the library's handler runs. The first part stands for such an allocator and meets the moment
 * every time; the second, `storm N`, forks N times with the allocator that the program is linked with. A deadlock ends by
 * alarm(). */
#define _GNU_SOURCE
#include <linewright/srcu.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lw_srcu_fast domain;

static void must(int right, const char *what) {
    if (right)
        return;
    fprintf(stderr, "fork_locks: %s\n", what);
    _exit(1);
}

/* ---- an allocator's lock, taken by a thread's start and by fork() ---- */

static pthread_mutex_t allocator = PTHREAD_MUTEX_INITIALIZER;
static bool directed, starting, forking; /* flags of the two threads, seq_cst */

static void await(const bool *flag) {
    while (!__atomic_load_n(flag, __ATOMIC_SEQ_CST))
        usleep(100);
}

/* Stands in for the C library's: allocates the thread's memory, so to speak, when fork() has begun. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    __typeof__(pthread_create) *next = __extension__(__typeof__(pthread_create) *) dlsym(RTLD_NEXT, "pthread_create");
    if (__atomic_load_n(&directed, __ATOMIC_SEQ_CST)) {
        __atomic_store_n(&starting, true, __ATOMIC_SEQ_CST);
        await(&forking);
        pthread_mutex_lock(&allocator);
        pthread_mutex_unlock(&allocator);
    }
    return next(thread, attributes, body, argument);
}

static void before_fork(void) {
    pthread_mutex_lock(&allocator);
    __atomic_store_n(&forking, true, __ATOMIC_SEQ_CST);
}

static void after_fork(void) { pthread_mutex_unlock(&allocator); }

static void *fork_meanwhile(void *unused) {
    int status = -1;
    await(&starting);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    must(waitpid(child, &status, 0) == child && !status, "the child");
    return unused;
}

static void nothing(struct lw_srcu_head *head) { (void)head; }

static void meet_the_moment(void) {
    static struct lw_srcu_head head;
    pthread_t forker;
    must(!pthread_atfork(before_fork, after_fork, after_fork), "pthread_atfork");
    must(!pthread_create(&forker, NULL, fork_meanwhile, NULL), "pthread_create");
    __atomic_store_n(&directed, true, __ATOMIC_SEQ_CST);
    must(!lw_srcu_call(&domain, &head, nothing), "lw_srcu_call");
    __atomic_store_n(&directed, false, __ATOMIC_SEQ_CST);
    must(!pthread_join(forker, NULL) && !lw_srcu_barrier(&domain), "the end");
}

/* ---- with a real allocator ---- */

static bool over;

static void *start_workers(void *unused) {
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        must(!lw_srcu_worker_start() && !lw_srcu_worker_stop(), "lw_srcu_worker_start");
        struct lw_srcu_normal young;
        must(!lw_srcu_init(&young) && !lw_srcu_cleanup(&young), "lw_srcu_init");
        lw_percpu_free(lw_percpu_alloc(64, 64));
    }
    return unused;
}

static void *allocate(void *unused) {
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        char *volatile p = malloc(20000);
        memset(p, 1, 100);
        free(p);
    }
    return unused;
}

static int child(void) {
    alarm(300);
    char *volatile p = malloc(100);
    free(p);
    struct lw_srcu_fast young;
    return lw_srcu_init(&young) || lw_srcu_synchronize(&young) || lw_srcu_cleanup(&young);
}

static void storm(int forks) {
    pthread_t threads[3];
    void *(*const bodies[3])(void *) = {start_workers, start_workers, allocate};
    for (int i = 0; i < 3; i++)
        must(!pthread_create(&threads[i], NULL, bodies[i], NULL), "pthread_create");
    for (int i = 0; i < forks; i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        must(waitpid(pid, &status, 0) == pid && !status, "a child of the storm");
        alarm(300);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
    alarm(300);
    must(!lw_srcu_init(&domain), "lw_srcu_init");
    if (argc == 3 && !strcmp(argv[1], "storm"))
        storm(atoi(argv[2]));
    else
        meet_the_moment();
    must(!lw_srcu_cleanup(&domain), "lw_srcu_cleanup");
    puts("done");
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* Uses of a lock that are none of its own: memory that others made, programs that end threads, change rights or filter system calls, and many of
 * everything. A line for each with PASS, or what is not so. Run with pthread's locks as they are and with liblinewright-rwlock.so preloaded
 * (LW_INTERPOSED=1), and compiled with OWN_LOCKS for the library's, also beside musl. Arguments: PLUGIN THREADS; "-" where none can be opened. */
#define _GNU_SOURCE
#include "either.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef OWN_LOCKS
#include <dlfcn.h>
#include <gnu/lib-names.h>
#endif

static int failures; /* atomic */
static int waiting; /* atomic: threads that are so far */
static bool left_out; /* cannot be tried on this machine */
static const char *plugin;
static int many_threads = 2000;

#define HOLDS(condition) holds(#condition, (condition), __LINE__)

static void holds(const char *what, bool condition, int line) {
    if (condition)
        return;
    printf("line %d: not so: %s\n", line, what);
    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

/* ---- other threads ---- */

struct call {
    either_t *lock;
    bool write, keeps;
    int result;
};

static void *tries(void *given) {
    struct call *c = given;
    c->result = c->write ? try_write(c->lock) : try_read(c->lock);
    if (!c->result && !c->keeps)
        c->result = unlock_either(c->lock, c->write);
    return NULL;
}

static int tried(either_t *l, bool write) {
    struct call c = {l, write, false, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, tries, &c) || pthread_join(thread, NULL))
        abort();
    return c.result;
}

/* Free, and a lock: another thread writes, is kept out by a reader, and reads. */
static bool works(either_t *l) {
    return tried(l, true) == 0 && !read_lock(l) && tried(l, true) == EBUSY && tried(l, false) == 0 &&
           !unlock_either(l, false) && !write_lock(l) && tried(l, false) == EBUSY && tried(l, true) == EBUSY &&
           !unlock_either(l, true) && tried(l, false) == 0;
}

static bool works_both_ways(either_t *l) { return works(l) && !read_often(l) && works(l); }

/* ---- memory ---- */

#ifndef OWN_LOCKS
static void glibc_initialised_it(void) {
    int (*init)(pthread_rwlock_t *, const pthread_rwlockattr_t *), (*destroy)(pthread_rwlock_t *);
    void *other = dlmopen(LM_ID_NEWLM, LIBC_SO, RTLD_NOW);
    if (other && !dlsym(other, "pthread_rwlock_init"))
        other = dlmopen(LM_ID_NEWLM, LIBPTHREAD_SO, RTLD_NOW);
    HOLDS(other != NULL);
    if (!other)
        return;
    *(void **)&init = dlsym(other, "pthread_rwlock_init");
    *(void **)&destroy = dlsym(other, "pthread_rwlock_destroy");
    HOLDS(init && init != pthread_rwlock_init);
    for (int kind = PTHREAD_RWLOCK_PREFER_READER_NP; kind <= PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP; kind++)
        for (int shared = 0; shared < 2; shared++) {
            pthread_rwlockattr_t attributes;
            pthread_rwlock_t l;
            pthread_rwlockattr_init(&attributes);
            HOLDS(!pthread_rwlockattr_setkind_np(&attributes, kind) &&
                  !pthread_rwlockattr_setpshared(&attributes, shared ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE));
            memset(&l, 0xa5, sizeof l);
            HOLDS(!init(&l, &attributes));
            HOLDS(shared ? works(&l) : works_both_ways(&l));
            HOLDS(!destroy(&l) && !pthread_rwlock_init(&l, NULL) && works_both_ways(&l));
        }
}
#else
#define glibc_initialised_it NULL
#endif

static void copied(void) {
    either_t first = EITHER_INIT, copy;
    HOLDS(!read_often(&first));
    memcpy(&copy, &first, sizeof copy);
    HOLDS(!read_lock(&first) && tried(&first, true) == EBUSY);
    HOLDS(works_both_ways(&copy));
    HOLDS(!unlock_either(&first, false) && works(&first));
}

static void zeroed(void) {
    either_t l = EITHER_INIT;
    HOLDS(!read_often(&l));
    memset(&l, 0, sizeof l);
    HOLDS(works_both_ways(&l));
    memset(&l, 0, sizeof l);
    HOLDS(works_both_ways(&l));
}

static void destroyed_and_used_again(void) {
    either_t other = EITHER_INIT;
    for (int i = 0; i < 100; i++) {
        either_t *l = malloc(sizeof *l);
        if (!l)
            abort();
        memset(l, 0xa5, sizeof *l);
        HOLDS(!begin_lock(l) && works(l));
        HOLDS(!read_often(l) && !read_often(&other) && !read_lock(l) && !unlock_either(l, false));
        HOLDS(!end_lock(l));
        memset(l, 0x5a, sizeof *l);
        free(l);
        HOLDS(tried(&other, true) == 0); /* a writer looks for readers */
    }
}

/* No access is allowed meanwhile: where it were unmapped, others could have the address. */
static void unmapped_and_mapped_again(void) {
    enum { SIZE = 4096, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS };
    either_t other = EITHER_INIT, *l = mmap(NULL, SIZE, PROT_NONE, FLAGS, -1, 0);
    for (int i = 0; i < 100; i++) {
        HOLDS(mmap(l, SIZE, PROT_READ | PROT_WRITE, FLAGS | MAP_FIXED, -1, 0) == l);
        HOLDS(works(l)); /* zeroed, and never begun */
        HOLDS(!read_often(l) && !read_often(&other));
        HOLDS(mmap(l, SIZE, PROT_NONE, FLAGS | MAP_FIXED, -1, 0) == l);
        HOLDS(tried(&other, true) == 0);
    }
    munmap(l, SIZE);
}

#ifndef OWN_LOCKS
static int may_end[2]; /* a pipe */
static void *reads_until_told(void *given) {
    char told;
    HOLDS(!read_often(given));
    __atomic_store_n(&waiting, 1, __ATOMIC_RELEASE);
    HOLDS(read(may_end[0], &told, 1) == 1);
    return NULL;
}

/* A lock of a library that is closed, whose readers' thread ends later. */
static void its_library_is_closed(void) {
    either_t other = EITHER_INIT;
    for (int i = 0; i < 20; i++) {
        pthread_rwlock_t *(*lock)(void);
        pthread_t thread;
        void *opened = dlopen(plugin, RTLD_NOW);
        HOLDS(opened && !pipe(may_end));
        *(void **)&lock = dlsym(opened, "library_lock");
        pthread_rwlock_t *l = lock();
        waiting = 0;
        HOLDS(works_both_ways(l) && !pthread_create(&thread, NULL, reads_until_told, l));
        while (!__atomic_load_n(&waiting, __ATOMIC_ACQUIRE))
            usleep(100);
        HOLDS(!read_often(l) && !read_often(&other) && !dlclose(opened));
        HOLDS(tried(&other, true) == 0);
        HOLDS(write(may_end[1], "", 1) == 1 && !pthread_join(thread, NULL) && works(&other));
        close(may_end[0]);
        close(may_end[1]);
    }
}
#else
#define its_library_is_closed NULL
#endif

/* ---- threads and rights ---- */

static void *waits_and_gets_it(void *given) {
    struct call *c = given;
    __atomic_fetch_add(&waiting, 1, __ATOMIC_RELAXED);
    c->result = c->write ? write_lock(c->lock) : read_lock(c->lock);
    if (!c->result)
        c->result = unlock_either(c->lock, c->write);
    return NULL;
}

/* setuid() interrupts each thread of the process with a signal of the C library's. */
static void rights_change_while_threads_wait(void) {
    either_t l = EITHER_INIT;
    struct call calls[4];
    pthread_t threads[4];
    for (int biased = 0; biased < 2; biased++) {
        if (biased)
            HOLDS(!read_often(&l));
        waiting = 0;
        HOLDS(!write_lock(&l));
        for (int i = 0; i < 4; i++) {
            calls[i] = (struct call){&l, i % 2, false, -1};
            HOLDS(!pthread_create(&threads[i], NULL, waits_and_gets_it, &calls[i]));
        }
        while (__atomic_load_n(&waiting, __ATOMIC_RELAXED) < 4)
            usleep(100);
        for (int i = 0; i < 20; i++)
            HOLDS(!setuid(getuid()) && !setgid(getgid()));
        HOLDS(!unlock_either(&l, true));
        for (int i = 0; i < 4; i++)
            HOLDS(!pthread_join(threads[i], NULL) && calls[i].result == 0);
        HOLDS(works(&l));
    }
}

static void releases(void *given) {
    struct call *c = given;
    c->result = unlock_either(c->lock, c->write);
}

static void *is_cancelled_while_it_waits(void *given) {
    struct call *c = given;
    __atomic_fetch_add(&waiting, 1, __ATOMIC_RELAXED);
    if (c->write ? write_lock(c->lock) : read_lock(c->lock))
        abort();
    pthread_cleanup_push(releases, c);
    for (;;)
        pthread_testcancel();
    pthread_cleanup_pop(0);
}

/* No function of a lock is a cancellation point: the thread gets the lock, and its handler releases it. */
static void a_wait_is_cancelled(void) {
    for (int write = 0; write < 2; write++) {
        either_t l = EITHER_INIT;
        struct call c = {&l, write, false, -1};
        pthread_t thread;
        void *ended;
        waiting = 0;
        HOLDS(!write_lock(&l) && !pthread_create(&thread, NULL, is_cancelled_while_it_waits, &c));
        while (!__atomic_load_n(&waiting, __ATOMIC_RELAXED))
            usleep(100);
        HOLDS(!pthread_cancel(thread) && !unlock_either(&l, true));
        HOLDS(!pthread_join(thread, &ended) && ended == PTHREAD_CANCELED && c.result == 0);
        HOLDS(works_both_ways(&l));
    }
}

/* ---- many ---- */

static void a_million_locks(void) {
    enum { MANY = 1000000 };
    either_t *l = calloc(MANY, sizeof *l);
    int errors = 0;
    if (!l)
        abort();
    for (int i = 0; i < MANY; i++) {
        errors += i % 2 && begin_lock(&l[i]);
        errors += read_lock(&l[i]) || unlock_either(&l[i], false) || write_lock(&l[i]) || unlock_either(&l[i], true);
    }
    for (int i = 0; i < MANY; i += 20000)
        errors += read_often(&l[i]);
    for (int i = 0; i < MANY; i++)
        errors += try_read(&l[i]) != 0;
    for (int i = 0; i < MANY; i += 20000)
        errors += tried(&l[i], true) != EBUSY;
    for (int i = 0; i < MANY; i++)
        errors += unlock_either(&l[i], false) || try_write(&l[i]) || unlock_either(&l[i], true) || end_lock(&l[i]);
    HOLDS(errors == 0);
    free(l);
}

struct crowd {
    either_t lock;
    pthread_barrier_t together;
    long written; /* plain: the lock guards it */
};

static void *one_of_many(void *given) {
    struct crowd *c = given;
    int error = read_lock(&c->lock);
    pthread_barrier_wait(&c->together); /* all are inside */
    pthread_barrier_wait(&c->together); /* and a writer has tried */
    error |= unlock_either(&c->lock, false) | write_lock(&c->lock);
    c->written++;
    error |= unlock_either(&c->lock, true);
    HOLDS(error == 0);
    return NULL;
}

static void thousands_of_threads(void) {
    static struct crowd c = {.lock = EITHER_INIT};
    pthread_t *threads = calloc((size_t)many_threads, sizeof *threads);
    pthread_attr_t small;
    if (!threads || pthread_attr_init(&small) || pthread_attr_setstacksize(&small, 128 << 10) ||
        pthread_barrier_init(&c.together, NULL, (unsigned)many_threads + 1))
        abort();
    HOLDS(!read_often(&c.lock));
    for (int i = 0; i < many_threads; i++)
        if (pthread_create(&threads[i], &small, one_of_many, &c)) {
            printf("not so: thread %d begins\n", i);
            exit(1);
        }
    pthread_barrier_wait(&c.together);
    HOLDS(try_write(&c.lock) == EBUSY);
    pthread_barrier_wait(&c.together);
    for (int i = 0; i < many_threads; i++)
        pthread_join(threads[i], NULL);
    HOLDS(c.written == many_threads && works_both_ways(&c.lock));
    free(threads);
}

/* While a writer waits no lock turns biased, so that each is counted: the count does not overflow. A reader that comes while one waits needs a kind
 * of lock that lets it, or a read lock that it has. */
static void more_read_locks_than_are_counted(void) {
    either_t l = EITHER_INIT;
    struct call writer = {&l, true, false, -1};
    pthread_t thread;
    long held = 1;
    int error = 0;
    waiting = 0;
    HOLDS(!read_lock(&l) && !pthread_create(&thread, NULL, waits_and_gets_it, &writer));
    while (!__atomic_load_n(&waiting, __ATOMIC_RELAXED))
        usleep(100);
    usleep(1000); /* so that it can wait, which it need not */
    for (; held < 1100000 && !(error = read_lock(&l)); held++)
        ;
    HOLDS(error == 0 || error == EAGAIN);
    HOLDS(tried(&l, true) == EBUSY);
    for (; held; held--)
        HOLDS(!unlock_either(&l, false));
    HOLDS(!pthread_join(thread, NULL) && writer.result == 0 && works_both_ways(&l));
}

/* ---- filters ---- */

/* From now on membarrier() fails with EPERM in this thread. False: no filter can be set here. */
static bool refuse_membarrier(void) {
    struct sock_filter text[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof text / sizeof *text, text};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static bool filters(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(refuse_membarrier() && syscall(SYS_membarrier, 0, 0, 0) == -1 && errno == EPERM ? 0 : 1);
    return waitpid(child, &status, 0) == child && status == 0;
}

static int refused_before_a_bias(void) {
    either_t l = EITHER_INIT;
    alarm(800);
    if (!refuse_membarrier())
        return 2;
    for (int i = 0; i < 100000; i++)
        if (read_lock(&l) || unlock_either(&l, false))
            return 3;
    return !(!(has_bias() && is_biased(&l)) && works(&l));
}

static int refused_after_a_bias(void) {
    either_t l = EITHER_INIT;
    alarm(800);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (read_often(&l) || read_lock(&l) || !refuse_membarrier() || unlock_either(&l, false))
        return 2;
    int error = write_lock(&l);
    if (error) /* said to the program, and not taken */
        return error == EPERM && tried(&l, false) == 0 ? 0 : 3;
    return unlock_either(&l, true);
}

/* The status of a child that does it, and the bytes that it wrote to standard error. */
static int status_of(int (*does)(void), char *said, size_t size) {
    int pipes[2], status = -1;
    if (pipe(pipes))
        abort();
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        _exit(does());
    }
    close(pipes[1]);
    size_t length = 0;
    for (ssize_t n; length < size - 1 && (n = read(pipes[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)n;
    said[length] = 0;
    close(pipes[0]);
    waitpid(child, &status, 0);
    return status;
}

static void a_filter_comes_before_a_bias(void) {
    char said[1024];
    left_out = !filters();
    HOLDS(left_out || status_of(refused_before_a_bias, said, sizeof said) == 0);
}

/* A preloaded lock cannot say so to a program that expects no such error: it stops it, with one line. */
static void a_filter_comes_after_a_bias(void) {
    char said[1024];
    if ((left_out = !filters()))
        return;
    int status = status_of(refused_after_a_bias, said, sizeof said);
    if (!getenv("LW_INTERPOSED")) {
        HOLDS(status == 0);
        return;
    }
    HOLDS(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    HOLDS(strstr(said, "membarrier is refused (Operation not permitted)") && strchr(said, '\n') == said + strlen(said) - 1);
}

/* ---- all ---- */

static const struct {
    const char *name;
    void (*check)(void);
} rows[] = {
    {"memory that glibc's functions initialised", glibc_initialised_it},
    {"copied while it is free", copied},
    {"zeroed by memset", zeroed},
    {"destroyed, and its memory used again", destroyed_and_used_again},
    {"unmapped, and its address used again", unmapped_and_mapped_again},
    {"its library is closed by dlclose", its_library_is_closed},
    {"setuid while threads wait", rights_change_while_threads_wait},
    {"cancelled at a wait", a_wait_is_cancelled},
    {"a million locks", a_million_locks},
    {"thousands of threads inside at once", thousands_of_threads},
    {"more read locks than are counted", more_read_locks_than_are_counted},
    {"membarrier is refused before a bias", a_filter_comes_before_a_bias},
    {"membarrier is refused after a bias", a_filter_comes_after_a_bias},
};

int main(int count, char **words) {
    alarm(800);
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count != 3)
        return 2;
    plugin = words[1];
    many_threads = atoi(words[2]);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int before = failures;
        left_out = !rows[i].check;
        if (rows[i].check)
            rows[i].check();
        printf("%s %s\n", left_out ? "-   " : failures == before ? "PASS" : "FAIL", rows[i].name);
    }
    return failures != 0;
}

/* SPDX-License-Identifier: MIT */
/* Every allocation, mapping and thread that the library asks for fails once, and from some point on: each call returns its
 * documented error, keeps what was there, and works when it is tried again. Where there is memory for small things alone, readers go on and
 * take no more of it. Exit code 0, or a line that says what went wrong. */
#define _GNU_SOURCE
#include <linewright/percpu.h>
#include <linewright/srcu.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                                        \
    do                                                                                  \
        if (!(x)) {                                                                     \
            fprintf(stderr, "failing: line %d, failure %d: %s\n", __LINE__, first, #x); \
            _exit(1);                                                                   \
        }                                                                               \
    while (0)

/* ---- the calls that fail ---- */

static int first; /* the number of the call that fails first */
static bool lasting; /* all later ones too */
static bool armed;
static int calls;
static bool scarce; /* no more than a page at a time becomes accessible */
static size_t mapped; /* bytes */

static bool fails(void) {
    if (!armed)
        return false;
    int call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return lasting ? call >= first : call == first;
}

/* Defined here, these stand in for the C library's in a program that is linked with the archive. */
#define NEXT(f) (__extension__(__typeof__(f) *) dlsym(RTLD_NEXT, #f))

void *aligned_alloc(size_t alignment, size_t size) {
    if (!fails())
        return NEXT(aligned_alloc)(alignment, size);
    errno = ENOMEM;
    return NULL;
}

void *calloc(size_t count, size_t size) {
    extern void *__libc_calloc(size_t, size_t); /* dlsym() itself calls calloc() */
    if (!fails())
        return __libc_calloc(count, size);
    errno = ENOMEM;
    return NULL;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    if (!fails()) {
        mapped += size;
        return NEXT(mmap)(address, size, protection, flags, file, offset);
    }
    errno = ENOMEM;
    return MAP_FAILED;
}

int munmap(void *address, size_t size) {
    mapped -= size;
    return NEXT(munmap)(address, size);
}

int mprotect(void *address, size_t size, int protection) {
    if (!fails() && !(scarce && size > 4096))
        return NEXT(mprotect)(address, size, protection);
    errno = ENOMEM;
    return -1;
}

int pthread_setspecific(pthread_key_t key, const void *value) {
    return fails() ? ENOMEM : NEXT(pthread_setspecific)(key, value);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    return fails() ? EAGAIN : NEXT(pthread_create)(thread, attributes, body, argument);
}

/* ---- what a program does meanwhile ---- */

static struct lw_srcu_fast fast;
static struct lw_srcu_normal normal;
static struct lw_srcu *const domains[2] = {&fast.srcu, &normal.srcu};
static struct lw_srcu_head heads[2];
static unsigned ran;

static void callback(struct lw_srcu_head *head) {
    (void)head;
    __atomic_fetch_add(&ran, 1, __ATOMIC_RELAXED);
}

static void *read_both(void *unused) {
    lw_srcu_index index = lw_srcu_read_lock_fast(&fast);
    lw_srcu_read_unlock_fast(&fast, index);
    index = lw_srcu_read_lock(&normal);
    lw_srcu_read_unlock(&normal, index);
    return unused;
}

static uint64_t *make(void) {
    armed = true;
    int err[2] = {lw_srcu_init(&fast), lw_srcu_init(&normal)};
    uint64_t *count = lw_percpu_alloc(LW_PERCPU_MAX_SIZE, 8);
    CHECK(count || errno == ENOMEM);
    armed = false;
    for (int i = 0; i < 2; i++) {
        CHECK(err[i] == 0 || err[i] == -ENOMEM);
        CHECK(!err[i] || (i ? lw_srcu_init(&normal) : lw_srcu_init(&fast)) == 0);
    }
    return count ? count : lw_percpu_alloc(LW_PERCPU_MAX_SIZE, 8);
}

static void use(uint64_t *count) {
    armed = true;
    read_both(NULL);
    lw_this_cpu_inc(count);
    CHECK(lw_srcu_synchronize(domains[0]) == 0 && lw_srcu_synchronize_expedited(domains[1]) == 0);
    int err[2];
    unsigned expected = 0;
    for (int i = 0; i < 2; i++) {
        err[i] = lw_srcu_call(domains[i], &heads[i], callback);
        CHECK(err[i] == 0 || err[i] == -EAGAIN || err[i] == -ENOMEM);
        expected += err[i] == 0;
    }
    unsigned long cookie = lw_srcu_start_poll(domains[0]);
    CHECK(lw_srcu_barrier(domains[0]) == 0 && lw_srcu_barrier(domains[1]) == 0 && ran == expected);
    int started = lw_srcu_worker_start();
    armed = false;
    CHECK(started == 0 || started == -EAGAIN || started == -ENOMEM);
    for (int i = 0; i < 2; i++)
        CHECK(!err[i] || lw_srcu_call(domains[i], &heads[i], callback) == 0);
    CHECK(lw_srcu_barrier(domains[0]) == 0 && lw_srcu_barrier(domains[1]) == 0 && ran == 2);
    while (cookie && !lw_srcu_poll(domains[0], cookie))
        usleep(100);
}

/* The number of calls that could have failed, as an exit code. */
static int scenario(void) {
    pthread_t thread;
    uint64_t *count = make();
    CHECK(count);
    use(count);
    CHECK(pthread_create(&thread, NULL, read_both, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(lw_percpu_sum(count) == 1 && lw_percpu_free(count) == 0);
    CHECK(lw_srcu_worker_stop() == 0);
    CHECK(lw_srcu_cleanup(domains[0]) == 0 && lw_srcu_cleanup(domains[1]) == 0);
    return 100 + calls;
}

static int scarce_scenario(void) {
    CHECK(lw_srcu_init(&fast) == 0);
    scarce = true;
    const size_t before = mapped;
    for (int i = 0; i < 100; i++) {
        lw_srcu_index index = lw_srcu_read_lock_fast(&fast);
        lw_srcu_read_unlock_fast(&fast, index);
    }
    CHECK(mapped == before);
    CHECK(lw_srcu_synchronize(domains[0]) == 0);
    scarce = false;
    CHECK(lw_srcu_cleanup(domains[0]) == 0);
    return 0;
}

/* Its exit status, in a process of its own. */
static int status_of(int (*run)(void)) {
    int status = -1;
    pid_t child = fork();
    if (!child) {
        alarm(300);
        _exit(run());
    }
    return waitpid(child, &status, 0) == child ? status : -1;
}

int main(void) {
    if (status_of(scarce_scenario))
        return 1;
    for (int kind = 0; kind < 2; kind++)
        for (first = 1;; first++) {
            lasting = kind;
            const int status = status_of(scenario);
            if (!WIFEXITED(status) || WEXITSTATUS(status) < 100) {
                fprintf(stderr, "failing: failure %d%s ends with status %x\n", first, kind ? " and all later" : "", status);
                return 1;
            }
            if (WEXITSTATUS(status) - 100 < first) { /* no call was left to fail */
                printf("%d calls failed in turn\n", first - 1);
                break;
            }
        }
    return 0;
}

/* SPDX-License-Identifier: MIT */
/* What POSIX says of pthread_rwlock_t (IEEE Std 1003.1-2017, and the clock functions of 2024), a case for each sentence, and what glibc says
 * beyond it of kinds. Run through the C library as it is, and with liblinewright-rwlock.so preloaded: LW_INTERPOSED=1 asks for the latter. Each
 * case gets a fresh lock, and one that was read often. Prints a line for each case with
 * PASS, and one for each sentence that does not hold. Exit code: 0, or 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures;
static const char *case_name;

#define HOLDS(sentence, condition) holds((sentence), (condition), __LINE__)

static void holds(const char *sentence, bool condition, int line) {
    if (condition)
        return;
    printf("%s, line %d: not so: %s\n", case_name, line, sentence);
    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

/* ---- other threads ---- */

enum wish { READ, WRITE, TRY_READ, TRY_WRITE, TIMED_READ, TIMED_WRITE, UNLOCK };

struct helper { /* does one thing, and tells when it is over */
    pthread_t thread;
    pthread_rwlock_t *lock;
    struct timespec end;
    enum wish wish;
    int result, tid; /* tid: atomic, 0 until it runs */
    bool over, keeps; /* over: atomic; keeps: does not release what it got */
    bool release; /* atomic: a holder may */
    bool reads; /* a holder for reading */
};

static struct timespec in_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    long ns = t.tv_nsec + ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + (ns >= 1000000000 ? 1 : ns < 0 ? -1 : 0);
    t.tv_nsec = ns >= 1000000000 ? ns - 1000000000 : ns < 0 ? ns + 1000000000 : ns;
    return t;
}

static bool reached(clockid_t clock, const struct timespec *end) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

static int wished(struct helper *h) {
    switch (h->wish) {
    case READ: return pthread_rwlock_rdlock(h->lock);
    case WRITE: return pthread_rwlock_wrlock(h->lock);
    case TRY_READ: return pthread_rwlock_tryrdlock(h->lock);
    case TRY_WRITE: return pthread_rwlock_trywrlock(h->lock);
    case TIMED_READ: return pthread_rwlock_timedrdlock(h->lock, &h->end);
    case TIMED_WRITE: return pthread_rwlock_timedwrlock(h->lock, &h->end);
    default: return pthread_rwlock_unlock(h->lock);
    }
}

static void *helps(void *given) {
    struct helper *h = given;
    __atomic_store_n(&h->tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
    errno = 4711;
    h->result = wished(h);
    HOLDS("the result is what the function returns: errno stays", errno == 4711);
    if (!h->result && !h->keeps && h->wish != UNLOCK)
        pthread_rwlock_unlock(h->lock);
    __atomic_store_n(&h->over, true, __ATOMIC_RELEASE);
    return NULL;
}

static void begin(struct helper *h, pthread_rwlock_t *l, enum wish wish) {
    *h = (struct helper){.lock = l, .wish = wish, .end = in_ms(CLOCK_REALTIME, 600000)};
    if (pthread_create(&h->thread, NULL, helps, h))
        abort();
}

static void *holds_it(void *given) {
    struct helper *h = given;
    h->result = h->reads ? pthread_rwlock_rdlock(h->lock) : pthread_rwlock_wrlock(h->lock);
    __atomic_store_n(&h->over, true, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&h->release, __ATOMIC_ACQUIRE))
        usleep(100);
    return pthread_rwlock_unlock(h->lock) ? h : NULL;
}

static bool is_over(struct helper *h) { return __atomic_load_n(&h->over, __ATOMIC_ACQUIRE); }

/* 'S' where the thread sleeps: then it waits for the lock, since it does nothing else. */
static char state_of(int tid) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int file = open(path, O_RDONLY);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    const char *end = n > 0 ? strrchr(text, ')') : NULL;
    return end ? end[2] : '?';
}

/* True once the helper waits; false if it ends. */
static bool waits(struct helper *h) {
    for (int asleep = 0; asleep < 5;) { /* a thread may sleep a moment for something else */
        if (is_over(h))
            return false;
        int tid = __atomic_load_n(&h->tid, __ATOMIC_ACQUIRE);
        asleep = tid && state_of(tid) == 'S' ? asleep + 1 : 0;
        usleep(1000);
    }
    return true;
}

static int ended(struct helper *h) {
    pthread_join(h->thread, NULL);
    return h->result;
}

static int by_another(pthread_rwlock_t *l, enum wish wish) {
    struct helper h;
    begin(&h, l, wish);
    return ended(&h);
}

/* So that readers mark, where the preloaded library is asked for: they come to, when what ended the biases of other locks allows it. */
static void read_often(pthread_rwlock_t *l) {
    uint32_t biased = 0; /* the third word of its lock: rwlock.h */
    for (int n = 0; getenv("LW_INTERPOSED") ? biased != 1 : n < 1000; n++) {
        HOLDS("is read", !pthread_rwlock_rdlock(l) && !pthread_rwlock_unlock(l));
        memcpy(&biased, (const char *)l + 8, sizeof biased);
    }
}

/* ---- the sentences ---- */

static void readers_share(pthread_rwlock_t *l) {
    HOLDS("the calling thread acquires the read lock if a writer does not hold the lock", pthread_rwlock_rdlock(l) == 0);
    HOLDS("several threads may hold it for reading", by_another(l, READ) == 0);
    HOLDS("a try as well", by_another(l, TRY_READ) == 0);
    HOLDS("a writer's try shall fail if any thread holds it", by_another(l, TRY_WRITE) == EBUSY);
    HOLDS("released without an error", pthread_rwlock_unlock(l) == 0);
    HOLDS("it is unlocked then", by_another(l, TRY_WRITE) == 0);
}

static void one_thread_reads_often(pthread_rwlock_t *l) {
    for (int i = 0; i < 10; i++)
        HOLDS("a thread may hold multiple concurrent read locks", pthread_rwlock_rdlock(l) == 0);
    for (int i = 0; i < 9; i++)
        HOLDS("it is unlocked as often", pthread_rwlock_unlock(l) == 0);
    HOLDS("it remains locked for reading", by_another(l, TRY_WRITE) == EBUSY);
    HOLDS("the last one unlocks it", pthread_rwlock_unlock(l) == 0 && by_another(l, TRY_WRITE) == 0);
}

static void writers_exclude(pthread_rwlock_t *l) {
    HOLDS("the write lock is acquired if no thread holds the lock", pthread_rwlock_wrlock(l) == 0);
    HOLDS("a reader's try fails with EBUSY", by_another(l, TRY_READ) == EBUSY);
    HOLDS("a writer's try fails with EBUSY", by_another(l, TRY_WRITE) == EBUSY);
    HOLDS("the holder's own try to read does not succeed", pthread_rwlock_tryrdlock(l) == EBUSY);
    HOLDS("nor its try to write", pthread_rwlock_trywrlock(l) == EBUSY);
    HOLDS("a deadlock may be reported by EDEADLK", pthread_rwlock_wrlock(l) == EDEADLK);
    HOLDS("for a reader, too", pthread_rwlock_rdlock(l) == EDEADLK);
    HOLDS("released without an error", pthread_rwlock_unlock(l) == 0);
    HOLDS("it is unlocked then", by_another(l, TRY_WRITE) == 0 && by_another(l, TRY_READ) == 0);
    HOLDS("a try that succeeds is a lock", pthread_rwlock_trywrlock(l) == 0 && by_another(l, TRY_READ) == EBUSY);
    HOLDS("and is released", pthread_rwlock_unlock(l) == 0);
    HOLDS("the holder of a read lock does not get the write lock by a try",
          pthread_rwlock_rdlock(l) == 0 && pthread_rwlock_trywrlock(l) == EBUSY && pthread_rwlock_unlock(l) == 0);
}

static void blocked_until_released(pthread_rwlock_t *l) {
    static const enum wish all[] = {READ, WRITE, TIMED_READ, TIMED_WRITE};
    for (unsigned holder = 0; holder < 2; holder++) /* reading, writing */
        for (unsigned i = 0; i < 4; i++) {
            bool write = all[i] == WRITE || all[i] == TIMED_WRITE;
            struct helper h;
            if (!holder && !write)
                continue;
            HOLDS("held", (holder ? pthread_rwlock_wrlock(l) : pthread_rwlock_rdlock(l)) == 0);
            begin(&h, l, all[i]);
            HOLDS("the calling thread blocks until it can acquire the lock", waits(&h));
            HOLDS("released without an error", pthread_rwlock_unlock(l) == 0);
            HOLDS("the blocked thread acquires it", ended(&h) == 0);
        }
}

static void a_reader_reads_past_a_writer_that_waits(pthread_rwlock_t *l) {
    struct helper writer;
    HOLDS("held for reading", pthread_rwlock_rdlock(l) == 0);
    begin(&writer, l, WRITE);
    HOLDS("the writer blocks", waits(&writer));
    HOLDS("a thread that holds a read lock gets another one",
          pthread_rwlock_rdlock(l) == 0 && pthread_rwlock_tryrdlock(l) == 0);
    HOLDS("the writer is not inside", !is_over(&writer));
    HOLDS("released three times",
          !pthread_rwlock_unlock(l) && !pthread_rwlock_unlock(l) && !is_over(&writer) && !pthread_rwlock_unlock(l));
    HOLDS("then the writer gets it", ended(&writer) == 0);
}

static void all_sleepers_are_woken(pthread_rwlock_t *l) {
    struct helper h[6];
    HOLDS("held for writing", pthread_rwlock_wrlock(l) == 0);
    for (int i = 0; i < 6; i++)
        begin(&h[i], l, i % 3 ? READ : WRITE);
    for (int i = 0; i < 6; i++)
        HOLDS("each blocks", waits(&h[i]));
    HOLDS("released without an error", pthread_rwlock_unlock(l) == 0);
    for (int i = 0; i < 6; i++)
        HOLDS("each thread acquires the lock", ended(&h[i]) == 0);
}

static int handled; /* atomic */
static void handler(int signal) {
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

static void signals_interrupt_no_wait(pthread_rwlock_t *l) {
    static const enum wish all[] = {READ, WRITE, TIMED_READ, TIMED_WRITE};
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler}, NULL); /* no SA_RESTART */
    for (unsigned i = 0; i < 4; i++) {
        struct helper h;
        HOLDS("held for writing", pthread_rwlock_wrlock(l) == 0);
        begin(&h, l, all[i]);
        HOLDS("blocks", waits(&h));
        int before = __atomic_load_n(&handled, __ATOMIC_RELAXED);
        pthread_kill(h.thread, SIGUSR1);
        while (__atomic_load_n(&handled, __ATOMIC_RELAXED) == before)
            usleep(100);
        HOLDS("upon return from the handler the thread resumes waiting", waits(&h));
        HOLDS("released without an error", pthread_rwlock_unlock(l) == 0);
        HOLDS("shall not return EINTR", ended(&h) == 0);
    }
}

typedef int timed(pthread_rwlock_t *, const struct timespec *);

static void limits_of(pthread_rwlock_t *l, timed *lock, clockid_t clock) {
    struct timespec past = in_ms(clock, -1000), soon = in_ms(clock, 20), bad[2] = {in_ms(clock, 60000), in_ms(clock, 60000)};
    struct timespec before_1970 = {-1, 0};
    bad[0].tv_nsec = 1000000000;
    bad[1].tv_nsec = -1;
    HOLDS("under no circumstance shall it fail by time if the lock can be acquired immediately", lock(l, &past) == 0);
    HOLDS("released", pthread_rwlock_unlock(l) == 0);
    struct helper h;
    h = (struct helper){.lock = l};
    if (pthread_create(&h.thread, NULL, holds_it, &h))
        abort();
    while (!is_over(&h))
        usleep(100);
    HOLDS("another thread holds it for writing", h.result == 0);
    HOLDS("ETIMEDOUT where the time has already passed", lock(l, &past) == ETIMEDOUT);
    HOLDS("a time before 1970 has passed, too", lock(l, &before_1970) == ETIMEDOUT);
    errno = 4711;
    HOLDS("ETIMEDOUT where the lock could not be acquired before the time", lock(l, &soon) == ETIMEDOUT);
    HOLDS("errno stays", errno == 4711);
    HOLDS("not earlier than that", reached(clock, &soon));
    for (int i = 0; i < 2; i++)
        HOLDS("EINVAL where the nanoseconds are below 0 or at least 1000 million", lock(l, &bad[i]) == EINVAL);
    void *refused = &h;
    __atomic_store_n(&h.release, true, __ATOMIC_RELEASE);
    HOLDS("it releases it", !pthread_join(h.thread, &refused) && !refused);
    HOLDS("a wait that ended leaves nothing behind", by_another(l, TRY_WRITE) == 0 && by_another(l, TRY_READ) == 0);
}

static int monotonic_read(pthread_rwlock_t *l, const struct timespec *t) {
    return pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, t);
}

static int monotonic_write(pthread_rwlock_t *l, const struct timespec *t) {
    return pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, t);
}

static void time_limits(pthread_rwlock_t *l) {
    limits_of(l, pthread_rwlock_timedrdlock, CLOCK_REALTIME);
    limits_of(l, pthread_rwlock_timedwrlock, CLOCK_REALTIME);
    limits_of(l, monotonic_read, CLOCK_MONOTONIC);
    limits_of(l, monotonic_write, CLOCK_MONOTONIC);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    HOLDS("EINVAL for a clock that is not supported",
          pthread_rwlock_clockwrlock(l, CLOCK_PROCESS_CPUTIME_ID, &soon) == EINVAL);
    HOLDS("held for reading", pthread_rwlock_rdlock(l) == 0);
    HOLDS("a writer's wait for a reader ends, too", pthread_rwlock_timedwrlock(l, &soon) == ETIMEDOUT);
    HOLDS("and keeps later readers out no longer", by_another(l, TRY_READ) == 0);
    HOLDS("released", pthread_rwlock_unlock(l) == 0);
}

/* EAGAIN is in beside.c, EPERM in wrong_uses(). */
static void every_error_code(pthread_rwlock_t *l) {
    static timed *const all[] = {pthread_rwlock_timedrdlock, pthread_rwlock_timedwrlock, monotonic_read, monotonic_write};
    struct timespec past = {0, 0}, bad = {0, -1};
    struct helper h = {.lock = l};
    HOLDS("EINVAL for a clock without a limit of its own", pthread_rwlock_clockrdlock(l, -1, &past) == EINVAL);
    for (unsigned i = 0; i < 4; i++)
        HOLDS("EINVAL for a time that is none, also where the lock is free", all[i](l, &bad) == EINVAL);
    HOLDS("held for writing", pthread_rwlock_wrlock(l) == 0);
    for (unsigned i = 0; i < 4; i++) {
        struct timespec later = in_ms(i < 2 ? CLOCK_REALTIME : CLOCK_MONOTONIC, 60000);
        HOLDS("EDEADLK for the holder, and no wait", all[i](l, &later) == EDEADLK);
        HOLDS("the same where the time has passed", all[i](l, &past) == EDEADLK);
        HOLDS("EINVAL before that", all[i](l, &bad) == EINVAL);
    }
    HOLDS("EDEADLK without a limit", pthread_rwlock_rdlock(l) == EDEADLK && pthread_rwlock_wrlock(l) == EDEADLK);
    HOLDS("EBUSY for its tries", pthread_rwlock_tryrdlock(l) == EBUSY && pthread_rwlock_trywrlock(l) == EBUSY);
    HOLDS("released", pthread_rwlock_unlock(l) == 0);
    if (pthread_create(&h.thread, NULL, holds_it, &h))
        abort();
    while (!is_over(&h))
        usleep(100);
    for (unsigned i = 0; i < 4; i++)
        HOLDS("ETIMEDOUT for all others", all[i](l, &past) == ETIMEDOUT);
    HOLDS("EBUSY for their tries", pthread_rwlock_tryrdlock(l) == EBUSY && pthread_rwlock_trywrlock(l) == EBUSY);
    __atomic_store_n(&h.release, true, __ATOMIC_RELEASE);
    pthread_join(h.thread, NULL);
    HOLDS("held for reading", pthread_rwlock_rdlock(l) == 0);
    HOLDS("ETIMEDOUT for a writer, also for a holder", pthread_rwlock_timedwrlock(l, &past) == ETIMEDOUT);
    HOLDS("EBUSY for its try", pthread_rwlock_trywrlock(l) == EBUSY && pthread_rwlock_unlock(l) == 0);
}

static void attributes_are_copied(pthread_rwlock_t *l) {
    pthread_rwlockattr_t a;
    HOLDS("a lock is destroyed", pthread_rwlock_destroy(l) == 0);
    HOLDS("attributes begin", pthread_rwlockattr_init(&a) == 0);
    HOLDS("a destroyed lock can be initialised again", pthread_rwlock_init(l, &a) == 0);
    HOLDS("what becomes of the attributes does not affect it",
          !pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED) && !pthread_rwlockattr_destroy(&a));
    writers_exclude(l);
    HOLDS("once more, with default attributes", !pthread_rwlock_destroy(l) && !pthread_rwlock_init(l, NULL));
    readers_share(l);
}

static void processes_share(pthread_rwlock_t *unused) {
    (void)unused;
    pthread_rwlock_t *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_rwlockattr_t a;
    HOLDS("a process-shared lock begins", !pthread_rwlockattr_init(&a) &&
                                              !pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED) &&
                                              !pthread_rwlock_init(l, &a));
    for (int i = 0; i < 1000; i++)
        HOLDS("it is read", !pthread_rwlock_rdlock(l) && !pthread_rwlock_unlock(l));
    int said[2];
    char tried_it;
    HOLDS("held", pthread_rwlock_wrlock(l) == 0 && pipe(said) == 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(800);
        int tried = pthread_rwlock_tryrdlock(l);
        HOLDS("it says so", write(said[1], "", 1) == 1);
        int got = pthread_rwlock_wrlock(l); /* until the parent releases it */
        _exit(tried != EBUSY || got || pthread_rwlock_unlock(l));
    }
    int status = 1;
    HOLDS("the other process tries, while it is held", read(said[0], &tried_it, 1) == 1);
    usleep(20000); /* so that it can wait, too */
    HOLDS("released", pthread_rwlock_unlock(l) == 0);
    HOLDS("the other process was kept out, and got it then", waitpid(child, &status, 0) == child && status == 0);
    HOLDS("destroyed", pthread_rwlock_destroy(l) == 0);
}

static void a_child_has_the_lock(pthread_rwlock_t *l) {
    HOLDS("held", pthread_rwlock_rdlock(l) == 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(800);
        _exit(pthread_rwlock_unlock(l) || pthread_rwlock_trywrlock(l) || pthread_rwlock_unlock(l));
    }
    int status = 1;
    HOLDS("the child releases what it has", waitpid(child, &status, 0) == child && status == 0);
    HOLDS("and the parent its own", by_another(l, TRY_WRITE) == EBUSY && pthread_rwlock_unlock(l) == 0);
}

/* As a handler of pthread_atfork() does with a lock that another thread holds. */
static void a_child_makes_the_lock_again(pthread_rwlock_t *l) {
    for (int i = 0; i < 4; i++) {
        struct helper h = {.lock = l, .reads = !(i & 1)};
        if (i)
            read_often(l);
        if (pthread_create(&h.thread, NULL, holds_it, &h))
            abort();
        while (!is_over(&h))
            usleep(100);
        pid_t child = fork();
        if (child == 0) {
            alarm(800);
            if (i & 2)
                *l = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
            else
                HOLDS("made again", pthread_rwlock_init(l, NULL) == 0);
            read_often(l);
            _exit(failures || pthread_rwlock_trywrlock(l) || pthread_rwlock_unlock(l));
        }
        int status = 1;
        HOLDS("the child's lock is free, and stays so", waitpid(child, &status, 0) == child && status == 0);
        __atomic_store_n(&h.release, true, __ATOMIC_RELEASE);
        void *refused = &h;
        HOLDS("and the parent's is released by its holder", !pthread_join(h.thread, &refused) && !refused);
    }
}

/* glibc's kinds: with the default one a reader passes a writer that waits, with the other it does not. The last has a static initialiser. */
static void kinds(pthread_rwlock_t *l) {
    for (int kind = 0; kind < 3; kind++) {
        bool writers_first = kind > 0;
        pthread_rwlockattr_t a;
        struct helper writer, reader;
        pthread_rwlockattr_init(&a);
        pthread_rwlockattr_setkind_np(&a, writers_first ? PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP
                                                        : PTHREAD_RWLOCK_PREFER_READER_NP);
        HOLDS("begins", !pthread_rwlock_destroy(l) && !pthread_rwlock_init(l, &a));
        if (kind == 2)
            *l = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
        read_often(l);
        HOLDS("held for reading", pthread_rwlock_rdlock(l) == 0);
        begin(&writer, l, WRITE);
        HOLDS("the writer blocks", waits(&writer));
        HOLDS("a later reader passes it, or not", by_another(l, TRY_READ) == (writers_first ? EBUSY : 0));
        begin(&reader, l, READ);
        HOLDS("the same without a try", writers_first ? waits(&reader) : ended(&reader) == 0);
        HOLDS("released", pthread_rwlock_unlock(l) == 0);
        HOLDS("the writer gets it", ended(&writer) == 0);
        if (writers_first)
            HOLDS("then the reader", ended(&reader) == 0);
    }
}

/* With the default kind: a reader that slept for one writer gets in although the next writer waits. */
static void a_reader_that_slept_goes_first(pthread_rwlock_t *l) {
    struct helper reader, writer, holder;
    HOLDS("held for writing", pthread_rwlock_wrlock(l) == 0);
    begin(&reader, l, READ);
    reader.keeps = true;
    begin(&holder, l, READ);
    holder.keeps = true;
    begin(&writer, l, WRITE);
    HOLDS("all block", waits(&reader) && waits(&holder) && waits(&writer));
    HOLDS("released", pthread_rwlock_unlock(l) == 0);
    HOLDS("both readers get it, and neither releases it before", ended(&reader) == 0 && ended(&holder) == 0);
    HOLDS("released for both", by_another(l, UNLOCK) == 0 && by_another(l, UNLOCK) == 0);
    HOLDS("the writer gets it", ended(&writer) == 0);
}

/* POSIX leaves it open, and glibc allows it: a read lock that another thread releases. Its thread takes the lock again when a writer had it. */
static void another_thread_releases(pthread_rwlock_t *l) {
    for (int i = 0; i < 3; i++) {
        struct helper writer;
        HOLDS("held for reading", pthread_rwlock_rdlock(l) == 0 && by_another(l, TRY_WRITE) == EBUSY);
        HOLDS("another thread releases it", by_another(l, UNLOCK) == 0);
        HOLDS("a writer gets it", by_another(l, TRY_WRITE) == 0);
        HOLDS("it is read again", pthread_rwlock_rdlock(l) == 0);
        begin(&writer, l, WRITE);
        HOLDS("a writer blocks", waits(&writer));
        HOLDS("it is released for it", pthread_rwlock_unlock(l) == 0 && ended(&writer) == 0);
    }
}

/* POSIX leaves wrong uses open: what glibc does without damage, and what the preloaded library does where glibc damages the lock. */
static void wrong_uses(pthread_rwlock_t *l) {
    HOLDS("held for reading", pthread_rwlock_rdlock(l) == 0);
    HOLDS("a lock that is destroyed while it is held for reading stays held",
          pthread_rwlock_destroy(l) == 0 && by_another(l, TRY_WRITE) == EBUSY && pthread_rwlock_unlock(l) == 0);
    HOLDS("held for writing", pthread_rwlock_wrlock(l) == 0);
    HOLDS("or for writing", pthread_rwlock_destroy(l) == 0 && by_another(l, TRY_READ) == EBUSY);
    if (getenv("LW_INTERPOSED"))
        HOLDS("a thread that does not hold it releases no write lock",
              by_another(l, UNLOCK) == EPERM && by_another(l, TRY_READ) == EBUSY);
    HOLDS("released", pthread_rwlock_unlock(l) == 0);
    if (getenv("LW_INTERPOSED"))
        HOLDS("a lock that no thread holds is not released", pthread_rwlock_unlock(l) == EPERM);
}

static void memory_is_seen(pthread_rwlock_t *l) {
    static pthread_rwlock_t *lock;
    static volatile long values[2];
    lock = l;
    struct helper h;
    for (int i = 0; i < 200; i++) {
        HOLDS("held", pthread_rwlock_wrlock(l) == 0);
        values[0]++;
        begin(&h, lock, i % 2 ? READ : WRITE);
        sched_yield();
        values[1]++;
        HOLDS("released", pthread_rwlock_unlock(l) == 0);
        HOLDS("the other thread had it after", ended(&h) == 0 && values[0] == values[1]);
    }
}

static void (*const cases[])(pthread_rwlock_t *) = {
    readers_share,
    one_thread_reads_often,
    writers_exclude,
    blocked_until_released,
    a_reader_reads_past_a_writer_that_waits,
    all_sleepers_are_woken,
    signals_interrupt_no_wait,
    time_limits,
    every_error_code,
    attributes_are_copied,
    processes_share,
    a_child_has_the_lock,
    a_child_makes_the_lock_again,
    kinds,
    a_reader_that_slept_goes_first,
    another_thread_releases,
    wrong_uses,
    memory_is_seen,
};
static const char *const names[] = {
    "readers share",
    "one thread reads often",
    "writers exclude",
    "blocked until released",
    "a reader reads past a writer that waits",
    "all sleepers are woken",
    "signals interrupt no wait",
    "time limits",
    "every error code",
    "attributes are copied",
    "processes share",
    "a child has the lock",
    "a child makes the lock again",
    "kinds",
    "a reader that slept goes first",
    "another thread releases",
    "wrong uses",
    "memory is seen",
};

#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5" /* of libpthread, before glibc 2.34 */
#elif defined(__i386__)
#define OLD_VERSION "GLIBC_2.1"
#else
#define OLD_VERSION "GLIBC_2.17"
#endif
int old_rdlock(pthread_rwlock_t *l);
__asm__(".symver old_rdlock, pthread_rwlock_rdlock@" OLD_VERSION);

static void expect_the_preloaded_one(void) {
    Dl_info object = {0};
    void *found = dlsym(RTLD_DEFAULT, "pthread_rwlock_rdlock");
    case_name = "preloaded";
    HOLDS("liblinewright-rwlock.so stands in",
          found && dladdr(found, &object) && strstr(object.dli_fname, "liblinewright-rwlock"));
    HOLDS("for programs that were linked with an old libpthread, too", (void *)(uintptr_t)old_rdlock == found);
}

int main(void) {
    alarm(800); /* a case that hangs fails */
    setvbuf(stdout, NULL, _IONBF, 0);
    if (getenv("LW_INTERPOSED"))
        expect_the_preloaded_one();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        int before = failures;
        for (int often = 0; often < 2; often++) {
            pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
            case_name = names[i];
            if (often)
                read_often(&l);
            cases[i](&l);
            HOLDS("unlocked at the end", by_another(&l, TRY_WRITE) == 0);
            HOLDS("destroyed", pthread_rwlock_destroy(&l) == 0);
        }
        printf("%s %s\n", failures == before ? "PASS" : "FAIL", names[i]);
    }
    printf("%d sentences do not hold\n", failures);
    return failures != 0;
}

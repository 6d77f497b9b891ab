/* SPDX-License-Identifier: MIT */
/* Readers-writer locks under readers, writers, signals, forks, cancelled and short-lived threads, all at once. Three words behind each lock
 * are changed together by writers; a reader, or the next writer, that finds them unequal is an error.
 *
 *   rwlock_torture [--seconds N] [--sections N] [--only WAY] [--except WAY]
 *
 * It ends after N seconds, N critical sections or an error. The ways to use a lock are those of `ways` below; readers and writers that stay, and so
 * marks, there are always. With the way "slices" they ask for time slice extensions around each section.
 * Built with lw_rwlock, or with PTHREAD_LOCKS for pthread_rwlock_t, which a preloaded library may stand in for; then without what POSIX leaves
 * open (locks in signal handlers, read locks released by another thread). Exit code: 0, 1 errors found, 2 wrong request, 77 LINEWRIGHT_WAIT names a
 * hint that this CPU lacks. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef PTHREAD_LOCKS
typedef pthread_rwlock_t lock_type;
#define BEYOND_POSIX false
#define READ(l) pthread_rwlock_rdlock(l)
#define TRY_READ(l) pthread_rwlock_tryrdlock(l)
#define READ_UNLOCK(l) pthread_rwlock_unlock(l)
#define WRITE(l) pthread_rwlock_wrlock(l)
#define TRY_WRITE(l) pthread_rwlock_trywrlock(l)
#define WRITE_UNLOCK(l) pthread_rwlock_unlock(l)
#define REFUSED(error) ((error) == EBUSY || (error) == ETIMEDOUT)
#define lw_slice_begin() ((void)0)
#define lw_slice_end() ((void)0)
#define lw_wait_set(text, error, size) 0 /* a preloaded library reads it */
#else
#include <linewright/rwlock.h>
#include <linewright/slice.h>
#include <linewright/wait.h>
typedef struct lw_rwlock lock_type;
#define BEYOND_POSIX true
#define READ(l) lw_rwlock_read_lock(l)
#define TRY_READ(l) lw_rwlock_try_read(l)
#define READ_UNLOCK(l) lw_rwlock_read_unlock(l)
#define WRITE(l) lw_rwlock_write_lock(l)
#define TRY_WRITE(l) lw_rwlock_try_write(l)
#define WRITE_UNLOCK(l) lw_rwlock_write_unlock(l)
#define REFUSED(error) ((error) == -EBUSY || (error) == -ETIMEDOUT)
#endif

#if defined(__SANITIZE_THREAD__) || \
    defined(__SANITIZE_ADDRESS__) /* neither follows cancelled threads, with pthread's locks either */
#define CANCELS false
#else
#define CANCELS true
#endif
#define THREADS 4
#define WORLDS \
    4 /* the first is written seldom, the second often; the read locks of the others, one after the other, are handed over */
#define GIVEN 2 /* the first of those */
#define LIFE \
    8 /* read locks that are handed over before such a lock is destroyed: the first one beside marks makes it plain for good */
#define TAKERS 3

static struct world {
    lock_type lock; /* zeroed memory is an unlocked lock of either kind */
    volatile long first, second, third;
} __attribute__((aligned(128))) worlds[WORLDS];

static bool stop;
static long sections, handler_sections, cancelled, ended, forks, handed_over, lives, errors; /* atomic */
static long most = INT32_MAX;

enum { RECURSION = 1, TRIES = 2, LIMITS = 4, SIGNALS = 8, HAND_OVER = 16, ENDS = 32, FORKS = 64, SLICES = 128, MARKS = 0 };
static const struct {
    const char *name;
    unsigned bit;
} ways[] = {{"marks", MARKS},         {"recursion", RECURSION}, {"tries", TRIES}, {"limits", LIMITS}, {"signals", SIGNALS},
            {"hand-over", HAND_OVER}, {"ends", ENDS},           {"forks", FORKS}, {"slices", SLICES}};
static unsigned used = RECURSION | TRIES | LIMITS | SIGNALS | HAND_OVER | ENDS | FORKS | SLICES;

static bool stopping(void) { return __atomic_load_n(&stop, __ATOMIC_RELAXED); }

static void add(long *counter, long n) { __atomic_fetch_add(counter, n, __ATOMIC_RELAXED); }

static void error_found(const char *what) {
    if (__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED) < 5)
        fprintf(stderr, "rwlock_torture: %s\n", what);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
}

static void needs(int error, const char *what) {
    if (error)
        error_found(what);
}

static unsigned next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); /* Knuth's MMIX */
    return (unsigned)(*state >> 33);
}

static void sleep_us(long us) { nanosleep(&(struct timespec){0, us * 1000}, NULL); }

static int within(struct world *w, bool write, long ns) {
#ifdef PTHREAD_LOCKS
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += ns;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return write ? pthread_rwlock_timedwrlock(&w->lock, &end) : pthread_rwlock_timedrdlock(&w->lock, &end);
#else
    return write ? lw_rwlock_write_lock_timeout(&w->lock, (uint64_t)ns)
                 : lw_rwlock_read_lock_timeout(&w->lock, (uint64_t)ns);
#endif
}

/* ---- inside ---- */

static long look(struct world *w, const char *where) {
    long first = w->first;
    if (first != w->second || first != w->third)
        error_found(where);
    return first;
}

/* For a thread that holds a read lock: nothing may change, however long it stays. */
static void stay_and_look(struct world *w, unsigned what) {
    long before = look(w, "a reader met a writer");
    if (what % 8 == 0)
        sleep_us(what % 50);
    else if (what % 8 < 4)
        sched_yield();
    if (look(w, "a reader met a writer") != before)
        error_found("a writer passed a reader");
}

static void change(struct world *w) {
    look(w, "a writer found half a write");
    w->first = w->first + 1;
    if (w->first % 32 == 0)
        sched_yield();
    w->second = w->second + 1;
    w->third = w->third + 1;
}

static void read_unlock(struct world *w) {
    look(w, "a reader saw a write");
    needs(READ_UNLOCK(&w->lock), "a read lock was not released");
}

static void write_unlock(struct world *w) {
    change(w);
    needs(WRITE_UNLOCK(&w->lock), "a write lock was not released");
}

/* Around what one thread does with a lock. */
static void begin(void) {
    if (used & SLICES)
        lw_slice_begin();
}

static void end(void) {
    if (used & SLICES)
        lw_slice_end();
}

/* ---- threads that stay ---- */

static void try_or_wait(struct world *w, unsigned what) {
    bool limit = used & LIMITS && (what & 4 || !(used & TRIES));
    int error = limit ? within(w, what & 1, 1000 + what % 60000) : what & 1 ? TRY_WRITE(&w->lock) : TRY_READ(&w->lock);
    if (error && !REFUSED(error))
        error_found("a try, or a wait with a limit");
    if (!error)
        (what & 1 ? write_unlock : read_unlock)(w);
}

static void read_long(struct world *w, unsigned what) {
    needs(READ(&w->lock), "a read lock was refused");
    stay_and_look(w, what);
    if (what & 64) {
        needs(READ(&w->lock), "a second read lock was refused"); /* past any writer that waits */
        read_unlock(w);
    }
    stay_and_look(w, what >> 7);
    read_unlock(w);
}

static void *stays(void *number) {
    uint64_t random = 1 + (uintptr_t)number;
    while (!stopping()) {
        for (unsigned i = 0; i < 256; i++) {
            unsigned what = next_random(&random);
            struct world *w = &worlds[what % 4 == 0];
            unsigned kind = next_random(&random) % 1024;
            begin();
            if (kind == 0 || (w == &worlds[1] && kind < 128)) {
                needs(WRITE(&w->lock), "a write lock was refused");
                write_unlock(w);
            } else if (kind < 132 && used & (TRIES | LIMITS)) {
                try_or_wait(w, what >> 8);
            } else if (kind < 136 && used & RECURSION) {
                read_long(w, what >> 8);
            } else {
                needs(READ(&w->lock), "a read lock was refused");
                look(w, "a reader met a writer");
                read_unlock(w);
            }
            end();
        }
        if (__atomic_add_fetch(&sections, 256, __ATOMIC_RELAXED) >= most)
            __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* ---- signals ---- */

static pthread_t threads[THREADS];

static void handler(int signal) {
    (void)signal;
    int saved = errno;
    begin();
    for (struct world *w = worlds; w < &worlds[2]; w++)
        if (TRY_READ(&w->lock) == 0) {
            read_unlock(w);
            add(&handler_sections, 1);
        }
    end();
    errno = saved;
}

static void *signals(void *unused) {
    uint64_t random = 2;
    while (!stopping()) {
        pthread_kill(threads[next_random(&random) % THREADS], SIGUSR1);
        sleep_us(100);
    }
    return unused;
}

/* ---- read locks that another thread releases ---- */

/* A thread's read lock of the world that waits to be released, one at a time, as rwlock.h asks; NULL: none. */
static struct world *handed[TAKERS];
static struct world over; /* in its place: the thread has ended */
static unsigned turn; /* world GIVEN + turn % 2 is the one whose read locks are handed over */
static long users[2]; /* threads that may use each */

/* The world of this turn, which is not destroyed before left_given(). */
static struct world *entered_given(void) {
    for (;;) {
        unsigned now = __atomic_load_n(&turn, __ATOMIC_SEQ_CST) % 2;
        __atomic_fetch_add(&users[now], 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) % 2 == now)
            return &worlds[GIVEN + now];
        __atomic_fetch_sub(&users[now], 1, __ATOMIC_SEQ_CST);
    }
}

static void left_given(struct world *w) { __atomic_fetch_sub(&users[w - &worlds[GIVEN]], 1, __ATOMIC_SEQ_CST); }

static void *takes(void *number) {
    struct world **own = &handed[(uintptr_t)number];
    uint64_t random = 3 + (uintptr_t)number;
    while (!stopping()) {
        struct world *w = entered_given();
        unsigned what = next_random(&random) % 16;
        needs(what ? READ(&w->lock) : WRITE(&w->lock), "a lock was refused");
        look(w, "a thread met a writer");
        if (what % 4 == 0) {
            (what ? read_unlock : write_unlock)(w);
        } else {
            __atomic_store_n(own, w, __ATOMIC_RELEASE);
            while (__atomic_load_n(own, __ATOMIC_ACQUIRE))
                sched_yield();
        }
        left_given(w);
    }
    __atomic_store_n(own, &over, __ATOMIC_RELEASE);
    return NULL;
}

/* True: no thread uses the world that was there before this turn's, and it has a new lock. Readers mark it at once where membarrier is there: a
 * lock has turned biased. */
static bool is_made_anew(struct world *w) {
    static bool turns_biased;
    if (__atomic_load_n(&users[w - &worlds[GIVEN]], __ATOMIC_SEQ_CST))
        return false;
    look(w, "half a write");
#ifndef PTHREAD_LOCKS
    turns_biased |= __atomic_load_n(&worlds[0].lock.biased, __ATOMIC_RELAXED) == LW__RW_BIASED;
    needs(lw_rwlock_destroy(&w->lock), "a lock that no thread holds was not destroyed");
    w->lock.biased = turns_biased ? LW__RW_BIASED : 0;
#else
    (void)turns_biased;
#endif
    add(&lives, 1);
    return true;
}

static int release_what_is_handed(void) {
    int ended_now = 0;
    for (int i = 0; i < TAKERS; i++) {
        struct world *w = __atomic_load_n(&handed[i], __ATOMIC_ACQUIRE);
        ended_now += w == &over;
        if (!w || w == &over)
            continue;
        read_unlock(w);
        add(&handed_over, 1);
        __atomic_store_n(&handed[i], NULL, __ATOMIC_RELEASE);
    }
    return ended_now;
}

static void *releases(void *unused) {
    bool new_lock = false;
    long begun = 0;
    while (release_what_is_handed() < TAKERS) {
        struct world *w = &worlds[GIVEN + turn % 2], *other = &worlds[GIVEN + (turn + 1) % 2];
        if (TRY_WRITE(&w->lock) == 0)
            write_unlock(w);
        if (!new_lock)
            new_lock = is_made_anew(other);
        if (new_lock && handed_over - begun >= LIFE) {
            __atomic_fetch_add(&turn, 1, __ATOMIC_SEQ_CST);
            new_lock = false;
            begun = handed_over;
        }
        sched_yield();
    }
    return unused;
}

/* ---- threads that come and go, some of them cancelled inside ---- */

static void release_read(void *w) { read_unlock(w); }

static void release_write(void *w) { write_unlock(w); }

static void sleeps_inside(struct world *w, void (*release)(void *)) {
    pthread_cleanup_push(release, w);
    sleep_us(200); /* a cancellation point */
    look(w, "half a write");
    pthread_cleanup_pop(1);
}

static void *is_cancelled(void *number) {
    uint64_t random = (uintptr_t)number;
    struct world *w = &worlds[next_random(&random) % 2];
    bool write = next_random(&random) % 2;
    needs(write ? WRITE(&w->lock) : READ(&w->lock), "a lock was refused");
    sleeps_inside(w, write ? release_write : release_read);
    return NULL;
}

static void *comes_and_goes(void *number) {
    uint64_t random = (uintptr_t)number;
    for (int i = 0; i < 100; i++) {
        struct world *w = &worlds[next_random(&random) % 2];
        needs(READ(&w->lock), "a read lock was refused");
        read_unlock(w);
    }
    needs(WRITE(&worlds[1].lock), "a write lock was refused");
    write_unlock(&worlds[1]);
    return NULL;
}

static void *churns(void *unused) {
    for (uintptr_t i = 1; !stopping(); i++) {
        pthread_t thread;
        void *result;
        bool cancel = CANCELS && i % 2;
        if (pthread_create(&thread, NULL, cancel ? is_cancelled : comes_and_goes, (void *)i)) {
            error_found("pthread_create");
            break;
        }
        if (cancel)
            pthread_cancel(thread);
        pthread_join(thread, &result);
        add(cancel && result == PTHREAD_CANCELED ? &cancelled : &ended, 1);
    }
    return unused;
}

/* ---- forks ---- */

/* The child has the locks as they were: what another thread held stays held. What can be locked is whole, and locks of its own work. */
static int child(void) {
    static lock_type own;
    alarm(
        800); /* as long as a whole test may take: a child that hangs is what it ends, not one that others keep from the CPUs */
    __atomic_store_n(&errors, 0, __ATOMIC_RELAXED);
    for (struct world *w = worlds; w < &worlds[2]; w++) {
        if (TRY_READ(&w->lock) == 0)
            read_unlock(w);
        if (TRY_WRITE(&w->lock) == 0)
            write_unlock(w);
    }
    for (int i = 0; i < 200; i++)
        if (READ(&own) || READ_UNLOCK(&own))
            return 1;
    return WRITE(&own) || WRITE_UNLOCK(&own) || __atomic_load_n(&errors, __ATOMIC_RELAXED);
}

static void *forks_now_and_then(void *unused) {
    while (!stopping()) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        int status = 1;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
            error_found("a child");
        add(&forks, 1);
        sleep_us(2000);
    }
    return unused;
}

/* ---- all of them ---- */

static pthread_t started(void *(*body)(void *), uintptr_t argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, (void *)argument)) {
        perror("rwlock_torture: pthread_create");
        exit(2);
    }
    return thread;
}

static void run(unsigned seconds) {
    pthread_t others[4 + TAKERS];
    int n = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = started(stays, i);
    if (used & ENDS)
        others[n++] = started(churns, 0);
    if (BEYOND_POSIX && used & HAND_OVER) {
        others[n++] = started(releases, 0);
        for (uintptr_t i = 0; i < TAKERS; i++)
            others[n++] = started(takes, i);
    }
    if (used & FORKS)
        others[n++] = started(forks_now_and_then, 0);
    if (BEYOND_POSIX && used & SIGNALS)
        others[n++] = started(signals, 0);
    for (unsigned tenths = 0; tenths < 10 * seconds && !stopping(); tenths++)
        sleep_us(100000);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    while (n-- > 0) /* who sends signals ends before who gets them */
        pthread_join(others[n], NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (struct world *w = worlds; w < &worlds[WORLDS]; w++) {
        needs(TRY_WRITE(&w->lock), "a lock is held at the end");
        look(w, "half a write at the end");
    }
}

static int usage(void) {
    fprintf(stderr, "usage: rwlock_torture [--seconds N] [--sections N] [--only WAY] [--except WAY]; ways:");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        fprintf(stderr, " %s", ways[i].name);
    fprintf(stderr, "\n");
    return 2;
}

/* False: there is no such way. */
static bool choose(const char *name, bool only) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(name, ways[i].name)) {
            used = only ? ways[i].bit : used & ~ways[i].bit;
            return only || ways[i].bit;
        }
    return false;
}

int main(int argc, char **argv) {
    unsigned seconds = 2;
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage();
        if (!strcmp(argv[i], "--seconds")) {
            seconds = (unsigned)atoi(argv[i + 1]);
        } else if (!strcmp(argv[i], "--sections")) {
            most = atol(argv[i + 1]);
            seconds = 3600;
        } else if ((strcmp(argv[i], "--only") && strcmp(argv[i], "--except")) ||
                   !choose(argv[i + 1], !strcmp(argv[i], "--only"))) {
            return usage();
        }
    }
    const int refused = lw_wait_set(getenv("LINEWRIGHT_WAIT"), NULL, 0);
    if (refused) /* the library said why, and would wait by `auto` */
        return refused == -EOPNOTSUPP ? 77 : 2;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_RESTART}, NULL);
    run(seconds);
    printf(
        "%ld critical sections, %ld in signal handlers, %ld read locks of %ld locks handed over, %ld threads cancelled, %ld ended, "
        "%ld forks; %ld errors\n",
        sections, handler_sections, handed_over, lives, cancelled, ended, forks, errors);
    return errors != 0;
}

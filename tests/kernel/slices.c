/* SPDX-License-Identifier: MIT */
/* Time slice extensions where a kernel grants them, by its own counts (debugfs/rseq/stats).
 *
 *   slices granted      in every place that a section can stand in, with a competitor for the CPU. LW_SAYS in the environment is the mode's reason
 *   slices torture PROGRAM ARGUMENTS…   the program ends well, and sections of its locks were granted extensions and gave them back
 *   slices none TEXT    no thread has them, for a reason that holds TEXT, and sections run
 *
 * A competitor of real-time priority wakes again and again on the CPU of the thread in a section. While that thread runs the competitor does not, so that its
 * count tells whether the CPU changed hands. All loops wait for what the kernel counts or stores, and give up after ROUNDS rounds, never by time. */
#define _GNU_SOURCE
#include <linewright/percpu.h>
#include <linewright/rwlock.h>
#include <linewright/slice.h>
#include <linewright/wait.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEBUGFS "/sys/kernel/debug"
#define CPU 1
#define WANTED 10    /* rounds that have to show all that is looked for */
#define ROUNDS \
    10000 /* most may not: the guest's clock runs while the emulator waits for a CPU, and kernel threads want the guest's, too */

static void fail(const char *format, ...) {
    va_list words;
    va_start(words, format);
    printf("slices: ");
    vprintf(format, words);
    printf("\n");
    fflush(stdout);
    va_end(words);
    _exit(1);
}

#define CHECK(condition)                                                             \
    do {                                                                             \
        if (!(condition))                                                            \
            fail("line %d: not so: %s (%s)", __LINE__, #condition, strerror(errno)); \
    } while (0)

/* ---- the kernel's counts ---- */

struct counts {
    unsigned long granted, expired, revoked, yielded, aborted;
};

static struct counts counts(void) {
    struct counts found = {0};
    char name[32];
    unsigned long value;
    FILE *file = fopen(DEBUGFS "/rseq/stats", "re");
    CHECK(file);
    while (fscanf(file, "%31s %lu", name, &value) == 2) {
        if (!strcmp(name, "sgrant:"))
            found.granted = value;
        else if (!strcmp(name, "sexpir:"))
            found.expired = value;
        else if (!strcmp(name, "srevok:"))
            found.revoked = value;
        else if (!strcmp(name, "syield:"))
            found.yielded = value;
        else if (!strcmp(name, "sabort:"))
            found.aborted = value;
    }
    fclose(file);
    return found;
}

static void set(const char *path, const char *value) {
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(value, file) >= 0 && fclose(file) == 0);
}

/* ---- the competitor ---- */

static volatile unsigned long *ran; /* how often it has had the CPU; a child of fork() sees it, too */

static void to_cpu(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

/* A process of its own: it competes with children of the other one and with its threads alike. */
static pid_t competitor(void) {
    const struct sched_param priority = {.sched_priority = 1};
    const struct timespec pause = {.tv_nsec = 1000000};
    ran = mmap(NULL, sizeof *ran, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ran != MAP_FAILED);
    set(DEBUGFS "/rseq/slice_ext_nsec", "50000");
    pid_t child = fork();
    CHECK(child >= 0);
    if (child)
        return child;
    to_cpu(CPU);
    CHECK(sched_setscheduler(0, SCHED_FIFO, &priority) == 0);
    for (;;) {
        ++*ran;
        nanosleep(&pause, NULL);
    }
}

/* ---- a thread's control bytes, as the kernel sees them ---- */

static volatile uint8_t *control(void) { return (volatile uint8_t *)lw__thread_pointer() + lw_percpu_rt.offset + 28; }

/* Spins until the kernel has answered the request that lw_slice_begin() made. */
static void answered(void) {
    CHECK(lw__slice.outer == (uint8_t *)(uintptr_t)control());
    while (control()[0])
        ;
}

/* Whether the extension is granted still, and the competitor has not run since `before`. */
static bool still_granted(unsigned long before) { return control()[1] && *ran == before; }

/* ---- what is shown ---- */

static struct lw_rwlock lock = LW_RWLOCK_INIT;
static bool by_lock; /* sections are those of a lock's writer */

static void begin(void) {
    if (by_lock)
        CHECK(lw_rwlock_write_lock(&lock) == 0);
    else
        lw_slice_begin();
}

static void end(void) {
    if (by_lock)
        CHECK(lw_rwlock_write_unlock(&lock) == 0);
    else
        lw_slice_end();
}

/* Granted, and given back at once: by the kernel's counts, and by the competitor's, which ran next and had not before. */
static void given_back(const char *where) {
    unsigned yielded = 0, rounds = 0;
    for (; yielded < WANTED && rounds < ROUNDS; rounds++) {
        struct counts before = counts();
        begin();
        unsigned long at_begin = *ran;
        answered();
        bool held = still_granted(at_begin);
        unsigned long at_end = *ran;
        end();
        unsigned long after = *ran;
        struct counts now = counts();
        CHECK(!control()[0] && !control()[1] && !lw__slice.inner);
        CHECK(now.aborted == before.aborted && now.granted <= before.granted + 1 && now.yielded <= before.yielded + 1);
        yielded += held && now.granted == before.granted + 1 && now.yielded == before.yielded + 1 &&
                   now.revoked == before.revoked && after > at_end;
    }
    printf("%s: granted and given back in %u of %u rounds\n", where, yielded, rounds);
    if (yielded < WANTED)
        fail("%s: too seldom", where);
}

/* A section that does not end is preempted when its extension expires, and gives nothing back. */
static void revoked_at_the_limit(void) {
    unsigned expired = 0, rounds = 0;
    for (; expired < WANTED && rounds < ROUNDS; rounds++) {
        struct counts before = counts();
        begin();
        unsigned long at_begin = *ran;
        answered();
        while (control()[1])
            ;
        bool preempted = *ran > at_begin;
        end();
        struct counts now = counts();
        CHECK(now.granted <= before.granted + 1 && now.revoked - before.revoked == now.granted - before.granted);
        CHECK(now.yielded == before.yielded && now.aborted == before.aborted);
        expired += now.expired > before.expired && preempted;
    }
    printf("revoked: at the limit in %u of %u rounds\n", expired, rounds);
    if (expired < WANTED)
        fail("revoked at the limit: too seldom");
}

/* An inner section gives nothing back, and does not ask while something is granted. */
static void nested(void) {
    unsigned yielded = 0, rounds = 0;
    for (; yielded < WANTED && rounds < ROUNDS; rounds++) {
        struct counts before = counts();
        lw_slice_begin();
        unsigned long at_begin = *ran;
        lw_slice_begin();
        answered();
        lw_slice_begin();
        bool asked = control()[1] && control()[0];
        lw_slice_end();
        lw_slice_end();
        bool held = still_granted(at_begin);
        unsigned long at_end = *ran;
        lw_slice_end();
        unsigned long after = *ran;
        struct counts now = counts();
        CHECK(!asked);
        CHECK(now.aborted == before.aborted && !lw__slice.inner);
        yielded += held && now.granted == before.granted + 1 && now.yielded == before.yielded + 1 && after > at_end;
    }
    printf("nested: given back by the outermost section in %u of %u rounds\n", yielded, rounds);
    if (yielded < WANTED)
        fail("nested: too seldom");
}

/* Another system call ends the grant; the end of the section makes none. */
static void ended_by_a_system_call(void) {
    unsigned aborted = 0, rounds = 0;
    for (; aborted < WANTED && rounds < ROUNDS; rounds++) {
        struct counts before = counts();
        lw_slice_begin();
        answered();
        syscall(SYS_getppid);
        CHECK(!control()[0] && !control()[1]);
        lw_slice_end();
        struct counts now = counts();
        CHECK(now.yielded == before.yielded);
        aborted += now.aborted > before.aborted;
    }
    printf("system call: ended the grant in %u of %u rounds\n", aborted, rounds);
    if (aborted < WANTED)
        fail("system call: too seldom");
}

static volatile unsigned handled_in_section, handled_outside;

static void section_in_handler(int number) {
    (void)number;
    if (control()[0] || control()[1])
        handled_in_section++;
    else
        handled_outside++;
    lw_slice_begin();
    lw_slice_end();
}

/* Handlers with sections of their own come at any instruction; the kernel's checks (rseq_debug) kill who stores what is not allowed. Not at every tick: where a
 * signal is pending nothing is granted. A system call between the sections, since the return from a handler is one: see killed_by_checks(). */
static void in_signal_handlers(void) {
    const struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
    struct counts before = counts();
    signal(SIGALRM, section_in_handler);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    while (handled_in_section < 100 || handled_outside < 100 || counts().yielded < before.yielded + WANTED) {
        for (int i = 0; i < 100; i++) {
            lw_slice_begin();
            for (int j = 0; j < 200; j++)
                __asm__ volatile("" : : : "memory");
            lw_slice_end();
            CHECK(!control()[0] && !control()[1] && !lw__slice.inner);
            syscall(SYS_getppid);
            for (int j = 0; j < 200; j++)
                __asm__ volatile("" : : : "memory");
        }
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("handlers: %u in sections, %u outside, %lu grants\n", handled_in_section, handled_outside,
           counts().granted - before.granted);
}

static void handler_that_asks(int number) {
    (void)number;
    given_back("handler");
}

static void in_children(const char *where) {
    int status = -1;
    begin();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        end();
        given_back(where);
        fflush(stdout);
        _exit(0);
    }
    end();
    CHECK(waitpid(child, &status, 0) == child);
    if (status)
        fail("the child of fork() ended with %#x", status);
}

/* With rseq_debug, a thread's first system call after its extension expired must find no request: within a later section it kills the thread. */
static void killed_by_checks(bool checks) {
    int status = -1;
    set(DEBUGFS "/rseq/debug", checks ? "1" : "0");
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        for (int i = 0; i < (checks ? ROUNDS : 10 * WANTED); i++) {
            lw_slice_begin();
            answered();
            while (control()[1])
                ;
            lw_slice_end();
            lw_slice_begin();
            syscall(SYS_getppid);
            lw_slice_end();
        }
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    set(DEBUGFS "/rseq/debug", "1");
    printf("%s the kernel's checks: %#x\n", checks ? "with" : "without", status);
    CHECK(status == (checks ? SIGSEGV : 0));
}

static void *in_thread(void *where) {
    CHECK(!lw__slice.outer);
    given_back(where);
    return NULL;
}

static void in_a_thread(char *where) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, where) == 0 && pthread_join(thread, NULL) == 0);
}

/* Sections of the library's locks: LINEWRIGHT_WAIT=slice. */
static void in_locks(void) {
    CHECK(lw_wait_set("slice", NULL, 0) == 0 && lw_wait_slices());
    by_lock = true;
    given_back("lock");
    in_children("lock in a child");
    in_a_thread("lock in a thread");
    by_lock = false;
    CHECK(lw_wait_set("auto", NULL, 0) == 0);
}

static int granted(void) {
    const char *why, *mode, *says = getenv("LW_SAYS");

    lw_percpu_mode(&mode);
    printf("%s; area at …%02lx\n", mode, (unsigned long)((uintptr_t)control() - 28) & 0xff);
    CHECK(!says || strstr(mode, says));
    CHECK(((uintptr_t)control() - 28) % 64 == 0);
    if (!lw_slice_available(&why))
        fail("none: %s", why);
    to_cpu(CPU);
    lw_slice_begin();
    lw_slice_end();
    CHECK(!control()[0]);
    pid_t other = competitor();
    given_back("first thread");
    nested();
    ended_by_a_system_call();
    in_signal_handlers();
    signal(SIGUSR1, handler_that_asks);
    raise(SIGUSR1);
    in_children("child");
    in_a_thread("thread");
    in_locks();
    revoked_at_the_limit();
    killed_by_checks(true);
    killed_by_checks(false);
    kill(other, SIGKILL);
    return 0;
}

/* As often as it takes, without the kernel's checks: a release that wakes a sleeper is a system call in a section. */
static int torture(char **words) {
    int status = -1;
    unsigned times = 0;
    pid_t other = competitor();
    set(DEBUGFS "/rseq/debug", "0");
    struct counts before = counts(), now = before;
    while (times++ < 100 && !(now.yielded > before.yielded && now.aborted > before.aborted)) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(execv(words[0], words));
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        now = counts();
    }
    set(DEBUGFS "/rseq/debug", "1");
    kill(other, SIGKILL);
    printf("torture: %lu granted, %lu given back, %lu ended by system calls, %lu expired\n", now.granted - before.granted,
           now.yielded - before.yielded, now.aborted - before.aborted, now.expired - before.expired);
    CHECK(now.yielded > before.yielded && now.aborted > before.aborted);
    return 0;
}

static int none(const char *text) {
    const char *why;
    for (int i = 0; i < 1000; i++) {
        lw_slice_begin();
        lw_slice_end();
    }
    CHECK(!lw_slice_available(&why));
    printf("none: %s\n", why);
    CHECK(strstr(why, text) && lw__slice.control == lw__slice.none);
    return 0;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (mount("debugfs", DEBUGFS, "debugfs", 0, NULL) && errno != EBUSY)
        fail("debugfs: %s", strerror(errno));
    if (argc == 2 && !strcmp(argv[1], "granted"))
        return granted();
    if (argc > 2 && !strcmp(argv[1], "torture"))
        return torture(argv + 2);
    if (argc == 3 && !strcmp(argv[1], "none"))
        return none(argv[2]);
    fprintf(stderr, "slices granted | torture PROGRAM ARGUMENTS… | none TEXT\n");
    return 2;
}

/* SPDX-License-Identifier: MIT */
/* linewright-torture srcu: readers and updaters with signals, forks and delays, all at once. It counts what only a wrong
 * grace period lets a reader see.
 *
 * An object is alive until a grace period has passed since it was replaced; then it is poisoned and used again. A reader
 * that finds its object poisoned, or changed during its critical section, is an error. Directed cases come first: between
 * the steps of a grace period the program performs what a reader with delayed stores and loads would do, which shows a wrong
 * order at once and every time.
 * Built with the SRCU sources of the library and their LW_SRCU_TEST hooks. Exit code: 0, 1 errors found, 2 wrong request, 3 a
 * system call cannot be denied here. */
#define _GNU_SOURCE
#include "srcu/domain.h"

#include <errno.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALIVE UINT64_C(0x600d600d600d600d)
#define DEAD UINT64_C(0xdeaddeaddeaddead)
#define OBJECTS 256
#define MAX_THREADS 256
#define HANDED 64

static unsigned seconds = 2, readers = 4, updaters = 2;
static uint64_t seed = 1;
static bool forking = true;
static bool flavours[LW__SRCU_FAST_UPDOWN + 1] = {false, true, true, true};

static bool stop;
/* Accessed by atomic operations: i386 would give a member of 64 bits four bytes of alignment. */
typedef uint64_t shared_u64 __attribute__((aligned(8)));

static shared_u64 reads, handler_reads, handed_on, grace_periods, callbacks, domains, forks, errors;

static bool stopping(void)
{
    return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void error_found(const char *what)
{
    if (__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED) < 5) /* the first few messages suffice; the count has all */
        fprintf(stderr, "linewright-torture: %s\n", what);
}

static uint64_t count(shared_u64 *counter)
{
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED); /* read when all have ended */
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64, Steele et al. 2014 */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void pause_us(unsigned us)
{
    nanosleep(&(struct timespec){0, (long)us * 1000}, NULL);
}

/* ---- what is read and replaced ---- */

struct object {
    shared_u64 state; /* ALIVE or DEAD */
    shared_u64 use; /* how often it was made alive */
    struct lw_srcu_head head;
    struct world *world;
    struct object *next_free;
};

struct world { /* one domain and what it protects */
    struct lw_srcu srcu;
    enum lw__srcu_flavour flavour;
    struct object *current;
    pthread_mutex_t lock; /* updaters */
    struct object *free;
    struct object all[OBJECTS];
};
static struct world worlds[LW__SRCU_FAST_UPDOWN + 1];

static lw_srcu_index enter(struct world *w)
{
    switch (w->flavour) {
    case LW__SRCU_NORMAL:
        return lw_srcu_read_lock((struct lw_srcu_normal *)&w->srcu);
    case LW__SRCU_FAST:
        return lw_srcu_read_lock_fast((struct lw_srcu_fast *)&w->srcu);
    default:
        return lw_srcu_down_read_fast((struct lw_srcu_fast_updown *)&w->srcu);
    }
}

static void leave(struct world *w, lw_srcu_index c)
{
    switch (w->flavour) {
    case LW__SRCU_NORMAL:
        lw_srcu_read_unlock((struct lw_srcu_normal *)&w->srcu, c);
        break;
    case LW__SRCU_FAST:
        lw_srcu_read_unlock_fast((struct lw_srcu_fast *)&w->srcu, c);
        break;
    default:
        lw_srcu_up_read_fast((struct lw_srcu_fast_updown *)&w->srcu, c);
    }
}

static void make_alive(struct object *o)
{
    __atomic_store_n(&o->use, o->use + 1, __ATOMIC_RELAXED); /* relaxed: published by lw_srcu_assign_pointer() */
    __atomic_store_n(&o->state, ALIVE, __ATOMIC_RELAXED);
}

static uint64_t check(const struct object *o, const char *where)
{
    if (__atomic_load_n(&o->state, __ATOMIC_RELAXED) != ALIVE) /* relaxed: the critical section keeps it alive */
        error_found(where);
    return __atomic_load_n(&o->use, __ATOMIC_RELAXED);
}

static void check_again(const struct object *o, uint64_t use, const char *where)
{
    if (check(o, where) != use)
        error_found(where);
}

static void over(struct object *o)
{
    struct world *w = o->world;
    if (__atomic_exchange_n(&o->state, DEAD, __ATOMIC_RELAXED) != ALIVE)
        error_found("an object that is over has ended again");
    pthread_mutex_lock(&w->lock);
    o->next_free = w->free;
    w->free = o;
    pthread_mutex_unlock(&w->lock);
}

static void over_callback(struct lw_srcu_head *head)
{
    count(&callbacks);
    over((struct object *)((char *)head - offsetof(struct object, head)));
}

/* All but the current one, once nothing is waited for. */
static bool all_are_back(const struct world *w)
{
    unsigned n = 0;
    for (const struct object *o = w->free; o && n < OBJECTS; o = o->next_free)
        n++;
    return n == OBJECTS - 1;
}

/* The one that was current until now, or NULL when all are waiting for their grace period. */
static struct object *replace(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    struct object *fresh = w->free, *old = NULL;
    if (fresh) {
        w->free = fresh->next_free;
        make_alive(fresh);
        old = w->current;
        lw_srcu_assign_pointer(w->current, fresh);
    }
    pthread_mutex_unlock(&w->lock);
    return old;
}

static int make_world(struct world *w, enum lw__srcu_flavour flavour)
{
    w->flavour = flavour;
    pthread_mutex_init(&w->lock, NULL);
    for (unsigned i = 0; i < OBJECTS; i++) {
        w->all[i].world = w;
        w->all[i].state = DEAD;
        w->all[i].next_free = w->free;
        w->free = &w->all[i];
    }
    int err = lw__srcu_init(&w->srcu, flavour);
    replace(w);
    return err;
}

static struct world *any_world(uint64_t *rng)
{
    for (;;) {
        unsigned f = LW__SRCU_NORMAL + (unsigned)(random_next(rng) % LW__SRCU_FAST_UPDOWN);
        if (flavours[f])
            return &worlds[f];
    }
}

/* ---- directed cases: one grace period, with a reader acted out between its steps ---- */

static struct {
    struct lw__srcu_domain *domain;
    unsigned index; /* readers' when the grace period begins */
    unsigned on; /* the index that the reader's lock counts on */
    bool lock_late; /* the count waits in a store buffer */
    bool inside; /* the reader is inside */
    bool access_late; /* the reader has left, and one of its loads is not performed yet */
    bool leaves_at_flip; /* late with its access */
    bool others; /* another reader comes and goes between the sums */
    unsigned scans;
    bool alive, wrong;
} act;

static void act_access(void)
{
    act.wrong |= !act.alive;
}

/* What a barrier on the reader's CPU does. */
static int act_membarrier(int command)
{
    (void)command;
    if (act.lock_late) {
        act.lock_late = false;
        lw__srcu_test_count(act.domain, act.on);
    }
    if (act.access_late) {
        act.access_late = false;
        act_access();
    }
    return 0;
}

static void act_leave(bool late)
{
    if (!act.inside)
        return;
    act.inside = false;
    if (act.lock_late) {
        act.lock_late = false;
        lw__srcu_test_count(act.domain, act.on);
    }
    act.access_late = late;
    if (!late)
        act_access();
    lw__srcu_test_count(act.domain, 2 + act.on);
}

static void act_point(enum lw__srcu_point where)
{
    if (where == LW__SRCU_AT_UNLOCKS_SUMMED) {
        if (act.others && act.scans < 8) {
            lw__srcu_test_count(act.domain, act.on);
            lw__srcu_test_count(act.domain, 2 + act.on);
        }
        if (++act.scans == 8)
            act_leave(false);
    }
    if (where == LW__SRCU_AT_FLIP && act.leaves_at_flip)
        act_leave(true);
}

static void directed(const char *name, unsigned stale, bool lock_late, bool leaves_at_flip, bool others)
{
    struct lw_srcu s;
    /* Updown: the reader is acted by the thread that waits, which would be refused inside a critical section that it must
     * end itself. */
    if (lw__srcu_init(&s, LW__SRCU_FAST_UPDOWN)) {
        error_found("directed: lw_srcu_init");
        return;
    }
    memset(&act, 0, sizeof act);
    act.domain = lw__srcu_domain_of(&s);
    act.index = lw__srcu_index_now(act.domain);
    act.on = act.index ^ stale;
    act.alive = act.inside = true;
    act.lock_late = lock_late;
    act.leaves_at_flip = leaves_at_flip;
    act.others = others;
    if (!lock_late)
        lw__srcu_test_count(act.domain, act.on);
    if (!act.domain->reader_barriers || !(lock_late || leaves_at_flip)) { /* readers with barriers are never late */
        __atomic_store_n(&lw__srcu_test_membarrier, act_membarrier, __ATOMIC_RELEASE);
        __atomic_store_n(&lw__srcu_test_point, act_point, __ATOMIC_RELEASE);
        if (lw_srcu_synchronize(&s))
            error_found("directed: lw_srcu_synchronize");
        act.alive = false; /* freed */
        __atomic_store_n(&lw__srcu_test_point, NULL, __ATOMIC_RELEASE);
        if (act.inside)
            act_leave(false);
        act_membarrier(0);
        __atomic_store_n(&lw__srcu_test_membarrier, NULL, __ATOMIC_RELEASE);
        if (act.wrong)
            error_found(name);
    } else {
        act_leave(false);
        act_membarrier(0);
    }
    if (lw_srcu_cleanup(&s))
        error_found("directed: lw_srcu_cleanup");
}

static void directed_cases(void)
{
    directed("directed: a reader of the index in use was not waited for", 0, false, false, false);
    directed("directed: a reader that counts late on the idle index was not waited for", 1, false, false, false);
    directed("directed: a count in a store buffer was missed by the first scan", 1, true, false, false);
    directed("directed: a reader's load was not performed when its unlock was counted", 0, false, true, false);
    directed("directed: readers that come and go between the sums hid one that stays", 0, false, false, true);
}

/* ---- readers ---- */

static __thread uint64_t handler_rng __attribute__((tls_model("initial-exec")));

static void handler(int signal)
{
    (void)signal;
    int saved = errno;
    struct world *w = any_world(&handler_rng);
    lw_srcu_index c = enter(w);
    struct object *o = lw_srcu_dereference(w->current);
    uint64_t use = check(o, "in a signal handler: the object is poisoned");
    check_again(o, use, "in a signal handler: the object changed inside the critical section");
    leave(w, c);
    count(&handler_reads);
    errno = saved;
}

static struct handed {
    struct world *world;
    lw_srcu_index index;
    struct object *object;
    uint64_t use;
} handed[HANDED];
static unsigned handed_count;
static pthread_mutex_t handed_lock = PTHREAD_MUTEX_INITIALIZER;

static void hand_on(struct world *w)
{
    struct handed h = {w, lw_srcu_down_read_fast((struct lw_srcu_fast_updown *)&w->srcu), lw_srcu_dereference(w->current),
                       0};
    h.use = check(h.object, "down: the object is poisoned");
    pthread_mutex_lock(&handed_lock);
    bool room = handed_count < HANDED;
    if (room)
        handed[handed_count++] = h;
    pthread_mutex_unlock(&handed_lock);
    if (!room)
        lw_srcu_up_read_fast((struct lw_srcu_fast_updown *)&w->srcu, h.index);
}

/* Ends a critical section that another thread began. */
static bool take_up(void)
{
    struct handed h = {NULL, {0, 0}, NULL, 0};
    pthread_mutex_lock(&handed_lock);
    if (handed_count)
        h = handed[--handed_count];
    pthread_mutex_unlock(&handed_lock);
    if (!h.world)
        return false;
    check_again(h.object, h.use, "up: the object changed inside the critical section");
    lw_srcu_up_read_fast((struct lw_srcu_fast_updown *)&h.world->srcu, h.index);
    count(&handed_on);
    return true;
}

static void migrate(uint64_t *rng)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all))
        return;
    CPU_ZERO(&one);
    unsigned n = (unsigned)(random_next(rng) % (unsigned)CPU_COUNT(&all));
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && n-- == 0)
            CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    sched_setaffinity(0, sizeof all, &all);
}

static void read_once(uint64_t *rng)
{
    struct world *w = any_world(rng);
    uint64_t what = random_next(rng) % 1024;
    lw_srcu_index inner, outer = enter(w);
    struct object *o = lw_srcu_dereference(w->current);
    uint64_t use = check(o, "the object is poisoned");
    if (what < 100) {
        inner = enter(w);
        check(lw_srcu_dereference(w->current), "nested: the object is poisoned");
        leave(w, inner);
    } else if (what < 104) {
        pause_us((unsigned)(random_next(rng) % 500));
    } else if (what < 108) {
        migrate(rng);
    } else if (what < 140) {
        sched_yield();
    }
    check_again(o, use, "the object changed inside the critical section");
    leave(w, outer);
    if (w->flavour == LW__SRCU_FAST_UPDOWN && what > 1000)
        hand_on(w);
    if (what > 900)
        take_up();
    count(&reads);
}

static void *reader(void *number)
{
    uint64_t rng = seed + 1000 * (uintptr_t)number;
    handler_rng = rng + 1;
    while (!stopping())
        read_once(&rng);
    return NULL;
}

/* ---- updaters ---- */

static void wait_by_polling(struct world *w)
{
    unsigned long cookie = lw_srcu_start_poll(&w->srcu);
    if (!cookie) {
        error_found("lw_srcu_start_poll");
        return;
    }
    while (!lw_srcu_poll(&w->srcu, cookie))
        pause_us(20);
}

static void update(uint64_t *rng)
{
    struct world *w = any_world(rng);
    struct object *old = replace(w);
    if (!old) {
        pause_us(100);
        return;
    }
    switch (random_next(rng) % 8) {
    case 0:
    case 1:
        if (lw_srcu_synchronize(&w->srcu)) {
            error_found("lw_srcu_synchronize");
            return;
        }
        break;
    case 2:
        if (lw_srcu_synchronize_expedited(&w->srcu)) {
            error_found("lw_srcu_synchronize_expedited");
            return;
        }
        break;
    case 3:
        wait_by_polling(w);
        break;
    default:
        if (lw_srcu_call(&w->srcu, &old->head, over_callback))
            error_found("lw_srcu_call");
        return;
    }
    count(&grace_periods);
    over(old);
}

static void *updater(void *number)
{
    uint64_t rng = seed + 2000 * (uintptr_t)number;
    handler_rng = rng + 1;
    while (!stopping())
        update(&rng);
    return NULL;
}

/* ---- around them: signals, domains that come and go, fork ---- */

static pthread_t threads[MAX_THREADS];
static unsigned thread_count;

static void *signaller(void *unused)
{
    (void)unused;
    uint64_t rng = seed + 3;
    while (!stopping()) {
        pthread_kill(threads[random_next(&rng) % readers], SIGUSR1);
        pause_us(100);
    }
    return NULL;
}

static void nothing(struct lw_srcu_head *head)
{
    (void)head;
}

static void *churn(void *unused)
{
    (void)unused;
    uint64_t rng = seed + 4;
    while (!stopping()) {
        struct world w = {.flavour = (enum lw__srcu_flavour)(LW__SRCU_NORMAL + random_next(&rng) % LW__SRCU_FAST_UPDOWN)};
        struct lw_srcu_head head;
        if (lw__srcu_init(&w.srcu, w.flavour)) {
            error_found("lw_srcu_init");
            break;
        }
        lw_srcu_index c = enter(&w);
        if (lw_srcu_cleanup(&w.srcu) != -EBUSY)
            error_found("lw_srcu_cleanup with a reader inside is not refused");
        leave(&w, c);
        if (random_next(&rng) % 2 && (lw_srcu_call(&w.srcu, &head, nothing) || lw_srcu_barrier(&w.srcu)))
            error_found("lw_srcu_barrier");
        if (lw_srcu_cleanup(&w.srcu))
            error_found("lw_srcu_cleanup of an idle domain");
        count(&domains);
        pause_us(300);
    }
    return NULL;
}

/* In the child, which has this thread only: the critical sections of the other threads do not end and have to be
 * forgotten. */
static int child(void)
{
    uint64_t rng = seed + 5;
    uint64_t before = errors;
    __atomic_store_n(&lw__srcu_test_point, NULL, __ATOMIC_RELEASE);
    alarm(800); /* as long as a whole test may take */
    for (unsigned f = LW__SRCU_NORMAL; f <= LW__SRCU_FAST_UPDOWN; f++)
        pthread_mutex_init(&worlds[f].lock, NULL); /* perhaps another thread's when the process was copied; for callbacks */
    for (unsigned f = LW__SRCU_NORMAL; f <= LW__SRCU_FAST_UPDOWN; f++) {
        struct world *w = &worlds[f];
        struct lw_srcu_head head;
        if (!flavours[f])
            continue;
        lw_srcu_forget_readers(&w->srcu);
        if (lw_srcu_synchronize(&w->srcu))
            return 1;
        lw_srcu_index c = enter(w);
        check(lw_srcu_dereference(w->current), "in a child: the object is poisoned");
        leave(w, c);
        if (lw_srcu_call(&w->srcu, &head, nothing) || lw_srcu_barrier(&w->srcu))
            return 1;
    }
    migrate(&rng);
    return errors != before;
}

static void *forker(void *unused)
{
    (void)unused;
    while (!stopping()) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(child());
        int status = 0;
        if (pid > 0 && (waitpid(pid, &status, 0) != pid || status))
            error_found(WIFSIGNALED(status) ? "a child was killed (a grace period that does not end?)"
                                            : "a child found an error");
        count(&forks);
        for (unsigned i = 0; i < 40 && !stopping(); i++)
            pause_us(2000);
    }
    return NULL;
}

/* Injected delays. Which step is how late is random; the threads' own randomness would not reach the worker. */
static void delay(enum lw__srcu_point where)
{
    static shared_u64 calls;
    uint64_t rng = seed + where + 64 * count(&calls);
    uint64_t what = random_next(&rng) % 16;
    if (what == 0)
        pause_us((unsigned)(random_next(&rng) % 300));
    else if (what < 4)
        sched_yield();
}

static void spawn(void *(*run)(void *))
{
    if (thread_count < MAX_THREADS &&
        pthread_create(&threads[thread_count], NULL, run, (void *)(uintptr_t)thread_count) == 0)
        thread_count++;
    else
        error_found("a thread could not be started");
}

static bool nothing_tried(void)
{
    uint64_t least = __atomic_load_n(&reads, __ATOMIC_RELAXED); /* approximate while threads run, exact at the end */
    shared_u64 *const all[] = {&grace_periods, &callbacks, &domains, forking ? &forks : &domains};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        least = least < __atomic_load_n(all[i], __ATOMIC_RELAXED) ? least : __atomic_load_n(all[i], __ATOMIC_RELAXED);
    return !least;
}

static void storm(void)
{
    for (unsigned f = LW__SRCU_NORMAL; f <= LW__SRCU_FAST_UPDOWN; f++)
        if (flavours[f] && make_world(&worlds[f], (enum lw__srcu_flavour)f)) {
            error_found("lw_srcu_init");
            return;
        }
    struct sigaction act_on = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &act_on, NULL);
    __atomic_store_n(&lw__srcu_test_point, delay, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < readers; i++)
        spawn(reader);
    for (unsigned i = 0; i < updaters; i++)
        spawn(updater);
    spawn(churn);
    if (forking)
        spawn(forker);
    unsigned killed = thread_count;
    if (killed >= readers)
        spawn(signaller);
    for (unsigned i = 0; i < seconds * 20 || (nothing_tried() && i < 6000); i++) /* a machine may be very busy */
        pause_us(50000);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED); /* the threads are joined before anything they did is read */
    if (thread_count > killed)
        pthread_join(threads[--thread_count], NULL); /* first: it signals the others */
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    while (take_up())
        ;
    for (unsigned f = LW__SRCU_NORMAL; f <= LW__SRCU_FAST_UPDOWN; f++) {
        if (flavours[f] && (lw_srcu_barrier(&worlds[f].srcu) || lw_srcu_cleanup(&worlds[f].srcu)))
            error_found("at the end: a domain is not idle");
        if (flavours[f] && !all_are_back(&worlds[f]))
            error_found("at the end: a callback was lost, or was called twice");
    }
    if (nothing_tried())
        error_found("nothing was tried: too few reads, grace periods or callbacks");
}

/* ---- the request ---- */

static int wrong(const char *what, const char *allowed)
{
    fprintf(stderr, "linewright-torture: %s; allowed: %s\n", what, allowed);
    return 2;
}

static bool number(const char *text, unsigned long least, unsigned long most, unsigned long *out)
{
    char *end;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *out >= least && *out <= most;
}

/* The system call fails with ENOSYS from the next program on: this one, begun anew, which finds in the environment what is
 * denied already. */
static int deny(const char *what, char **argv)
{
    const char *denied = getenv("LINEWRIGHT_TORTURE_DENIED");
    char all[64];
    if (denied && strstr(denied, what))
        return 0;
    snprintf(all, sizeof all, "%s %s", what, denied ? denied : "");
    unsigned call = strcmp(what, "rseq") ? SYS_membarrier : LW_SYS_RSEQ;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        fprintf(stderr, "linewright-torture: --without: this system allows no filter for system calls: %s\n",
                strerror(errno));
        return 3;
    }
    setenv("LINEWRIGHT_TORTURE_DENIED", all, 1);
    execv("/proc/self/exe", argv);
    fprintf(stderr, "linewright-torture: cannot begin anew: %s\n", strerror(errno));
    return 3;
}

static int only_flavour(const char *name)
{
    static const char *const names[] = {"", "normal", "fast", "fast_updown"};
    if (!strcmp(name, "all"))
        return 0;
    for (unsigned f = LW__SRCU_NORMAL; f <= LW__SRCU_FAST_UPDOWN; f++)
        if (!strcmp(name, names[f])) {
            memset(flavours, 0, sizeof flavours);
            flavours[f] = true;
            return 0;
        }
    return wrong("--flavour: no such flavour", "all, normal, fast, fast_updown");
}

static int option(const char *name, const char *value, char **argv)
{
    unsigned long n;
    if (!strcmp(name, "--seconds"))
        return number(value, 0, 86400, &n) ? (seconds = (unsigned)n, 0)
                                           : wrong("--seconds", "0 (directed cases only) to 86400");
    if (!strcmp(name, "--readers"))
        return number(value, 1, 128, &n) ? (readers = (unsigned)n, 0) : wrong("--readers", "1 to 128");
    if (!strcmp(name, "--updaters"))
        return number(value, 1, 64, &n) ? (updaters = (unsigned)n, 0) : wrong("--updaters", "1 to 64");
    if (!strcmp(name, "--seed"))
        return number(value, 0, ULONG_MAX, &n) ? (seed = n, 0) : wrong("--seed", "a whole number");
    if (!strcmp(name, "--flavour"))
        return only_flavour(value);
    if (!strcmp(name, "--fork")) { /* no: for emulators that cannot start threads in a child */
        forking = !strcmp(value, "yes");
        return forking || !strcmp(value, "no") ? 0 : wrong("--fork", "yes, no");
    }
    if (!strcmp(name, "--words")) {
        if (strcmp(value, "thread") && strcmp(value, "cpu"))
            return wrong("--words", "thread, cpu");
        lw__srcu_test_slots = strcmp(value, "cpu") ? UINT_MAX : 0;
        return 0;
    }
    if (!strcmp(name, "--without")) {
        if (strcmp(value, "membarrier") && strcmp(value, "rseq"))
            return wrong("--without", "membarrier, rseq");
        return deny(value, argv);
    }
    return wrong("unknown option", "--seconds, --readers, --updaters, --seed, --flavour, --words, --fork, --without");
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "srcu"))
        return wrong("what to torture", "srcu");
    for (int i = 2; i < argc; i += 2) {
        if (i + 1 == argc)
            return wrong("an option without its value",
                         "--seconds, --readers, --updaters, --seed, --flavour, --words, --fork, --without");
        int code = option(argv[i], argv[i + 1], argv);
        if (code)
            return code;
    }
    struct lw_srcu probe;
    char text[300] = "";
    if (lw__srcu_init(&probe, LW__SRCU_FAST) == 0) {
        lw_srcu_describe(&probe, text, sizeof text);
        lw_srcu_cleanup(&probe);
    }
    directed_cases();
    if (seconds)
        storm();
    printf(
        "{\"torture\":\"srcu\",\"fast_flavours\":\"%s\",\"reads\":%llu,\"reads_in_handlers\":%llu,\"readers_handed_on\":%llu,"
        "\"grace_periods\":%llu,\"callbacks\":%llu,\"domains\":%llu,\"forks\":%llu,\"errors\":%llu}\n",
        text, (unsigned long long)reads, (unsigned long long)handler_reads, (unsigned long long)handed_on,
        (unsigned long long)grace_periods, (unsigned long long)callbacks, (unsigned long long)domains,
        (unsigned long long)forks, (unsigned long long)errors);
    return errors != 0;
}

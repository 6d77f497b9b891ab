/* SRCU domains: making and ending them, the threads' records, readers out of line, and what a domain says of itself. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef LW_SRCU_TEST
void (*volatile lw__srcu_test_point)(enum lw__srcu_point where);
int (*volatile lw__srcu_test_membarrier)(int command);
void lw__srcu_test_at(enum lw__srcu_point where)
{
    void (*point)(enum lw__srcu_point) = __atomic_load_n(&lw__srcu_test_point, __ATOMIC_ACQUIRE); /* once, as below */
    if (point)
        point(where);
}
volatile unsigned lw__srcu_test_slots = LW__SRCU_SLOTS;
#define USABLE_SLOTS lw__srcu_test_slots
#else
#define USABLE_SLOTS LW__SRCU_SLOTS
#endif

struct lw__srcu_domain *lw__srcu_domains;
static uint32_t registry;
static uint64_t slots_taken[(LW__SRCU_SLOTS + 63) / 64]; /* under the registry */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool verbose;
static bool have_membarrier;

/* ---- a lock that a signal-free few lines hold; a child of fork() may simply store 0 ---- */

void lw__srcu_sleep(uint32_t *word, uint32_t seen, uint64_t ns)
{
    /* The kernel's own timespec for this call: two longs, whatever time_t the C library was asked for (_TIME_BITS). */
    long limit[2] = {(long)(ns / 1000000000), (long)(ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, ns == FUTEX_FOREVER ? NULL : limit, NULL, 0);
}

void lw__srcu_wake_all(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

bool lw__srcu_trylock_word(uint32_t *lock)
{
    uint32_t free = 0; /* acquire: pairs with the release in lw__srcu_unlock_word() */
    return __atomic_compare_exchange_n(lock, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* 0 free, 1 held, 2 held and somebody sleeps. */
void lw__srcu_lock_word(uint32_t *lock)
{
    if (lw__srcu_trylock_word(lock))
        return;
    while (__atomic_exchange_n(lock, 2, __ATOMIC_ACQUIRE)) /* pairs as above */
        lw__srcu_sleep(lock, 2, FUTEX_FOREVER);
}

void lw__srcu_unlock_word(uint32_t *lock)
{
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) == 2) /* pairs with the acquires above */
        syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void lw__srcu_registry_lock(void)
{
    lw__srcu_lock_word(&registry);
}

void lw__srcu_registry_unlock(void)
{
    lw__srcu_unlock_word(&registry);
}

uint64_t lw__srcu_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool lw__srcu_verbose(void)
{
    return verbose;
}

/* ---- threads' records ---- */

static struct lw__srcu_record *records; /* only ever grows, by compare-and-swap: a signal handler may add one */

#if LW__SRCU_THREAD_WORDS
__thread char *lw__srcu_self __attribute__((tls_model("initial-exec")));

enum self_state { SELF_NONE, SELF_BUSY, SELF_TAKEN, SELF_OVER };
static __thread volatile sig_atomic_t self_state __attribute__((tls_model("initial-exec")));
static pthread_key_t self_key;
static bool have_key;

/* Thread ends: its counts stay, for the record's next owner to go on with. Sections in destructors that run later, or in
 * signal handlers, count per CPU. */
static void self_end(void *record)
{
    struct lw__srcu_record *r = record;
    self_state = SELF_OVER;
    lw__srcu_self = NULL;
    __atomic_store_n(&r->in_use, 0, __ATOMIC_RELEASE); /* pairs with the acquire in take_record() */
}

static struct lw__srcu_record *take_record(void)
{
    struct lw__srcu_record *r;
    for (r = __atomic_load_n(&records, __ATOMIC_ACQUIRE); r; r = r->next) { /* pairs with the release below */
        uint32_t free = 0; /* acquire: the last owner's plain adds come before ours */
        if (!__atomic_load_n(&r->in_use, __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&r->in_use, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return r;
    }
    r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        return NULL;
    r->in_use = 1;
    r->next = __atomic_load_n(&records, __ATOMIC_RELAXED);
    /* Release: whoever finds the record finds its `next`. A thread that counts on it before an updater's sum has it on the
     * list before that too: the heavy barrier orders list and counts alike. */
    while (!__atomic_compare_exchange_n(&records, &r->next, r, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return r;
}

/* The thread's record, taken at its first section. Async-signal-safe: a handler that comes in between counts per CPU. */
static struct lw__srcu_record *self_record(void)
{
    if (lw__srcu_self)
        return (struct lw__srcu_record *)(void *)lw__srcu_self;
    if (self_state != SELF_NONE || !have_key)
        return NULL;
    int saved = errno;
    self_state = SELF_BUSY;
    struct lw__srcu_record *r = take_record();
    if (r && pthread_setspecific(self_key, r)) {
        __atomic_store_n(&r->in_use, 0, __ATOMIC_RELEASE);
        r = NULL;
    }
    if (r) {
        __atomic_store_n(&r->tid, (int32_t)syscall(SYS_gettid), __ATOMIC_RELAXED); /* for reports only */
        self_state = SELF_TAKEN;
        lw__srcu_self = (char *)r;
    } else {
        self_state = SELF_NONE;
    }
    errno = saved;
    return r;
}
#endif

/* ---- sums ---- */

static unsigned long sum_records(struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    unsigned long sum = 0;
    if (!d->slot)
        return 0;
    /* Acquire, each: pairs with the release in take_record(); and shows ThreadSanitizer what the heavy barrier orders. */
    for (struct lw__srcu_record *r = __atomic_load_n(&records, __ATOMIC_ACQUIRE); r; r = r->next) {
        struct lw__srcu_words *w = &r->slot[d->slot - 1];
        sum += __atomic_load_n(unlocks ? &w->unlocks[index] : &w->locks[index], __ATOMIC_ACQUIRE);
    }
    return sum;
}

static unsigned long sum_cpus(struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    unsigned long *word = (unsigned long *)((uintptr_t)d->cpu + ((unlocks ? 2 : 0) + index) * LW__SRCU_WORD);
#ifdef LW_THREAD_SANITIZER
    (void)__atomic_load_n(&d->seen_by_tsan, __ATOMIC_ACQUIRE);
#endif
#ifdef __LP64__
    return (unsigned long)lw_percpu_sum_u64((uint64_t *)word);
#else
    return (unsigned long)lw_percpu_sum_u32((uint32_t *)word);
#endif
}

unsigned long lw__srcu_sum(struct lw__srcu_domain *d, unsigned index, bool unlocks)
{
    return sum_records(d, index, unlocks) + sum_cpus(d, index, unlocks) -
           (unlocks ? d->base.unlocks[index] : d->base.locks[index]);
}

/* ---- the barrier on everybody else ---- */

static int membarrier(int command)
{
    int saved = errno;
#ifdef LW_SRCU_TEST
    int (*refuse)(int) = __atomic_load_n(&lw__srcu_test_membarrier, __ATOMIC_ACQUIRE); /* once: a test may take it away */
    int refused = refuse ? refuse(command) : 0;
    if (refused)
        return refused;
#endif
    int err = syscall(SYS_membarrier, command, 0, 0) ? errno : 0;
    errno = saved;
    return err;
}

/* 0: since the call every thread of this process has executed a full barrier, or its readers have their own. */
int lw__srcu_heavy_barrier(struct lw__srcu_domain *d)
{
    lw__srcu_full_fence(); /* pairs with B and C in srcu.h */
    return d->reader_barriers ? 0 : membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/* ---- fork ---- */

static void before_fork(void)
{
    lw__srcu_before_fork();
    lw__srcu_registry_lock();
    lw__srcu_debug_before_fork();
}

static void after_fork_in_parent(void)
{
    lw__srcu_registry_unlock();
    lw__srcu_after_fork(false);
}

/* Only this thread is left. Waiters, the worker and whoever held a step are not in the child; a grace period that was under
 * way is begun anew, since it may have been caught between two stores. */
static void after_fork_in_child(void)
{
    if (have_membarrier)
        (void)membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); /* kernels hand it down; it costs nothing to be sure */
#if LW__SRCU_THREAD_WORDS
    for (struct lw__srcu_record *r = records; r; r = r->next) {
        bool mine = (char *)r == lw__srcu_self;
        r->in_use = mine;
        if (mine)
            r->tid = (int32_t)syscall(SYS_gettid);
    }
#endif
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        d->step_lock = d->driver = d->waiters = d->sleepers = d->hurried = 0;
        d->phase = d->seq & 1 ? LW__SRCU_FIRST_SCAN : LW__SRCU_IDLE;
    }
    registry = 0;
    lw__srcu_after_fork(true);
    lw__srcu_debug_after_fork();
}

/* ---- start-up ---- */

static void start(void)
{
    const char *wish = secure_getenv("LINEWRIGHT_VERBOSE");
    verbose = wish && !strcmp(wish, "1");
    have_membarrier =
        !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
#if LW__SRCU_THREAD_WORDS
    /* Keys from 32 on make glibc's pthread_setspecific allocate, which a signal handler must not. */
    have_key = !pthread_key_create(&self_key, self_end) && self_key < 32;
#endif
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Early, so that the key is among the first. */
__attribute__((constructor(101))) static void start_early(void)
{
    pthread_once(&once, start);
}

/* ---- making and ending ---- */

/* One more than the slot's number, or 0: all are taken. */
static unsigned take_slot(void)
{
#if LW__SRCU_THREAD_WORDS
    for (unsigned i = 0; have_key && i < USABLE_SLOTS && i < LW__SRCU_SLOTS; i++)
        if (!(slots_taken[i / 64] >> (i % 64) & 1)) {
            slots_taken[i / 64] |= (uint64_t)1 << (i % 64);
            return i + 1;
        }
#endif
    return 0;
}

/* The slot's last domain ended with no section open, so nobody counts here now. What sections that were handed on left in one
 * thread's words and took from another's would show in reports of the new domain. */
static void clear_slot(unsigned slot)
{
    for (struct lw__srcu_record *r = __atomic_load_n(&records, __ATOMIC_ACQUIRE); slot && r;
         r = r->next) /* pairs with take_record() */
        for (unsigned i = 0; i < 2; i++) { /* relaxed: the user orders init before use */
            __atomic_store_n(&r->slot[slot - 1].locks[i], 0, __ATOMIC_RELAXED);
            __atomic_store_n(&r->slot[slot - 1].unlocks[i], 0, __ATOMIC_RELAXED);
        }
}

static void give_slot(unsigned slot)
{
    if (slot)
        slots_taken[(slot - 1) / 64] &= ~((uint64_t)1 << ((slot - 1) % 64));
}

static bool fast(enum lw_srcu_flavour flavour)
{
    return flavour == LW_SRCU_FAST || flavour == LW_SRCU_FAST_UPDOWN;
}

/* What lw_srcu.pair is for index 0. */
static uintptr_t first_pair(const struct lw__srcu_domain *d)
{
    if (d->why) /* a fast flavour without membarrier: the inline pair has no barriers, so it must not be taken */
        return 2;
#if LW__SRCU_THREAD_WORDS
    return d->slot ? LW__SRCU_FIRST + (d->slot - 1) * sizeof(struct lw__srcu_words) : 2;
#else
    return (uintptr_t)d->cpu;
#endif
}

int lw_srcu_init(struct lw_srcu *s, enum lw_srcu_flavour flavour)
{
    if (!s || flavour < LW_SRCU_NORMAL || flavour > LW_SRCU_FAST_UPDOWN)
        return -EINVAL;
    int err = pthread_once(&once, start);
    if (err)
        return -err;
    struct lw__srcu_domain *d = calloc(1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->cpu = lw_percpu_alloc(sizeof *d->cpu, sizeof *d->cpu);
    if (!d->cpu) {
        free(d);
        return -ENOMEM;
    }
    d->srcu = s;
    d->home = &records;
    d->stall_ms = 10000;
    d->reader_barriers = !fast(flavour) || !have_membarrier;
    d->why = fast(flavour) && !have_membarrier ? "membarrier is not available" : NULL;
    lw__srcu_registry_lock();
    d->slot = take_slot();
    clear_slot(d->slot);
    s->flavour = flavour;
    s->name = NULL;
    __atomic_store_n(&s->pair, first_pair(d), __ATOMIC_RELAXED); /* the user orders init before use */
    __atomic_store_n(&s->domain, d, __ATOMIC_RELEASE); /* pairs with lw__srcu_domain_of() */
    d->next = lw__srcu_domains;
    lw__srcu_domains = d;
    lw__srcu_registry_unlock();
    return 0;
}

void lw__srcu_define(struct lw_srcu *s, const char *name, enum lw_srcu_flavour flavour)
{
    int err = lw_srcu_init(s, flavour);
    if (err)
        fprintf(stderr, "linewright: LW_DEFINE_SRCU(%s): %s\n", name, strerror(-err));
    s->name = name;
}

/* 0: none; -EBUSY; or why it cannot be known. */
static int sections_open(struct lw__srcu_domain *d)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned long unlocks = lw__srcu_sum(d, i, true);
        int err = lw__srcu_heavy_barrier(d);
        if (err)
            return -err;
        if (lw__srcu_sum(d, i, false) != unlocks)
            return -EBUSY;
    }
    return 0;
}

static void say_why_not(const struct lw_srcu *s, int err)
{
    char text[400];
    lw_srcu_describe(s, text, sizeof text);
    fprintf(stderr, "linewright: lw_srcu_cleanup refused (%s): %s\n", strerror(-err), text);
}

/* Unlinks the domain, or says why not. Under the registry, so that the worker is not in it. */
static int unlink_domain(struct lw__srcu_domain *d)
{
    int err = sections_open(d);
    if (err)
        return err;
    if (__atomic_load_n(&d->queued, __ATOMIC_ACQUIRE) || __atomic_load_n(&d->waiters, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&d->driver, __ATOMIC_ACQUIRE))
        return -EAGAIN; /* acquire: pairs with the decrements of those who leave */
    struct lw__srcu_domain **link = &lw__srcu_domains;
    while (*link && *link != d)
        link = &(*link)->next;
    if (!*link)
        return -EINVAL;
    *link = d->next;
    give_slot(d->slot);
    return 0;
}

int lw_srcu_cleanup(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d)
        return -EINVAL;
    lw__srcu_registry_lock();
    int err = unlink_domain(d);
    lw__srcu_registry_unlock();
    if (err) {
        if (verbose)
            say_why_not(s, err);
        return err;
    }
    __atomic_store_n(&s->pair, 2, __ATOMIC_RELAXED);
    __atomic_store_n(&s->domain, NULL, __ATOMIC_RELAXED); /* nobody else uses it any more */
    lw_percpu_free(d->cpu);
    free(d);
    return 0;
}

int lw_srcu_forget_readers(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d)
        return -EINVAL;
    for (unsigned i = 0; i < 2; i++)
        d->base.locks[i] += lw__srcu_sum(d, i, false) - lw__srcu_sum(d, i, true);
    lw__srcu_debug_forget(s);
    return 0;
}

/* ---- readers out of line ---- */

/* Words of this copy's threads that the copy which made the domain does not add up. Words per CPU are anybody's. */
bool lw__srcu_foreign(const struct lw__srcu_domain *d)
{
    return d->slot && d->home != &records;
}

static struct lw__srcu_domain *reader_domain(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = __atomic_load_n(&s->domain, __ATOMIC_ACQUIRE); /* pairs with lw_srcu_init() */
    if (!d) {
        fprintf(stderr, "linewright: a section of a domain that is not initialised, or cleaned up (%p)\n", (void *)s);
        abort();
    }
    if (lw__srcu_foreign(d)) {
        fprintf(
            stderr,
            "linewright: a section of a domain that another copy of the library made (%p): its grace periods would not wait\n",
            (void *)s);
        abort();
    }
    return d;
}

static unsigned index_of(uintptr_t pair)
{
    return pair < LW__SRCU_FIRST ? (unsigned)pair & 1 : (unsigned)(pair / LW__SRCU_WORD) & 1;
}

static void count(struct lw__srcu_domain *d, unsigned word)
{
#if LW__SRCU_THREAD_WORDS
    struct lw__srcu_record *r = d->slot ? self_record() : NULL;
    if (r) {
        lw__srcu_add((char *)&r->slot[d->slot - 1] + word * LW__SRCU_WORD, d->reader_barriers);
        return;
    }
#endif
    /* Fences: B after the lock's count and C before the unlock's; pair with HEAVY_BARRIER in gp.h. */
    if (d->reader_barriers)
        lw__srcu_full_fence();
    unsigned long *p = (unsigned long *)((uintptr_t)d->cpu + word * LW__SRCU_WORD);
#ifdef LW_THREAD_SANITIZER
    __atomic_fetch_add(&d->seen_by_tsan, 1, __ATOMIC_RELEASE); /* pairs with sum_cpus(); no acquire: orders no readers */
#endif
#ifdef __LP64__
    lw__percpu_add_slow_u64((uint64_t *)p, 1);
#else
    lw__percpu_add_slow_u32((uint32_t *)p, 1);
#endif
    if (d->reader_barriers)
        lw__srcu_full_fence();
}

#ifdef LW_SRCU_TEST
void lw__srcu_test_count(struct lw__srcu_domain *d, unsigned word)
{
    count(d, word);
}

/* As if so many sections had come and gone. */
void lw__srcu_test_set_counts(struct lw__srcu_domain *d, unsigned long value)
{
    for (unsigned i = 0; i < 2; i++) {
        d->base.locks[i] += lw__srcu_sum(d, i, false) - value;
        d->base.unlocks[i] += lw__srcu_sum(d, i, true) - value;
    }
}

/* As if so many grace periods had come and gone, or a fork had caught one between two stores. */
void lw__srcu_test_set_seq(struct lw__srcu_domain *d, unsigned long seq, unsigned phase)
{
    lw__srcu_lock_word(&d->step_lock);
    __atomic_store_n(&d->seq, seq, __ATOMIC_RELEASE); /* pairs with lw__srcu_reached() */
    d->phase = phase;
    lw__srcu_unlock_word(&d->step_lock);
}
#endif

uintptr_t lw__srcu_lock_slow(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = reader_domain(s);
    uintptr_t pair = __atomic_load_n(&s->pair, __ATOMIC_RELAXED); /* as in lw__srcu_lock() */
    count(d, index_of(pair));
    return pair;
}

void lw__srcu_unlock_slow(struct lw_srcu *s, uintptr_t pair)
{
    count(reader_domain(s), 2 + index_of(pair));
}

/* ---- what a domain says of itself ---- */

__attribute__((format(printf, 4, 5))) static void say(char *text, size_t size, size_t *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(*at < size ? text + *at : NULL, *at < size ? size - *at : 0, format, arguments);
    va_end(arguments);
    *at += n > 0 ? (size_t)n : 0;
}

static const char *flavour_name(unsigned flavour)
{
    static const char *const names[] = {"no flavour", "normal", "signal-safe", "fast", "fast-updown"};
    return names[flavour <= LW_SRCU_FAST_UPDOWN ? flavour : 0];
}

static const char *barrier_text(const struct lw__srcu_domain *d)
{
    if (__atomic_load_n(&d->error, __ATOMIC_RELAXED))
        return "grace periods cannot end: membarrier has been taken away since the domain was made";
    if (!d->reader_barriers)
        return "grace periods by membarrier(PRIVATE_EXPEDITED)";
    return d->why ? "readers have full barriers, because membarrier is not available" : "readers have full barriers";
}

int lw_srcu_describe(const struct lw_srcu *s, char *text, size_t size)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    size_t at = 0;
    if (!d) {
        say(text, size, &at, "not initialised");
        return (int)at;
    }
    unsigned long open[2];
    for (unsigned i = 0; i < 2; i++) {
        unsigned long unlocks = lw__srcu_sum(d, i, true);
        open[i] = lw__srcu_sum(d, i, false) - unlocks;
    }
    say(text, size, &at, "%s%sflavour %s; counts per %s; %s; %lu sections open, %lu callbacks queued",
        s->name ? s->name : "", s->name ? ": " : "", flavour_name(s->flavour), d->slot ? "thread" : "CPU", barrier_text(d),
        open[0] + open[1], __atomic_load_n(&d->queued, __ATOMIC_RELAXED));
    return (int)at;
}

/* Every record's and CPU's counts that leave something open or took part; for reports. */
size_t lw__srcu_counts(struct lw__srcu_domain *d, char *text, size_t size)
{
    size_t at = 0;
    for (struct lw__srcu_record *r = __atomic_load_n(&records, __ATOMIC_ACQUIRE); r && d->slot; r = r->next) {
        const struct lw__srcu_words *w = &r->slot[d->slot - 1];
        for (unsigned i = 0; i < 2; i++) {
            unsigned long locks = __atomic_load_n(&w->locks[i], __ATOMIC_RELAXED);
            unsigned long unlocks = __atomic_load_n(&w->unlocks[i], __ATOMIC_RELAXED);
            if (locks != unlocks)
                say(text, size, &at, "  thread %d%s, index %u: locks - unlocks = %ld\n",
                    __atomic_load_n(&r->tid, __ATOMIC_RELAXED),
                    __atomic_load_n(&r->in_use, __ATOMIC_RELAXED) ? "" : " (ended)", i, (long)(locks - unlocks));
        }
    }
    for (unsigned cpu = 0; cpu < lw_percpu_nr_cpus(); cpu++) {
        const struct lw__srcu_words *w = lw_per_cpu_ptr(d->cpu, cpu);
        const struct lw__srcu_words *second = (const void *)((const char *)w + LW_PERCPU_SECOND);
        for (unsigned i = 0; i < 2; i++) {
            unsigned long locks =
                __atomic_load_n(&w->locks[i], __ATOMIC_RELAXED) + __atomic_load_n(&second->locks[i], __ATOMIC_RELAXED);
            unsigned long unlocks =
                __atomic_load_n(&w->unlocks[i], __ATOMIC_RELAXED) + __atomic_load_n(&second->unlocks[i], __ATOMIC_RELAXED);
            if (locks || unlocks)
                say(text, size, &at, "  CPU %u, index %u: %lu locks, %lu unlocks\n", cpu, i, locks, unlocks);
        }
    }
    return at;
}

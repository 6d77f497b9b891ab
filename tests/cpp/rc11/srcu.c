/* SPDX-License-Identifier: MIT */
/* SRCU: programs' calls of its whole text, src/srcu, but for reports.
 *
 * Written by hand: per-CPU counts, which no scenario has; the worker's start, and that the explorer's own end stops none; that domains and records were made before, where a scenario does
 * not say that its threads do that; that a record's first words alone are folded at a thread's end, as the others are 0. */
#include "rc11.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define LW_SRCU_LIBRARY
#include <linewright/srcu.h>

static unsigned starts; /* of workers, which do not run */
static bool first_cannot; /* thread 0's starts fail */
static int starts_a_worker(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    (void)thread, (void)attributes, (void)run, (void)argument;
    if (first_cannot && rc11_me() == 0)
        return EAGAIN;
    __atomic_fetch_add(&starts, 1, __ATOMIC_RELAXED);
    return 0;
}
#define pthread_create starts_a_worker
static int stops_no_worker(void (*at_exit)(void)) { return (void)at_exit, 0; } /* none ever ran outside a scenario */
#define atexit stops_no_worker

/* A handler may fork, and would wait for a lock of its own thread's: a thread that ends blocks signals first. */
static __thread bool ending, blocked;
static long signals_or_number(long number, ...) {
    va_list more;
    va_start(more, number);
    if (number == SYS_rt_sigprocmask) {
        (void)va_arg(more, int);
        blocked = *va_arg(more, const uint64_t *) != 0;
        uint64_t *old = va_arg(more, uint64_t *);
        if (old)
            *old = 0;
    }
    va_end(more);
    return 1;
}
#include "src/common/futex.h"
static void lock_for_records(uint32_t *lock) {
    rc11_check(!ending || blocked, "a thread that ends takes its lock with signals blocked");
    lw_futex_lock(lock);
}
#undef syscall
#define syscall signals_or_number
#define lw_futex_lock lock_for_records
#include "src/srcu/records.c"
#undef syscall
#undef lw_futex_lock
#define syscall rc11_syscall
#include "src/srcu/worker.c"
#include "src/srcu/grace.h"

static struct lw_srcu_fast domain;
static struct lw_srcu_normal normal;
static int object[3]; /* plain; 1: freed */
static int *pointer = &object[0];
static uint32_t step;

#define S(d) ((struct lw_srcu *)&(d))
#define RIGHT(call) rc11_check((call) == 0, #call)

/* What waits gives up after a second look: what ends after more looks ends after fewer in another execution. */
static bool is_over(int error) {
    rc11_check(!error || error == -ETIMEDOUT, "a grace period's error");
    return !error;
}

/* ---- beginnings ---- */

static char *record[RC11_THREADS];

static void records_there(void) {
    for (unsigned i = 0; i < RC11_THREADS; i++) {
        rc11_check(lw__srcu_own_record() != NULL, "a record");
        record[i] = lw__srcu_self;
        lw__srcu_self = NULL;
    }
}

static void has_record(void) { lw__srcu_self = record[rc11_me()]; }

/* Callbacks run where the program waits for them. */
static void no_worker(void) { RIGHT(lw_srcu_worker_stop()); }

static void fast_domain(void) {
    RIGHT(lw__srcu_init(S(domain), LW__SRCU_FAST));
    records_there();
    no_worker();
}

static void no_records(void) { RIGHT(lw__srcu_init(S(domain), LW__SRCU_FAST)); }

static void normal_domain(void) {
    RIGHT(lw__srcu_init(S(normal), LW__SRCU_NORMAL));
    records_there();
    no_worker();
}

static void signals(uint32_t value) { __atomic_store_n(&step, value, __ATOMIC_RELEASE); }

/* ---- readers ---- */

static int *find(void) { return __atomic_load_n(&pointer, __ATOMIC_CONSUME); }
static void look(const int *o) { rc11_check(*(const volatile int *)o == 0, "an object that is not freed"); }

static void read_any(void) {
    const lw_srcu_index i = lw_srcu_read_lock_fast(&domain);
    look(find());
    lw_srcu_read_unlock_fast(&domain, i);
}

static void reader(void) {
    has_record();
    read_any();
}

static void reads_twice(void) {
    reader();
    read_any();
}

static void normal_reader(void) {
    has_record();
    const lw_srcu_index i = lw_srcu_read_lock(&normal);
    look(find());
    lw_srcu_read_unlock(&normal, i);
}

/* Its first critical section; then the thread ends. */
static void reader_ends(void) {
    read_any();
    self_end(self_record());
}

/* Its record was given back, or it never got one. */
static void reads_without_a_record(void) {
    self_over = 1;
    read_any();
}

static void ends(void) {
    has_record();
    ending = true;
    self_end(self_record());
}

static unsigned long entered(void) { return lw__srcu_sum(S(domain)->domain, 0, false); }
static struct lw__srcu_record *first_record(void) { return record_at(first_chunk(), 0); }

/* The record is another thread's then. */
static void ends_and_reads_on(void) {
    has_record();
    self_end(self_record());
    read_any();
    rc11_check(entered() == 2 && lw__srcu_words_of(first_record(), 1)->locks[0] == 0, "a count beside the record");
}

static void sums(void) { rc11_check(entered() == 1, "a sum that has every count once"); }

static void sums_beside_a_reader(void) {
    const unsigned long sum = entered();
    rc11_check(sum == 1 || sum == 2, "a sum that has every count once");
}

static void all_have_left(void) {
    for (unsigned i = 0; i < 2; i++)
        rc11_check(lw__srcu_sum(S(domain)->domain, i, false) == lw__srcu_sum(S(domain)->domain, i, true),
                   "as many left as entered");
}

static lw_srcu_index inside;

static void reader_inside(void) {
    fast_domain();
    lw__srcu_self = record[0];
    inside = lw_srcu_read_lock_fast(&domain);
    lw__srcu_self = NULL;
}

/* Thread 0's record is the first, and the only one. */
static void one_record(void) {
    RIGHT(lw__srcu_init(S(domain), LW__SRCU_FAST));
    read_any();
    record[0] = lw__srcu_self;
    lw__srcu_self = NULL;
}

static void last_reader(void) {
    has_record();
    const lw_srcu_index i = lw_srcu_read_lock_fast(&domain);
    signals(1);
    look(&object[0]);
    lw_srcu_read_unlock_fast(&domain, i);
}

/* ---- updaters ---- */

static void replace(int to) { __atomic_store_n(&pointer, &object[to], __ATOMIC_RELEASE); }

static void update(void) {
    replace(1);
    if (is_over(lw_srcu_synchronize(S(domain))))
        object[0] = 1;
}

/* A grace period without those that wait for it; false: a reader is inside. */
static bool period(struct lw_srcu *of) {
    const unsigned long cookie = lw__srcu_cookie(of->domain);
    RIGHT(lw__srcu_step(of->domain, cookie));
    return lw__srcu_reached(of->domain, cookie);
}

static void steps_once(void) {
    replace(1);
    if (period(S(domain)))
        object[0] = 1;
}

static void steps_twice(void) {
    replace(1);
    if (!period(S(domain)))
        return;
    object[0] = 1;
    replace(2);
    if (period(S(domain)))
        object[1] = 1;
}

/* As many as another thread's cookie can need. */
static void drive_twice(struct lw_srcu *of) {
    RIGHT(lw__srcu_step(of->domain, 2));
    RIGHT(lw__srcu_step(of->domain, 4));
}

static void drives(void) { drive_twice(S(domain)); }
static void drives_once(void) { RIGHT(lw__srcu_step(S(domain)->domain, 2)); }
static void drives_normal(void) { drive_twice(S(normal)); }

static void update_normal(void) {
    replace(1);
    if (is_over(lw_srcu_synchronize(S(normal))))
        object[0] = 1;
}

/* The driver's pause is over as soon as the reader asks for haste. */
static void leaves_and_hurries(void) {
    has_record();
    look(&object[0]);
    lw_srcu_read_unlock_fast(&domain, inside);
    (void)is_over(lw_srcu_synchronize_expedited(S(domain)));
}

static void waits_only(void) { (void)is_over(lw_srcu_synchronize(S(domain))); }

static void updates_in_time(void) {
    replace(1);
    if (is_over(lw_srcu_synchronize_timeout(S(domain), 1000000000)))
        object[0] = 1;
}

static void update_refused(void) {
    replace(1);
    const int error = lw_srcu_synchronize(S(domain));
    if (error != -EPERM && is_over(error))
        object[0] = 1;
}

/* Relies on the grace periods that another thread advances. */
static void polls(void) {
    replace(1);
    const unsigned long cookie = lw_srcu_get_state(S(domain));
    if (lw_srcu_poll(S(domain), cookie))
        object[0] = 1;
}

static void polls_normal(void) {
    replace(1);
    if (lw_srcu_poll(S(normal), lw_srcu_get_state(S(normal))))
        object[0] = 1;
}

static void leaves_and_drives(void) {
    has_record();
    look(&object[0]);
    lw_srcu_read_unlock_fast(&domain, inside);
    drives();
}

static void polls_the_first(void) {
    if (lw_srcu_poll(S(domain), 2))
        object[0] = 1;
}

/* ---- callbacks ---- */

static struct lw_srcu_head heads[3];
static unsigned called; /* plain */

static void frees(struct lw_srcu_head *head) {
    object[head - heads] = 1;
    called++;
}

static void calls(unsigned which) { RIGHT(lw_srcu_call(S(domain), &heads[which], frees)); }

static void calls_and_waits(void) {
    replace(1);
    calls(0);
    if (is_over(lw_srcu_barrier(S(domain))))
        rc11_check(called == 1, "a callback that was called");
}

static void calls_only(void) {
    replace(1);
    calls(0);
}

static void waits_for_callbacks(void) { (void)is_over(lw_srcu_barrier(S(domain))); }

/* Queued, and its grace period over. */
static void callback_ready(void) {
    uint64_t pause;
    fast_domain();
    calls(0);
    rc11_check(lw__srcu_advance(S(domain)->domain, 0, &pause) == 1, "a callback that is ready");
}

/* A grace period that a poll's cookie asked for; no callback waits for it. */
static void polled_for(void) {
    fast_domain();
    rc11_check(lw_srcu_start_poll(S(domain)) != 0, "a cookie");
}

static void waits_for_its_callback(void) {
    if (is_over(lw_srcu_barrier(S(domain))))
        rc11_check(called == 1, "a callback that was called");
}

static unsigned order[3];

static void notes(struct lw_srcu_head *head) { order[called++] = (unsigned)(head - heads); }

/* One is ready, one waits for a reader that is inside, and one is new. */
static void ends_with_callbacks(void) {
    uint64_t pause;
    has_record();
    RIGHT(lw_srcu_call(S(domain), &heads[0], notes));
    rc11_check(lw__srcu_advance(S(domain)->domain, 0, &pause) == 1, "one is ready");
    const lw_srcu_index i = lw_srcu_read_lock_fast(&domain);
    RIGHT(lw_srcu_call(S(domain), &heads[1], notes));
    (void)lw__srcu_advance(S(domain)->domain, 0, &pause);
    RIGHT(lw_srcu_call(S(domain), &heads[2], notes));
    lw_srcu_read_unlock_fast(&domain, i);
    RIGHT(lw_srcu_cleanup_idle(S(domain)));
    for (unsigned n = 0; n < 3; n++)
        rc11_check(called == 3 && order[n] == n, "callbacks in the order of the calls");
}

static void reads_and_calls(void) {
    has_record();
    const lw_srcu_index i = lw_srcu_read_lock_fast(&domain);
    int *o = find();
    calls_only();
    look(o);
    lw_srcu_read_unlock_fast(&domain, i);
}

/* The worker's part, with a grace period that another thread advances. */
static void calls_back_what_is_over(void) {
    uint64_t pause;
    struct lw__srcu_domain *d = S(domain)->domain;
    lw_futex_lock(&d->step_lock); /* takes no step itself */
    if (lw__srcu_advance(d, 0, &pause) == 1)
        object[0] = 1;
    lw_futex_unlock(&d->step_lock);
}

/* ---- the end of a domain ---- */

/* What it guarded, and what its callbacks wrote, is no other thread's. */
static void end_domain(void) {
    const int error = lw_srcu_cleanup(S(domain));
    rc11_check(!error || error == -EBUSY || error == -EAGAIN, "cleanup's error");
    if (error)
        return;
    object[0] = (int)++called;
    RIGHT(lw__srcu_init(S(domain), LW__SRCU_NORMAL)); /* in the same memory; a fast one's membarrier would order it, too */
}

/* No program ends a domain that a thread may still enter. */
static void ends_domain(void) {
    rc11_await(&step, 1, false);
    end_domain();
}

static void ends_domain_beside_a_waiter(void) {
    rc11_await(&S(domain)->domain->waiters, 1, false);
    end_domain();
}

static void serves(void) { (void)lw__srcu_serve_all(0); }

/* ---- the worker ---- */

static void idle_worker(void) {
    fast_domain();
    forbidden = false;
    worker.current = 1;
    alive = 1;
}

static void works(void) { work((void *)1); }

/* A worker that was started does what is left. */
static void all_done(void) { rc11_check(called == 1 || starts == 1, "a callback that a worker calls"); }

static void calls_a_worker(void) { calls(0); }

/* Callers that find no worker, of which the first cannot start one. */
static void no_worker_yet(void) {
    fast_domain();
    forbidden = false;
    first_cannot = true;
}

static void calls_or_is_refused(void) {
    const int error = lw_srcu_call(S(domain), &heads[1], frees);
    rc11_check(!error || error == -EAGAIN, "call's error");
}

static void a_worker_starts(void) { rc11_check(starts == 1, "a worker for a callback that was taken"); }

static void busy_worker(void) {
    callback_ready();
    forbidden = false;
    worker.current = 1;
    alive = 1;
}

/* Who waits leaves the callback to the worker. */
static void callback_ready_for_a_worker(void) {
    callback_ready();
    worker.current = 1;
}

static void stops_the_worker(void) {
    RIGHT(lw_srcu_worker_stop());
    called++;
}

static void listed_for_nothing(void) {
    fast_domain();
    lw__srcu_has_work(S(domain)->domain);
}

/* Its grace period takes rounds. */
static void served_in_the_end(void) {
    for (unsigned i = 0; i < 3; i++)
        serves();
    rc11_check(called == 1, "a callback whose domain is listed");
}

/* ---- domains of a further group ---- */

/* No domain was made, and no thread has a record. */
static void no_group(void) {}

static void opens_a_group(void) {
    rc11_check(lw__srcu_take_slot(0) == 1, "a slot");
    signals(1);
}

static void takes_a_record(void) {
    const struct lw__srcu_record *r = lw__srcu_own_record();
    rc11_check(r != NULL, "a record");
}

static void all_accessible(void) {
    for (struct chunk *c = first_chunk(); c; c = c->next)
        rc11_check(c->accessible >= groups, "every chunk has the words of every domain");
}

struct rc11_scenario rc11_scenarios[] = {
    {.name = "fast: reader, updater", .run = {reader, update}, .begin = fast_domain},
    {.name = "normal: reader, updater", .run = {normal_reader, update_normal}, .begin = normal_domain},
    {.name = "fast: reads twice, two grace periods", .run = {reads_twice, steps_twice}, .begin = fast_domain, .slow = true},
    {.name = "fast: two readers, a grace period", .run = {reader, reader, steps_once}, .begin = fast_domain, .slow = true},
    {.name = "fast: reader, poll, another's grace periods",
     .run = {reader, polls, drives},
     .begin = fast_domain,
     .slow = true},
    {.name = "normal: reader, poll, another's grace periods",
     .run = {normal_reader, polls_normal, drives_normal},
     .begin = normal_domain,
     .slow = true},
    {.name = "fast: reader that leaves and advances the grace period, poll",
     .run = {leaves_and_drives, polls_the_first},
     .begin = reader_inside},
    {.name = "fast: updater, another waiter", .run = {update, waits_only}, .begin = fast_domain, .slow = true},
    {.name = "fast: reader that leaves and waits expedited, updater",
     .run = {leaves_and_hurries, update},
     .begin = reader_inside,
     .slow = true,
     .patient = true},
    {.name = "fast: reader, updater with a limit",
     .run = {reader, updates_in_time},
     .begin = fast_domain,
     .slow = true,
     .time = true},
    {.name = "fast: reader, updater that is refused membarrier",
     .run = {reader, update_refused},
     .begin = fast_domain,
     .refused = 2},
    {.name = "callback: reader, caller that waits", .run = {reader, calls_and_waits}, .begin = fast_domain, .slow = true},
    {.name = "callback: reader that calls, another's barrier",
     .run = {reads_and_calls, waits_for_callbacks},
     .begin = fast_domain,
     .slow = true},
    {.name = "callback: reader that calls, another's grace period",
     .run = {reads_and_calls, calls_back_what_is_over, drives_once},
     .begin = fast_domain,
     .slow = true},
    {.name = "callback: called by one of two that wait",
     .run = {waits_for_its_callback, waits_for_callbacks},
     .begin = callback_ready,
     .slow = true,
     .patient = true},
    {.name = "callback: called by a worker, caller that waits",
     .run = {waits_for_its_callback, serves},
     .begin = callback_ready_for_a_worker,
     .patient = true},
    {.name = "callbacks: in their order", .run = {ends_with_callbacks}, .begin = fast_domain},
    {.name = "records: reader without a record, updater", .run = {reads_without_a_record, steps_once}, .begin = fast_domain},
    {.name = "records: reads on after its end", .run = {ends_and_reads_on}, .begin = one_record},
    {.name = "records: a thread ends, a sum", .run = {ends, sums}, .begin = one_record},
    {.name = "records: a thread ends, its successor, a sum",
     .run = {ends, read_any, sums_beside_a_reader},
     .begin = one_record,
     .slow = true},
    {.name = "records: reader ends, its successor",
     .run = {reader_ends, reader_ends},
     .begin = no_records,
     .end = all_have_left},
    {.name = "records: a further group, a thread's first record",
     .run = {opens_a_group, takes_a_record},
     .begin = no_group,
     .end = all_accessible},
    {.name = "cleanup: last reader", .run = {last_reader, ends_domain}, .begin = fast_domain},
    {.name = "cleanup: last callback", .run = {serves, end_domain}, .begin = callback_ready},
    {.name = "cleanup: a step that a poll asked for", .run = {serves, end_domain}, .begin = polled_for},
    {.name = "cleanup: waiter", .run = {waits_only, ends_domain_beside_a_waiter}, .begin = fast_domain, .slow = true},
    {.name = "cleanup: thread that waits for callbacks",
     .run = {waits_for_callbacks, ends_domain_beside_a_waiter},
     .begin = fast_domain,
     .slow = true},
    {.name = "queue: served for nothing, and called",
     .run = {serves, calls_a_worker},
     .begin = listed_for_nothing,
     .end = served_in_the_end},
    {.name = "worker: ends idle, caller",
     .run = {works, calls_a_worker},
     .begin = idle_worker,
     .end = all_done,
     .slow = true,
     .time = true},
    {.name = "worker: two callers, of which one cannot start it",
     .run = {calls_or_is_refused, calls_a_worker},
     .begin = no_worker_yet,
     .end = a_worker_starts},
    {.name = "worker: calls back, is stopped",
     .run = {works, stops_the_worker},
     .begin = busy_worker,
     .slow = true,
     .patient = true},
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;

/* ---- what no scenario has, for the reasons that shim.h names ---- */

void lw__check_interface(unsigned interface) { (void)interface; }
void lw__percpu_pin(const void *here) { (void)here; }
void *lw_percpu_alloc(size_t size, size_t alignment) { return (void)size, (void)alignment, NULL; }
int lw_percpu_free(void *p) { return (void)p, 0; }
uint64_t lw_percpu_sum_u64(const uint64_t *p) { return *p; }
uint32_t lw_percpu_sum_u32(const uint32_t *p) { return *p; }
void lw__percpu_add_slow_u64(uint64_t *p, uint64_t v) { *p += v; }
void lw__percpu_add_slow_u32(uint32_t *p, uint32_t v) { *p += v; }
void lw__srcu_debug_waiting(struct lw_srcu *s, const char *where) { (void)s, (void)where; }
void lw__srcu_debug_returned(const struct lw_srcu_head *head) { (void)head; }
void lw__srcu_debug_forget(const struct lw_srcu *s) { (void)s; }
void lw__srcu_debug_before_fork(void) {}
void lw__srcu_debug_after_fork(void) {}
int lw_srcu_describe(const struct lw_srcu *s, char *text, size_t size) { return (void)s, (void)text, (void)size, 0; }
void lw__srcu_stall_text(struct lw__srcu_domain *d, uint64_t age_ms, char *text, size_t size) {
    (void)d, (void)age_ms, (void)size, *text = 0;
}

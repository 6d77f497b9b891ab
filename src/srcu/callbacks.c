/* Callbacks after a grace period: one thread, started when first needed, serves all domains and all requests for polling. */
#define _GNU_SOURCE
#include "callbacks.h"

#include "debug.h"
#include "grace.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

static uint32_t started; /* the worker exists; under start_lock */
static uint32_t start_lock;
static uint32_t wake_word; /* futex: changes when there is something to do */
static struct lw_srcu_head
    *ready; /* the rest of the batch being run, under the registry, so that a child of fork() has it */
static struct lw__srcu_domain *ready_of;
static __thread bool in_callback __attribute__((tls_model("initial-exec")));

/* ---- the worker ---- */

static struct lw_srcu_head *reversed(struct lw_srcu_head *list)
{
    struct lw_srcu_head *out = NULL;
    while (list) {
        struct lw_srcu_head *next = list->next;
        list->next = out;
        out = list;
        list = next;
    }
    return out;
}

static void at_barrier(struct lw_srcu_head *head);

static struct lw_srcu_head *next_ready(void)
{
    lw_futex_lock(&lw__srcu_registry);
    struct lw_srcu_head *head = ready;
    if (head)
        ready = head->next; /* before fn, which may free it */
    lw_futex_unlock(&lw__srcu_registry);
    return head;
}

/* No lock is held while a callback runs: fork() would wait for the lock, and the callback may wait for what the forking thread
 * holds. A domain stays alive while it has callbacks queued. An entry of lw_srcu_barrier() is not counted as queued: its caller
 * keeps the domain alive. */
static void run_ready(void)
{
    struct lw_srcu_head *head;
    while ((head = next_ready())) {
        bool counted = head->fn != at_barrier;
        LW__SRCU_POINT(LW__SRCU_AT_CALLBACK);
        in_callback = true;
        head->fn(head);
        in_callback = false;
        if (counted)
            __atomic_fetch_sub(&ready_of->queued, 1, __ATOMIC_RELEASE); /* pairs with unlink_domain() */
    }
}

/* Advances one domain. Under the registry. True: callbacks of it are ready to run. Sets *pause_ns to how long to wait before the
 * next call; 0: nothing to do. */
static bool serve(struct lw__srcu_domain *d, unsigned *scans, uint64_t *pause_ns)
{
    *pause_ns = 0;
    if (!d->waiting) {
        d->waiting = reversed(__atomic_exchange_n(&d->incoming, NULL, __ATOMIC_ACQUIRE)); /* pairs with the push */
        if (d->waiting)
            d->waiting_cookie = lw__srcu_cookie(d);
    }
    unsigned long requested = __atomic_load_n(&d->requested, __ATOMIC_ACQUIRE); /* pairs with lw__srcu_request() */
    /* A request that was reached is cleared, before seq overflows and makes it look like a future one. Acquire: as the load. */
    if (requested && lw__srcu_reached(d, requested) &&
        __atomic_compare_exchange_n(&d->requested, &requested, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        requested = 0;
    unsigned long needed =
        d->waiting && (!requested || d->waiting_cookie - requested <= ULONG_MAX / 2) ? d->waiting_cookie : requested;
    bool more = needed && !lw__srcu_reached(d, needed);
    if (more && lw_futex_trylock(&d->step_lock)) {
        (void)lw__srcu_step(d, needed); /* an error stays with the domain, and the next round tries again */
        *pause_ns = lw__srcu_pause_ns(d, *scans);
        lw_futex_unlock(&d->step_lock);
        more = !lw__srcu_reached(d, needed);
    }
    if (d->waiting && lw__srcu_reached(d, d->waiting_cookie)) {
        ready = d->waiting;
        ready_of = d;
        d->waiting = NULL;
        return true;
    }
    if (more && *pause_ns < 5000)
        *pause_ns = 5000;
    return false;
}

/* One round over all domains. Returns the nanoseconds until the next (LW_FUTEX_FOREVER: until the wake-up word changes). */
static uint64_t serve_all(unsigned *scans)
{
    uint64_t soonest = LW_FUTEX_FOREVER;
    lw_futex_lock(&lw__srcu_registry);
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        uint64_t pause;
        if (serve(d, scans, &pause)) { /* callbacks may make and end domains, so the walk begins anew */
            lw_futex_unlock(&lw__srcu_registry);
            run_ready();
            *scans = 0;
            return 0;
        }
        if (pause && pause < soonest)
            soonest = pause;
    }
    lw_futex_unlock(&lw__srcu_registry);
    return soonest;
}

static void *work(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "lw-srcu");
    run_ready(); /* in a child of fork(): the rest of the batch that its parent's worker was running */
    for (unsigned scans = 0;; scans++) {
        uint32_t seen = __atomic_load_n(&wake_word, __ATOMIC_ACQUIRE); /* pairs with wake_worker() */
        uint64_t pause = serve_all(&scans);
        if (pause == LW_FUTEX_FOREVER)
            scans = 0;
        if (pause)
            lw_futex_wait(&wake_word, seen, pause);
    }
    return NULL;
}

/* The worker blocks all signals, so that the program's handlers run on the program's threads. */
static int start_worker(void)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_t thread;
    sigfillset(&all);
    int err = pthread_attr_init(&attributes);
    if (err)
        return -err;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&thread, &attributes, work, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    return -err;
}

static int ensure_worker(void)
{
    if (__atomic_load_n(&started, __ATOMIC_RELAXED))
        return 0;
    int err = 0;
    lw_futex_lock(&start_lock);
    if (!started) {
        err = start_worker();
        if (!err)
            __atomic_store_n(&started, 1, __ATOMIC_RELAXED); /* only says that one exists; the wake-up word orders */
    }
    lw_futex_unlock(&start_lock);
    return err;
}

static int wake_worker(void)
{
    int err = ensure_worker();
    __atomic_fetch_add(&wake_word, 1, __ATOMIC_RELEASE); /* pairs with work() */
    lw_futex_wake_all(&wake_word);
    return err;
}

int lw__srcu_request(struct lw__srcu_domain *d, unsigned long cookie)
{
    unsigned long requested = __atomic_load_n(&d->requested, __ATOMIC_RELAXED);
    /* Release: pairs with the worker's acquire. Concurrent callers only ever raise it. 0 means no request, whatever seq is. */
    while ((!requested || requested - cookie > ULONG_MAX / 2) &&
           !__atomic_compare_exchange_n(&d->requested, &requested, cookie, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return wake_worker();
}

/* ---- queueing ---- */

static bool push(struct lw__srcu_domain *d, struct lw_srcu_head *head)
{
    struct lw_srcu_head *newest = __atomic_load_n(&d->incoming, __ATOMIC_RELAXED);
    do
        head->next = newest; /* release: pairs with the acquire in serve() */
    while (!__atomic_compare_exchange_n(&d->incoming, &newest, head, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return !newest;
}

int lw_srcu_call(struct lw_srcu *s, struct lw_srcu_head *head, void (*fn)(struct lw_srcu_head *))
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d || !head || !fn)
        return -EINVAL;
    int err = ensure_worker();
    if (err)
        return err;
    head->fn = fn;
    __atomic_fetch_add(&d->queued, 1, __ATOMIC_RELAXED); /* before the push: never less than what is queued */
    if (push(d, head)) /* the first of a batch; the worker takes all that came by then */
        (void)wake_worker();
    return 0;
}

enum { WAITED_FOR, DONE, ABANDONED }; /* who uses the entry: both, neither, only the worker */

struct barrier {
    struct lw_srcu_head head; /* first: at_barrier() casts */
    uint32_t state;
};

/* Acquire and release: what the callbacks did comes before lw_srcu_barrier() returns. The last to leave frees. */
static void at_barrier(struct lw_srcu_head *head)
{
    struct barrier *b = (struct barrier *)head;
    if (__atomic_exchange_n(&b->state, DONE, __ATOMIC_ACQ_REL) == ABANDONED)
        free(b);
    else
        lw_futex_wake_all(&b->state); /* the address may be stale: at worst a spurious wake-up */
}

/* 0, or the error of a domain whose grace periods cannot end. */
static int wait_for_barrier(struct lw__srcu_domain *d, struct barrier *b)
{
    while (__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) != DONE) { /* pairs with at_barrier() */
        int err = __atomic_load_n(&d->error, __ATOMIC_RELAXED);
        uint32_t waited_for = WAITED_FOR;
        if (err && __atomic_compare_exchange_n(&b->state, &waited_for, ABANDONED, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return -err;
        lw_futex_wait(&b->state, WAITED_FOR, 50000000); /* not for ever: an error wakes no thread */
    }
    free(b);
    return 0;
}

int lw_srcu_barrier(struct lw_srcu *s)
{
    struct lw__srcu_domain *d = lw__srcu_domain_of(s);
    if (!d)
        return -EINVAL;
    if (in_callback)
        return -EDEADLK;
    lw__srcu_debug_waiting(s, __func__);
    int err = ensure_worker();
    if (err)
        return err;
    struct barrier *b = calloc(1, sizeof *b);
    if (!b)
        return -ENOMEM;
    int saved = errno;
    b->head.fn = at_barrier;
    __atomic_store_n(&d->error, 0, __ATOMIC_RELAXED); /* left by an earlier step; the worker's next step sets it again */
    push(d, &b->head);
    (void)wake_worker();
    err = wait_for_barrier(d, b);
    errno = saved;
    return err;
}

/* ---- fork ---- */

void lw__srcu_callbacks_before_fork(void)
{
    lw_futex_lock(&start_lock);
}

static unsigned long counted_in(const struct lw_srcu_head *list)
{
    unsigned long n = 0;
    for (; list; list = list->next)
        n += list->fn != at_barrier;
    return n;
}

/* The child's worker is started when something is queued, polled for or waited for there, and runs what it inherited. What is
 * queued is counted anew: a thread that is not in the child may have been between counting and queueing, or in a callback.
 * Where a callback forks, the child's one thread is the worker. */
void lw__srcu_callbacks_after_fork(bool child)
{
    if (!child) {
        lw_futex_unlock(&start_lock);
        return;
    }
    start_lock = 0;
    started = in_callback;
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        d->queued = counted_in(d->incoming) + counted_in(d->waiting);
        if (d == ready_of)
            d->queued += counted_in(ready) + in_callback;
    }
}

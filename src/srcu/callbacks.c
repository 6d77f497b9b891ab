/* Deferred callbacks: one thread, started with the first, serves all domains and what is polled for. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

static uint32_t started; /* under start_lock */
static uint32_t start_lock;
static uint32_t bell; /* futex: rung when there is something to do */
static struct lw_srcu_head *ready; /* what the worker runs now, under the registry: a child of fork() has the rest of it */
static struct lw__srcu_domain *ready_of;
static __thread bool in_callback __attribute__((tls_model("initial-exec")));

bool lw__srcu_in_callback(void)
{
    return in_callback;
}

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
    lw__srcu_registry_lock();
    struct lw_srcu_head *head = ready;
    if (head)
        ready = head->next; /* before fn, which may free it */
    lw__srcu_registry_unlock();
    return head;
}

/* No lock is held over a callback: fork() would wait for it, and it for what the forking thread holds.
 * The domain lives as long as it has callbacks queued; an lw_srcu_barrier() of its own is in a call, and is not counted. */
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

/* Moves one domain on. Under the registry. True: callbacks of it are ready to run. Sets *look_again_ns (0: nothing to do). */
static bool serve(struct lw__srcu_domain *d, unsigned *looks, uint64_t *look_again_ns)
{
    *look_again_ns = 0;
    if (!d->waiting) {
        d->waiting = reversed(__atomic_exchange_n(&d->incoming, NULL, __ATOMIC_ACQUIRE)); /* pairs with the push */
        if (d->waiting)
            d->waiting_state = lw_srcu_get_state(d->srcu);
    }
    unsigned long wanted = __atomic_load_n(&d->wanted, __ATOMIC_ACQUIRE); /* pairs with lw_srcu_start_poll() */
    /* What was reached is forgotten, before the number comes round and it looks like one to come. Acquire: as the load. */
    if (wanted && lw__srcu_reached(d, wanted) &&
        __atomic_compare_exchange_n(&d->wanted, &wanted, 0, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
        wanted = 0;
    unsigned long wish = d->waiting && (!wanted || d->waiting_state - wanted <= ULONG_MAX / 2) ? d->waiting_state : wanted;
    bool more = wish && !lw__srcu_reached(d, wish);
    if (more && lw__srcu_trylock_word(&d->step_lock)) {
        (void)lw__srcu_step(d, wish); /* an error stays with the domain; looked at again later */
        *look_again_ns = lw__srcu_pause_ns(d, *looks);
        lw__srcu_unlock_word(&d->step_lock);
        more = !lw__srcu_reached(d, wish);
    }
    if (d->waiting && lw__srcu_reached(d, d->waiting_state)) {
        ready = d->waiting;
        ready_of = d;
        d->waiting = NULL;
        return true;
    }
    if (more && *look_again_ns < 5000)
        *look_again_ns = 5000;
    return false;
}

/* One round over all domains. Returns how long until the next (FUTEX_FOREVER: until the bell). */
static uint64_t serve_all(unsigned *looks)
{
    uint64_t soonest = FUTEX_FOREVER;
    lw__srcu_registry_lock();
    for (struct lw__srcu_domain *d = lw__srcu_domains; d; d = d->next) {
        uint64_t pause;
        if (serve(d, looks, &pause)) { /* callbacks may make and end domains: the list is looked at anew after them */
            lw__srcu_registry_unlock();
            run_ready();
            *looks = 0;
            return 0;
        }
        if (pause && pause < soonest)
            soonest = pause;
    }
    lw__srcu_registry_unlock();
    return soonest;
}

static void *work(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "lw-srcu");
    run_ready(); /* in a child of fork(): what its parent's worker had not come to */
    for (unsigned looks = 0;; looks++) {
        uint32_t rung = __atomic_load_n(&bell, __ATOMIC_ACQUIRE); /* pairs with lw__srcu_worker_wake() */
        uint64_t pause = serve_all(&looks);
        if (pause == FUTEX_FOREVER)
            looks = 0;
        if (pause)
            lw__srcu_sleep(&bell, rung, pause);
    }
    return NULL;
}

/* Signals are the program's business, so none is handled here. */
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
    lw__srcu_lock_word(&start_lock);
    if (!started) {
        err = start_worker();
        if (!err)
            __atomic_store_n(&started, 1, __ATOMIC_RELAXED); /* only says that one exists; the bell orders */
    }
    lw__srcu_unlock_word(&start_lock);
    return err;
}

int lw__srcu_worker_wake(void)
{
    int err = ensure_worker();
    __atomic_fetch_add(&bell, 1, __ATOMIC_RELEASE); /* pairs with work() */
    lw__srcu_wake_all(&bell);
    return err;
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
        (void)lw__srcu_worker_wake();
    return 0;
}

enum { WAITED_FOR, DONE, ABANDONED };

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
        lw__srcu_wake_all(&b->state); /* of a stale address perhaps: at worst a spurious wake-up */
}

/* 0, or the error of a domain whose grace periods cannot end. */
static int wait_for_barrier(struct lw__srcu_domain *d, struct barrier *b)
{
    while (__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) != DONE) { /* pairs with at_barrier() */
        int err = __atomic_load_n(&d->error, __ATOMIC_RELAXED);
        uint32_t waited_for = WAITED_FOR;
        if (err && __atomic_compare_exchange_n(&b->state, &waited_for, ABANDONED, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return -err;
        lw__srcu_sleep(&b->state, WAITED_FOR, 50000000); /* not for ever: an error rings no bell */
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
    __atomic_store_n(&d->error, 0, __ATOMIC_RELAXED); /* of an earlier look; the worker's next one sets it anew */
    push(d, &b->head);
    (void)lw__srcu_worker_wake();
    err = wait_for_barrier(d, b);
    errno = saved;
    return err;
}

/* ---- fork ---- */

void lw__srcu_before_fork(void)
{
    lw__srcu_lock_word(&start_lock);
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
void lw__srcu_after_fork(bool child)
{
    if (!child) {
        lw__srcu_unlock_word(&start_lock);
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

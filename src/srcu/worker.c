/* SPDX-License-Identifier: MIT */
/* The worker: a thread that advances the domains' callbacks and poll requests. It starts when first needed and ends after a
 * second with nothing to do, so that it keeps no process alive.
 *
 * It runs with the CPU affinity, scheduling policy and nice value that the process had when the library was loaded, not with
 * those of the thread that happened to need it first. A system-call filter cannot be left behind that way: a worker that
 * inherited one which denies membarrier, or that could not take on the scheduling policy, is replaced as soon as a thread
 * without that obstacle needs a worker. */
#define _GNU_SOURCE
#include "worker.h"

#include "membarrier.h"
#include "queue.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define IDLE_NS UINT64_C(1000000000) /* then the worker ends */
#define MASK_BYTES 8192 /* 65,536 CPUs */

/* Guards what follows, but for single loads. fork() takes it, so its holder calls nothing that may allocate or wait: an
 * allocator's own handler may have stopped all allocation by then. */
static uint32_t lock;
static struct lw__srcu_worker worker;
static uint32_t wanted; /* futex: number of the worker that a thread is starting just now; 0: none */
static uint32_t alive; /* futex: workers that have not ended */
static bool forbidden; /* lw_srcu_worker_stop() */
static bool kept; /* lw_srcu_worker_start(): does not end when idle */
static bool hindered; /* the worker cannot do its work: see able() */

static __thread bool on_worker __attribute__((tls_model("initial-exec"))); /* this thread is a worker */

static struct {
    int policy;
    int nice;
    size_t mask_bytes; /* 0: unknown */
    char mask[MASK_BYTES];
} attributes; /* as at load time; mask: or as lw_srcu_worker_affinity() says */

void lw__srcu_worker_at_load(void)
{
    int saved = errno;
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof attributes.mask, attributes.mask);
    attributes.mask_bytes = bytes > 0 ? (size_t)bytes : 0;
    attributes.policy = sched_getscheduler(0);
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    errno = saved;
}

/* Refusals are harmless: the worker then keeps what it inherited. */
static void take_attributes(void)
{
    const struct sched_param none = {0};
    if (sched_getscheduler(0) != attributes.policy && attributes.policy != SCHED_FIFO && attributes.policy != SCHED_RR)
        (void)sched_setscheduler(0, attributes.policy, &none);
    if (getpriority(PRIO_PROCESS, 0) != attributes.nice)
        (void)setpriority(PRIO_PROCESS, 0, attributes.nice);
    lw_futex_lock(&lock);
    if (attributes.mask_bytes)
        syscall(SYS_sched_setaffinity, 0, attributes.mask_bytes, attributes.mask);
    lw_futex_unlock(&lock);
}

/* True: the calling thread could be, or start, a worker that ends grace periods in good time. */
static bool able(void)
{
    return (!lw__srcu_registered() || lw__srcu_have_membarrier()) &&
           (sched_getscheduler(0) != SCHED_IDLE || attributes.policy == SCHED_IDLE);
}

/* ---- the thread ---- */

/* Ends the worker unless there is something to do since `seen` was read. */
static bool end_if_idle(uint32_t me, uint32_t seen)
{
    lw_futex_lock(&lock);
    bool end = worker.current == me && !kept && wake_end_worker(&worker, me, seen);
    lw_futex_unlock(&lock);
    return end;
}

/* Under `lock`. Ends the start of worker `number`: it takes over, or could not be started. For the worker and the thread
 * that starts it: the first to come does it. */
static void started(uint32_t number, bool takes_over)
{
    if (wanted != number)
        return; /* the other one, or lw_srcu_worker_stop(), came first */
    if (takes_over)
        __atomic_store_n(&worker.current, number, __ATOMIC_RELAXED); /* who sees 0 takes `lock` to start one */
    __atomic_store_n(&wanted, 0, __ATOMIC_RELAXED); /* read under `lock` */
    lw_futex_wake_all(&wanted);
}

static void *work(void *number)
{
    uint32_t me = (uint32_t)(uintptr_t)number;
    prctl(PR_SET_NAME, "lw-srcu");
    on_worker = true;
    take_attributes();
    __atomic_store_n(&hindered, !able(), __ATOMIC_RELAXED); /* a hint */
    lw_futex_lock(&lock);
    started(me, true);
    lw_futex_unlock(&lock);
    unsigned scans = 0;
    for (;;) {
        /* Acquire, before `current`: who stores that, or lists a domain, changes the number then, so that this thread sees it, or does not
         * sleep. Pairs with lw__srcu_worker_wake() and lw_srcu_worker_stop(). */
        uint32_t seen = __atomic_load_n(&worker.work.number, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&worker.current, __ATOMIC_RELAXED) != me)
            break;
        uint64_t pause = lw__srcu_serve_all(scans);
        scans = pause && pause != LW_FUTEX_FOREVER ? scans + 1 : 0;
        if (pause == LW_FUTEX_FOREVER) {
            errno = 0;
            wake_sleep(&worker.work, seen, IDLE_NS);
            if (errno == ETIMEDOUT && end_if_idle(me, seen))
                break;
        } else if (pause) {
            wake_sleep(&worker.work, seen, pause);
        }
    }
    __atomic_fetch_sub(&alive, 1, __ATOMIC_RELEASE); /* pairs with lw_srcu_worker_stop() */
    lw_futex_wake_all(&alive);
    return NULL;
}

/* Under `lock`. The number of a worker that the caller has to start by start_worker(), after unlocking. */
static uint32_t want_worker(void)
{
    static uint32_t number;
    number = number + 1 ? number + 1 : 1;
    __atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
    return wanted = number;
}

static bool goes_on_at_exit; /* lw_srcu_worker_at_exit() */

static void at_exit(void)
{
    if (!__atomic_load_n(&goes_on_at_exit, __ATOMIC_RELAXED))
        (void)lw_srcu_worker_stop();
}

/* Before the first worker, so that exit() stops it before it destroys what was constructed before that. */
static void register_at_exit(void)
{
    static bool registered;
    if (!__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED) && atexit(at_exit))
        __atomic_store_n(&registered, false, __ATOMIC_RELAXED); /* no memory: the next start tries again */
}

/* Without `lock`: starting a thread allocates. The worker blocks all signals, so that the program's handlers run on the
 * program's threads. */
static int start_worker(uint32_t number)
{
    sigset_t all, old;
    pthread_attr_t detached;
    pthread_t thread;
    register_at_exit();
    sigfillset(&all);
    int err = pthread_attr_init(&detached);
    if (!err) {
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        err = pthread_create(&thread, &detached, work, (void *)(uintptr_t)number);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&detached);
    }
    lw_futex_lock(&lock);
    started(number, !err); /* the worker may not have come to saying so */
    lw_futex_unlock(&lock);
    if (err) {
        __atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED); /* no worker did anything that lw_srcu_worker_stop() waits for */
        lw_futex_wake_all(&alive);
    }
    return -err;
}

/* Starts a worker where none is, or, `anew`, in the place of the present one. Where another thread starts the first one, waits for that: a start may
 * fail, and who comes meanwhile would have none. Takes and gives up `lock`, as often as it waits. */
static int start_if_missing(bool anew)
{
    for (uint32_t another; !worker.current && !forbidden && (another = wanted);) {
        lw_futex_unlock(&lock);
        lw_futex_wait(&wanted, another, LW_FUTEX_FOREVER);
        lw_futex_lock(&lock);
    }
    uint32_t number = (!worker.current || anew) && !wanted && !forbidden ? want_worker() : 0;
    lw_futex_unlock(&lock);
    return number ? start_worker(number) : 0;
}

int lw__srcu_worker_ensure(void)
{
    bool replace = __atomic_load_n(&hindered, __ATOMIC_RELAXED);
    if (__atomic_load_n(&worker.current, __ATOMIC_SEQ_CST) && !(replace && able())) /* pairs with end_if_idle() */
        return 0;
    int saved = errno;
    lw_futex_lock(&lock);
    replace = replace && __atomic_load_n(&hindered, __ATOMIC_RELAXED);
    if (replace)
        __atomic_store_n(&hindered, false, __ATOMIC_RELAXED);
    int err = start_if_missing(replace);
    errno = saved;
    return err;
}

/* The number changes before `current` is read, in lw__srcu_worker_ensure(): pairs with wake_end_worker(). */
int lw__srcu_worker_wake(void)
{
    int saved = errno;
    wake_sleepers(&worker.work);
    int err = lw__srcu_worker_ensure();
    errno = saved;
    return err;
}

bool lw__srcu_worker_exists(void)
{
    return __atomic_load_n(&worker.current, __ATOMIC_RELAXED);
}

/* ---- the program's say ---- */

int lw_srcu_worker_start(void)
{
    int saved = errno;
    lw_futex_lock(&lock);
    forbidden = false;
    kept = true;
    int err = start_if_missing(false);
    if (err) {
        lw_futex_lock(&lock);
        kept = false;
        lw_futex_unlock(&lock);
    }
    errno = saved;
    return err;
}

int lw_srcu_worker_stop(void)
{
    if (lw__srcu_in_callback())
        return -EDEADLK;
    int saved = errno;
    lw_futex_lock(&lock);
    forbidden = true;
    kept = false;
    __atomic_store_n(&hindered, false, __ATOMIC_RELAXED);
    __atomic_store_n(&worker.current, 0, __ATOMIC_RELAXED); /* before the number changes: pairs with work() */
    started(wanted, false);
    lw_futex_unlock(&lock);
    wake_sleepers(&worker.work);
    for (uint32_t left; (left = __atomic_load_n(&alive, __ATOMIC_ACQUIRE));) /* pairs with the end of work() */
        lw_futex_wait(&alive, left, LW_FUTEX_FOREVER);
    errno = saved;
    return 0;
}

void lw_srcu_worker_at_exit(bool stop)
{
    __atomic_store_n(&goes_on_at_exit, !stop, __ATOMIC_RELAXED); /* read by the thread that calls exit() */
}

int lw_srcu_worker_affinity(size_t bytes, const void *mask)
{
    if (!bytes || bytes > MASK_BYTES || !mask)
        return -EINVAL;
    lw_futex_lock(&lock);
    memset(attributes.mask, 0, sizeof attributes.mask);
    memcpy(attributes.mask, mask, bytes);
    attributes.mask_bytes = bytes;
    int err = 0;
    if (worker.current && !lw__srcu_in_callback())
        err = start_if_missing(true); /* the one before ends after its round */
    else
        lw_futex_unlock(&lock);
    wake_sleepers(&worker.work);
    return err;
}

/* ---- fork ---- */

void lw__srcu_worker_before_fork(void)
{
    lw_futex_lock(&lock);
}

/* The child's worker is started when something is queued, requested or waited for there. Where a callback forks on the
 * worker, the child's one thread is the worker. */
void lw__srcu_worker_after_fork(bool child)
{
    if (child) {
        alive = on_worker;
        wanted = 0; /* the thread that was starting one is not here */
        worker.work.sleepers = 0;
        if (!alive)
            worker.current = 0;
        hindered = false;
    }
    lw_futex_unlock(&lock);
}

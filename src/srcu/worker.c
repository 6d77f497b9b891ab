/* The worker: a thread that advances the domains' callbacks and poll requests. It starts when first needed and ends after a second
 * with nothing to do, so that it keeps no process alive.
 *
 * It runs with the CPU affinity, scheduling policy and nice value that the process had when the library was loaded, not with those
 * of the thread that happened to need it first. A system-call filter cannot be left behind that way: a worker that inherited
 * one which denies membarrier, or that could not take on the scheduling policy, is replaced as soon as a thread without that
 * obstacle needs a worker. */
#define _GNU_SOURCE
#include "worker.h"

#include "membarrier.h"
#include "queue.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define IDLE_NS UINT64_C(1000000000) /* then the worker ends */
#define MASK_BYTES 8192 /* 65,536 CPUs */

static uint32_t lock; /* guards what follows, but for single loads */
static uint32_t current; /* number of the worker that is to work; 0: none */
static uint32_t alive; /* futex: workers that have not ended */
static bool forbidden; /* lw_srcu_worker_stop() */
static bool kept; /* lw_srcu_worker_start(): does not end when idle */
static bool hindered; /* the worker cannot do its work: see able() */

static __thread bool on_worker __attribute__((tls_model("initial-exec"))); /* this thread is a worker */

static uint32_t wake_word; /* futex: changes when there is something to do */
static uint32_t sleepers; /* workers that may be in that futex */

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
    bool end = false;
    lw_futex_lock(&lock);
    if (current == me && !kept) {
        /* Either a caller of lw__srcu_worker_wake() sees that there is no worker and starts one, or this sees its wake-up: both
         * are sequentially consistent. */
        __atomic_store_n(&current, 0, __ATOMIC_SEQ_CST);
        end = __atomic_load_n(&wake_word, __ATOMIC_SEQ_CST) == seen;
        if (!end)
            __atomic_store_n(&current, me, __ATOMIC_SEQ_CST);
    }
    lw_futex_unlock(&lock);
    return end;
}

static void sleep_until_woken(uint32_t seen, uint64_t ns)
{
    __atomic_fetch_add(&sleepers, 1, __ATOMIC_SEQ_CST); /* pairs with lw__srcu_worker_wake() */
    lw_futex_wait(&wake_word, seen, ns);
    __atomic_fetch_sub(&sleepers, 1, __ATOMIC_RELAXED);
}

static void *work(void *number)
{
    uint32_t me = (uint32_t)(uintptr_t)number;
    prctl(PR_SET_NAME, "lw-srcu");
    on_worker = true;
    take_attributes();
    __atomic_store_n(&hindered, !able(), __ATOMIC_RELAXED); /* a hint */
    unsigned scans = 0;
    while (__atomic_load_n(&current, __ATOMIC_RELAXED) == me) { /* a late look at a new number costs one more round */
        uint32_t seen = __atomic_load_n(&wake_word, __ATOMIC_SEQ_CST); /* pairs with lw__srcu_worker_wake() */
        uint64_t pause = lw__srcu_serve_all(scans);
        scans = pause && pause != LW_FUTEX_FOREVER ? scans + 1 : 0;
        if (pause == LW_FUTEX_FOREVER) {
            errno = 0;
            sleep_until_woken(seen, IDLE_NS);
            if (errno == ETIMEDOUT && end_if_idle(me, seen))
                break;
        } else if (pause) {
            sleep_until_woken(seen, pause);
        }
    }
    __atomic_fetch_sub(&alive, 1, __ATOMIC_RELEASE); /* pairs with lw_srcu_worker_stop() */
    lw_futex_wake_all(&alive);
    return NULL;
}

/* Under `lock`. The worker blocks all signals, so that the program's handlers run on the program's threads. */
static int start_worker(void)
{
    static uint32_t number;
    sigset_t all, old;
    pthread_attr_t detached;
    pthread_t thread;
    sigfillset(&all);
    int err = pthread_attr_init(&detached);
    if (err)
        return -err;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    uint32_t before = current;
    number = number + 1 ? number + 1 : 1;
    __atomic_store_n(&current, number, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&alive, 1, __ATOMIC_RELAXED);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&thread, &detached, work, (void *)(uintptr_t)number);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&detached);
    if (err) {
        __atomic_store_n(&current, before, __ATOMIC_SEQ_CST);
        __atomic_fetch_sub(&alive, 1, __ATOMIC_RELAXED);
    }
    return -err;
}

int lw__srcu_worker_ensure(void)
{
    bool replace = __atomic_load_n(&hindered, __ATOMIC_RELAXED);
    if (__atomic_load_n(&current, __ATOMIC_SEQ_CST) && !(replace && able())) /* pairs with end_if_idle() */
        return 0;
    int saved = errno, err = 0;
    lw_futex_lock(&lock);
    if (!forbidden && (!current || (replace && __atomic_load_n(&hindered, __ATOMIC_RELAXED)))) {
        __atomic_store_n(&hindered, false, __ATOMIC_RELAXED);
        err = start_worker();
    }
    lw_futex_unlock(&lock);
    errno = saved;
    return err;
}

int lw__srcu_worker_wake(void)
{
    int saved = errno;
    __atomic_fetch_add(&wake_word, 1, __ATOMIC_SEQ_CST); /* before `current` is read: pairs with end_if_idle() and work() */
    int err = lw__srcu_worker_ensure();
    /* Either this sees the sleeper that sleep_until_woken() has counted, or the sleeper's kernel sees the new number: both are
     * sequentially consistent. */
    if (__atomic_load_n(&sleepers, __ATOMIC_SEQ_CST))
        lw_futex_wake_all(&wake_word);
    errno = saved;
    return err;
}

bool lw__srcu_worker_exists(void)
{
    return __atomic_load_n(&current, __ATOMIC_RELAXED);
}

/* ---- the program's say ---- */

int lw_srcu_worker_start(void)
{
    int err = 0, saved = errno;
    lw_futex_lock(&lock);
    forbidden = false;
    kept = true;
    if (!current)
        err = start_worker();
    kept = !err;
    lw_futex_unlock(&lock);
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
    __atomic_store_n(&current, 0, __ATOMIC_SEQ_CST);
    lw_futex_unlock(&lock);
    __atomic_fetch_add(&wake_word, 1, __ATOMIC_SEQ_CST); /* pairs with work() */
    lw_futex_wake_all(&wake_word);
    for (uint32_t left; (left = __atomic_load_n(&alive, __ATOMIC_ACQUIRE));) /* pairs with the end of work() */
        lw_futex_wait(&alive, left, LW_FUTEX_FOREVER);
    errno = saved;
    return 0;
}

int lw_srcu_worker_affinity(size_t bytes, const void *mask)
{
    if (!bytes || bytes > MASK_BYTES || !mask)
        return -EINVAL;
    lw_futex_lock(&lock);
    memset(attributes.mask, 0, sizeof attributes.mask);
    memcpy(attributes.mask, mask, bytes);
    attributes.mask_bytes = bytes;
    bool restart = current && !lw__srcu_in_callback();
    int err = restart ? start_worker() : 0; /* the one before ends after its round */
    lw_futex_unlock(&lock);
    __atomic_fetch_add(&wake_word, 1, __ATOMIC_SEQ_CST); /* pairs with work() */
    lw_futex_wake_all(&wake_word);
    return err;
}

/* ---- fork ---- */

void lw__srcu_worker_before_fork(void)
{
    lw_futex_lock(&lock);
}

/* The child's worker is started when something is queued, requested or waited for there. Where a callback forks on the worker,
 * the child's one thread is the worker. */
void lw__srcu_worker_after_fork(bool child)
{
    if (child) {
        alive = on_worker;
        sleepers = 0;
        if (!alive)
            current = 0;
        hindered = false;
    }
    lw_futex_unlock(&lock);
}

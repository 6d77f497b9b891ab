/* SPDX-License-Identifier: MIT */
/* Threads without a sequence: which copy they take, how they come to own a CPU's words, and lists out of line.
 *
 * A thread owns the words of a CPU from lw__percpu_own() to lw__percpu_disown(); lock.h says why. Signals are blocked
 * meanwhile, so that a handler of this thread cannot wait for its own thread's lock.
 *
 * Owning fails only in a thread that was denied membarrier after start-up (by a seccomp filter of its own) and was moved
 * between its two questions for the CPU. It chooses again: every repetition needs a move by the scheduler within these few
 * instructions, and meanwhile the thread blocks no other.
 */
#define _GNU_SOURCE
#include "rseq.h"

#include "../common/futex.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* ---- which CPU ---- */

/* Threads without sequences are spread by thread, not by CPU: asking for the CPU takes a system call on some machines, and
 * its answer may be outdated by the time it is used. */
unsigned lw__percpu_stripe(void)
{
    static unsigned next;
    static __thread unsigned mine __attribute__((tls_model("initial-exec"))); /* its stripe plus one; 0: none yet */
    if (!mine) /* relaxed: only spreads, and a number lost to a signal handler is harmless */
        mine = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % lw_percpu_rt.nr_cpus + 1;
    return mine - 1;
}

/* The CPU whose copy of `p` an operation without a sequence takes; those who visit all copies will visit it. */
unsigned lw__percpu_current(const void *p)
{
    int cpu = sched_getcpu();
    unsigned unit = cpu < 0 ? lw__percpu_stripe() : (unsigned)cpu % lw_percpu_rt.nr_cpus;
    lw__percpu_mark(&lw__percpu_marks(p)->cpus, unit);
    return unit;
}

/* ---- the number of this process ---- */

/* This process' number in lock words: different from those of all processes that it was copied from. Process ids would not
 * do: in a new PID namespace a child can have its parent's. The kernel zeroes the page in the child, however that is made;
 * memory that a child shares (vfork, CLONE_VM) stays as it is. */
static uint32_t *process_number;
static uint32_t last_number; /* copied to children as it is */

void lw__percpu_number_process(void)
{
    static uint32_t unwiped; /* a kernel before 4.14: a child made without pthread_atfork() keeps the number */
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    process_number = page == MAP_FAILED ? &unwiped : page;
    if (page != MAP_FAILED)
        (void)madvise(page, 4096, MADV_WIPEONFORK);
}

/* In a child: for a kernel, or an emulator, that does not wipe the page. */
void lw__percpu_renumber_process(void)
{
    if (process_number)
        __atomic_store_n(process_number, 0, __ATOMIC_RELAXED);
}

static uint32_t this_process(void)
{
    uint32_t number = __atomic_load_n(process_number, __ATOMIC_RELAXED);
    if (number)
        return number;
    /* Relaxed: threads that come here at once compute the same number. */
    uint32_t next =
        (__atomic_load_n(&last_number, __ATOMIC_RELAXED) + 1) & INT32_MAX; /* the top bit is for sleepers, see lock.h */
    next = next ? next : 1;
    if (!__atomic_compare_exchange_n(process_number, &number, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return number;
    __atomic_store_n(&last_number, next, __ATOMIC_RELAXED);
    return next;
}

/* ---- owning a CPU's words ---- */

#define LW_LOCK uint32_t *
#define LW_LOCK_LOAD(l) __atomic_load_n(l, __ATOMIC_RELAXED)
#define LW_LOCK_SWAP(l, seen, value) \
    __atomic_compare_exchange_n(l, &(seen), value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)
#define LW_LOCK_FREE(l) __atomic_exchange_n(l, 0, __ATOMIC_RELEASE)
#define LW_LOCK_SLEEP(l, seen) lw_futex_wait(l, seen, LW_FUTEX_FOREVER)
#define LW_LOCK_WAKE(l) lw_futex_wake(l, 1)
#define LW_LOCK_ME() this_process()
/* Without sequences there is nothing to abort. */
#define LW_LOCK_HERE(cpu) (!lw_percpu_rt.value_limit || sched_getcpu() == (int)(cpu))
#define LW_LOCK_ABORT(cpu) lw__rseq_abort_cpu(cpu)
#define LW_LOCK_POINT(name) LW__PAUSE(name)
#define LW_LIST_PLACE struct lw_percpu_node **
#define LW_LIST_NODE struct lw_percpu_node *
#define LW_LIST_LOAD(place) __atomic_load_n(place, LW__LIST_POPPED)
#define LW_LIST_STORE(place, node) __atomic_store_n(place, node, LW__LIST_PUSHED)
#define LW_LIST_NEXT(node) (&(node)->next)
#ifndef LW_PERCPU_LOCK
#define LW_PERCPU_LOCK "lock.h"
#endif
#include LW_PERCPU_LOCK

static uint32_t *lock_of(const void *p, unsigned cpu)
{
    return (uint32_t *)((uintptr_t)lw__percpu_unit(p, cpu) & ~(uintptr_t)(LW_PERCPU_STRIDE - 1));
}

static void block_signals(struct lw__owner *owner)
{
    static const uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &owner->signals, sizeof all);
}

static void restore_signals(const struct lw__owner *owner)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &owner->signals, NULL, sizeof owner->signals);
}

struct lw__owner lw__percpu_own(const void *p)
{
    struct lw__owner owner = {.error = errno};
    block_signals(&owner);
    do {
        owner.cpu = lw__percpu_current(p);
        LW__PAUSE(LW__BEFORE_LOCK);
    } while (!own_cpu(lock_of(p, owner.cpu), owner.cpu));
    return owner;
}

void lw__percpu_disown(const void *p, const struct lw__owner *owner)
{
    unlock_word(lock_of(p, owner->cpu));
    restore_signals(owner);
    errno = owner->error;
}

/* ---- lists ----
 * Without sequences every thread takes the lock word: a compare-and-swap of the head would suffer from ABA. */

static struct lw_percpu_node **head_of(struct lw_percpu_node **list, unsigned cpu)
{
    return (struct lw_percpu_node **)(void *)lw__percpu_unit(list, cpu);
}

unsigned lw__percpu_push_slow(struct lw_percpu_node **list, struct lw_percpu_node *first, struct lw_percpu_node *last)
{
    unsigned cpu;
    for (int i = 0; lw_percpu_rt.value_limit && i < LW_PERCPU_TRIES && lw__rseq_thread_ready(); i++)
        if (lw__percpu_try_push(list, first, last, &cpu))
            return cpu;
    struct lw__owner owner = lw__percpu_own(list);
    push_owned(head_of(list, owner.cpu), first, last);
    lw__percpu_disown(list, &owner);
    return owner.cpu;
}

struct lw_percpu_node *lw__percpu_pop_slow(struct lw_percpu_node **list, unsigned *cpu)
{
    struct lw_percpu_node *node = NULL;
    for (int i = 0; lw_percpu_rt.value_limit && i < LW_PERCPU_TRIES && lw__rseq_thread_ready(); i++)
        if (lw__percpu_try_pop_cpu(list, &node, cpu))
            return node;
    struct lw__owner owner = lw__percpu_own(list);
    node = pop_owned(head_of(list, owner.cpu));
    lw__percpu_disown(list, &owner);
    *cpu = owner.cpu;
    return node;
}

/* Owns the CPU of a list that is not empty. False: it is, or this thread is denied membarrier and does not run there. */
static bool own_list(struct lw_percpu_node **list, unsigned cpu, struct lw__owner *owner)
{
    /* Relaxed: a push that the caller has an order with is seen. */
    if (!__atomic_load_n(head_of(list, cpu), __ATOMIC_RELAXED))
        return false;
    *owner = (struct lw__owner){.error = errno, .cpu = cpu};
    block_signals(owner);
    if (own_cpu(lock_of(list, cpu), cpu))
        return true;
    restore_signals(owner);
    errno = owner->error;
    return false;
}

/* The nodes of one CPU's list as a chain, or NULL. */
static struct lw_percpu_node *take(struct lw_percpu_node **list, unsigned cpu)
{
    struct lw__owner owner;
    if (!own_list(list, cpu, &owner))
        return NULL;
    struct lw_percpu_node *first = take_owned(head_of(list, cpu));
    lw__percpu_disown(list, &owner);
    return first;
}

/* Of a node that was taken. Atomic: a sequence that is about to be aborted may still read or have stored it; pairs with the
 * store in lw__percpu_try_push(). */
static struct lw_percpu_node *next_of(struct lw_percpu_node *node)
{
    return __atomic_load_n(&node->next, LW__LIST_POPPED);
}

static struct lw_percpu_node *last_of(struct lw_percpu_node *node)
{
    for (struct lw_percpu_node *next; (next = next_of(node));)
        node = next;
    return node;
}

struct lw_percpu_node *lw_percpu_pop_all(struct lw_percpu_node **list)
{
    struct lw_percpu_node *all = NULL;
    for (unsigned cpu = 0, cpus = lw__percpu_used_cpus(list); cpu < cpus; cpu++) {
        struct lw_percpu_node *first = take(list, cpu);
        if (first) {
            __atomic_store_n(&last_of(first)->next, all, LW__LIST_PUSHED);
            all = first;
        }
    }
    return all;
}

struct lw_percpu_node *lw_percpu_pop_any(struct lw_percpu_node **list)
{
    struct lw_percpu_node *first = lw_percpu_pop(list);
    if (first)
        return first;
    unsigned from = lw__percpu_current(list), cpus = lw__percpu_used_cpus(list);
    for (unsigned i = 1; !first && i <= cpus; i++)
        first = take(list, (from + i) % cpus);
    /* The rest comes here, so that the price of taking is paid once for all of them. */
    struct lw_percpu_node *rest = first ? next_of(first) : NULL;
    if (rest)
        lw__percpu_push_slow(list, rest, last_of(rest));
    return first;
}

size_t lw_percpu_length(struct lw_percpu_node **list)
{
    size_t length = 0;
    for (unsigned cpu = 0, cpus = lw__percpu_used_cpus(list); cpu < cpus; cpu++) {
        struct lw__owner owner;
        if (!own_list(list, cpu, &owner))
            continue;
        for (struct lw_percpu_node *node = *head_of(list, cpu); node; node = next_of(node))
            length++;
        lw__percpu_disown(list, &owner);
    }
    return length;
}

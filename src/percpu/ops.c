/* Per-CPU operations out of line: further attempts, then the fall-back, which always ends; and sums.
 *
 * Counters fall back to an atomic add of a second word. It is never touched by a sequence: a plain add and an atomic add
 * of one word would lose counts.
 *
 * Values have one word. Where the process has no sequences, or no membarrier that aborts them, every thread uses atomic
 * instructions on it. Where it has both, and only this operation cannot use a sequence (its thread is not registered, or was
 * interrupted LW_PERCPU_TRIES times):
 *   1. take the lock word of the CPU's unit: sequences that test it from now on give up and take this fall-back;
 *   2. make sure that no sequence is in progress that tested it before. If this thread finds itself running on that CPU after it
 *      stored the lock, all others there have been switched out since they tested, and will be aborted. Otherwise
 *      membarrier(EXPEDITED_RSEQ) on that CPU aborts them;
 *   3. no other thread can write the word now: plain load, plain store;
 *   4. free the lock with release order.
 * Signals are blocked from 1 to 4, so that a handler of this thread cannot wait for its own thread's lock.
 *
 * Step 2 fails only in a thread that was denied membarrier after start-up (by a seccomp filter of its own) and was moved
 * between its two questions for the CPU. It unlocks and chooses again: every repetition needs a move by the scheduler within
 * these few instructions, and meanwhile the thread blocks no other.
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

#ifdef __i386__
typedef uint64_t word64 __attribute__((aligned(8))); /* a uint64_t is aligned to 4 there; per-CPU words are to 8 */
#else
typedef uint64_t word64;
#endif
typedef uint32_t word32;
typedef uint16_t word16;
typedef uint8_t word8;

/* ---- which CPU ---- */

static char *unit_of(const void *p, unsigned cpu)
{
    return LW__CPU0((uintptr_t)p) + (size_t)cpu * LW_PERCPU_STRIDE;
}

/* Threads without sequences are spread by thread, not by CPU: asking for the CPU takes a system call on some machines, and
 * its answer may be outdated by the time it is used. */
static unsigned stripe(void)
{
    static unsigned next;
    static __thread unsigned mine __attribute__((tls_model("initial-exec"))); /* its stripe plus one; 0: none yet */
    if (!mine) /* relaxed: only spreads, and a number lost to a signal handler is harmless */
        mine = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % lw_percpu_rt.nr_cpus + 1;
    return mine - 1;
}

static unsigned current_unit(void)
{
    int cpu = sched_getcpu();
    return cpu < 0 ? stripe() : (unsigned)cpu % lw_percpu_rt.nr_cpus;
}

/* ---- counters ----
 * A sum leaves out words that were never used: second words beyond the stripes that counted in the chunk, and first words of CPUs
 * that no thread has counted on, where the architecture knows them. */

/* One more than the highest stripe that has counted in the chunk that `p` lies in. It stands in the chunk itself, behind the lock
 * word of CPU 0, because another copy of the library, whose threads have stripes of its own, may count there too. */
static unsigned *stripes_of(const void *p)
{
    return (unsigned *)(((uintptr_t)unit_of(p, 0) & ~(uintptr_t)(LW_PERCPU_STRIDE - 1)) + LW_PERCPU_RESERVED / 2);
}

/* Relaxed: as in lw__percpu_use_cpu(). */
static void use_stripe(const void *p, unsigned mine)
{
    unsigned *stripes = stripes_of(p);
    unsigned seen = __atomic_load_n(stripes, __ATOMIC_RELAXED);
    while (mine >= seen && !__atomic_compare_exchange_n(stripes, &seen, mine + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static unsigned used_cpus(void)
{
    return LW__RSEQ_LIMIT_GROWS ? __atomic_load_n(&lw_percpu_rt.limit, __ATOMIC_RELAXED) : lw_percpu_rt.nr_cpus;
}

#define COUNTER(bits)                                                                                                      \
    void lw__percpu_add_second_u##bits(uint##bits##_t *p, uint##bits##_t v)                                                \
    {                                                                                                                      \
        unsigned mine = stripe();                                                                                          \
        word##bits *second = (word##bits *)(void *)(unit_of(p, mine) + LW_PERCPU_SECOND);                                  \
        use_stripe(p, mine);                                                                                               \
        __atomic_fetch_add(second, v, __ATOMIC_RELAXED); /* read by the sums below */                                      \
    }                                                                                                                      \
                                                                                                                           \
    void lw__percpu_add_slow_u##bits(uint##bits##_t *p, uint##bits##_t v)                                                  \
    {                                                                                                                      \
        if (lw__rseq_thread_ready())                                                                                       \
            for (int i = 0; i < LW_PERCPU_TRIES; i++)                                                                      \
                if (lw_rseq_add_u##bits(p, v))                                                                             \
                    return;                                                                                                \
        lw__percpu_add_second_u##bits(p, v);                                                                               \
    }                                                                                                                      \
                                                                                                                           \
    uint##bits##_t lw_percpu_sum_u##bits(const uint##bits##_t *p)                                                          \
    {                                                                                                                      \
        uint##bits##_t sum = 0;                                                                                            \
        unsigned used = used_cpus();                                                                                       \
        /* Relaxed: each word is one whole value, see "sum" in percpu.h for what that promises. */                         \
        for (unsigned cpu = 0; cpu < used; cpu++)                                                                          \
            sum += __atomic_load_n((const word##bits *)(const void *)unit_of(p, cpu), __ATOMIC_RELAXED);                   \
        used = __atomic_load_n(stripes_of(p), __ATOMIC_RELAXED);                                                           \
        for (unsigned cpu = 0; cpu < used; cpu++)                                                                          \
            sum +=                                                                                                         \
                __atomic_load_n((const word##bits *)(const void *)(unit_of(p, cpu) + LW_PERCPU_SECOND), __ATOMIC_RELAXED); \
        return sum;                                                                                                        \
    }
COUNTER(32)
COUNTER(64)

/* ---- the lock word of a unit ----
 * 0 free, else the number of the holder's process, with the top bit set while a thread may sleep for it. The number identifies a
 * lock that a child inherited in the middle of another thread's operation: its holder does not exist in the child. */

#define SLEEPERS 0x80000000u

/* This process' number in lock words: different from those of all processes that it was copied from. Process ids would not do: in
 * a new PID namespace a child can have its parent's. The kernel zeroes the page in the child, however that is made; memory
 * that a child shares (vfork, CLONE_VM) stays as it is. */
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
    uint32_t next = (__atomic_load_n(&last_number, __ATOMIC_RELAXED) + 1) & ~SLEEPERS;
    next = next ? next : 1;
    if (!__atomic_compare_exchange_n(process_number, &number, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return number;
    __atomic_store_n(&last_number, next, __ATOMIC_RELAXED);
    return next;
}

static uint32_t *lock_of(const void *p, unsigned cpu)
{
    return (uint32_t *)((uintptr_t)unit_of(p, cpu) & ~(uintptr_t)(LW_PERCPU_STRIDE - 1));
}

static void lock_unit(uint32_t *lock)
{
    uint32_t me = this_process();
    uint32_t want = me;
    for (;;) {
        uint32_t seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
        bool free = !seen || (seen & ~SLEEPERS) != me;
        /* Acquire: pairs with the release in unlock_unit(). Sequentially consistent on success: the lock must be visible
         * before the CPU is asked for (step 2). */
        if (free) {
            if (__atomic_compare_exchange_n(lock, &seen, want, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
                return;
            continue;
        }
        if (seen & SLEEPERS ||
            __atomic_compare_exchange_n(lock, &seen, seen | SLEEPERS, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            lw_futex_wait(lock, seen | SLEEPERS, LW_FUTEX_FOREVER);
            want = me | SLEEPERS; /* other threads may still sleep */
        }
    }
}

static void unlock_unit(uint32_t *lock)
{
    /* Release: what the holder stored is seen by the next holder, and by sequences that find the lock free (x86 keeps load
     * order; arm64 has an address dependency, LW__SEQ_TEST_LOCK in arch/arm64/rseq.h). */
    if (__atomic_exchange_n(lock, 0, __ATOMIC_RELEASE) & SLEEPERS)
        lw_futex_wake(lock, 1);
}

/* Steps 1 and 2. Returns the CPU whose unit is now this thread's alone. */
static unsigned own_unit(const void *p)
{
    for (;;) {
        unsigned cpu = current_unit();
        uint32_t *lock = lock_of(p, cpu);
        LW__PAUSE(LW__BEFORE_LOCK);
        lock_unit(lock);
        LW__PAUSE(LW__LOCKED);
        if (sched_getcpu() == (int)cpu || lw__rseq_abort_cpu(cpu))
            return cpu;
        unlock_unit(lock); /* moved in these few instructions, and denied the abort since start-up: once more */
    }
}

static void block_signals(uint64_t *old)
{
    static const uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, old, sizeof all);
}

static void restore_signals(const uint64_t *old)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, sizeof *old);
}

/* ---- values ---- */

#define VALUE(bits)                                                                                                \
    static bool try_u##bits(uint##bits##_t *p, enum lw__op op, uint##bits##_t v, uint##bits##_t expected,          \
                            uint##bits##_t *old)                                                                   \
    {                                                                                                              \
        char *q = LW__CPU0(p);                                                                                     \
        ptrdiff_t off = lw_percpu_rt.offset;                                                                       \
        unsigned limit = lw_percpu_rt.value_limit;                                                                 \
        switch (op) {                                                                                              \
        case LW__READ:                                                                                             \
            return lw__seq_read_u##bits(q, v, expected, old, off, limit);                                          \
        case LW__WRITE:                                                                                            \
            return lw__seq_write_u##bits(q, v, expected, old, off, limit);                                         \
        case LW__XCHG:                                                                                             \
            return lw__seq_xchg_u##bits(q, v, expected, old, off, limit);                                          \
        case LW__AND:                                                                                              \
            return lw__seq_and_u##bits(q, v, expected, old, off, limit);                                           \
        case LW__OR:                                                                                               \
            return lw__seq_or_u##bits(q, v, expected, old, off, limit);                                            \
        case LW__XOR:                                                                                              \
            return lw__seq_xor_u##bits(q, v, expected, old, off, limit);                                           \
        case LW__FETCH_ADD:                                                                                        \
            return lw__seq_fetch_add_u##bits(q, v, expected, old, off, limit);                                     \
        case LW__CMPXCHG:                                                                                          \
            return lw__seq_cmpxchg_u##bits(q, v, expected, old, off, limit);                                       \
        }                                                                                                          \
        return false;                                                                                              \
    }                                                                                                              \
                                                                                                                   \
    /* No value sequences in this process: one word, atomic instructions by every thread. */                       \
    static uint##bits##_t atomic_u##bits(word##bits *w, enum lw__op op, uint##bits##_t v, uint##bits##_t expected) \
    {                                                                                                              \
        switch (op) {                                                                                              \
        case LW__READ:                                                                                             \
            break;                                                                                                 \
        case LW__WRITE:                                                                                            \
            __atomic_store_n(w, v, __ATOMIC_RELAXED);                                                              \
            return v;                                                                                              \
        case LW__XCHG:                                                                                             \
            return __atomic_exchange_n(w, v, __ATOMIC_RELAXED);                                                    \
        case LW__AND:                                                                                              \
            return __atomic_fetch_and(w, v, __ATOMIC_RELAXED);                                                     \
        case LW__OR:                                                                                               \
            return __atomic_fetch_or(w, v, __ATOMIC_RELAXED);                                                      \
        case LW__XOR:                                                                                              \
            return __atomic_fetch_xor(w, v, __ATOMIC_RELAXED);                                                     \
        case LW__FETCH_ADD:                                                                                        \
            return __atomic_fetch_add(w, v, __ATOMIC_RELAXED);                                                     \
        case LW__CMPXCHG:                                                                                          \
            __atomic_compare_exchange_n(w, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);               \
            return expected;                                                                                       \
        }                                                                                                          \
        return __atomic_load_n(w, __ATOMIC_RELAXED);                                                               \
    }                                                                                                              \
                                                                                                                   \
    /* Step 3. The stores are single, for threads that read from another CPU. */                                   \
    static uint##bits##_t alone_u##bits(word##bits *w, enum lw__op op, uint##bits##_t v, uint##bits##_t expected)  \
    {                                                                                                              \
        uint##bits##_t old = __atomic_load_n(w, __ATOMIC_RELAXED);                                                 \
        LW__PAUSE(LW__LOADED);                                                                                     \
        uint##bits##_t new_value = op == LW__AND         ? (uint##bits##_t)(old & v)                               \
                                   : op == LW__OR        ? (uint##bits##_t)(old | v)                               \
                                   : op == LW__XOR       ? (uint##bits##_t)(old ^ v)                               \
                                   : op == LW__FETCH_ADD ? (uint##bits##_t)(old + v)                               \
                                                         : v;                                                      \
        if (op != LW__READ && (op != LW__CMPXCHG || old == expected))                                              \
            __atomic_store_n(w, new_value, __ATOMIC_RELAXED);                                                      \
        return old;                                                                                                \
    }                                                                                                              \
                                                                                                                   \
    uint##bits##_t lw__percpu_value_slow_u##bits(uint##bits##_t *p, enum lw__op op, uint##bits##_t v,              \
                                                 uint##bits##_t expected)                                          \
    {                                                                                                              \
        uint##bits##_t old = 0;                                                                                    \
        if (!lw_percpu_rt.value_limit)                                                                             \
            return atomic_u##bits((word##bits *)(void *)unit_of(p, current_unit()), op, v, expected);              \
        if (lw__rseq_thread_ready())                                                                               \
            for (int i = 0; i < LW_PERCPU_TRIES; i++)                                                              \
                if (try_u##bits(p, op, v, expected, &old))                                                         \
                    return old;                                                                                    \
        int saved = errno;                                                                                         \
        uint64_t mask = 0;                                                                                         \
        block_signals(&mask);                                                                                      \
        unsigned cpu = own_unit(p);                                                                                \
        old = alone_u##bits((word##bits *)(void *)unit_of(p, cpu), op, v, expected);                               \
        unlock_unit(lock_of(p, cpu));                                                                              \
        restore_signals(&mask);                                                                                    \
        errno = saved;                                                                                             \
        return old;                                                                                                \
    }
VALUE(8)
VALUE(16)
VALUE(32)
VALUE(64)

/* ---- lists ----
 * Without sequences every thread takes the lock word: a compare-and-swap of the head would suffer from ABA. */

/* Takes the lock of a CPU's list, and makes sure that no sequence uses it. Signals are blocked from here to unlock_list(). */
static struct lw_percpu_node **lock_list(struct lw_percpu_node **list, uint64_t *mask)
{
    block_signals(mask);
    unsigned cpu = 0;
    if (lw_percpu_rt.value_limit) {
        cpu = own_unit(list);
    } else {
        cpu = current_unit();
        lock_unit(lock_of(list, cpu));
    }
    return (struct lw_percpu_node **)(void *)unit_of(list, cpu);
}

static void unlock_list(struct lw_percpu_node **head, const uint64_t *mask)
{
    unlock_unit((uint32_t *)((uintptr_t)head & ~(uintptr_t)(LW_PERCPU_STRIDE - 1)));
    restore_signals(mask);
}

void lw__percpu_push_slow(struct lw_percpu_node **list, struct lw_percpu_node *node)
{
    for (int i = 0; lw_percpu_rt.value_limit && i < LW_PERCPU_TRIES && lw__rseq_thread_ready(); i++)
        if (lw__percpu_try_push(list, node))
            return;
    int saved = errno;
    uint64_t mask = 0;
    struct lw_percpu_node **head = lock_list(list, &mask);
    __atomic_store_n(&node->next, __atomic_load_n(head, __ATOMIC_RELAXED), LW__LIST_PUSHED); /* the lock orders */
    LW__PAUSE(LW__LOADED);
    __atomic_store_n(head, node, __ATOMIC_RELAXED);
    unlock_list(head, &mask);
    errno = saved;
}

struct lw_percpu_node *lw__percpu_pop_slow(struct lw_percpu_node **list)
{
    struct lw_percpu_node *node;
    for (int i = 0; lw_percpu_rt.value_limit && i < LW_PERCPU_TRIES && lw__rseq_thread_ready(); i++)
        if (lw__percpu_try_pop(list, &node))
            return node;
    int saved = errno;
    uint64_t mask = 0;
    struct lw_percpu_node **head = lock_list(list, &mask);
    node = __atomic_load_n(head, __ATOMIC_RELAXED); /* the lock orders */
    LW__PAUSE(LW__LOADED);
    if (node)
        __atomic_store_n(head, __atomic_load_n(&node->next, LW__LIST_POPPED), __ATOMIC_RELAXED);
    unlock_list(head, &mask);
    errno = saved;
    return node;
}

/* SPDX-License-Identifier: MIT */
/* Per-CPU memory and operations on the current CPU's copy that always finish.
 *
 *   uint64_t *hits = lw_percpu_alloc(sizeof *hits, _Alignof(uint64_t));   one copy per possible CPU, zeroed
 *   lw_this_cpu_inc(hits);                                                this CPU's copy, no lock, no shared line
 *   printf("%llu", (unsigned long long)lw_percpu_sum_u64(hits));          all copies added up
 *
 * lw_percpu_alloc() returns a handle: pass it, or it plus an offset inside the allocation, to the functions here.
 * Dereferencing it faults, because it points into a page without access rights.
 *
 * A word is used in ONE of three ways, for its whole life:
 * - counter (u32, u64): lw_this_cpu_{add,sub,inc,dec} and lw_percpu_sum_*. Each copy has a second word, which takes
 *   atomic adds where no restartable sequence could do the add; a sum adds both. Reading one copy alone says nothing.
 * - value (u8, u16, u32, u64, pointer): lw_this_cpu_{read,write,and,andnot,or,xor,xchg,cmpxchg,try_cmpxchg,fetch_add,
 *   add_return,sub_return,inc_return,dec_return}.
 * - list (a pointer to struct lw_percpu_node): lw_percpu_push…, lw_percpu_pop… and lw_percpu_length only.
 *
 * Ordering: every operation is relaxed. An operation is one step for everything that runs on the same CPU (other threads,
 * signal handlers) and never tears for a thread that sums or reads from another CPU; it orders nothing else.
 * "The current CPU" is the one at the moment of the step; the thread may be elsewhere when the function returns.
 *
 * Progress: a sequence that the kernel aborts is repeated up to LW_PERCPU_TRIES times, then the fall-back does the
 * operation: for counters an atomic add of the second word (wait-free on most CPUs), for values the CPU's lock word (which
 * waits for another holder's few instructions; the kernel's futex decides who is next). Where the kernel cannot abort the
 * sequences of a CPU on request (no membarrier of that kind: Linux before 5.10, a filter), values are atomic instructions
 * from the start. No operation can spin for ever.
 *
 * Safe: in signal handlers, after fork (the child has a copy of all counts), before main, in destructors, in a dlopen()ed
 * library (which then stays loaded, because the kernel may read its descriptors later), in static programs. Not in the
 * child of vfork(), which runs on its parent's thread area: call exec or _exit only, as POSIX asks; nor in a thread made by
 * a bare clone() without CLONE_SETTLS.
 */
#ifndef LINEWRIGHT_PERCPU_H
#define LINEWRIGHT_PERCPU_H

#include <linewright/api.h>

LW__HEADER_BEGINS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linewright/arch/thread_sanitizer.h>

/* A compiler that estimates size by lines of assembly takes a sequence for something large and calls it as a function: 1.6
 * ns instead of 0.5. */
#define LW__ALWAYS_INLINE inline __attribute__((always_inline))
#define LW__INLINE static LW__ALWAYS_INLINE

/* What a sequence needs of lw_percpu_rt. */
struct lw__rt_view {
    ptrdiff_t offset;
    unsigned limit; /* 0: no sequences */
};

#include <linewright/arch/rseq.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A CPU's unit: 64 KiB of each chunk. Half holds the words, half their second words at a fixed distance. */
#define LW_PERCPU_SHIFT 16
#define LW_PERCPU_STRIDE (1 << LW_PERCPU_SHIFT)
#define LW_PERCPU_SECOND (LW_PERCPU_STRIDE / 2)
#define LW_PERCPU_RESERVED 128 /* head of a unit: the CPU's lock word on a line of its own */
#define LW_PERCPU_MAX_SIZE (LW_PERCPU_SECOND - LW_PERCPU_RESERVED)
#define LW_PERCPU_MAX_ALIGN 4096
#define LW_PERCPU_TRIES 16

/* What the inline code reads; final before the first handle exists, but for the limits. Read-only for users. */
struct lw_percpu_rt {
    ptrdiff_t offset; /* of the thread's rseq area from the thread pointer */
    /* What sequences of counters compare the CPU field with: one more than the highest CPU that they were or may have been
     * used on, encoded as the architecture needs it. A thread on a CPU beyond goes out of line, which raises the limit. A
     * loop that keeps an old value only goes out of line more often. 0: no sequences, or the library has not started yet. */
    unsigned limit;
    unsigned value_limit; /* the same for value operations */
    unsigned nr_cpus; /* CPU numbers are below this */
    unsigned mode; /* enum lw_percpu_mode */
};
extern LW_API struct lw_percpu_rt lw_percpu_rt;

/* ---- memory ---- */

/* Zeroed memory, one copy per possible CPU. size: 1 … LW_PERCPU_MAX_SIZE bytes; align: a power of two up to
 * LW_PERCPU_MAX_ALIGN (0 means 8). Many allocations share a CPU's lines, two CPUs never share one. Pages are allocated
 * when a CPU first writes to them, on that CPU's node under the default memory policy; all at once under mlockall().
 * Returns NULL with errno EINVAL (size or alignment) or ENOMEM. Not for signal handlers. */
LW_API void *lw_percpu_alloc(size_t size, size_t align);

/* NULL is allowed. Returns 0, or -EINVAL when `p` is not a live allocation (freed twice, say); a library built with
 * LW_DEBUG says so on standard error and aborts instead. Not for signal handlers. */
LW_API int lw_percpu_free(void *p);

/* One more than the largest possible CPU number. Some numbers below it may belong to no CPU. */
LW_API unsigned lw_percpu_nr_cpus(void);

/* The copy of one CPU, to initialise or to read it. NULL with errno EINVAL when cpu >= lw_percpu_nr_cpus().
 * Writing there while the CPU's own threads use the word loses one of the writes. */
LW_API void *lw_per_cpu_ptr(const void *p, unsigned cpu);

/* ---- mode ---- */

enum lw_percpu_mode {
    LW_PERCPU_ATOMIC, /* no sequences in this process: counters on second words, values by atomic instructions */
    LW_PERCPU_RSEQ_LIBC, /* sequences, threads registered by the libc */
    LW_PERCPU_RSEQ_OWN, /* sequences, each thread registered by this library at its first operation */
};

/* The process's mode. *why (`why` may be NULL) receives a static sentence with the reason. */
LW_API enum lw_percpu_mode lw_percpu_mode(const char **why);

/* True when the calling thread's operations are sequences now; false: its operations take the fall-back. */
LW_API bool lw_percpu_thread_registered(void);

/* ---- fall-backs, out of line; not to be called directly ---- */

enum lw__op { LW__READ, LW__WRITE, LW__XCHG, LW__AND, LW__OR, LW__FETCH_ADD, LW__CMPXCHG, LW__XOR };

LW_API void lw__percpu_add_slow_u32(uint32_t *p, uint32_t v);
LW_API void lw__percpu_add_slow_u64(uint64_t *p, uint64_t v);
LW_API int lw__percpu_add_cpu_slow(uint64_t *p, uint64_t v);
/* Adds to the second word only: for callers of lw_rseq_add_ulong() that got false. */
LW_API void lw__percpu_add_second_u32(uint32_t *p, uint32_t v);
LW_API void lw__percpu_add_second_u64(uint64_t *p, uint64_t v);
LW_API uint8_t lw__percpu_value_slow_u8(uint8_t *p, enum lw__op op, uint8_t v, uint8_t expected);
LW_API uint16_t lw__percpu_value_slow_u16(uint16_t *p, enum lw__op op, uint16_t v, uint16_t expected);
LW_API uint32_t lw__percpu_value_slow_u32(uint32_t *p, enum lw__op op, uint32_t v, uint32_t expected);
LW_API uint64_t lw__percpu_value_slow_u64(uint64_t *p, enum lw__op op, uint64_t v, uint64_t expected);
/* Keeps the object that contains `address` loaded for the life of the process. */
LW_API void lw__percpu_pin(const void *address);

/* The handle points one unit below CPU 0's copy. */
#define LW__CPU0(p) ((char *)(p) + LW_PERCPU_STRIDE)
#define LW__RT(which) lw__rt_read(&lw_percpu_rt, offsetof(struct lw_percpu_rt, which))

/* ---- one attempt, for algorithms with a fall-back of their own ---- */

/* Adds v to the current CPU's copy of a counter by one sequence: no call, no retry. True: added exactly once. False: nothing
 * happened (aborted, or this thread has no sequences); the caller then adds by other means, for instance
 * lw__percpu_add_slow_*. p is a handle, or a handle plus an offset, naturally aligned. Relaxed; a compiler barrier. */
LW_ALWAYS_INLINE bool lw_rseq_add_u32(uint32_t *p, uint32_t v)
{
    struct lw__rt_view rt = LW__RT(limit);
    return __builtin_expect(rt.limit != 0, 1) && lw__seq_add_u32(LW__CPU0(p), v, rt.offset, rt.limit);
}

LW_ALWAYS_INLINE bool lw_rseq_add_u64(uint64_t *p, uint64_t v)
{
    struct lw__rt_view rt = LW__RT(limit);
    return __builtin_expect(rt.limit != 0, 1) && lw__seq_add_u64(LW__CPU0(p), v, rt.offset, rt.limit);
}

LW_ALWAYS_INLINE bool lw_rseq_add_ulong(unsigned long *p, unsigned long v)
{
#ifdef __LP64__
    return lw_rseq_add_u64((uint64_t *)p, v);
#else
    return lw_rseq_add_u32((uint32_t *)p, v);
#endif
}

/* ---- counters ---- */

LW_ALWAYS_INLINE void lw_this_cpu_add_u32(uint32_t *p, uint32_t v)
{
    if (__builtin_expect(!lw_rseq_add_u32(p, v), 0))
        lw__percpu_add_slow_u32(p, v);
}

LW_ALWAYS_INLINE void lw_this_cpu_add_u64(uint64_t *p, uint64_t v)
{
    if (__builtin_expect(!lw_rseq_add_u64(p, v), 0))
        lw__percpu_add_slow_u64(p, v);
}

/* A word's CPU, from its address and CPU 0's. */
#define LW__CPU_OF(at, q) ((unsigned)(((uintptr_t)(at) - (uintptr_t)(q)) >> LW_PERCPU_SHIFT))

/* Adds as lw_this_cpu_add_u64() and returns the CPU whose copy has it; -1: a second word has, which is no CPU's. That is
 * always so where values have no sequences. */
LW_ALWAYS_INLINE int lw_this_cpu_add_cpu_u64(uint64_t *p, uint64_t v)
{
    struct lw__rt_view rt = LW__RT(value_limit);
    uint64_t at;
    if (__builtin_expect(rt.limit && lw__seq_add_at_u64(LW__CPU0(p), v, 0, &at, rt.offset, rt.limit), 1))
        return (int)LW__CPU_OF(at, LW__CPU0(p));
    return lw__percpu_add_cpu_slow(p, v);
}

LW_ALWAYS_INLINE void lw_this_cpu_sub_u32(uint32_t *p, uint32_t v)
{
    lw_this_cpu_add_u32(p, 0u - v);
}

LW_ALWAYS_INLINE void lw_this_cpu_sub_u64(uint64_t *p, uint64_t v)
{
    lw_this_cpu_add_u64(p, (uint64_t)0 - v);
}

/* All copies of a counter added up, modulo 2^32 or 2^64. Adds that run at the same time may or may not be seen; adds that
 * happened before (in the sense of the language) are. Async-signal-safe. Time grows with the highest CPU that the process
 * could use when it started, has used an operation on since, or has called lw_per_cpu_ptr() for. */
LW_API uint32_t lw_percpu_sum_u32(const uint32_t *p);
LW_API uint64_t lw_percpu_sum_u64(const uint64_t *p);

/* The same for n counters: sums[i] receives the sum of p[i]. CPU by CPU, so that each line of counters that stand side by
 * side, in the order of their allocation for instance, is fetched once: for a report of hundreds of counters. */
LW_API void lw_percpu_sum_many_u32(uint32_t *const *p, size_t n, uint32_t *sums);
LW_API void lw_percpu_sum_many_u64(uint64_t *const *p, size_t n, uint64_t *sums);

/* ---- values ---- */

#define LW__VALUE_FUNCTIONS(bits, T)                                                                                         \
    /* The current CPU's value, at some moment during the call. */                                                           \
    LW_ALWAYS_INLINE T lw_this_cpu_read_u##bits(const T *p)                                                                  \
    {                                                                                                                        \
        T old;                                                                                                               \
        T *w = (T *)(uintptr_t)p;                                                                                            \
        struct lw__rt_view rt = LW__RT(value_limit);                                                                         \
        if (__builtin_expect(rt.limit && lw__seq_read_u##bits(LW__CPU0(w), 0, 0, &old, rt.offset, rt.limit), 1))             \
            return old;                                                                                                      \
        return lw__percpu_value_slow_u##bits(w, LW__READ, 0, 0);                                                             \
    }                                                                                                                        \
    LW__VALUE_FUNCTION(bits, T, write, LW__WRITE)                                                                            \
    LW__VALUE_FUNCTION(bits, T, xchg, LW__XCHG)                                                                              \
    LW__VALUE_FUNCTION(bits, T, and, LW__AND)                                                                                \
    LW__VALUE_FUNCTION(bits, T, or, LW__OR)                                                                                  \
    LW__VALUE_FUNCTION(bits, T, xor, LW__XOR)                                                                                \
    LW__VALUE_FUNCTION(bits, T, fetch_add, LW__FETCH_ADD)                                                                    \
    LW_ALWAYS_INLINE void lw_this_cpu_write_u##bits(T *p, T v)                                                               \
    {                                                                                                                        \
        (void)lw__this_cpu_write_u##bits(p, v);                                                                              \
    }                                                                                                                        \
    LW_ALWAYS_INLINE void lw_this_cpu_and_u##bits(T *p, T v)                                                                 \
    {                                                                                                                        \
        (void)lw__this_cpu_and_u##bits(p, v);                                                                                \
    }                                                                                                                        \
    /* Clears the bits that are set in v. */                                                                                 \
    LW_ALWAYS_INLINE void lw_this_cpu_andnot_u##bits(T *p, T v)                                                              \
    {                                                                                                                        \
        (void)lw__this_cpu_and_u##bits(p, (T)~v);                                                                            \
    }                                                                                                                        \
    LW_ALWAYS_INLINE void lw_this_cpu_or_u##bits(T *p, T v)                                                                  \
    {                                                                                                                        \
        (void)lw__this_cpu_or_u##bits(p, v);                                                                                 \
    }                                                                                                                        \
    LW_ALWAYS_INLINE void lw_this_cpu_xor_u##bits(T *p, T v)                                                                 \
    {                                                                                                                        \
        (void)lw__this_cpu_xor_u##bits(p, v);                                                                                \
    }                                                                                                                        \
    /* Returns the value before. */                                                                                          \
    LW_ALWAYS_INLINE T lw_this_cpu_xchg_u##bits(T *p, T v)                                                                   \
    {                                                                                                                        \
        return lw__this_cpu_xchg_u##bits(p, v);                                                                              \
    }                                                                                                                        \
    LW_ALWAYS_INLINE T lw_this_cpu_fetch_add_u##bits(T *p, T v)                                                              \
    {                                                                                                                        \
        return lw__this_cpu_fetch_add_u##bits(p, v);                                                                         \
    }                                                                                                                        \
    /* Returns the value after. */                                                                                           \
    LW_ALWAYS_INLINE T lw_this_cpu_add_return_u##bits(T *p, T v)                                                             \
    {                                                                                                                        \
        return (T)(lw__this_cpu_fetch_add_u##bits(p, v) + v);                                                                \
    }                                                                                                                        \
    /* Stores v if the current CPU's value equals `expected`; returns the value before: equal to `expected` means stored. */ \
    LW_ALWAYS_INLINE T lw_this_cpu_cmpxchg_u##bits(T *p, T expected, T v)                                                    \
    {                                                                                                                        \
        T old;                                                                                                               \
        struct lw__rt_view rt = LW__RT(value_limit);                                                                         \
        if (__builtin_expect(rt.limit && lw__seq_cmpxchg_u##bits(LW__CPU0(p), v, expected, &old, rt.offset, rt.limit), 1))   \
            return old;                                                                                                      \
        return lw__percpu_value_slow_u##bits(p, LW__CMPXCHG, v, expected);                                                   \
    }                                                                                                                        \
    LW_ALWAYS_INLINE T lw_this_cpu_sub_return_u##bits(T *p, T v)                                                             \
    {                                                                                                                        \
        return (T)(lw__this_cpu_fetch_add_u##bits(p, (T)(0 - v)) - v);                                                       \
    }                                                                                                                        \
    LW_ALWAYS_INLINE T lw_this_cpu_inc_return_u##bits(T *p)                                                                  \
    {                                                                                                                        \
        return lw_this_cpu_add_return_u##bits(p, 1);                                                                         \
    }                                                                                                                        \
    LW_ALWAYS_INLINE T lw_this_cpu_dec_return_u##bits(T *p)                                                                  \
    {                                                                                                                        \
        return lw_this_cpu_sub_return_u##bits(p, 1);                                                                         \
    }                                                                                                                        \
    /* True: v is stored. False: the current CPU's value was another one, which *expected receives. */                       \
    LW_ALWAYS_INLINE bool lw_this_cpu_try_cmpxchg_u##bits(T *p, T *expected, T v)                                            \
    {                                                                                                                        \
        T old = lw_this_cpu_cmpxchg_u##bits(p, *expected, v);                                                                \
        bool stored = old == *expected;                                                                                      \
        *expected = old;                                                                                                     \
        return stored;                                                                                                       \
    }

#define LW__VALUE_FUNCTION(bits, T, name, op)                                                                        \
    LW__INLINE T lw__this_cpu_##name##_u##bits(T *p, T v)                                                            \
    {                                                                                                                \
        T old;                                                                                                       \
        struct lw__rt_view rt = LW__RT(value_limit);                                                                 \
        if (__builtin_expect(rt.limit && lw__seq_##name##_u##bits(LW__CPU0(p), v, 0, &old, rt.offset, rt.limit), 1)) \
            return old;                                                                                              \
        return lw__percpu_value_slow_u##bits(p, op, v, 0);                                                           \
    }

LW__VALUE_FUNCTIONS(8, uint8_t)
LW__VALUE_FUNCTIONS(16, uint16_t)
LW__VALUE_FUNCTIONS(32, uint32_t)
LW__VALUE_FUNCTIONS(64, uint64_t)

/* ---- lists ---- */

/* A node, usually a member of what is listed. One list per CPU: push adds a node to the current CPU's; pop returns the one
 * that was pushed there last and takes it off, or returns NULL; other CPUs' lists are not searched. The list is a handle of
 * a NULL pointer:
 *   struct lw_percpu_node **list = lw_percpu_alloc(sizeof *list, sizeof *list);
 * Safe against every interruption, in signal handlers too; there is no ABA problem. What is stored into a node before push
 * is seen after the pop that returns it.
 *
 * Where one thread pushes and another pops, nodes gather on the first one's CPU: use lw_percpu_pop_any() there. */
struct lw_percpu_node {
    struct lw_percpu_node *next;
};

LW_API unsigned lw__percpu_push_slow(struct lw_percpu_node **list, struct lw_percpu_node *first,
                                     struct lw_percpu_node *last);
LW_API struct lw_percpu_node *lw__percpu_pop_slow(struct lw_percpu_node **list, unsigned *cpu);

#ifdef __LP64__
#define LW__POINTER(name) name##_u64
typedef uint64_t lw__pointer;
#else
#define LW__POINTER(name) name##_u32
typedef uint32_t lw__pointer;
#endif

/* ThreadSanitizer sees no sequence: in its builds the nodes' own words carry the order from push to pop. */
#ifdef LW_THREAD_SANITIZER
#define LW__LIST_PUSHED __ATOMIC_RELEASE
#define LW__LIST_POPPED __ATOMIC_ACQUIRE
#else
#define LW__LIST_PUSHED __ATOMIC_RELAXED
#define LW__LIST_POPPED __ATOMIC_RELAXED
#endif

/* One attempt; false: nothing happened. */
LW__INLINE bool lw__percpu_try_push(struct lw_percpu_node **list, struct lw_percpu_node *first, struct lw_percpu_node *last,
                                    unsigned *cpu)
{
    struct lw__rt_view rt = LW__RT(value_limit);
    lw__pointer at;
#ifdef LW_THREAD_SANITIZER
    __atomic_store_n(&last->next, NULL, LW__LIST_PUSHED); /* pairs with the loads in pop */
#endif
    if (!rt.limit || !LW__POINTER(lw__seq_push)(LW__CPU0(list), (lw__pointer)(uintptr_t)first,
                                                (lw__pointer)(uintptr_t)&last->next, &at, rt.offset, rt.limit))
        return false;
    *cpu = LW__CPU_OF(at, LW__CPU0(list));
    return true;
}

LW__INLINE bool lw__percpu_try_pop(struct lw_percpu_node **list, struct lw_percpu_node **node)
{
    lw__pointer head = 0;
    struct lw__rt_view rt = LW__RT(value_limit);
    bool done = rt.limit && LW__POINTER(lw__seq_pop)(LW__CPU0(list), 0, 0, &head, rt.offset, rt.limit);
    *node = (struct lw_percpu_node *)(uintptr_t)head;
#ifdef LW_THREAD_SANITIZER
    if (done && head)
        (void)__atomic_load_n(&(*node)->next, LW__LIST_POPPED);
#endif
    return done;
}

LW__INLINE bool lw__percpu_try_pop_cpu(struct lw_percpu_node **list, struct lw_percpu_node **node, unsigned *cpu)
{
    struct lw__rt_view rt = LW__RT(value_limit);
    lw__pointer at;
    if (!rt.limit || !LW__POINTER(lw__seq_pop_at)(LW__CPU0(list), (lw__pointer)(uintptr_t)node, 0, &at, rt.offset, rt.limit))
        return false;
    *cpu = LW__CPU_OF(at, LW__CPU0(list));
#ifdef LW_THREAD_SANITIZER
    if (*node)
        (void)__atomic_load_n(&(*node)->next, LW__LIST_POPPED);
#endif
    return true;
}

/* Adds a chain of nodes, each of which points to the next one, from `first` to `last`: in one step. Returns the CPU to whose
 * list. */
LW_ALWAYS_INLINE unsigned lw_percpu_push_chain(struct lw_percpu_node **list, struct lw_percpu_node *first,
                                               struct lw_percpu_node *last)
{
    unsigned cpu;
    return __builtin_expect(lw__percpu_try_push(list, first, last, &cpu), 1) ? cpu : lw__percpu_push_slow(list, first, last);
}

LW_ALWAYS_INLINE unsigned lw_percpu_push(struct lw_percpu_node **list, struct lw_percpu_node *node)
{
    return lw_percpu_push_chain(list, node, node);
}

LW_ALWAYS_INLINE struct lw_percpu_node *lw_percpu_pop(struct lw_percpu_node **list)
{
    struct lw_percpu_node *node;
    unsigned cpu;
    return __builtin_expect(lw__percpu_try_pop(list, &node), 1) ? node : lw__percpu_pop_slow(list, &cpu);
}

/* The same; *cpu receives the CPU whose list it was, also where that was empty. */
LW_ALWAYS_INLINE struct lw_percpu_node *lw_percpu_pop_cpu(struct lw_percpu_node **list, unsigned *cpu)
{
    struct lw_percpu_node *node = NULL;
    return __builtin_expect(lw__percpu_try_pop_cpu(list, &node, cpu), 1) ? node : lw__percpu_pop_slow(list, cpu);
}

/* Pops from the current CPU's list or, where that is empty, takes the whole list of another CPU, puts all but one of its
 * nodes on the current CPU's list and returns that one. NULL: each list was empty when it was looked at. Taking costs a
 * system call and interrupts the other CPU, so it pays where nodes are pushed on one CPU and popped on another. A thread
 * that is denied membarrier after the library's start finds other CPUs' lists empty, here and below. All three may be used
 * in signal handlers. */
LW_API struct lw_percpu_node *lw_percpu_pop_any(struct lw_percpu_node **list);

/* Takes the nodes of all CPUs off, as one chain; the last one's `next` is NULL. To empty a list before it is freed, for
 * instance. */
LW_API struct lw_percpu_node *lw_percpu_pop_all(struct lw_percpu_node **list);

/* How many nodes there are, CPU after CPU: exact while no other thread pushes or pops. Takes time with the number of nodes,
 * and a system call for each CPU that has any. */
LW_API size_t lw_percpu_length(struct lw_percpu_node **list);

/* ---- all copies; static definitions ---- */

/* In what a program expands, a cast of its language. */
#ifdef __cplusplus
#define LW__CAST(type, value) static_cast<type>(value)
#else
#define LW__CAST(type, value) ((type)(value))
#endif

/* Runs its statement with `copy`, a pointer, at each CPU's copy in turn. For counters use the sums: a copy has two words.
 * May be nested. */
#define LW__FOR_EACH(copy, p, cpu) \
    for (unsigned cpu = 0;         \
         cpu < lw_percpu_nr_cpus() && (((copy) = LW__CAST(__typeof__(copy), lw_per_cpu_ptr((p), cpu))), true); cpu++)
#define LW__FOR_EACH_2(copy, p, number) LW__FOR_EACH(copy, p, lw__cpu_##number)
#define LW__FOR_EACH_1(copy, p, number) LW__FOR_EACH_2(copy, p, number)
#define lw_percpu_for_each(copy, p) LW__FOR_EACH_1(copy, p, __COUNTER__)

/* Defines a pointer variable `name` with per-CPU memory for a `type`, zeroed, ready before main (after constructors of
 * priority 102 and below) and never freed. For file scope or namespace scope. The program ends where memory is lacking. */
#define LW_DEFINE_PERCPU(type, name_)                                                         \
    type *name_ = NULL;                                                                       \
    __attribute__((constructor(102))) static void lw__percpu_define_##name_(void)             \
    {                                                                                         \
        name_ = LW__CAST(type *, lw__percpu_define(#name_, sizeof(type), __alignof__(type))); \
    }                                                                                         \
    struct lw__percpu_semicolon
#define LW_DEFINE_STATIC_PERCPU(type, name_) static LW_DEFINE_PERCPU(type, name_)
LW_API void *lw__percpu_define(const char *name, size_t size, size_t align);

/* ---- a counter as an object ---- */

/* A statistics counter: add from any thread at any time; sum now and then. 64 bits, wraps. */
struct lw_counter {
    uint64_t *words;
};

/* 0, or -ENOMEM. */
LW_INLINE int lw_counter_init(struct lw_counter *c)
{
    c->words = (uint64_t *)lw_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t));
    return c->words ? 0 : -12 /* ENOMEM on every Linux architecture; errno.h stays out of this header */;
}

LW_ALWAYS_INLINE void lw_counter_add(struct lw_counter *c, int64_t v)
{
    lw_this_cpu_add_u64(c->words, (uint64_t)v);
}

LW_ALWAYS_INLINE void lw_counter_inc(struct lw_counter *c)
{
    lw_this_cpu_add_u64(c->words, 1);
}

LW_INLINE int64_t lw_counter_sum(const struct lw_counter *c)
{
    return (int64_t)lw_percpu_sum_u64(c->words);
}

/* The sums of an array of n counters, at a lower price than one by one; see lw_percpu_sum_many_u64(). */
LW_INLINE void lw_counter_sum_many(const struct lw_counter *counters, size_t n, int64_t *sums)
{
    if (n)
        lw_percpu_sum_many_u64(&counters->words, n, (uint64_t *)sums);
}

/* No thread may use the counter any more. */
LW_INLINE void lw_counter_destroy(struct lw_counter *c)
{
    lw_percpu_free(c->words);
    c->words = NULL;
}

#ifdef __cplusplus
}
#endif

/* An object with sequences stays loaded: after dlclose() the kernel could still read the descriptor that a thread published
 * last. The linker defines where its descriptors begin and end. Costs one call per file at start-up. */
__asm__(".pushsection __rseq_cs, \"aw\"\n\t.popsection"); /* there in any case, so that both are defined */
extern const char lw__rseq_cs_begin[] __asm__("__start___rseq_cs") __attribute__((weak, visibility("hidden")));
extern const char lw__rseq_cs_end[] __asm__("__stop___rseq_cs") __attribute__((weak, visibility("hidden")));
__attribute__((constructor)) static void lw__percpu_pin_this_object(void)
{
    lw__check_interface(LW_INTERFACE);
#if defined(__x86_64__) || defined(__i386__) /* no macro tells the dialect; a template of alternatives {AT&T|Intel} does */
    __asm__ volatile("{|.error \"linewright: its headers are for AT&T syntax; compile this file without -masm=intel\"}" : :);
#endif
    if (&lw__rseq_cs_begin[0] != &lw__rseq_cs_end[0])
        lw__percpu_pin(lw__rseq_cs_begin);
}

#include <linewright/percpu_generic.h>

#ifndef LW_C_API
#include <linewright/percpu_counter.h>
#endif

LW__HEADER_ENDS

#endif

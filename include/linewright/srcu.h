/* SPDX-License-Identifier: MIT */
/* SRCU: read-side critical sections that may sleep and migrate, in any number of independent domains, without registering
 * threads.
 *
 *   LW_DEFINE_SRCU(struct lw_srcu_fast, routes);                or struct lw_srcu_fast domain; … lw_srcu_init(&domain)
 *
 *   lw_srcu_index i = lw_srcu_read_lock_fast(&routes);          reader: two increments, no shared cache line, no barrier
 *   struct route *r = lw_srcu_dereference(current_route);
 *   … use *r, sleep, migrate, nest …
 *   lw_srcu_read_unlock_fast(&routes, i);
 *
 *   lw_srcu_assign_pointer(current_route, new_route);           updater
 *   if (lw_srcu_synchronize(&routes) == 0)                      every reader that could see the old route is done
 *       free(old);
 *
 * A domain's type is its flavour. The reader functions of one flavour do not compile for a domain of another. All other
 * functions take a domain of any flavour, or a pointer to its common part, a struct lw_srcu:
 *
 *   type                         reader functions                       reader's order   grace period
 *   struct lw_srcu_normal        lw_srcu_read_lock / …read_unlock       barriers         barriers only, works everywhere
 *   struct lw_srcu_fast          lw_srcu_read_lock_fast / …unlock_fast  compiler only    membarrier(PRIVATE_EXPEDITED)
 *   struct lw_srcu_fast_updown   lw_srcu_down_read_fast / up_read_fast: down in one place, up there or in another thread, a timer
 *                                or a signal handler; otherwise as struct lw_srcu_fast
 *
 * Every reader function is async-signal-safe.
 *
 * Ordering. If a read in a critical section could come before the call of lw_srcu_synchronize() in any order that the
 * program can observe, then the whole critical section comes before the return of that call. A critical section that begins
 * later sees what was stored before the call. A critical section orders nothing else: no reader function may be used as a
 * barrier. Non-temporal stores (x86) need an SFENCE before the unlock, as before any release. docs/library/srcu.md has the
 * argument.
 *
 * Errors are negative errno values. Every function that takes a domain returns -EINVAL (a poll false, a
 * cookie 0) for NULL, for a domain that is not initialised, for a copy of one, and for one that another copy of this library
 * made: a program and a plug-in that share a domain link with the shared library. If the library cannot prove a grace period
 * over, for example because membarrier is denied after init, it never reports it as over: lw_srcu_synchronize() returns the
 * error, lw_srcu_poll() returns false, and callbacks stay queued.
 *
 * fork(). The child has the domains, the critical sections of the thread that forked, and all queued callbacks except the
 * one that another thread is running at that moment. Its own worker thread runs them when it is first needed. fork() does
 * not wait for callbacks. Critical sections of other threads stay counted in the child for ever: see
 * lw_srcu_forget_readers().
 *
 * Where the functions may be called:
 *
 *   functions                                         signal handlers   after fork, in the child   while a callback runs
 *   reader functions, get_state, poll                 yes               yes                        yes
 *   synchronize*, cond_synchronize                    no [1]            yes                        yes
 *   call, free, start_poll                            no                yes                        yes
 *   barrier, cleanup_idle, worker_stop                no                yes                        no: -EDEADLK
 *   init, cleanup, on_stall, describe, worker_*       no                yes                        yes
 *   forget_readers                                    no                only there                 no
 *
 * [1] A wait in a handler that interrupted a wait of the same thread returns -EDEADLK. One that interrupted a reader of the domain is
 *     a wait inside a critical section (see "updaters" below), and one that interrupted code that holds a lock of this library waits
 *     for ever. fork() in a handler is safe where the handler interrupted reader functions or the program's own code.
 * No function is a cancellation point, except where LINEWRIGHT_VERBOSE=1 makes it print. With asynchronous cancellation, and
 * after longjmp() out of a handler, only reader functions may have been interrupted; a reader that does not reach its unlock
 * stays inside for ever.
 *
 * LW_DEBUG, defined where the functions are called, checks indices (used twice, of another domain), flavours (through a
 * cast), waiting inside a critical section of the same thread, and callback heads queued twice. Each violation prints one
 * line and aborts.
 *
 * ThreadSanitizer sees what a grace period orders only if the library is built with -fsanitize=thread as well
 * (-DLINEWRIGHT_SANITIZE=thread); with any other library it reports races that are none.
 */
#ifndef LINEWRIGHT_SRCU_H
#define LINEWRIGHT_SRCU_H

#include <linewright/api.h>

LW__HEADER_BEGINS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linewright/arch/cpu.h>
#include <linewright/arch/thread_sanitizer.h>
#include <linewright/percpu.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lw__srcu_flavour { LW__SRCU_NORMAL = 1, LW__SRCU_FAST, LW__SRCU_FAST_UPDOWN }; /* not for users, who have types */

struct lw__srcu_domain;

/* What domains of every flavour have in common. Users do not access the fields. `pair` locates the lock counter of the
 * current index: relative to lw__srcu_self where LW_HAVE_THREAD_WORDS, else a per-CPU handle; the unlock counter is two
 * words further on. A value below LW__SRCU_FIRST is 2 + index, and readers count out of line. */
struct lw_srcu {
    uintptr_t pair;
    struct lw__srcu_domain *domain;
    const char *name;
    unsigned flavour;
#ifdef __cplusplus
    /* A domain stays where it was initialised: neither copied nor moved. */
    lw_srcu() = default;
    lw_srcu(const lw_srcu &) = delete;
    lw_srcu &operator=(const lw_srcu &) = delete;
#endif
};

/* The flavours. */
#ifdef __cplusplus
struct lw_srcu_normal : lw_srcu {
    static constexpr lw__srcu_flavour lw__flavour = LW__SRCU_NORMAL;
};
struct lw_srcu_fast : lw_srcu {
    static constexpr lw__srcu_flavour lw__flavour = LW__SRCU_FAST;
};
struct lw_srcu_fast_updown : lw_srcu {
    static constexpr lw__srcu_flavour lw__flavour = LW__SRCU_FAST_UPDOWN;
};
#else
struct lw_srcu_normal {
    struct lw_srcu srcu;
};
struct lw_srcu_fast {
    struct lw_srcu srcu;
};
struct lw_srcu_fast_updown {
    struct lw_srcu srcu;
};
#endif

/* A pointer to a domain of any flavour as one to the common part, and the number of a flavour, for what takes every
 * flavour. */
#ifdef __cplusplus
#define LW__SRCU(s) (s)
#else
#define LW__SRCU_FLAVOUR(s)                       \
    _Generic((s),                                 \
        struct lw_srcu_normal *: LW__SRCU_NORMAL, \
        struct lw_srcu_fast *: LW__SRCU_FAST,     \
        struct lw_srcu_fast_updown *: LW__SRCU_FAST_UPDOWN)
#define LW__SRCU(s)                                     \
    _Generic((s),                                       \
        struct lw_srcu *: (s),                          \
        struct lw_srcu_normal *: (struct lw_srcu *)(s), \
        struct lw_srcu_fast *: (struct lw_srcu *)(s),   \
        struct lw_srcu_fast_updown *: (struct lw_srcu *)(s))
#define LW__SRCU_CONST(s)                                           \
    _Generic((s),                                                   \
        struct lw_srcu *: (s),                                      \
        const struct lw_srcu *: (s),                                \
        struct lw_srcu_normal *: (const struct lw_srcu *)(s),       \
        const struct lw_srcu_normal *: (const struct lw_srcu *)(s), \
        struct lw_srcu_fast *: (const struct lw_srcu *)(s),         \
        const struct lw_srcu_fast *: (const struct lw_srcu *)(s),   \
        struct lw_srcu_fast_updown *: (const struct lw_srcu *)(s),  \
        const struct lw_srcu_fast_updown *: (const struct lw_srcu *)(s))
#endif

/* A lock function returns it; the matching unlock function takes it, once. It may be stored and copied. `pair` locates the
 * counters of the domain's index; LW_DEBUG uses `ticket`. */
typedef struct lw_srcu_index {
    uintptr_t pair;
    uintptr_t ticket;
} lw_srcu_index;

/* A callback, usually a member of the object to be freed. The memory must stay valid until `fn` is called with it. */
struct lw_srcu_head {
    struct lw_srcu_head *next;
    void (*fn)(struct lw_srcu_head *);
};

/* ---- domains ---- */

LW_API int lw__srcu_init(struct lw_srcu *s, enum lw__srcu_flavour flavour);

/* Makes *s a domain of its type's flavour. 0, -EINVAL (NULL), -EBUSY (a live domain: lw_srcu_cleanup() first), -ENOMEM
 * (also: 65,536 domains exist, on 32-bit machines 8,192), or -EAGAIN (pthread resources). The domain stays at this address:
 * a copy of *s is refused. A fast flavour's readers get full barriers where membarrier is not available to the calling
 * thread. Not for signal handlers. */
#ifdef __cplusplus
extern "C++" {
template <class Flavour> int lw_srcu_init(Flavour *s)
{
    return lw__srcu_init(s, Flavour::lw__flavour);
}
}
#else
#define lw_srcu_init(s) lw__srcu_init(LW__SRCU(s), LW__SRCU_FLAVOUR(s))
#endif

/* The same, a function for each flavour: for languages that have no macros of C. */
LW_INLINE int lw_srcu_init_normal(struct lw_srcu_normal *s)
{
    return lw__srcu_init((struct lw_srcu *)s, LW__SRCU_NORMAL);
}

LW_INLINE int lw_srcu_init_fast(struct lw_srcu_fast *s)
{
    return lw__srcu_init((struct lw_srcu *)s, LW__SRCU_FAST);
}

LW_INLINE int lw_srcu_init_fast_updown(struct lw_srcu_fast_updown *s)
{
    return lw__srcu_init((struct lw_srcu *)s, LW__SRCU_FAST_UPDOWN);
}

/* Ends a domain that no thread uses any more. -EBUSY while a reader is inside; -EAGAIN while callbacks are queued (call
 * lw_srcu_barrier() first) or a thread waits for a grace period; -EINVAL when not initialised; membarrier's error, such as
 * -EPERM, when it is denied. After an error the domain stays usable, lw_srcu_describe() has the counts, and
 * LINEWRIGHT_VERBOSE=1 prints them. Outstanding poll cookies become invalid. */
LW_API int lw_srcu_cleanup(struct lw_srcu *s);

/* The same for a domain whose fast readers lost membarrier after init, so that lw_srcu_cleanup() cannot know whether one is
 * inside. The caller asserts that no reader is inside and that the end of every earlier one happens before this call: their
 * threads have been joined, say. Queued callbacks run in the calling thread, in their order. -EBUSY while the counts show a
 * reader; else as lw_srcu_cleanup(). */
LW_API int lw_srcu_cleanup_idle(struct lw_srcu *s);

/* Writes one line about the domain's present state: flavour, where its readers count, what ends its grace periods and why,
 * readers inside, queued callbacks. At most size - 1 bytes and a NUL; returns the full length, as snprintf does. */
LW_API int lw_srcu_describe(const struct lw_srcu *s, char *text, size_t size);

/* Forgets the critical sections that the parent's other threads were in. For the child of fork() only, while it has one
 * thread and that thread is in no critical section of this domain. 0 or -EINVAL. */
LW_API int lw_srcu_forget_readers(struct lw_srcu *s);

/* Makes the macros below end in a semicolon. "struct lw_srcu;" would not do: inside a C++ namespace it declares another
 * type. */
#ifdef __cplusplus
#define LW__SRCU_SEMICOLON static_assert(true, "")
#else
#define LW__SRCU_SEMICOLON _Static_assert(1, "")
#endif

/* Defines a domain of a type above with static storage that is ready before main, after constructors of priority 102 and
 * below. For file scope or namespace scope. Where memory is lacking it prints one line, and the domain stays uninitialised:
 * a reader then ends the program. */
#define LW_DEFINE_SRCU(type, name_)                                             \
    type name_;                                                                 \
    __attribute__((constructor(102))) static void lw__srcu_define_##name_(void) \
    {                                                                           \
        lw__srcu_named(LW__SRCU(&name_), #name_, lw_srcu_init(&name_));         \
    }                                                                           \
    LW__SRCU_SEMICOLON
#define LW_DEFINE_STATIC_SRCU(type, name_) static LW_DEFINE_SRCU(type, name_)

/* ---- updaters ----
 * None that waits (synchronize*, cond_synchronize, barrier) may be called inside a critical section of the same domain: it
 * would wait for its own thread. It returns -EDEADLK where that is known: in a domain that counts per thread, as
 * lw_srcu_describe() says, of a flavour other than fast_updown. LW_DEBUG aborts. Elsewhere it waits for ever. */

/* Waits for a grace period: until every critical section that began before the call is over. Concurrent callers share grace
 * periods and sleep. 0, or an error: then nothing is known to be over, and nothing may be freed. */
LW_API int lw_srcu_synchronize(struct lw_srcu *s) __attribute__((warn_unused_result));

/* The same with pauses of at most 50 us between scans: returns sooner after the last reader leaves and uses more CPU
 * time. */
LW_API int lw_srcu_synchronize_expedited(struct lw_srcu *s) __attribute__((warn_unused_result));

/* The same, for at most `ns` nanoseconds: -ETIMEDOUT then, and nothing is known to be over. Readers decide how long the
 * library needs; a thread that advances the grace period for others gives that up at its own limit, and another one
 * continues. */
LW_API int lw_srcu_synchronize_timeout(struct lw_srcu *s, uint64_t ns) __attribute__((warn_unused_result));

/* Waits only if the grace period that `cookie` stands for (lw_srcu_get_state(), lw_srcu_start_poll()) is not over yet.
 * Either way what the caller does next comes after it. 0, -EINVAL (no cookie), or as lw_srcu_synchronize(). */
LW_API int lw_srcu_cond_synchronize(struct lw_srcu *s, unsigned long cookie) __attribute__((warn_unused_result));

/* Calls fn(head) after a grace period, on one worker thread that serves all domains. Callbacks of one domain run in the
 * order of the calls, where that order is defined. fn may call every function here except lw_srcu_barrier(). 0, -EINVAL, or
 * the error of starting the worker thread. Not for signal handlers. */
LW_API int lw_srcu_call(struct lw_srcu *s, struct lw_srcu_head *head, void (*fn)(struct lw_srcu_head *));

/* Calls free(p) after a grace period: p points to a structure from malloc() whose member `member` is a struct lw_srcu_head
 * less than 4096 bytes into it. As lw_srcu_call(). */
#define lw_srcu_free(s, p, member) lw__srcu_call_free(LW__SRCU(s), &(p)->member, offsetof(__typeof__(*(p)), member))

/* Waits until every callback that was queued before the call has returned. Where no worker thread exists, the calling thread
 * runs callbacks, also those of other domains. 0, -EDEADLK (also inside a callback), or membarrier's error. */
LW_API int lw_srcu_barrier(struct lw_srcu *s) __attribute__((warn_unused_result));

/* A cookie for lw_srcu_poll(), which returns true once a whole grace period has passed since the cookie was taken.
 * lw_srcu_get_state() starts no grace period; lw_srcu_start_poll() has the worker thread run one. 0 is not a cookie, and is
 * never over: lw_srcu_start_poll() returns it when it cannot start the worker. A cookie stays valid for ULONG_MAX / 4 grace
 * periods. Polling never waits. */
LW_API unsigned long lw_srcu_get_state(struct lw_srcu *s);
LW_API unsigned long lw_srcu_start_poll(struct lw_srcu *s);
LW_API bool lw_srcu_poll(struct lw_srcu *s, unsigned long cookie);

/* ---- the worker thread ----
 * One thread per process runs callbacks and serves lw_srcu_start_poll(). It starts when first needed and ends after a second
 * with nothing to do. It blocks all signals and takes the CPU affinity, the scheduling policy (real-time ones excepted) and
 * the nice value that the process had when the library was loaded. It inherits the system-call filter of the thread that
 * first needed it: a program that sandboxes some threads starts the worker before. */

/* Starts the worker now, from the calling thread, and keeps it until lw_srcu_worker_stop(). 0, or why it could not be
 * started. Not for signal handlers. */
LW_API int lw_srcu_worker_start(void);
/* Ends the worker and returns when it has ended. No worker is started after that until lw_srcu_worker_start(): callbacks
 * then run in lw_srcu_barrier(), and lw_srcu_poll() advances grace periods. 0, or -EDEADLK inside a callback. Not for signal
 * handlers. */
LW_API int lw_srcu_worker_stop(void);
/* What exit() does with the worker. `stop` true, as it is initially: as lw_srcu_worker_stop(), which waits for a callback
 * that is running. It does so where a handler stands that atexit() registered just before the first worker was started: so
 * before the destructors of objects that were constructed before that. Callbacks that are queued by then run only where a
 * later destructor or handler calls lw_srcu_barrier(). False: the worker goes on until the process ends, beside the
 * destructors. */
LW_API void lw_srcu_worker_at_exit(bool stop);
/* Has the worker run on the CPUs of `mask`, a cpu_set_t of `bytes` bytes, now and whenever it is started. CPUs that the
 * process may not use are ignored. 0, -EINVAL (bytes is 0 or over 8192, mask is NULL), or why it could not be started
 * again. */
LW_API int lw_srcu_worker_affinity(size_t bytes, const void *mask);

/* ---- stuck readers ---- */

/* Called by a waiting thread or the worker. `text` is a few lines: the domain, the age of the grace period in milliseconds,
 * and the counts of every thread and CPU. The library may hold locks during the call: of the functions here the hook may
 * call lw_srcu_describe() only, and it must not fork(). */
typedef void (*lw_srcu_stall_hook)(const struct lw_srcu *s, unsigned age_ms, const char *text, void *argument);

/* Has every grace period of this domain that takes longer than `after_ms` milliseconds reported, and reported again each
 * time its age has doubled. after_ms 0: never. Without a hook the text goes to standard error under LINEWRIGHT_VERBOSE=1.
 * Initially 10,000 ms and no hook. 0 or -EINVAL. */
LW_API int lw_srcu_on_stall(struct lw_srcu *s, unsigned after_ms, lw_srcu_stall_hook hook, void *argument);

/* ---- pointers ---- */

/* Loads a pointer that updaters replace, inside a critical section. Reads through it see what was stored before
 * lw_srcu_assign_pointer(). Consume order, which compilers implement as acquire. Both also take an _Atomic(T *) in C, and
 * lw_srcu_dereference() a std::atomic<T *> in C++ (srcu_guard.h). */
#ifdef __cplusplus
extern "C++" {
template <class T> T *lw_srcu_dereference(T *const &p)
{
    return __atomic_load_n(&p, __ATOMIC_CONSUME);
}
}
#define lw_srcu_assign_pointer(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)
#else
#define LW__SRCU_POINTER(p) __typeof__(((void)0, (p))) /* without qualifiers, _Atomic among them */
#define LW__SRCU_PLACE(p) ((LW__SRCU_POINTER(p) volatile *)(uintptr_t)&(p))
#define lw_srcu_dereference(p) __atomic_load_n(LW__SRCU_PLACE(p), __ATOMIC_CONSUME)
#define lw_srcu_assign_pointer(p, v) __atomic_store_n(LW__SRCU_PLACE(p), (v), __ATOMIC_RELEASE)
#endif

/* For updaters that do not exclude each other by a lock. Both return the pointer before; cmpxchg stores v only where that
 * equals `old`. What was stored before is seen through v; the old object is seen as its updater left it. Acquire and
 * release. */
#define lw_srcu_xchg_pointer(p, v) __atomic_exchange_n(&(p), (v), __ATOMIC_ACQ_REL)
#define lw_srcu_cmpxchg_pointer(p, old, v)                                                            \
    __extension__({                                                                                   \
        __typeof__(p) lw__expected = (old);                                                           \
        __atomic_compare_exchange_n(&(p), &lw__expected, (v), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE); \
        lw__expected;                                                                                 \
    })

/* ---- how readers count; not for users ---- */

#define LW__SRCU_FIRST 64
#define LW__SRCU_WORD sizeof(unsigned long)

LW_API void lw__srcu_named(struct lw_srcu *s, const char *name, int err);
LW_API int lw__srcu_call_free(struct lw_srcu *s, struct lw_srcu_head *head, size_t offset);
LW_API uintptr_t lw__srcu_lock_slow(struct lw_srcu *s);
LW_API void lw__srcu_unlock_slow(struct lw_srcu *s, uintptr_t pair);
LW_API uintptr_t lw__srcu_debug_lock(struct lw_srcu *s, unsigned flavour, bool handed_on, const char *where);
LW_API bool lw__srcu_debug_held(const struct lw_srcu *s);
/* `where` NULL: the head is not queued after all. */
LW_API void lw__srcu_debug_queued(const struct lw_srcu *s, const struct lw_srcu_head *head, const char *where);
LW_API void lw__srcu_debug_unlock(struct lw_srcu *s, unsigned flavour, lw_srcu_index c, const char *where);

#if LW_HAVE_THREAD_WORDS
/* The address of the calling thread's record minus a bias that lw_srcu.pair carries too (src/srcu/records.c). NULL before
 * its first critical section and after its last destructor. Initial-exec: no call. */
extern LW_API __thread char *lw__srcu_self __attribute__((tls_model("initial-exec")));

__attribute__((always_inline)) static inline void lw__srcu_add(char *word, bool barrier)
{
#ifdef LW_THREAD_SANITIZER
    /* It does not see assembly. Release and acquire, pairing with the sums in src/srcu/records.c, stand for the heavy
     * barrier. */
    __atomic_fetch_add((unsigned long *)(void *)word, 1, barrier ? __ATOMIC_SEQ_CST : __ATOMIC_ACQ_REL);
#else
    if (barrier)
        lw_thread_word_inc_full((unsigned long *)(void *)word);
    else
        lw_thread_word_inc((unsigned long *)(void *)word);
#endif
}
#endif

/* Relaxed load of `pair`: either index will do. A grace period scans both, and so allows for a reader that counts late
 * (gp_step() in src/srcu/gp.h). */
__attribute__((always_inline)) static inline uintptr_t lw__srcu_lock(struct lw_srcu *s, bool barrier)
{
    uintptr_t pair = __atomic_load_n(&s->pair, __ATOMIC_RELAXED);
#if LW_HAVE_THREAD_WORDS
    char *self = lw__srcu_self;
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1)) {
        __asm__("" : "+r"(self)); /* keeps g++ from merging the two tests into arithmetic, which takes half as long again */
        if (__builtin_expect(self != NULL, 1)) {
            lw__srcu_add((char *)((uintptr_t)self + pair), barrier); /* B; pairs with HEAVY_BARRIER in src/srcu/gp.h */
            return pair;
        }
    }
#else
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1) && __builtin_expect(lw_rseq_add_ulong((unsigned long *)pair, 1), 1)) {
        if (barrier) /* B: count before critical section; pairs with HEAVY_BARRIER in src/srcu/gp.h */
            lw_full_fence();
        return pair;
    }
#endif
    return lw__srcu_lock_slow(s);
}

__attribute__((always_inline)) static inline void lw__srcu_unlock(struct lw_srcu *s, uintptr_t pair, bool barrier)
{
#if LW_HAVE_THREAD_WORDS
    char *self = lw__srcu_self;
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1)) { /* the compiler knows it after an inlined lock */
        __asm__("" : "+r"(self)); /* as in lw__srcu_lock() */
        if (__builtin_expect(self != NULL, 1)) {
            /* C: x86 performs what comes before a store before it, which is all that C is for; pairs with HEAVY_BARRIER in
             * src/srcu/gp.h. Checked: verify/litmus x86-srcu-unlock-without-c, "C as an order only" in
             * tests/cpp/srcu/interleave.cpp, and tests/cpp/rc11, where C is such an order. */
            (void)barrier;
            lw__srcu_add((char *)((uintptr_t)self + pair + 2 * LW__SRCU_WORD), false);
            return;
        }
    }
#else
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1)) {
        if (barrier) /* C: critical section before count; pairs with HEAVY_BARRIER in src/srcu/gp.h */
            lw_full_fence();
        if (__builtin_expect(lw_rseq_add_ulong((unsigned long *)(pair + 2 * LW__SRCU_WORD), 1), 1))
            return;
    }
#endif
    lw__srcu_unlock_slow(s, pair);
}

/* True: the calling thread is in a critical section of the domain that began in it. Known only in code compiled with
 * LW_DEBUG, and while at most 4096 critical sections are open; elsewhere always true. For assertions:
 * assert(lw_srcu_read_lock_held(s)). */
LW_INLINE bool lw_srcu_read_lock_held(const struct lw_srcu *s)
{
#ifdef LW_DEBUG
    return lw__srcu_debug_held(s);
#else
    (void)s;
    return true;
#endif
}

#ifdef LW_DEBUG
/* A head that was refused is not queued. */
static inline int lw__srcu_checked_call(struct lw_srcu *s, struct lw_srcu_head *head, void (*fn)(struct lw_srcu_head *))
{
    int err;
    lw__srcu_debug_queued(s, head, "lw_srcu_call");
    err = lw_srcu_call(s, head, fn);
    if (err)
        lw__srcu_debug_queued(s, head, NULL);
    return err;
}

static inline int lw__srcu_checked_call_free(struct lw_srcu *s, struct lw_srcu_head *head, size_t offset)
{
    int err;
    lw__srcu_debug_queued(s, head, "lw_srcu_free");
    err = lw__srcu_call_free(s, head, offset);
    if (err)
        lw__srcu_debug_queued(s, head, NULL);
    return err;
}
#if defined(__cplusplus) || defined(LW_SRCU_LIBRARY)
#define lw_srcu_call lw__srcu_checked_call
#endif
#define lw__srcu_call_free lw__srcu_checked_call_free
#define LW__SRCU_LOCKED(s, flavour, handed_on) lw__srcu_debug_lock(s, flavour, handed_on, __func__)
#define LW__SRCU_UNLOCKING(s, flavour, index) lw__srcu_debug_unlock(s, flavour, index, __func__)
#else
#define LW__SRCU_LOCKED(s, flavour, handed_on) 0
#define LW__SRCU_UNLOCKING(s, flavour, index) ((void)0)
#endif

#define LW__SRCU_READER(lock, unlock, type, flavour, barrier, handed_on)                    \
    __attribute__((warn_unused_result)) LW_ALWAYS_INLINE lw_srcu_index lock(struct type *s) \
    {                                                                                       \
        lw_srcu_index index;                                                                \
        index.ticket = LW__SRCU_LOCKED((struct lw_srcu *)s, flavour, handed_on);            \
        index.pair = lw__srcu_lock((struct lw_srcu *)s, barrier);                           \
        return index;                                                                       \
    }                                                                                       \
    LW_ALWAYS_INLINE void unlock(struct type *s, lw_srcu_index index)                       \
    {                                                                                       \
        LW__SRCU_UNLOCKING((struct lw_srcu *)s, flavour, index);                            \
        lw__srcu_unlock((struct lw_srcu *)s, index.pair, barrier);                          \
    }

/* ---- readers: one pair per flavour ---- */

LW__SRCU_READER(lw_srcu_read_lock, lw_srcu_read_unlock, lw_srcu_normal, LW__SRCU_NORMAL, true, false)
LW__SRCU_READER(lw_srcu_read_lock_fast, lw_srcu_read_unlock_fast, lw_srcu_fast, LW__SRCU_FAST, false, false)
/* The index may be passed to another thread, a timer or a signal handler, by any means that orders the two. */
LW__SRCU_READER(lw_srcu_down_read_fast, lw_srcu_up_read_fast, lw_srcu_fast_updown, LW__SRCU_FAST_UPDOWN, false, true)

#ifdef __cplusplus
}
#endif

#if !defined(__cplusplus) && !defined(LW_SRCU_LIBRARY)
/* C has no derived types, and its compilers only warn of a wrong pointer. So each name is a macro as well, which takes a
 * pointer of its own type, or of every flavour's. */
#define LW__SRCU_ONLY(type, s) _Generic((s), struct type *: (s))
#define lw_srcu_read_lock(s) lw_srcu_read_lock(LW__SRCU_ONLY(lw_srcu_normal, s))
#define lw_srcu_read_unlock(s, index) lw_srcu_read_unlock(LW__SRCU_ONLY(lw_srcu_normal, s), (index))
#define lw_srcu_read_lock_fast(s) lw_srcu_read_lock_fast(LW__SRCU_ONLY(lw_srcu_fast, s))
#define lw_srcu_read_unlock_fast(s, index) lw_srcu_read_unlock_fast(LW__SRCU_ONLY(lw_srcu_fast, s), (index))
#define lw_srcu_down_read_fast(s) lw_srcu_down_read_fast(LW__SRCU_ONLY(lw_srcu_fast_updown, s))
#define lw_srcu_up_read_fast(s, index) lw_srcu_up_read_fast(LW__SRCU_ONLY(lw_srcu_fast_updown, s), (index))
#define lw_srcu_cleanup(s) lw_srcu_cleanup(LW__SRCU(s))
#define lw_srcu_cleanup_idle(s) lw_srcu_cleanup_idle(LW__SRCU(s))
#define lw_srcu_describe(s, text, size) lw_srcu_describe(LW__SRCU_CONST(s), (text), (size))
#define lw_srcu_forget_readers(s) lw_srcu_forget_readers(LW__SRCU(s))
#define lw_srcu_synchronize(s) lw_srcu_synchronize(LW__SRCU(s))
#define lw_srcu_synchronize_expedited(s) lw_srcu_synchronize_expedited(LW__SRCU(s))
#define lw_srcu_synchronize_timeout(s, ns) lw_srcu_synchronize_timeout(LW__SRCU(s), (ns))
#define lw_srcu_cond_synchronize(s, cookie) lw_srcu_cond_synchronize(LW__SRCU(s), (cookie))
#define lw_srcu_barrier(s) lw_srcu_barrier(LW__SRCU(s))
#define lw_srcu_get_state(s) lw_srcu_get_state(LW__SRCU(s))
#define lw_srcu_start_poll(s) lw_srcu_start_poll(LW__SRCU(s))
#define lw_srcu_poll(s, cookie) lw_srcu_poll(LW__SRCU(s), (cookie))
#define lw_srcu_on_stall(s, after_ms, hook, argument) lw_srcu_on_stall(LW__SRCU(s), (after_ms), (hook), (argument))
#define lw_srcu_read_lock_held(s) lw_srcu_read_lock_held(LW__SRCU_CONST(s))
#ifdef LW_DEBUG
#define lw_srcu_call(s, head, fn) lw__srcu_checked_call(LW__SRCU(s), (head), (fn))
#else
#define lw_srcu_call(s, head, fn) lw_srcu_call(LW__SRCU(s), (head), (fn))
#endif
#endif

#if !defined(LW_C_API) || !defined(__cplusplus)
#include <linewright/srcu_guard.h>
#endif

LW__HEADER_ENDS

#endif

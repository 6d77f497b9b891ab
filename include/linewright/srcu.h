/* Read-side sections that may sleep and migrate, in as many independent domains as one likes, without registering threads.
 *
 *   LW_DEFINE_SRCU(routes, LW_SRCU_FAST);                       or lw_srcu_init(&domain, flavour)
 *
 *   lw_srcu_index c = lw_srcu_read_lock_fast(&routes);         reader: two increments, no shared line, no barrier
 *   struct route *r = lw_srcu_dereference(current_route);
 *   … use *r, sleep, migrate, nest …
 *   lw_srcu_read_unlock_fast(&routes, c);
 *
 *   lw_srcu_assign_pointer(current_route, new_route);           updater
 *   if (lw_srcu_synchronize(&routes) == 0)                      every section that could see the old one is over
 *       free(old);
 *
 * Flavours are fixed when the domain is made; a domain is used through its own functions only (debug builds check):
 *
 *   flavour               functions                              reader's order     grace period
 *   LW_SRCU_NORMAL        lw_srcu_read_lock / unlock             full barriers      barriers only, any environment
 *   LW_SRCU_SIGNAL_SAFE   …_signal_safe                          full barriers      the same
 *   LW_SRCU_FAST          …_fast                                 compiler only      membarrier(PRIVATE_EXPEDITED)
 *   LW_SRCU_FAST_UPDOWN   …_fast_updown, and lw_srcu_down_read_fast / lw_srcu_up_read_fast:
 *                         down in one place, up in another thread, a timer or a signal handler
 *
 * Every reader function is async-signal-safe; LW_SRCU_NORMAL alone does not promise to stay so.
 *
 * Ordering. If a section's reads could come before the call of lw_srcu_synchronize() in any order that the program can observe,
 * then all of that section comes before its return; a section that begins later sees what was stored before the call. A
 * section orders nothing else: fast flavours are no barriers. docs/library/srcu.md has the argument.
 *
 * Errors are negative errno values. A grace period that cannot be proved over (membarrier taken away after init, say) is never
 * reported as over: lw_srcu_synchronize() returns the error, lw_srcu_poll() false, and callbacks stay queued.
 *
 * fork(): the child has the domains, the sections of the thread that forked, and all queued callbacks but the one that another
 * thread is running just then; its own worker runs them once it is needed. fork() waits for no callback. Sections that other
 * threads were in stay counted in the child for ever: see lw_srcu_forget_readers().
 *
 * LW_DEBUG, defined where the reader functions are called, checks cookies (used twice, of another domain), flavours, and
 * lw_srcu_synchronize() inside a section of the same thread; each says so on standard error and aborts.
 */
#ifndef LINEWRIGHT_SRCU_H
#define LINEWRIGHT_SRCU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linewright/api.h>
#include <linewright/arch/thread_sanitizer.h>
#include <linewright/percpu.h>

#ifdef __cplusplus
extern "C" {
#endif

enum lw_srcu_flavour { LW_SRCU_NORMAL = 1, LW_SRCU_SIGNAL_SAFE, LW_SRCU_FAST, LW_SRCU_FAST_UPDOWN };

struct lw__srcu_domain;

/* Its fields are not for users. `pair` says where readers count now: the place of the current index' lock word, among the
 * calling thread's words where LW__SRCU_THREAD_WORDS, else as a per-CPU handle; unlocks are two words further on.
 * Below LW__SRCU_FIRST: 2 + index, and counting happens out of line. */
struct lw_srcu {
    uintptr_t pair;
    struct lw__srcu_domain *domain;
    const char *name;
    unsigned flavour;
};

/* What a lock returns and its unlock takes, once. Carries the domain's place and the index; `ticket` is used by LW_DEBUG. */
typedef struct lw_srcu_index {
    uintptr_t pair;
    uintptr_t ticket;
} lw_srcu_index;

/* A callback, usually a member of what is to be freed; the memory is the caller's until `fn` is called with it. */
struct lw_srcu_head {
    struct lw_srcu_head *next;
    void (*fn)(struct lw_srcu_head *);
};

/* ---- domains ---- */

/* 0, -EINVAL (unknown flavour, NULL), -ENOMEM, or -EAGAIN (pthread resources). Not for signal handlers. */
LW_API int lw_srcu_init(struct lw_srcu *s, enum lw_srcu_flavour flavour);

/* Ends a domain that nobody uses any more. -EBUSY while a section is open, -EAGAIN while callbacks are queued or a grace
 * period is waited for (lw_srcu_barrier() ends the former); states that somebody polls for end with it. The domain stays usable, lw_srcu_describe() has the counts, and
 * LINEWRIGHT_VERBOSE=1 prints them. -EINVAL when not initialised; -EPERM … when membarrier has been taken away. */
LW_API int lw_srcu_cleanup(struct lw_srcu *s);

/* One line about the domain as it is now: flavour, how its readers count, what ends its grace periods and why, open sections,
 * queued callbacks. At most size - 1 bytes and a NUL; returns the full length, as snprintf does. */
LW_API int lw_srcu_describe(const struct lw_srcu *s, char *text, size_t size);

/* In the child of fork(), by a thread that is in no section of this domain, with no other thread yet: forgets the sections
 * that the parent's other threads were in. 0 or -EINVAL. */
LW_API int lw_srcu_forget_readers(struct lw_srcu *s);

/* Takes the semicolon. Not "struct lw_srcu": in a namespace of C++ that would declare another type of the name. */
#ifdef __cplusplus
#define LW__SRCU_SEMICOLON static_assert(true, "")
#else
#define LW__SRCU_SEMICOLON _Static_assert(1, "")
#endif

/* A domain with static storage, ready before main (after constructors of priority 102 and below). In a file's scope, or a namespace's. */
#define LW_DEFINE_SRCU(name_, flavour_)                                         \
    struct lw_srcu name_ = {0, NULL, #name_, 0};                                \
    __attribute__((constructor(102))) static void lw__srcu_define_##name_(void) \
    {                                                                           \
        lw__srcu_define(&name_, #name_, flavour_);                              \
    }                                                                           \
    LW__SRCU_SEMICOLON
#define LW_DEFINE_STATIC_SRCU(name_, flavour_) static LW_DEFINE_SRCU(name_, flavour_)

/* ---- updaters; none may be called inside a section of the same domain ---- */

/* Waits for a grace period: every section that began before the call is over. Callers at the same time share grace periods
 * and sleep. 0, or an error: then nothing is known to be over, and nothing may be freed. */
LW_API int lw_srcu_synchronize(struct lw_srcu *s) __attribute__((warn_unused_result));

/* The same, looking again without long pauses: sooner over after a section ends, and dearer for the CPU it runs on. */
LW_API int lw_srcu_synchronize_expedited(struct lw_srcu *s) __attribute__((warn_unused_result));

/* Calls fn(head) after a grace period, on one thread that serves all domains, in the order of the calls for one domain (by one
 * thread, or ordered otherwise). fn may call anything here but lw_srcu_barrier(). 0, -EINVAL, or why that thread could not be
 * started. Not for signal handlers. */
LW_API int lw_srcu_call(struct lw_srcu *s, struct lw_srcu_head *head, void (*fn)(struct lw_srcu_head *));

/* Waits until every callback that was queued before has returned. 0, -EDEADLK inside a callback, or the domain's error. */
LW_API int lw_srcu_barrier(struct lw_srcu *s) __attribute__((warn_unused_result));

/* A state for lw_srcu_poll(): true once a full grace period has passed since it was taken. lw_srcu_get_state() starts nothing;
 * lw_srcu_start_poll() sees to it that the grace period comes (0: it could not; no state is 0). A state compares right for
 * ULONG_MAX / 4 grace periods. Polling never waits. */
LW_API unsigned long lw_srcu_get_state(struct lw_srcu *s);
LW_API unsigned long lw_srcu_start_poll(struct lw_srcu *s);
LW_API bool lw_srcu_poll(struct lw_srcu *s, unsigned long state);

/* ---- stuck readers ---- */

/* Called by whoever waits, with `text` a few lines: the domain, the age of the grace period in milliseconds, and which
 * threads and CPUs have counted what. It may be called on any thread, with locks of the library held: of the functions here it
 * may call lw_srcu_describe() only, and it must not fork(). */
typedef void (*lw_srcu_stall_hook)(const struct lw_srcu *s, unsigned age_ms, const char *text, void *argument);

/* Reports a grace period of this domain that takes longer than `after_ms`, then each time its age doubles. after_ms 0: never.
 * Without a hook the text goes to standard error under LINEWRIGHT_VERBOSE=1. At first: 10 000 ms, no hook. 0 or -EINVAL. */
LW_API int lw_srcu_on_stall(struct lw_srcu *s, unsigned after_ms, lw_srcu_stall_hook hook, void *argument);

/* ---- pointers ---- */

/* Loads a pointer that updaters replace; for use inside a section. Reads through it see what was stored before
 * lw_srcu_assign_pointer(). (Consume, which compilers make an acquire.) */
#define lw_srcu_dereference(p) __atomic_load_n(&(p), __ATOMIC_CONSUME)
#define lw_srcu_assign_pointer(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)

/* ---- readers: how they count; not for users ---- */

#define LW__SRCU_FIRST 64
#define LW__SRCU_WORD sizeof(unsigned long)

#if defined(__x86_64__) || defined(__i386__)
/* One instruction adds to memory: neither a signal nor a preemption can come in between, so a word that belongs to one
 * thread needs no sequence. Elsewhere (load, add, store) the current CPU's words are counted on by sequences. */
#define LW__SRCU_THREAD_WORDS 1
#else
#define LW__SRCU_THREAD_WORDS 0
#endif

LW_API void lw__srcu_define(struct lw_srcu *s, const char *name, enum lw_srcu_flavour flavour);
LW_API uintptr_t lw__srcu_lock_slow(struct lw_srcu *s);
LW_API void lw__srcu_unlock_slow(struct lw_srcu *s, uintptr_t pair);
LW_API uintptr_t lw__srcu_debug_lock(struct lw_srcu *s, unsigned flavour, bool handed_on, const char *where);
LW_API void lw__srcu_debug_unlock(struct lw_srcu *s, unsigned flavour, lw_srcu_index c, const char *where);

/* Not the compiler's fence: ThreadSanitizer refuses to compile that. */
static inline void lw__srcu_full_fence(void)
{
#if defined(__x86_64__)
    __asm__ volatile("lock; orl $0, (%%rsp)" : : : "memory", "cc");
#elif defined(__i386__)
    __asm__ volatile("lock; orl $0, (%%esp)" : : : "memory", "cc");
#elif defined(__aarch64__)
    __asm__ volatile("dmb ish" : : : "memory");
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#if LW__SRCU_THREAD_WORDS
/* The calling thread's words; NULL before its first section and after its last destructor. Initial-exec: no call. */
extern LW_API __thread char *lw__srcu_self __attribute__((tls_model("initial-exec")));

#ifdef __LP64__
#define LW__SRCU_SUFFIX "q"
#else
#define LW__SRCU_SUFFIX "l"
#endif

__attribute__((always_inline)) static inline void lw__srcu_add(char *word, bool barrier)
{
#ifdef LW_THREAD_SANITIZER
    /* It sees no assembly. Release and acquire, pairing with the sums in src/srcu/srcu.c, as the heavy barrier makes it. */
    __atomic_fetch_add((unsigned long *)(void *)word, 1, barrier ? __ATOMIC_SEQ_CST : __ATOMIC_ACQ_REL);
#else
    /* The address in one register: CPUs that rename memory words do it for that form. */
    if (barrier) /* B and C: a locked add is a full barrier on both of its sides; pairs with HEAVY_BARRIER in src/srcu/gp.h */
        __asm__ volatile("lock; add" LW__SRCU_SUFFIX " $1, (%0)" : : "r"(word) : "memory", "cc");
    else
        __asm__ volatile("add" LW__SRCU_SUFFIX " $1, (%0)" : : "r"(word) : "memory", "cc");
#endif
}
#endif

/* Relaxed load of `pair`: whichever index it gets, the count goes to that one, and the scan of both in a grace period allows
 * for late counting (gp_step() in src/srcu/gp.h). */
__attribute__((always_inline)) static inline uintptr_t lw__srcu_lock(struct lw_srcu *s, bool barrier)
{
    uintptr_t pair = __atomic_load_n(&s->pair, __ATOMIC_RELAXED);
#if LW__SRCU_THREAD_WORDS
    char *self = lw__srcu_self;
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1)) {
        __asm__("" : "+r"(self)); /* keeps g++ from joining the two tests into arithmetic, which takes half as long again */
        if (__builtin_expect(self != NULL, 1)) {
            lw__srcu_add(self + pair, barrier);
            return pair;
        }
    }
#else
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1) && __builtin_expect(lw_rseq_add_ulong((unsigned long *)pair, 1), 1)) {
        if (barrier) /* B: count before section; pairs with HEAVY_BARRIER in src/srcu/gp.h */
            lw__srcu_full_fence();
        return pair;
    }
#endif
    return lw__srcu_lock_slow(s);
}

__attribute__((always_inline)) static inline void lw__srcu_unlock(struct lw_srcu *s, uintptr_t pair, bool barrier)
{
#if LW__SRCU_THREAD_WORDS
    char *self = lw__srcu_self;
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1)) { /* known after an inlined lock */
        __asm__("" : "+r"(self)); /* as in lw__srcu_lock() */
        if (__builtin_expect(self != NULL, 1)) {
            lw__srcu_add(self + pair + 2 * LW__SRCU_WORD, barrier);
            return;
        }
    }
#else
    if (__builtin_expect(pair >= LW__SRCU_FIRST, 1)) {
        if (barrier) /* C: section before count; pairs with HEAVY_BARRIER in src/srcu/gp.h */
            lw__srcu_full_fence();
        if (__builtin_expect(lw_rseq_add_ulong((unsigned long *)(pair + 2 * LW__SRCU_WORD), 1), 1))
            return;
    }
#endif
    lw__srcu_unlock_slow(s, pair);
}

#ifdef LW_DEBUG
#define LW__SRCU_LOCKED(s, flavour, handed_on) lw__srcu_debug_lock(s, flavour, handed_on, __func__)
#define LW__SRCU_UNLOCKING(s, flavour, c) lw__srcu_debug_unlock(s, flavour, c, __func__)
#else
#define LW__SRCU_LOCKED(s, flavour, handed_on) 0
#define LW__SRCU_UNLOCKING(s, flavour, c) ((void)0)
#endif

#define LW__SRCU_READER(lock, unlock, flavour, barrier, handed_on)                               \
    __attribute__((always_inline)) static inline lw_srcu_index lock(struct lw_srcu *s)           \
    {                                                                                            \
        lw_srcu_index c;                                                                         \
        c.ticket = LW__SRCU_LOCKED(s, flavour, handed_on);                                       \
        c.pair = lw__srcu_lock(s, barrier);                                                      \
        return c;                                                                                \
    }                                                                                            \
    __attribute__((always_inline)) static inline void unlock(struct lw_srcu *s, lw_srcu_index c) \
    {                                                                                            \
        LW__SRCU_UNLOCKING(s, flavour, c);                                                       \
        lw__srcu_unlock(s, c.pair, barrier);                                                     \
    }

/* ---- readers: one pair per flavour ---- */

LW__SRCU_READER(lw_srcu_read_lock, lw_srcu_read_unlock, LW_SRCU_NORMAL, true, false)
LW__SRCU_READER(lw_srcu_read_lock_signal_safe, lw_srcu_read_unlock_signal_safe, LW_SRCU_SIGNAL_SAFE, true, false)
LW__SRCU_READER(lw_srcu_read_lock_fast, lw_srcu_read_unlock_fast, LW_SRCU_FAST, false, false)
LW__SRCU_READER(lw_srcu_read_lock_fast_updown, lw_srcu_read_unlock_fast_updown, LW_SRCU_FAST_UPDOWN, false, false)
/* The cookie may be handed to another thread, a timer or a signal handler, by any means that orders the hand-over. */
LW__SRCU_READER(lw_srcu_down_read_fast, lw_srcu_up_read_fast, LW_SRCU_FAST_UPDOWN, false, true)

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/* Waiting for another thread: until a word has a value, by the hint that is right on this machine, backing off, or asleep.
 *
 *   while (!lw_try_cmpxchg_u32(…))                  one round of a loop of one's own
 *       lw_relax();
 *   lw_wait_until_u32(&ready, 1);                   until another thread has stored 1
 *   lw_park_until_u32(&ready, 1);                   the same, asleep after a while; who stores calls lw_unpark_u32(&ready)
 *
 * Which hint a process waits by is chosen once at start-up by LINEWRIGHT_WAIT, or by lw_wait_set():
 *
 *     LINEWRIGHT_WAIT = "auto" | item { "," item }
 *     item            = hint [ "*" times ] | "backoff=" kind | "cap=" ns | "park=" ns | "slice"
 *     kind            = "none" | "linear" | "exponential"
 *
 *   hint       what one round is; x86: none, pause, tpause, umwait, mwaitx; arm64: none, yield, isb, sb, wfe, wfet; others: none
 *   times      how often it is executed in one round, 1 to 1000; not of a hint that watches
 *   backoff=   how every back-off object grows, whatever the program chose
 *   cap=       the longest wait of any back-off object, 1 ns to a tick of the scheduler
 *   park=      how long lw_park_…() spins before it sleeps, 0 ns to a second
 *   slice      write sections of the library's locks ask for time slice extensions (slice.h), where there are any
 *
 * Each kind of item at most once; no spaces; an empty value is "auto". `auto` is what the library did before there was a choice: `pause` on x86, `isb` on
 * arm64, back-off exponential unless a program says otherwise, 20 us before a thread sleeps. A wrong value, or a hint that this CPU lacks, is
 * reported on standard error with what is allowed, and `auto` is used.
 *
 * `umwait`, `mwaitx`, `wfe` and `wfet` watch a word: the CPU rests until another stores to its line, or for some tens of us. (`wfe` has no
 * limit of its own, and needs none: it is executed only behind an exclusive load, which arms the monitor that the store clears, and returns
 * from the kernel end it, too. So it hangs neither without the event stream nor where the thread was moved.) Where there is no word, as in
 * lw_relax(), they stand for the usual hint.
 *
 * Ordering. lw_wait_…() and lw_park_…() load with acquire order: what the other thread did before it stored the value with release
 * order, or with a stronger one, happened before they return. With _relaxed they order nothing. lw_relax…() and back-off order nothing.
 *
 * All functions may be called from any thread. In signal handlers, too: a handler that waits for the thread that it interrupted waits for
 * ever, of course. After fork() a child goes on with its parent's choice. None is a cancellation point; errno stays as it was. A waiting
 * thread spins without end, but for lw_park_…(): where there are more threads than CPUs, or waits are long, use these. */
#ifndef LINEWRIGHT_WAIT_H
#define LINEWRIGHT_WAIT_H

#include <linewright/api.h>
#include <linewright/relax.h>

LW__HEADER_BEGINS

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the choice ---- */

/* Makes `text` the choice of this process from now on; NULL and "" are "auto". Returns 0; -EINVAL where it does not parse; -EOPNOTSUPP where it names a
 * hint that this CPU lacks. On an error the choice stays as it was, and one line without newline stands in `error`, if `size` > 0 (cut
 * to size - 1 bytes). Other threads follow at an unspecified time. Do not call it from two threads at once. */
LW_API int lw_wait_set(const char *text, char *error, size_t size);

/* Whether this CPU has the hint of that name: as it reports itself (CPUID; HWCAP), and the instruction runs when tried. */
LW_API bool lw_wait_has(const char *hint);

/* Writes one line without newline into `buffer` (cut to size - 1 bytes): the choice, where it came from, and the hints that this CPU has.
 * Returns the length of the whole line, as snprintf does. */
LW_API size_t lw_wait_describe(char *buffer, size_t size);

/* Whether the choice has `slice`, and the thread that made it has time slice extensions: then sections of locks shall ask for them, by lw_slice_begin(). */
LW_API bool lw_wait_slices(void);

/* ---- until a word has a value ---- */

/* What lw_relax_on_…() is where lw_wait_word is not 0. */
LW_API void lw__relax_chosen_on_u32(const uint32_t *word, uint32_t seen, uint32_t chosen);
LW_API void lw__relax_chosen_on_u64(const uint64_t *word, uint64_t seen, uint32_t chosen);

/* For each width, uint32_t everywhere and uint64_t on 64-bit machines; words are aligned to their size.
 *
 *   lw_relax_on_u<bits>(word, seen)              one round of a loop of one's own that loaded `seen` from *word: may return at any time, and returns
 *                                                soon after *word is something else. Orders nothing
 *   lw_wait_while_u<bits>[_relaxed](word, v)     until *word is something else than v, which it returns
 *   lw_wait_until_u<bits>[_relaxed](word, v)     until *word is v. A value that is there for a moment may be missed */
#define LW__WAIT_LOOPS(bits, suffix, order)                                                                     \
    LW_INLINE uint##bits##_t lw_wait_while_u##bits##suffix(const uint##bits##_t *word, uint##bits##_t unwanted) \
    {                                                                                                           \
        uint##bits##_t seen;                                                                                    \
        /* acquire: pairs with the release of who stores */                                                     \
        while ((seen = __atomic_load_n(word, order)) == unwanted)                                               \
            lw_relax_on_u##bits(word, unwanted);                                                                \
        return seen;                                                                                            \
    }                                                                                                           \
    LW_INLINE void lw_wait_until_u##bits##suffix(const uint##bits##_t *word, uint##bits##_t expected)           \
    {                                                                                                           \
        uint##bits##_t seen;                                                                                    \
        /* acquire: pairs with the release of who stores */                                                     \
        while ((seen = __atomic_load_n(word, order)) != expected)                                               \
            lw_relax_on_u##bits(word, seen);                                                                    \
    }

#define LW__WAIT_WIDTH(bits)                                                                       \
    LW_INLINE void lw_relax_on_u##bits(const uint##bits##_t *word, uint##bits##_t seen)            \
    {                                                                                              \
        uint32_t chosen = __atomic_load_n(&lw_wait_word, __ATOMIC_RELAXED); /* as in lw_relax() */ \
        if (__builtin_expect(chosen == 0, 1))                                                      \
            lw_cpu_relax();                                                                        \
        else                                                                                       \
            lw__relax_chosen_on_u##bits(word, seen, chosen);                                       \
    }                                                                                              \
    LW__WAIT_LOOPS(bits, , __ATOMIC_ACQUIRE)                                                       \
    LW__WAIT_LOOPS(bits, _relaxed, __ATOMIC_RELAXED)

LW__WAIT_WIDTH(32)
#if UINTPTR_MAX > UINT32_MAX
LW__WAIT_WIDTH(64)
#endif

/* ---- asleep after a while ---- */

/* As lw_wait_while_u32() and lw_wait_until_u32(), but the thread sleeps (futex, private to the process) once it has spun for the choice's
 * `park`. It sleeps until a thread of the same process calls lw_unpark_u32() with the word's address after it has changed the word; who
 * does not call it leaves the sleeper asleep. Where futexes are refused the thread goes on spinning. */
LW_API uint32_t lw_park_while_u32(const uint32_t *word, uint32_t unwanted);
LW_API void lw_park_until_u32(const uint32_t *word, uint32_t expected);

/* Wakes all threads that sleep in lw_park_…() on the word, all of which load it again. A full barrier and a load where none sleeps; words share
 * their counts of sleepers, so now and then a system call for none. The word's memory may be gone, but then another's sleeper may wake for
 * one more load. */
LW_API void lw_unpark_u32(const uint32_t *word);

/* ---- back-off ---- */

enum lw_backoff_kind {
    LW_BACKOFF_DEFAULT,     /* exponential */
    LW_BACKOFF_NONE,        /* each wait is one lw_relax() */
    LW_BACKOFF_LINEAR,      /* first_ns, twice, three times … */
    LW_BACKOFF_EXPONENTIAL, /* first_ns, twice, four times … */
};

/* Waits of one thread that grow up to a cap. Zeroed memory is one with the defaults. No thread's but its own; nothing to release. */
struct lw_backoff {
    uint8_t kind;      /* enum lw_backoff_kind */
    uint32_t first_ns; /* 0: LW_BACKOFF_FIRST_NS */
    uint32_t cap_ns;   /* 0: LW_BACKOFF_CAP_NS */
    uint32_t next_ns;  /* of the next wait; 0: first_ns */
};

#define LW_BACKOFF_INIT {0, 0, 0, 0}
#define LW_BACKOFF_FIRST_NS 50u /* about one PAUSE of Intel's CPUs since Skylake, two of AMD's */
#define LW_BACKOFF_CAP_NS 2000u /* in which a line makes some ten journeys between CPUs */

/* Returns 0; -EINVAL where the kind is unknown, first_ns or cap_ns is 0, first_ns is above cap_ns, or cap_ns beyond lw_wait_tick_ns(). */
LW_API int lw_backoff_init(struct lw_backoff *backoff, enum lw_backoff_kind kind, uint32_t first_ns, uint32_t cap_ns);

/* Waits, for longer the next time. */
LW_API void lw_backoff_wait(struct lw_backoff *backoff);

/* Waits in proportion to the threads ahead, as in a queue of tickets: first_ns for each, the cap at most, one lw_relax() for none. */
LW_API void lw_backoff_wait_behind(const struct lw_backoff *backoff, uint32_t threads);

/* The next wait is the first again. */
LW_INLINE void lw_backoff_reset(struct lw_backoff *backoff)
{
    backoff->next_ns = 0;
}

/* Spins for about so long, and for one round at least. The first call of a process measures how long a round takes, in a ms or less; a
 * thread that the kernel puts aside waits for longer. */
LW_API void lw_relax_ns(uint32_t ns);

/* The length of one round of lw_relax() in picoseconds, as measured by the first call that needs it: the shortest of eight measurements of
 * 10 us each, since what disturbs one makes it longer. (That a PAUSE is from 10 to 140 cycles long, and that waits are therefore to be counted
 * in measured time, is the reason for .NET's YieldProcessorNormalization, too.) */
LW_API uint32_t lw_wait_round_ps(void);

/* The length of a tick of the scheduler, by the resolution of CLOCK_MONOTONIC_COARSE: 1 to 10 ms. */
LW_API uint32_t lw_wait_tick_ns(void);

#ifdef __cplusplus
}
#endif

LW__HEADER_ENDS

#endif

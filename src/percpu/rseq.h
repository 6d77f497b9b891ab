/* SPDX-License-Identifier: MIT */
/* What the per-CPU files of the library share: start-up, the calling thread's registration, possible CPUs. */
#ifndef LINEWRIGHT_SRC_RSEQ_H
#define LINEWRIGHT_SRC_RSEQ_H

#include <linewright/percpu.h>

/* A build option of the tests: a hook between the steps of the fall-back for values, where a test migrates, interrupts or
 * forks. */
enum lw__step { LW__BEFORE_LOCK, LW__LOCKED, LW__LOADED };
#ifdef LW_RSEQ_DELAY
extern void (*volatile lw__pause_hook)(enum lw__step step);
#define LW__PAUSE(step) (lw__pause_hook ? lw__pause_hook(step) : (void)0)
#else
#define LW__PAUSE(step) ((void)0)
#endif

/* Decides the mode once; every allocation calls it. 0, or a negative errno. */
int lw__percpu_start(void);

/* Gives this process the number that lock words hold; at start-up, and in a child of fork(). */
void lw__percpu_number_process(void);
void lw__percpu_renumber_process(void);

/* True when the calling thread may run sequences; registers it where this library has to. Async-signal-safe. */
bool lw__rseq_thread_ready(void);

/* How many bytes of rseq areas are registered in this process, by the libc or by this library; 0: none. */
unsigned lw__rseq_registered_bytes(void);

/* Lets sequences run on this CPU, and has sums visit it. */
void lw__percpu_use_cpu(unsigned cpu);

/* The copy that a thread without sequences counts on. */
unsigned lw__percpu_stripe(void);

/* The CPU whose copy of `p` an operation without a sequence takes; those who visit all copies will visit it. */
unsigned lw__percpu_current(const void *p);

/* The words of one CPU, in the chunk that `p` lies in, are the calling thread's from own to disown. */
struct lw__owner {
    unsigned cpu;
    int error; /* errno, which stays as it is */
    uint64_t signals; /* the mask to go back to */
};
struct lw__owner lw__percpu_own(const void *p);
void lw__percpu_disown(const void *p, const struct lw__owner *owner);

/* ---- which copies are visited by those who go through all ---- */

/* The copy of a CPU, or of a stripe: `p` is a handle, or a handle plus an offset. */
static inline char *lw__percpu_unit(const void *p, unsigned cpu)
{
    return LW__CPU0((uintptr_t)p) + (size_t)cpu * LW_PERCPU_STRIDE;
}

/* One more than the highest copy in use, of the words in the chunk that a handle lies in. It stands in the chunk itself,
 * behind the lock word of CPU 0, because another copy of the library, whose threads have stripes of its own, may count there
 * too. */
struct lw__marks {
    unsigned stripes; /* second words */
    unsigned cpus; /* first words, where something else than a sequence may have stored */
};

static inline struct lw__marks *lw__percpu_marks(const void *p)
{
    uintptr_t unit = (uintptr_t)lw__percpu_unit(p, 0) & ~(uintptr_t)(LW_PERCPU_STRIDE - 1);
    return (struct lw__marks *)(unit + LW_PERCPU_RESERVED / 2);
}

/* Raises a mark, before the copy is stored to. Relaxed: who sees that store, or has an order with it, sees the mark too. */
static inline void lw__percpu_mark(unsigned *mark, unsigned copy)
{
    unsigned seen = __atomic_load_n(mark, __ATOMIC_RELAXED);
    while (copy >= seen && !__atomic_compare_exchange_n(mark, &seen, copy + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static inline unsigned lw__percpu_used_stripes(const void *p)
{
    return __atomic_load_n(&lw__percpu_marks(p)->stripes, __ATOMIC_RELAXED);
}

static inline unsigned lw__percpu_used_cpus(const void *p)
{
    unsigned marked = __atomic_load_n(&lw__percpu_marks(p)->cpus, __ATOMIC_RELAXED);
    unsigned by_sequences = LW__RSEQ_CPUS(__atomic_load_n(&lw_percpu_rt.limit, __ATOMIC_RELAXED));
    return marked > by_sequences ? marked : by_sequences;
}

/* Aborts every sequence that runs on `cpu` now, and makes earlier stores of the caller visible there. False: not
 * available. */
bool lw__rseq_abort_cpu(unsigned cpu);

/* Largest number in a list of the kernel's ("0-3,8,10-11"), or -1 when it is not such a list. */
long lw__cpu_list_max(const char *list);

#endif

/* What the SRCU files of the library share: a domain's update side, the threads' records, and the tests' ways in. */
#ifndef LINEWRIGHT_SRC_SRCU_INTERNAL_H
#define LINEWRIGHT_SRC_SRCU_INTERNAL_H

#include <linewright/srcu.h>

#define FUTEX_FOREVER UINT64_MAX

/* Words of one pair of indices, in a thread's record and in a CPU's copy alike; srcu.h knows this order. */
struct lw__srcu_words {
    unsigned long locks[2];
    unsigned long unlocks[2];
};
_Static_assert(offsetof(struct lw__srcu_words, unlocks) == 2 * LW__SRCU_WORD, "srcu.h counts unlocks two words on");

/* A thread's words for as many domains as have a slot. Records stay for the life of the process: when a thread ends, the next
 * one takes its record on, counts and all, so that no sum ever misses or doubles one. */
#define LW__SRCU_RECORD_BYTES 4096
#define LW__SRCU_SLOTS ((LW__SRCU_RECORD_BYTES - LW__SRCU_FIRST) / sizeof(struct lw__srcu_words))
struct lw__srcu_record {
    struct lw__srcu_record *next;
    uint32_t in_use;
    int32_t tid;
    char pad[LW__SRCU_FIRST - sizeof(void *) - 8];
    struct lw__srcu_words slot[LW__SRCU_SLOTS];
};
_Static_assert(sizeof(struct lw__srcu_record) <= LW__SRCU_RECORD_BYTES, "a record is a page");
_Static_assert(offsetof(struct lw__srcu_record, slot) == LW__SRCU_FIRST, "pairs begin at LW__SRCU_FIRST");

enum lw__srcu_phase { LW__SRCU_IDLE, LW__SRCU_FIRST_SCAN, LW__SRCU_SECOND_SCAN };

/* The update side. `seq` counts grace periods by twos; odd while one is under way. */
struct lw__srcu_domain {
    struct lw_srcu *srcu;
    struct lw__srcu_domain *next; /* all domains, under the registry */
    struct lw__srcu_words *cpu; /* per-CPU handle */
    const void *home; /* which copy of the library made it */
    unsigned slot; /* plus one; 0: none, readers count per CPU */
    bool reader_barriers; /* readers order themselves: no membarrier */
    const char *why; /* of reader_barriers for a fast flavour, else NULL */
    struct lw__srcu_words base; /* what is not to be counted: see lw_srcu_forget_readers() */

    uint32_t step_lock; /* whoever moves the grace period on; guards phase and started_ns */
    unsigned phase;
    unsigned long seq;
    unsigned long wanted; /* the furthest state that somebody polls for */
    uint64_t started_ns;
    uint64_t next_report_ms;
    int error; /* why grace periods cannot end any more; a hint, read and written anywhere (relaxed) */

    uint32_t driver; /* a waiter that looks for all */
    uint32_t generation; /* futex: changes when a waiter should look again */
    uint32_t waiters;
    uint32_t sleepers; /* those of them that may be in the futex */
    uint32_t hurried; /* expedited waiters */

    struct lw_srcu_head *incoming; /* newest first; pushed by anybody */
    struct lw_srcu_head *waiting; /* oldest first; the worker's, under the registry */
    unsigned long waiting_state;
    unsigned long queued; /* not yet returned */
    unsigned long seen_by_tsan; /* it cannot see per-CPU counts; used in its builds only */

    unsigned stall_ms;
    lw_srcu_stall_hook stall_hook;
    void *stall_argument;
};

static inline struct lw__srcu_domain *lw__srcu_domain_of(const struct lw_srcu *s)
{
    return s ? __atomic_load_n(&s->domain, __ATOMIC_ACQUIRE) : NULL; /* pairs with the store in lw_srcu_init() */
}

/* ---- srcu.c ---- */
unsigned long lw__srcu_sum(struct lw__srcu_domain *d, unsigned index, bool unlocks);
int lw__srcu_heavy_barrier(struct lw__srcu_domain *d);
void lw__srcu_lock_word(uint32_t *lock);
bool lw__srcu_trylock_word(uint32_t *lock);
void lw__srcu_unlock_word(uint32_t *lock);
void lw__srcu_registry_lock(void);
void lw__srcu_registry_unlock(void);
extern struct lw__srcu_domain *lw__srcu_domains;
bool lw__srcu_foreign(const struct lw__srcu_domain *d);
bool lw__srcu_verbose(void);
size_t lw__srcu_counts(struct lw__srcu_domain *d, char *text, size_t size);
uint64_t lw__srcu_now_ns(void);

/* Sleeps while *word is `seen`, for at most `ns`. */
void lw__srcu_sleep(uint32_t *word, uint32_t seen, uint64_t ns);
void lw__srcu_wake_all(uint32_t *word);

/* ---- wait.c ---- */
/* One look at the grace period, begun if none is under way and `wish` is not reached. Under step_lock. 0 or a domain's error. */
int lw__srcu_step(struct lw__srcu_domain *d, unsigned long wish);
bool lw__srcu_reached(struct lw__srcu_domain *d, unsigned long state);
unsigned lw__srcu_index_now(const struct lw__srcu_domain *d); /* that readers take */
/* How long to leave a grace period alone before the next look. */
uint64_t lw__srcu_pause_ns(struct lw__srcu_domain *d, unsigned looks);

/* ---- srcu_callbacks.c ---- */
int lw__srcu_worker_wake(void);
bool lw__srcu_in_callback(void);
void lw__srcu_before_fork(void);
void lw__srcu_after_fork(bool child);

/* ---- srcu_debug.c ---- */
void lw__srcu_debug_waiting(struct lw_srcu *s, const char *where);
void lw__srcu_debug_before_fork(void);
void lw__srcu_debug_after_fork(void); /* in the child */
void lw__srcu_debug_forget(const struct lw_srcu *s);

/* ---- ways in for tests; LW_SRCU_TEST builds only ---- */
enum lw__srcu_point {
    LW__SRCU_AT_START,
    LW__SRCU_AT_UNLOCKS_SUMMED,
    LW__SRCU_AT_BARRIER,
    LW__SRCU_AT_LOCKS_SUMMED,
    LW__SRCU_AT_FLIP,
    LW__SRCU_AT_END,
    LW__SRCU_AT_CALLBACK,
    LW__SRCU_AT_SLEEP, /* a waiter has looked, and does not sleep yet */
};
#ifdef LW_SRCU_TEST
extern void (*volatile lw__srcu_test_point)(enum lw__srcu_point where);
extern int (*volatile lw__srcu_test_membarrier)(int command); /* 0 or an errno */
extern volatile unsigned lw__srcu_test_slots; /* domains made from now on take slots below this */
void lw__srcu_test_count(struct lw__srcu_domain *d, unsigned word); /* as a reader does, on any word of lw__srcu_words */
void lw__srcu_test_set_counts(struct lw__srcu_domain *d, unsigned long value);
void lw__srcu_test_set_seq(struct lw__srcu_domain *d, unsigned long seq, unsigned phase);
void lw__srcu_test_at(enum lw__srcu_point where);
#define LW__SRCU_POINT(where) lw__srcu_test_at(where)
#else
#define LW__SRCU_POINT(where) ((void)0)
#endif

#endif

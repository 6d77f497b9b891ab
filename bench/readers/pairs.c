/* SPDX-License-Identifier: MIT */
/* The loops over critical sections at one placement: PLACEMENT in the file's name, as CMake compiles it. liburcu is inline
 * where the LGPL allows it (LGPL 1) and called where it does not (LGPL 0), which takes two objects for each placement. */
#if LGPL
#define _LGPL_SOURCE
#endif
#include <urcu/urcu-memb.h>

#include "pairs.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* The padding runs once for each call of 20,000 critical sections; the loop behind it is not aligned by the compiler
 * (CMakeLists.txt). */
#define LOOP(name, before, after)                                                                   \
    static __attribute__((noinline, aligned(64))) void name(struct lw_srcu *domain, size_t pairs) { \
        (void)domain;                                                                               \
        __asm__ volatile(".rept 8 * " TEXT(PLACEMENT) "\n\tnop\n\t.endr");                          \
        do {                                                                                        \
            before;                                                                                 \
            __asm__ volatile("" : : : "memory"); /* a critical section has an inside */             \
            after;                                                                                  \
        } while (--pairs);                                                                          \
    }

#if LGPL
LOOP(empty, , )
LOOP(memb, urcu_memb_read_lock(), urcu_memb_read_unlock())
#define SRCU(type) ((struct lw_srcu_##type *)domain)
LOOP(fast, lw_srcu_index c = lw_srcu_read_lock_fast(SRCU(fast)), lw_srcu_read_unlock_fast(SRCU(fast), c))
LOOP(updown, lw_srcu_index c = lw_srcu_down_read_fast(SRCU(fast_updown)), lw_srcu_up_read_fast(SRCU(fast_updown), c))
LOOP(normal, lw_srcu_index c = lw_srcu_read_lock(SRCU(normal)), lw_srcu_read_unlock(SRCU(normal), c))
/* What the normal flavour's pair is made of on x86, and what it would be with full barriers on both sides. */
static __thread unsigned long words[2];
#if LW_HAVE_THREAD_WORDS
LOOP(locked_and_plain, lw_thread_word_inc_full(&words[0]), lw_thread_word_inc(&words[1]))
LOOP(two_locked, lw_thread_word_inc_full(&words[0]), lw_thread_word_inc_full(&words[1]))
#else
LOOP(locked_and_plain, __atomic_fetch_add(&words[0], 1, __ATOMIC_SEQ_CST), words[1]++)
LOOP(two_locked, __atomic_fetch_add(&words[0], 1, __ATOMIC_SEQ_CST), __atomic_fetch_add(&words[1], 1, __ATOMIC_SEQ_CST))
#endif

void PASTE(memb_call_at_, PLACEMENT)(struct lw_srcu *, size_t);
const struct pair_loops PASTE(loops_at_, PLACEMENT) = {{[EMPTY] = empty,
                                                        [URCU_MEMB] = memb,
                                                        [URCU_MEMB_CALL] = PASTE(memb_call_at_, PLACEMENT),
                                                        [SRCU_FAST] = fast,
                                                        [SRCU_FAST_UPDOWN] = updown,
                                                        [SRCU_NORMAL] = normal,
                                                        [LOCKED_AND_PLAIN] = locked_and_plain,
                                                        [TWO_LOCKED] = two_locked}};
#else
LOOP(memb_call, urcu_memb_read_lock(), urcu_memb_read_unlock())
void PASTE(memb_call_at_, PLACEMENT)(struct lw_srcu *, size_t);
void PASTE(memb_call_at_, PLACEMENT)(struct lw_srcu *domain, size_t pairs) { memb_call(domain, pairs); }
#endif

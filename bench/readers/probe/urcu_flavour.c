/* SPDX-License-Identifier: MIT */
/* One flavour of liburcu, compiled once for each: FLAVOUR is memb, bp, mb or qsbr, NAME the form. In C, where liburcu's
 * thread-local variables are read directly; C++ would go through a wrapper function at every access, which doubles the cost.
 * With _LGPL_SOURCE (a use that the LGPL covers) its fast paths are inline, else they are calls. */
#include "urcu_flavour.h"

#include <linewright/arch/measure.h>

#define PASTE3(a, b, c) a##b##c
#define CALL_(flavour, what) PASTE3(urcu_, flavour, what)
#define CALL(what) CALL_(FLAVOUR, what)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

#include HEADER

#if QSBR
enum { quiet_every = 1024 };

/* Between batches a thread may wait for another: it is offline then, so that updaters do not wait for it. */
static void begin(void) { CALL(_thread_online)(); }
static void end(void) { CALL(_thread_offline)(); }
static void section_over(size_t left) {
    if (left % quiet_every == 0)
        CALL(_quiescent_state)();
}
static void join(void) {
    CALL(_register_thread)();
    end();
}
static void part(void) { CALL(_unregister_thread)(); }
#else
static void begin(void) {}
static void end(void) {}
static inline void section_over(size_t left) { (void)left; }
#if BULLETPROOF
static void join(void) {}
static void part(void) {}
#else
static void join(void) { CALL(_register_thread)(); }
static void part(void) { CALL(_unregister_thread)(); }
#endif
#endif

static inline __attribute__((always_inline)) uint64_t readers(size_t left, size_t delay, uint64_t **current) {
    uint64_t wrong = 0;

    begin();
    do {
        uint64_t *seen = NULL;

        CALL(_read_lock)();
        if (current)
            seen = __atomic_load_n(current, __ATOMIC_ACQUIRE); /* pairs with the release of `current` by the updater */
        for (size_t nops = delay; nops; --nops)
            lw_nop();
        __asm__ volatile("" : : : "memory"); /* a critical section has an inside */
        if (current)
            wrong += __atomic_load_n(seen, __ATOMIC_RELAXED) != 1; /* ordered by what is under test */
        CALL(_read_unlock)();
        section_over(left);
    } while (--left);
    end();
    return wrong;
}

/* Without a delay the loop holds nothing but the pair. */
static uint64_t pairs(size_t n, size_t delay, uint64_t **current) {
    (void)current;
    return delay ? readers(n, delay, NULL) : readers(n, 0, NULL);
}

static uint64_t checked(size_t n, size_t delay, uint64_t **current) {
    return delay ? readers(n, delay, current) : readers(n, 0, current);
}

const struct urcu_flavour NAME = {TEXT(NAME), pairs, checked, CALL(_synchronize_rcu), join, part};

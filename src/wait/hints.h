/* SPDX-License-Identifier: MIT */
/* The table of hints by number, and the word that holds the choice. */
#ifndef LW_WAIT_SRC_HINTS_H
#define LW_WAIT_SRC_HINTS_H

#include <linewright/arch/select.h>
#include <linewright/wait.h>
#include LW_ARCH_HEADER(wait.h)

/* 0 is no hint. */
enum lw__hint {
    LW__HINT_AUTO,
#define LW__NUMBER(name, needs) LW__HINT_##name,
    LW_WAIT_HINTS(LW__NUMBER, LW__NUMBER)
#undef LW__NUMBER
        LW__HINTS
};

#define LW__WAIT_TIMES 1000u /* the most of one hint in a round */
#define LW__WAIT_TIMES_AT 8  /* the hint below, how often it is executed above */

static inline uint32_t lw__wait_word_of(unsigned hint, uint32_t times)
{
    return hint | times << LW__WAIT_TIMES_AT;
}

static inline unsigned lw__wait_hint(uint32_t word)
{
    return word & ((1u << LW__WAIT_TIMES_AT) - 1);
}

static inline uint32_t lw__wait_times(uint32_t word)
{
    return word >> LW__WAIT_TIMES_AT;
}

/* What a setting chose besides; written by lw_wait_set(), each read relaxed and by itself. */
struct lw__wait_choice {
    uint32_t backoff; /* enum lw_backoff_kind; LW_BACKOFF_DEFAULT: each object's own */
    uint32_t cap_ns;  /* 0: each object's own */
    uint32_t park_ns;
    uint32_t slices; /* 1: sections of locks ask for time slice extensions, and the thread that chose has them */
};
extern struct lw__wait_choice lw__wait_choice __attribute__((visibility("hidden")));

#define LW__PARK_NS 20000u /* as long as a sleep and a wake-up take; src/rwlock/plain.h spins for so long, too */

/* "pause"; of LW__HINT_AUTO the usual one. */
const char *lw__hint_name(unsigned hint);
bool lw__hint_watches(unsigned hint);

/* The number of the hint that is called so on this architecture; LW__HINT_AUTO: none. */
unsigned lw__hint_named(const char *name, size_t length);

/* Whether the CPU has it: what it reports, and then a trial (src/common/trial.h) of each that not every CPU has, once. */
bool lw__hint_runs(unsigned hint);

/* lw_backoff_wait(), and the ns that it waited, 1 at least. */
uint32_t lw__backoff_step(struct lw_backoff *backoff);

/* The next call of lw_wait_round_ps() measures again. */
void lw__forget_round(void);

#endif

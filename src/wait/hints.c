/* SPDX-License-Identifier: MIT */
/* The hints of this architecture: which the CPU has, and one round of each. */
#define _GNU_SOURCE
#include "hints.h"

#include "../common/trial.h"

#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

/* ---- what the CPU reports ---- */

static bool has_nothing(void)
{
    return true;
}

#if defined(__x86_64__) || defined(__i386__)
static bool has_waitpkg(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 5 & 1;
}

static bool has_monitorx(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && c >> 29 & 1;
}
#elif defined(__aarch64__)
static bool has_sb(void)
{
    return getauxval(AT_HWCAP) & LW_HWCAP_SB;
}

static bool has_wfxt(void)
{
    return getauxval(AT_HWCAP2) & LW_HWCAP2_WFXT;
}
#endif

/* ---- the table ---- */

static const struct {
    const char *name;
    bool watches;
    bool (*reported)(void);
} hints[LW__HINTS] = {
#define DELAYS(name, needs) [LW__HINT_##name] = {#name, false, has_##needs},
#define WATCHES(name, needs) [LW__HINT_##name] = {#name, true, has_##needs},
    LW_WAIT_HINTS(DELAYS, WATCHES)
#undef DELAYS
#undef WATCHES
};

#define NUMBER_OF(name) NUMBER_OF_(name)
#define NUMBER_OF_(name) LW__HINT_##name

const char *lw__hint_name(unsigned hint)
{
    return hints[hint == LW__HINT_AUTO ? NUMBER_OF(LW_WAIT_USUAL) : hint].name;
}

bool lw__hint_watches(unsigned hint)
{
    return hints[hint].watches;
}

unsigned lw__hint_named(const char *name, size_t length)
{
    for (unsigned i = LW__HINT_AUTO + 1; i < LW__HINTS; i++)
        if (strlen(hints[i].name) == length && !memcmp(hints[i].name, name, length))
            return i;
    return LW__HINT_AUTO;
}

/* ---- one round ---- */

static void delay(unsigned hint)
{
    switch (hint) {
#define DELAYS(name, needs) \
    case LW__HINT_##name:   \
        lw_hint_##name();   \
        return;
#define WATCHES(name, needs)
        LW_WAIT_HINTS(DELAYS, WATCHES)
#undef DELAYS
#undef WATCHES
    default:
        lw_cpu_relax(); /* there is no word to watch */
    }
}

void lw__relax_chosen(uint32_t chosen)
{
    for (uint32_t i = lw__wait_times(chosen); i; i--)
        delay(lw__wait_hint(chosen));
}

#define DELAYS(name, needs)
#define WATCHES(name, needs)     \
    case LW__HINT_##name:        \
        WATCH(name)(word, seen); \
        return;

void lw__relax_chosen_on_u32(const uint32_t *word, uint32_t seen, uint32_t chosen)
{
    (void)word, (void)seen;
    switch (lw__wait_hint(chosen)) {
#define WATCH(name) lw_watch_##name##_u32
        LW_WAIT_HINTS(DELAYS, WATCHES)
#undef WATCH
    default:
        lw__relax_chosen(chosen);
    }
}

#if UINTPTR_MAX > UINT32_MAX
void lw__relax_chosen_on_u64(const uint64_t *word, uint64_t seen, uint32_t chosen)
{
    (void)word, (void)seen;
    switch (lw__wait_hint(chosen)) {
#define WATCH(name) lw_watch_##name##_u64
        LW_WAIT_HINTS(DELAYS, WATCHES)
#undef WATCH
    default:
        lw__relax_chosen(chosen);
    }
}
#endif

/* ---- trial ---- */

/* In a child process, `hint` points to the hint's number. No thread stores to the word: what needs a trial ends by itself. */
static void try_round(void *hint)
{
    uint32_t word = 0;
    lw__relax_chosen_on_u32(&word, 0, lw__wait_word_of(*(unsigned *)hint, 1));
}

/* Every CPU of the architecture executes those that need nothing. */
static bool needs_trial(unsigned hint)
{
    return hints[hint].reported != has_nothing;
}

bool lw__hint_runs(unsigned hint)
{
    static uint8_t known[LW__HINTS]; /* 1: no, 2: yes; threads that come at once find the same: relaxed */
    uint8_t answer = __atomic_load_n(&known[hint], __ATOMIC_RELAXED);
    if (!answer) {
        answer = hints[hint].reported() && (!needs_trial(hint) || lw__trial(try_round, &hint)) ? 2 : 1;
        __atomic_store_n(&known[hint], answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

bool lw_wait_has(const char *hint)
{
    unsigned number = lw__hint_named(hint, strlen(hint));
    return number != LW__HINT_AUTO && lw__hint_runs(number);
}

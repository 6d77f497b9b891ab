/* SPDX-License-Identifier: MIT */
/* Waits of a given length: how long a round of the hint takes, and objects whose waits grow. */
#include "hints.h"

#include "../common/clock.h"

#include <errno.h>

#define MEASUREMENTS 8
#define ENOUGH_NS 10000u /* of one measurement: the clock's own 20 to 50 ns are lost in it */

static uint32_t round_ps; /* 0: not measured; the same, or nearly, in every thread that measures: relaxed */

void lw__forget_round(void)
{
    __atomic_store_n(&round_ps, 0, __ATOMIC_RELAXED);
}

static uint64_t rounds_take(uint32_t rounds)
{
    uint64_t begun = now_ns();
    for (uint32_t i = 0; i < rounds; i++)
        lw_relax();
    return now_ns() - begun;
}

static uint32_t measure(void)
{
    uint32_t rounds = 1;
    uint64_t shortest = rounds_take(rounds);
    while (shortest < ENOUGH_NS && rounds < 1u << 20) {
        rounds *= 2;
        shortest = rounds_take(rounds);
    }
    for (int i = 1; i < MEASUREMENTS; i++) {
        uint64_t ns = rounds_take(rounds);
        shortest = ns < shortest ? ns : shortest;
    }
    uint64_t ps = shortest * 1000 / rounds;
    return ps < 100          ? 100
           : ps > UINT32_MAX ? UINT32_MAX
                             : (uint32_t)ps; /* a clock that stands still must not make waits endless */
}

uint32_t lw_wait_round_ps(void)
{
    uint32_t ps = __atomic_load_n(&round_ps, __ATOMIC_RELAXED);
    if (!ps) {
        ps = measure();
        __atomic_store_n(&round_ps, ps, __ATOMIC_RELAXED);
    }
    return ps;
}

/* The nearest number of rounds: rounded down, 50 ns were one PAUSE of 27 ns, and locks waited for half as long by it as by shorter hints. */
void lw_relax_ns(uint32_t ns)
{
    uint32_t ps = lw_wait_round_ps();
    uint64_t rounds = ((uint64_t)ns * 1000 + ps / 2) / ps;
    do
        lw_relax();
    while (rounds-- > 1);
}

int lw_backoff_init(struct lw_backoff *backoff, enum lw_backoff_kind kind, uint32_t first_ns, uint32_t cap_ns)
{
    if ((unsigned)kind > LW_BACKOFF_EXPONENTIAL || first_ns == 0 || first_ns > cap_ns || cap_ns > lw_wait_tick_ns())
        return -EINVAL;
    *backoff = (struct lw_backoff){.kind = (uint8_t)kind, .first_ns = first_ns, .cap_ns = cap_ns};
    return 0;
}

static uint32_t first_of(const struct lw_backoff *backoff)
{
    return backoff->first_ns ? backoff->first_ns : LW_BACKOFF_FIRST_NS;
}

static uint32_t capped(const struct lw_backoff *backoff, uint64_t ns)
{
    uint32_t cap = __atomic_load_n(&lw__wait_choice.cap_ns, __ATOMIC_RELAXED);
    if (!cap)
        cap = backoff->cap_ns ? backoff->cap_ns : LW_BACKOFF_CAP_NS;
    return ns < cap ? (uint32_t)ns : cap;
}

uint32_t lw__backoff_step(struct lw_backoff *backoff)
{
    uint32_t kind = __atomic_load_n(&lw__wait_choice.backoff, __ATOMIC_RELAXED);
    if (kind == LW_BACKOFF_DEFAULT)
        kind = backoff->kind;
    if (kind == LW_BACKOFF_NONE) {
        lw_relax();
        return lw_wait_round_ps() / 1000 + 1;
    }
    uint32_t first = first_of(backoff), now = capped(backoff, backoff->next_ns ? backoff->next_ns : first);
    lw_relax_ns(now);
    backoff->next_ns = capped(backoff, kind == LW_BACKOFF_LINEAR ? (uint64_t)now + first : UINT64_C(2) * now);
    return now;
}

void lw_backoff_wait(struct lw_backoff *backoff)
{
    lw__backoff_step(backoff);
}

void lw_backoff_wait_behind(const struct lw_backoff *backoff, uint32_t threads)
{
    if (__atomic_load_n(&lw__wait_choice.backoff, __ATOMIC_RELAXED) == LW_BACKOFF_NONE)
        threads = 0;
    lw_relax_ns(capped(backoff, (uint64_t)first_of(backoff) * threads));
}

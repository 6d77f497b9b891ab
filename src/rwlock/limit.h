/* SPDX-License-Identifier: MIT */
/* How long a call may wait: not at all, until a time of CLOCK_MONOTONIC, or for ever. */
#ifndef LINEWRIGHT_SRC_RWLOCK_LIMIT_H
#define LINEWRIGHT_SRC_RWLOCK_LIMIT_H

#include <linewright/rwlock.h>

#include "../common/clock.h"
#include "../common/futex.h"

#include <errno.h>

struct limit {
    uint64_t ns;  /* as the caller gave it: 0, LW_RWLOCK_FOREVER, or a time */
    uint64_t end; /* CLOCK_MONOTONIC, where `ns` is a time */
};

/* The clock is read only where there is a time to wait for: most calls neither wait nor have a limit. */
static inline struct limit limit_of(uint64_t ns)
{
    struct limit l = {ns, 0};
    if (ns != 0 && ns != LW_RWLOCK_FOREVER) {
        uint64_t now = now_ns();
        l.end = ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
    }
    return l;
}

/* The limit, or `end` where that comes before it. */
static inline struct limit sooner(const struct limit *l, uint64_t end)
{
    bool is_sooner = l->ns == 0 || (l->ns != LW_RWLOCK_FOREVER && l->end <= end);
    return is_sooner ? *l : (struct limit){1, end};
}

/* The lock's functions return their errors: how a sleep ended is no matter of the caller's errno. */
static inline void sleep_on(uint32_t *word, uint32_t seen, uint64_t ns)
{
    int saved = errno;
    lw_futex_wait(word, seen, ns);
    errno = saved;
}

/* Sleeps while *word is `seen`, until the limit at most. False: the limit is reached. May wake early. */
static inline bool sleep_until(uint32_t *word, uint32_t seen, const struct limit *l)
{
    if (l->ns == 0)
        return false;
    if (l->ns == LW_RWLOCK_FOREVER) {
        sleep_on(word, seen, LW_FUTEX_FOREVER);
        return true;
    }
    uint64_t now = now_ns();
    if (now >= l->end)
        return false;
    sleep_on(word, seen, l->end - now);
    return true;
}

/* Sleeps for a ms. False: the limit is reached. */
static inline bool nap(const struct limit *l)
{
    uint32_t word = 0;
    if (l->ns != LW_RWLOCK_FOREVER && now_ns() >= l->end)
        return false;
    sleep_on(&word, 0, 1000000);
    return true;
}

#endif

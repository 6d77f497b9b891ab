/* SPDX-License-Identifier: MIT */
/* The loops that are compared, and what else the comparison needs of liburcu; all compiled as C. */
#ifndef LINEWRIGHT_BENCH_READERS_PAIRS_H
#define LINEWRIGHT_BENCH_READERS_PAIRS_H

#include <stddef.h>

#include <linewright/srcu.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { placements = 8 };
enum pair {
    EMPTY,
    URCU_MEMB,
    URCU_MEMB_CALL,
    SRCU_FAST,
    SRCU_FAST_UPDOWN,
    SRCU_NORMAL,
    LOCKED_AND_PLAIN,
    TWO_LOCKED,
    pair_count
};

/* `pairs` empty critical sections; liburcu's take no domain. */
typedef void (*pair_loop)(struct lw_srcu *domain, size_t pairs);

/* One source, compiled once for each placement: its loops start 8 bytes later each time. */
struct pair_loops {
    pair_loop loop[pair_count];
};
const struct pair_loops *loops_at(unsigned placement);

/* liburcu's memb. */
void urcu_join(void);
void urcu_part(void);
void urcu_wait(void);
/* Queues `count` callbacks, each adding one to *called, and waits until all have run. */
void urcu_callbacks(size_t count, size_t *called);

#ifdef __cplusplus
}
#endif
#endif

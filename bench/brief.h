/* SPDX-License-Identifier: MIT */
/* How often a program of bench/ measures: as often as its text says, or, with LINEWRIGHT_BENCH_BRIEF=1, only so often as
 * shows that it runs. */
#ifndef LINEWRIGHT_BENCH_BRIEF_H
#define LINEWRIGHT_BENCH_BRIEF_H

#include <stdlib.h>
#include <string.h>

/* The tests start every program so, in about a second: it does all that it does in full, and its figures say nothing. Goals
 * are printed, and do not decide the exit code. */
static inline int lw_bench_brief(void) {
    const char *value = getenv("LINEWRIGHT_BENCH_BRIEF");
    return value && strcmp(value, "1") == 0;
}

/* Rounds, threads or milliseconds: `full` of them, or `brief`. */
static inline int lw_bench_times(int full, int brief) { return lw_bench_brief() ? brief : full; }

#endif

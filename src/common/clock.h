/* SPDX-License-Identifier: MIT */
/* The monotonic clock in nanoseconds. */
#ifndef LW_CLOCK_H
#define LW_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

#endif

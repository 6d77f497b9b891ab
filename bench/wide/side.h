/* SPDX-License-Identifier: MIT */
/* One side of the comparison: the same loops over the same operations, compiled from one library or compiler guise. */
#ifndef WIDE_SIDE_H
#define WIDE_SIDE_H

#include <stdint.h>

#if defined(__i386__)
typedef uint64_t wide_number;
typedef wide_number wide __attribute__((aligned(8)));
#else
__extension__ typedef unsigned __int128 wide_number;
typedef wide_number wide __attribute__((aligned(16)));
#endif

/* `n` operations on `p`; returns something made of every value read. */
typedef uint64_t loop(wide *p, uint64_t n);
/* The same with a clock read after each; raises `*longest`, in ticks, to the longest time between two. */
typedef void waiting_loop(wide *p, uint64_t n, uint64_t *longest);

enum operation {
    READ_RELAXED,
    READ_ACQUIRE,
    READ_SEQ_CST,
    WRITE_RELAXED,
    WRITE_RELEASE,
    WRITE_SEQ_CST,
    ADD,       /* i386 */
    FETCH_ADD, /* i386 */
    XCHG,
    CMPXCHG,
    OPERATIONS,
};

/* Copies of each loop, 8 bytes apart: where its code happens to lie can decide as much as what it does. */
enum { PLACEMENTS = 8 };

struct side {
    const char *name;
    loop *loops[PLACEMENTS][OPERATIONS];
    waiting_loop *waiting_add; /* i386 */
};

#endif

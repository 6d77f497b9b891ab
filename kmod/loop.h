/* SPDX-License-Identifier: GPL-2.0-only */
/* The one shape of every timed loop: the operation, the work behind it, the spacing of a contender. */
#ifndef LINEWRIGHT_KMOD_LOOP_H
#define LINEWRIGHT_KMOD_LOOP_H

#include "linewright.h"

/*
 * Defines `name`, which does `operation` at->... `iters` times; `setup` declares what the operation uses. The tests of work
 * and spacing are the same in every iteration, so they are predicted, and the baseline loop has them too.
 */
#define LWK_LOOP(name, setup, operation)                                     \
	static noinline void name(struct lwk_place *at, unsigned long iters) \
	{                                                                    \
		const unsigned long work = at->work, spacing = at->spacing;  \
		const unsigned long traffic = at->traffic;                   \
		unsigned long x = 1;                                         \
		setup;                                                       \
		do {                                                         \
			operation;                                           \
			if (work)                                            \
				x = lwk_chain(x, work);                      \
			if (traffic)                                         \
				lwk_traffic(traffic);                        \
			if (spacing)                                         \
				lwk_nops(spacing);                           \
		} while (--iters);                                           \
		barrier_data(&x);                                            \
	}

#endif

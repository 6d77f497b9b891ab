// SPDX-License-Identifier: GPL-2.0-only
/* What surrounds an operation in a timed loop: units of work, a contender's spacing, memory apart from all other memory. */
#include <linux/compiler.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/slab.h>

#include <linewright/arch/measure.h>

#include "linewright.h"

/* Powers of two of dependent additions, a cycle each, in a straight line. */
#define ADD_1() lw_dependent_add(&x, x)
#define ADD_2()          \
	do {             \
		ADD_1(); \
		ADD_1(); \
	} while (0)
#define ADD_4()          \
	do {             \
		ADD_2(); \
		ADD_2(); \
	} while (0)
#define ADD_8()          \
	do {             \
		ADD_4(); \
		ADD_4(); \
	} while (0)
#define ADD_16()         \
	do {             \
		ADD_8(); \
		ADD_8(); \
	} while (0)
#define ADD_32()          \
	do {              \
		ADD_16(); \
		ADD_16(); \
	} while (0)
#define ADD_64()          \
	do {              \
		ADD_32(); \
		ADD_32(); \
	} while (0)

/*
 * `units` dependent additions of one cycle each. User space enters one straight line by an indirect jump. In a kernel an
 * indirect jump is rewritten or trapped (retpolines, IBT, BTI), so the straight lines of the powers of two are chosen by direct
 * branches, which a loop with a fixed number of units predicts.
 */
noinline unsigned long lwk_chain(unsigned long x, unsigned long units)
{
	for (; units >= 64; units -= 64)
		ADD_64();
	if (units & 32)
		ADD_32();
	if (units & 16)
		ADD_16();
	if (units & 8)
		ADD_8();
	if (units & 4)
		ADD_4();
	if (units & 2)
		ADD_2();
	if (units & 1)
		ADD_1();
	return x;
}

/* A loop around one NOP, as in the published experiments. */
noinline void lwk_nops(unsigned long iters)
{
	for (; iters; iters--)
		lw_nop();
}

/* A loop that counts in memory. */
noinline void lwk_traffic(unsigned long iters)
{
	lw_count_in_memory(iters);
}

/* Zeroed memory that shares no pair of lines with any other, to be given back by kfree(). NULL when there is none. */
void *lwk_alloc_apart(size_t bytes)
{
	/* kmalloc aligns powers of two to their size. */
	return kzalloc(roundup_pow_of_two(max_t(size_t, bytes, LWK_APART)), LWK_GFP);
}

// SPDX-License-Identifier: GPL-2.0-only
/* Operations on one shared line: the explicit forms of the shared headers, and the kernel's atomic_t and atomic64_t. */
#include <linux/atomic.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <linewright/arch/forms.h>
#if defined(CONFIG_X86_32)
#include <linewright/arch/i386/wide.h>
#endif

#include "arch.h"
#include "loop.h"

/* ---- lines: one a page, each at another offset, so that they do not fall into one set of a cache ---- */

static u64 bytes(const struct lwk_cell *cell)
{
	return (u64)cell->lines * PAGE_SIZE;
}

static int prepare(struct lwk_run *run)
{
	unsigned int line;
	void **pages = kvcalloc(run->cell.lines, sizeof(*pages), GFP_KERNEL);

	if (!pages)
		return -ENOMEM;
	run->memory = pages;
	for (line = 0; line < run->cell.lines; line++) {
		pages[line] = (void *)get_zeroed_page(LWK_GFP);
		if (!pages[line])
			return -ENOMEM;
		if (lwk_killed())
			return -EINTR;
	}
	return 0;
}

static void finish(struct lwk_run *run)
{
	unsigned int line;
	void **pages = run->memory;

	for (line = 0; pages && line < run->cell.lines; line++)
		free_page((unsigned long)pages[line]);
	kvfree(pages);
}

static void *line_at(struct lwk_run *run, unsigned int line)
{
	void **pages = run->memory;

	return pages[line] + line * 5 % (PAGE_SIZE / LWK_APART) * LWK_APART;
}

/* atomic_dec_if_positive() wants something to take from. */
static u64 start_value(const struct lwk_run *run)
{
	const struct lwk_form *form = run->cell.form;

	return form->counts < 0 ? (form->width == 32 ? S32_MAX : S64_MAX) : 1;
}

static void reset(struct lwk_run *run, unsigned int line)
{
	void *at = line_at(run, line);

	if (run->cell.form->width == 32)
		WRITE_ONCE(*(u32 *)at, start_value(run));
	else
		atomic64_set((atomic64_t *)at, start_value(run));
}

static void *subject(struct lwk_run *run, unsigned int line, unsigned int thread)
{
	/* A placebo spins, and never touches the line. */
	return line_at(run, line);
}

static u64 sum(struct lwk_run *run, unsigned int line)
{
	void *at = line_at(run, line);

	if (run->cell.form->width == 32)
		return (s64)(s32)(READ_ONCE(*(u32 *)at) - (u32)start_value(run));
	return atomic64_read((atomic64_t *)at) - start_value(run);
}

LWK_LOOP(baseline, void *p = at->subject, __asm__ __volatile__("" : : "r"(p)))

static const struct lwk_family family = {
	.name = "rmw",
	.bytes = bytes,
	.prepare = prepare,
	.finish = finish,
	.reset = reset,
	.subject = subject,
	.sum = sum,
	.baseline = baseline,
};

/* ---- the explicit forms: the same inline functions that the probe times ---- */

#define CALL_none(form, p) form(p, 1)
#define CALL_add(form, p) form(p, 1)
#define CALL_fetch_add(form, p) form(p, 1)
#define CALL_cmpxchg(form, p) form(p, 1)
#define CALL_xchg(form, p) form(p, 1)
#define CALL_read(form, p) form(p)

#define LWK_ROW(name, operation, order, bits, needs, ...)               \
	LWK_LOOP(loop_##name##_##bits, uint##bits##_t *p = at->subject, \
		(void)CALL_##operation(lw_##name##_u##bits, p))
#include <wire/forms/rmw.def>
#undef LWK_ROW

/*
 * Eight bytes at once on 32-bit x86, by LOCK CMPXCHG8B alone: a kernel has no vector registers to read them by. The names say
 * where the first comparand comes from, which decides in what state the line is fetched. atomic64_t is made of the first four.
 */
#if defined(CONFIG_X86_32)
#define WIDE_LOOP(name, call) LWK_LOOP(loop_##name, lw_u64 *p = at->subject, (void)call)

WIDE_LOOP(cmpxchg8b_read_once, lw_cmpxchg8b_read_once_u64(p))
WIDE_LOOP(read_twice_cmpxchg8b_verify, lw_read_twice_cmpxchg8b_verify_u64(p))
WIDE_LOOP(cmpxchg8b_loop_torn_first_add, lw_cmpxchg8b_loop_torn_first_add_u64(p, 1))
WIDE_LOOP(cmpxchg8b_loop_guess_first_add, lw_cmpxchg8b_loop_guess_first_add_u64(p, 1))
WIDE_LOOP(cmpxchg8b_loop_torn_first_fetch_add, lw_cmpxchg8b_loop_torn_first_fetch_add_u64(p, 1))
WIDE_LOOP(cmpxchg8b_loop_xchg, lw_cmpxchg8b_loop_xchg_u64(p, 1))
LWK_LOOP(loop_cmpxchg8b_loop_last_value_add, lw_u64 *p = at->subject;
	uint64_t last = 0, (void)lw_cmpxchg8b_loop_last_value_add_u64(p, 1, &last))
#endif

/* ---- the kernel's own ---- */

/* A loop for atomic_t and one for atomic64_t; the call is written without its prefix. */
#define ATOMIC(name, call)                                                          \
	LWK_LOOP(loop_atomic_##name##_32, atomic_t *p = at->subject, atomic_##call) \
	LWK_LOOP(loop_atomic_##name##_64, atomic64_t *p = at->subject, atomic64_##call)

/* An addition by compare-and-swap, the comparand read first: for one type, and for both. */
#define ATOMIC_LOOP_OF(prefix, name, cas, bits, value)             \
	static __always_inline void prefix##_##name(prefix##_t *p) \
	{                                                          \
		value old = prefix##_read(p);                      \
		while (!prefix##_##cas(p, &old, old + 1))          \
			;                                          \
	}                                                          \
	LWK_LOOP(loop_atomic_##name##_##bits, prefix##_t *p = at->subject, prefix##_##name(p))

#define ATOMIC_LOOP(name, cas)                     \
	ATOMIC_LOOP_OF(atomic, name, cas, 32, int) \
	ATOMIC_LOOP_OF(atomic64, name, cas, 64, s64)

ATOMIC(add, add(1, p))
ATOMIC(inc, inc(p))
ATOMIC(sub, sub(1, p))
ATOMIC(and, and(-1, p))
ATOMIC(or, or(1, p))
ATOMIC(xor, xor(0, p))
ATOMIC(andnot, andnot(2, p))
ATOMIC(fetch_add, fetch_add(1, p))
ATOMIC(fetch_add_relaxed, fetch_add_relaxed(1, p))
ATOMIC(add_return, add_return(1, p))
ATOMIC(add_return_relaxed, add_return_relaxed(1, p))
ATOMIC(xchg, xchg(p, 1))
ATOMIC(xchg_relaxed, xchg_relaxed(p, 1))
ATOMIC(read, read(p))
ATOMIC(add_unless, add_unless(p, 1, 0))
ATOMIC(inc_not_zero, inc_not_zero(p))
ATOMIC(dec_if_positive, dec_if_positive(p))
ATOMIC_LOOP(try_cmpxchg_loop, try_cmpxchg)
ATOMIC_LOOP(try_cmpxchg_loop_relaxed, try_cmpxchg_relaxed)

/* ---- the table ---- */

#define COUNTS_none 0
#define COUNTS_add 1
#define COUNTS_fetch_add 1
#define COUNTS_cmpxchg 1
#define COUNTS_xchg 0
#define COUNTS_read 0

#define ROW(form_name, form_operation, form_order, bits, form_loop, added, ...) \
	{ .name = form_name, .operation = form_operation, .order = form_order, .width = bits, .family = &family, .loop = form_loop, .counts = added, ##__VA_ARGS__ }

#define LWK_ROW(name, operation, order, bits, needs, ...)                              \
	ROW(#name, #operation, #order, bits, loop_##name##_##bits, COUNTS_##operation, \
		.missing = lwk_missing_##needs, .made = { __VA_ARGS__ }),

#define BOTH(name, operation, order, added)                                         \
	ROW("atomic_" #name, operation, order, 32, loop_atomic_##name##_32, added), \
		ROW("atomic_" #name, operation, order, 64, loop_atomic_##name##_64, added)

#define WIDE(name, operation, added) \
	ROW(#name, operation, "full", 64, loop_##name, added, .missing = lwk_missing_cx8)

const struct lwk_form lwk_rmw_forms[] = {
#include <wire/forms/rmw.def>
#if defined(CONFIG_X86_32)
	WIDE(cmpxchg8b_read_once, "read", 0),
	WIDE(read_twice_cmpxchg8b_verify, "read", 0),
	WIDE(cmpxchg8b_loop_torn_first_add, "add", 1),
	WIDE(cmpxchg8b_loop_guess_first_add, "add", 1),
	WIDE(cmpxchg8b_loop_last_value_add, "add", 1),
	WIDE(cmpxchg8b_loop_torn_first_fetch_add, "fetch_add", 1),
	WIDE(cmpxchg8b_loop_xchg, "xchg", 0),
#endif
	BOTH(add, "add", "relaxed", 1),
	BOTH(inc, "add", "relaxed", 1),
	BOTH(sub, "sub", "relaxed", -1),
	BOTH(and, "and", "relaxed", 0),
	BOTH(or, "or", "relaxed", 0),
	BOTH(xor, "xor", "relaxed", 0),
	BOTH(andnot, "andnot", "relaxed", 0),
	BOTH(fetch_add, "fetch_add", "full", 1),
	BOTH(fetch_add_relaxed, "fetch_add", "relaxed", 1),
	BOTH(add_return, "fetch_add", "full", 1),
	BOTH(add_return_relaxed, "fetch_add", "relaxed", 1),
	BOTH(xchg, "xchg", "full", 0),
	BOTH(xchg_relaxed, "xchg", "relaxed", 0),
	BOTH(read, "read", "relaxed", 0),
	BOTH(add_unless, "add_unless", "full", 1),
	BOTH(inc_not_zero, "inc_not_zero", "full", 1),
	BOTH(dec_if_positive, "dec_if_positive", "full", -1),
	BOTH(try_cmpxchg_loop, "cmpxchg", "full", 1),
	BOTH(try_cmpxchg_loop_relaxed, "cmpxchg", "relaxed", 1),
};

const unsigned int lwk_rmw_count = ARRAY_SIZE(lwk_rmw_forms);

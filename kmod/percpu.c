// SPDX-License-Identifier: GPL-2.0-only
/* Per-CPU counters: this_cpu_*() as this kernel has them, and explicit forms with preemption, interrupts or nothing kept off. */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/irqflags.h>
#include <linux/slab.h>

#include <linewright/arch/forms.h>

#include "arch.h"
#include "loop.h"

/* Distance between the words that a loop goes round. */
#define STEP (LWK_APART / sizeof(unsigned long))

/* Where a form's word is; every other form asks for the current CPU's at each operation. */
enum {
	OF_CPU = 1,
	SHARED
};

/* ---- allocations: a cell's lines ---- */

static u64 bytes(const struct lwk_cell *cell)
{
	return (u64)cell->lines * cell->slots * LWK_APART * num_possible_cpus();
}

static int prepare(struct lwk_run *run)
{
	unsigned int line;
	void __percpu **words = kvcalloc(run->cell.lines, sizeof(*words), GFP_KERNEL);

	if (!words)
		return -ENOMEM;
	run->memory = words;
	for (line = 0; line < run->cell.lines; line++) {
		words[line] = __alloc_percpu_gfp(run->cell.slots * LWK_APART, LWK_APART, LWK_GFP);
		if (!words[line])
			return -ENOMEM;
		if (lwk_killed())
			return -EINTR;
	}
	return 0;
}

static void finish(struct lwk_run *run)
{
	unsigned int line;
	void __percpu **words = run->memory;

	for (line = 0; words && line < run->cell.lines; line++)
		free_percpu(words[line]);
	kvfree(words);
}

static void reset(struct lwk_run *run, unsigned int line)
{
	void __percpu **words = run->memory;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(words[line], cpu), 0, run->cell.slots * LWK_APART);
}

static void *subject(struct lwk_run *run, unsigned int line, unsigned int thread)
{
	void __percpu **words = run->memory;

	switch ((unsigned long)run->cell.form->detail) {
	case OF_CPU:
		return per_cpu_ptr(words[line], run->request.cpus[thread]);
	case SHARED:
		return per_cpu_ptr(words[line], run->request.cpus[0]);
	}
	return (void *)(__force unsigned long)words[line];
}

static u64 sum(struct lwk_run *run, unsigned int line)
{
	void __percpu **words = run->memory;
	unsigned int cpu, slot;
	u64 all = 0;

	for_each_possible_cpu(cpu) {
		unsigned long *word = per_cpu_ptr(words[line], cpu);

		for (slot = 0; slot < run->cell.slots; slot++)
			all += READ_ONCE(word[slot * STEP]);
	}
	return all;
}

/* ---- loops ---- */

/*
 * A loop that goes round the words. The address is a local one: some of the kernel's macros evaluate their argument twice. A
 * pointer to per-CPU memory may be one of another address space to the compiler, so it becomes a plain one by way of a number.
 */
#define LOOP_ON(type, name, operation) \
	LWK_LOOP(name, ROUND(type), type *word = base + (turn++ & mask) * STEP; operation)
#define ROUND(type)                                              \
	type *base = (type __force *)(unsigned long)at->subject; \
	const unsigned long mask = at->mask;                     \
	unsigned long turn = 0

#define PERCPU_LOOP(name, operation) LOOP_ON(unsigned long __percpu, name, operation)
#define OWN_LOOP(name, operation) LOOP_ON(unsigned long, name, operation)

PERCPU_LOOP(loop_percpu_empty, __asm__ __volatile__("" : : "r"(word)))

PERCPU_LOOP(loop_this_cpu_inc, this_cpu_inc(*word))
PERCPU_LOOP(loop_this_cpu_add, this_cpu_add(*word, 1))
PERCPU_LOOP(loop_this_cpu_add_return, (void)this_cpu_add_return(*word, 1))
PERCPU_LOOP(loop_this_cpu_xchg, (void)this_cpu_xchg(*word, 1))

static __always_inline void add_by_cmpxchg(unsigned long __percpu *p)
{
	unsigned long old, found = this_cpu_read(*p);

	do {
		old = found;
		found = this_cpu_cmpxchg(*p, old, old + 1);
	} while (found != old);
}

PERCPU_LOOP(loop_this_cpu_cmpxchg, add_by_cmpxchg(word))

/* The kernel's unprotected operations with what a caller has to keep off around them. */
static __always_inline void add_preempt(unsigned long __percpu *p)
{
	preempt_disable();
	__this_cpu_add(*p, 1);
	preempt_enable();
}

static __always_inline void add_irq(unsigned long __percpu *p)
{
	unsigned long flags;

	local_irq_save(flags);
	__this_cpu_add(*p, 1);
	local_irq_restore(flags);
}

PERCPU_LOOP(loop_preempt_this_cpu_add, add_preempt(word))
PERCPU_LOOP(loop_irq_this_cpu_add, add_irq(word))

/*
 * An explicit form in five uses: on this CPU's word with its address taken before the loop (the thread is bound), the same with
 * the address taken at each operation and preemption or interrupts kept off meanwhile, and on one word for all threads.
 */
#if BITS_PER_LONG == 64
#define LW_ADD(form, p) (void)lw_##form##_u64((uint64_t *)(p), 1)
#else
#define LW_ADD(form, p) (void)lw_##form##_u32((uint32_t *)(p), 1)
#endif

#define EXPLICIT(form)                                                        \
	static __always_inline void preempt_##form(unsigned long __percpu *p) \
	{                                                                     \
		preempt_disable();                                            \
		LW_ADD(form, this_cpu_ptr(p));                                \
		preempt_enable();                                             \
	}                                                                     \
	static __always_inline void irq_##form(unsigned long __percpu *p)     \
	{                                                                     \
		unsigned long flags;                                          \
		local_irq_save(flags);                                        \
		LW_ADD(form, this_cpu_ptr(p));                                \
		local_irq_restore(flags);                                     \
	}                                                                     \
	OWN_LOOP(loop_own_##form, LW_ADD(form, word))                         \
	PERCPU_LOOP(loop_preempt_##form, preempt_##form(word))                \
	PERCPU_LOOP(loop_irq_##form, irq_##form(word))

#define ROW(form_name, form_operation, form_loop, added, ...) \
	{ .name = form_name, .operation = form_operation, .order = "relaxed", .width = BITS_PER_LONG, .family = &family, .loop = form_loop, .counts = added, ##__VA_ARGS__ }

#define EXPLICIT_ROWS(form, needs, is_racy)                                                  \
	ROW("percpu_own_" #form, "percpu_add", loop_own_##form, 1, .detail = (void *)OF_CPU, \
		.missing = needs),                                                           \
		ROW("percpu_shared_" #form, "percpu_add", loop_own_##form, 1,                \
			.detail = (void *)SHARED, .missing = needs, .made.racy = is_racy),   \
		ROW("percpu_preempt_" #form, "percpu_add", loop_preempt_##form, 1,           \
			.missing = needs),                                                   \
		ROW("percpu_irq_" #form, "percpu_add", loop_irq_##form, 1, .missing = needs)

EXPLICIT(plain_add)
#if defined(CONFIG_X86)
EXPLICIT(lock_add)
EXPLICIT(lock_xadd)
#elif defined(CONFIG_ARM64)
EXPLICIT(stadd)
EXPLICIT(prfm_strm_stadd)
EXPLICIT(ldadd)
EXPLICIT(prfm_strm_ldadd)
EXPLICIT(llsc_add)
#endif

static const struct lwk_family family = {
	.name = "percpu",
	.bytes = bytes,
	.prepare = prepare,
	.finish = finish,
	.reset = reset,
	.subject = subject,
	.sum = sum,
	.baseline = loop_percpu_empty,
};

const struct lwk_form lwk_percpu_forms[] = {
	ROW("percpu_empty", "percpu_none", loop_percpu_empty, 0),
	ROW("this_cpu_inc", "percpu_add", loop_this_cpu_inc, 1),
	ROW("this_cpu_add", "percpu_add", loop_this_cpu_add, 1),
	ROW("this_cpu_add_return", "percpu_add", loop_this_cpu_add_return, 1),
	ROW("this_cpu_cmpxchg", "percpu_cmpxchg", loop_this_cpu_cmpxchg, 1),
	ROW("this_cpu_xchg", "percpu_xchg", loop_this_cpu_xchg, 0),
	ROW("preempt_this_cpu_add", "percpu_add", loop_preempt_this_cpu_add, 1),
	ROW("irq_this_cpu_add", "percpu_add", loop_irq_this_cpu_add, 1),
	EXPLICIT_ROWS(plain_add, NULL, true),
#if defined(CONFIG_X86)
	EXPLICIT_ROWS(lock_add, NULL, false),
	EXPLICIT_ROWS(lock_xadd, NULL, false),
#elif defined(CONFIG_ARM64)
	EXPLICIT_ROWS(stadd, lwk_missing_lse, false),
	EXPLICIT_ROWS(prfm_strm_stadd, lwk_missing_lse, false),
	EXPLICIT_ROWS(ldadd, lwk_missing_lse, false),
	EXPLICIT_ROWS(prfm_strm_ldadd, lwk_missing_lse, false),
	EXPLICIT_ROWS(llsc_add, NULL, false),
#endif
};

const unsigned int lwk_percpu_count = ARRAY_SIZE(lwk_percpu_forms);

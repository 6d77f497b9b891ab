// SPDX-License-Identifier: GPL-2.0-only
/* Read-side critical sections of every kind that this kernel has, what they are made of, and their updaters. */
#include <linux/bottom_half.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/percpu-rwsem.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/rcupdate_trace.h>
#include <linux/timekeeping.h>
#include <linux/version.h>

#include "loop.h"

/* The flavours of SRCU by the kernels that have them; older ones lack the names, not only the functions. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
#define HAS_SRCU_NMISAFE
#endif
#ifdef SRCU_READ_FLAVOR_FAST
#define HAS_SRCU_FAST
#ifndef DEFINE_SRCU_FAST /* until 6.18 every domain takes readers of every kind */
#define init_srcu_struct_fast init_srcu_struct
#endif
#endif
#ifdef SRCU_READ_FLAVOR_FAST_UPDOWN
#define HAS_SRCU_FAST_UPDOWN
#endif

/* On PREEMPT_RT these locks are mutexes whose owners keep interrupts on. */
#define SPIN_SLEEPS .sleeps = IS_ENABLED(CONFIG_PREEMPT_RT)

#define ALIVE 0x600d600dul
#define GONE 0xdeaddeadul

/* What readers look at and updaters replace. */
struct object {
	unsigned long state;
};

/* One line of a cell: every kind of lock and count beside each other, of which a cell uses one. */
struct guard {
	struct srcu_struct srcu ____cacheline_aligned;
	struct percpu_rw_semaphore percpu_rwsem ____cacheline_aligned;
	struct rw_semaphore rwsem ____cacheline_aligned;
	struct mutex mutex ____cacheline_aligned;
	rwlock_t rwlock ____cacheline_aligned;
	spinlock_t spinlock ____cacheline_aligned;
	refcount_t refcnt ____cacheline_aligned;
	unsigned long acqrel ____cacheline_aligned;
	struct object *current_object ____cacheline_aligned;
	struct object objects[2];
	unsigned long __percpu *count;
};

/* The family's own part of a form: what a guard needs before its first reader and after its last. */
struct kind {
	int (*init)(struct guard *guard);
	void (*exit)(struct guard *guard);
};

/* ---- guards ---- */

static int init_guard(struct guard *guard, const struct kind *kind)
{
	init_rwsem(&guard->rwsem);
	mutex_init(&guard->mutex);
	rwlock_init(&guard->rwlock);
	spin_lock_init(&guard->spinlock);
	refcount_set(&guard->refcnt, 1);
	guard->objects[0].state = ALIVE;
	guard->current_object = &guard->objects[0];
	guard->count = alloc_percpu(unsigned long);
	if (!guard->count)
		return -ENOMEM;
	return kind ? kind->init(guard) : 0;
}

static void finish(struct lwk_run *run)
{
	const struct kind *kind = run->cell.form->detail;
	struct guard **guards = run->memory;
	unsigned int line;

	for (line = 0; guards && line < run->cell.lines && guards[line]; line++) {
		if (kind)
			kind->exit(guards[line]);
		free_percpu(guards[line]->count);
		kfree(guards[line]);
	}
	kvfree(guards);
}

/* What the largest of a guard's per-CPU parts takes on each CPU: a structure of SRCU, on lines of its own. */
#define PERCPU_BYTES 512

static u64 bytes(const struct lwk_cell *cell)
{
	return (u64)cell->lines *
	       (roundup_pow_of_two(sizeof(struct guard)) + PERCPU_BYTES * num_possible_cpus());
}

/* A guard that could not be made whole is taken down here, so that finish() only meets whole ones. */
static int prepare(struct lwk_run *run)
{
	struct guard **guards = kvcalloc(run->cell.lines, sizeof(*guards), GFP_KERNEL);
	unsigned int line;

	if (!guards)
		return -ENOMEM;
	run->memory = guards;
	for (line = 0; line < run->cell.lines; line++) {
		struct guard *guard = lwk_alloc_apart(sizeof(*guard));
		int error = guard ? init_guard(guard, run->cell.form->detail) : -ENOMEM;

		if (error) {
			if (guard)
				free_percpu(guard->count);
			kfree(guard);
			return error;
		}
		guards[line] = guard;
		if (lwk_killed())
			return -EINTR;
	}
	return 0;
}

static void *subject(struct lwk_run *run, unsigned int line, unsigned int thread)
{
	struct guard **guards = run->memory;

	return guards[line];
}

static int init_srcu(struct guard *guard)
{
	return init_srcu_struct(&guard->srcu);
}

#ifdef HAS_SRCU_FAST
static int init_fast(struct guard *guard)
{
	return init_srcu_struct_fast(&guard->srcu);
}
#endif

#ifdef HAS_SRCU_FAST_UPDOWN
static int init_fast_updown(struct guard *guard)
{
	return init_srcu_struct_fast_updown(&guard->srcu);
}
#endif

static void exit_srcu(struct guard *guard)
{
	cleanup_srcu_struct(&guard->srcu);
}

static int init_percpu_sem(struct guard *guard)
{
	return percpu_init_rwsem(&guard->percpu_rwsem);
}

static void exit_percpu_sem(struct guard *guard)
{
	percpu_free_rwsem(&guard->percpu_rwsem);
}

/* ---- loops ---- */

#define GUARD                                         \
	struct guard *g __maybe_unused = at->subject; \
	const unsigned long delay = at->delay

/* How long a reader stays inside; no call where it does not. */
static __always_inline unsigned long stay(unsigned long x, unsigned long delay)
{
	return delay ? lwk_chain(x, delay) : x;
}

LWK_LOOP(loop_empty, GUARD, barrier(); x = stay(x, delay))

/* Whether what a reader has found stays as long as it reads. READ_ONCE() pairs with the WRITE_ONCE() in GRACE(). */
static __always_inline bool gone(const struct object *object)
{
	return READ_ONCE(object->state) != ALIVE;
}

/*
 * A pair of `enter` and `leave` as a timed loop, and as one that verifies: the object found inside stays alive until the end of
 * the section. `hold` declares what enter returns and leave takes.
 */
#define PAIR(name, hold, enter, leave)                                          \
	LWK_LOOP(loop_##name, GUARD, hold; enter; x = stay(x, delay); leave)    \
	LWK_LOOP(verify_##name, GUARD, hold; const struct object *found; enter; \
		found = READ_ONCE(g->current_object); at->wrong += gone(found); \
		x = lwk_chain(x, delay); at->wrong += gone(found); leave)

#define FLOOR(name, hold, enter, leave) \
	LWK_LOOP(loop_##name, GUARD, hold; enter; x = stay(x, delay); leave)

#define NOTHING \
	do {    \
	} while (0)

PAIR(rcu, NOTHING, rcu_read_lock(), rcu_read_unlock())
PAIR(srcu, int idx, idx = srcu_read_lock(&g->srcu), srcu_read_unlock(&g->srcu, idx))
#ifdef HAS_SRCU_NMISAFE
PAIR(srcu_nmisafe, int idx, idx = srcu_read_lock_nmisafe(&g->srcu),
	srcu_read_unlock_nmisafe(&g->srcu, idx))
#endif
#ifdef HAS_SRCU_FAST
PAIR(srcu_fast, struct srcu_ctr __percpu *idx, idx = srcu_read_lock_fast(&g->srcu),
	srcu_read_unlock_fast(&g->srcu, idx))
#endif
#ifdef HAS_SRCU_FAST_UPDOWN
PAIR(srcu_fast_updown, struct srcu_ctr __percpu *idx, idx = srcu_read_lock_fast_updown(&g->srcu),
	srcu_read_unlock_fast_updown(&g->srcu, idx))

/* A domain that is defined, not initialised: all lines of a cell share it. */
DEFINE_STATIC_SRCU_FAST_UPDOWN(defined);
PAIR(srcu_fast_updown_defined, struct srcu_ctr __percpu *idx,
	idx = srcu_read_lock_fast_updown(&defined), srcu_read_unlock_fast_updown(&defined, idx))

/*
 * The same readers by plain increments with interrupts off: where the instruction of this_cpu_inc() is performed far away, they are
 * quicker. A cell's domain has readers of one kind, and none in an NMI handler, so that no count is lost.
 */
static __always_inline void count_irqsave(unsigned long __percpu *counter)
{
	unsigned long flags, *word;

	raw_local_irq_save(flags);
	word = raw_cpu_ptr(counter);
	/* Marked: the updater's scan reads it from another CPU, by atomic_long_read(). */
	WRITE_ONCE(*word, READ_ONCE(*word) + 1);
	raw_local_irq_restore(flags);
}

static __always_inline unsigned long __percpu *lock_irqsave(struct srcu_struct *ssp)
{
#ifdef _LINUX_SRCU_FAST_UPDOWN_H /* our patch, for kernels that lack these readers */
	unsigned long __percpu *locks = __srcu_fast_locks(ssp);
#else
	struct srcu_ctr __percpu *pair = READ_ONCE(ssp->srcu_ctrp);
	unsigned long __percpu *locks = (unsigned long __percpu *)&pair->srcu_locks.counter;
#endif

	count_irqsave(locks);
	barrier(); /* the section stays behind; other CPUs: the updater's scan */
	return locks;
}

static __always_inline void unlock_irqsave(unsigned long __percpu *locks)
{
#ifdef _LINUX_SRCU_FAST_UPDOWN_H
	unsigned long __percpu *unlocks = locks + 2;
#else
	unsigned long __percpu *unlocks = locks + (offsetof(struct srcu_ctr, srcu_unlocks) -
							  offsetof(struct srcu_ctr, srcu_locks)) /
							  sizeof(*locks);
#endif

	barrier(); /* the section stays before; other CPUs: the updater's scan */
	count_irqsave(unlocks);
}

PAIR(srcu_fast_updown_irqsave, unsigned long __percpu *idx, idx = lock_irqsave(&g->srcu),
	unlock_irqsave(idx))
#endif
#ifdef CONFIG_TASKS_TRACE_RCU
PAIR(tasks_trace, NOTHING, rcu_read_lock_trace(), rcu_read_unlock_trace())
#endif
PAIR(percpu_rwsem, NOTHING, percpu_down_read(&g->percpu_rwsem), percpu_up_read(&g->percpu_rwsem))
PAIR(rwlock, NOTHING, read_lock(&g->rwlock), read_unlock(&g->rwlock))
PAIR(rwsem, NOTHING, down_read(&g->rwsem), up_read(&g->rwsem))
PAIR(mutex, NOTHING, mutex_lock(&g->mutex), mutex_unlock(&g->mutex))
PAIR(spinlock, NOTHING, spin_lock(&g->spinlock), spin_unlock(&g->spinlock))
PAIR(spinlock_irq, unsigned long flags, spin_lock_irqsave(&g->spinlock, flags),
	spin_unlock_irqrestore(&g->spinlock, flags))
PAIR(refcnt, NOTHING, refcount_inc(&g->refcnt), refcount_dec(&g->refcnt))

/* A count on the current CPU, up and down, with what a caller may have to keep off meanwhile. */
static __always_inline void count(unsigned long __percpu *p, long by)
{
	__this_cpu_add(*p, by);
}

static __always_inline void count_plainly(unsigned long __percpu *p, long by)
{
	unsigned long *word = this_cpu_ptr(p);

	WRITE_ONCE(*word, READ_ONCE(*word) + by);
}

FLOOR(percpuinc, NOTHING, this_cpu_inc(*g->count), this_cpu_dec(*g->count))
FLOOR(incpercpu, NOTHING, count_plainly(g->count, 1), count_plainly(g->count, -1))
FLOOR(incpercpu_preempt, preempt_disable(), count(g->count, 1), count(g->count, -1);
	preempt_enable())
FLOOR(incpercpu_bh, local_bh_disable(), count(g->count, 1), count(g->count, -1); local_bh_enable())
FLOOR(incpercpu_irqsave, unsigned long flags;
	local_irq_save(flags), count(g->count, 1), count(g->count, -1); local_irq_restore(flags))
/* The pair as such: nothing else pairs with either. */
FLOOR(acqrel, NOTHING, (void)smp_load_acquire(&g->acqrel), smp_store_release(&g->acqrel, 1))
FLOOR(sched_clock, u64 now, now = sched_clock(), barrier_data(&now))
FLOOR(clock, u64 now, now = ktime_get_real_fast_ns(), barrier_data(&now))
FLOOR(coarse_clock, unsigned long now, now = READ_ONCE(jiffies), barrier_data(&now))
FLOOR(preempt, NOTHING, preempt_disable(), preempt_enable())
FLOOR(bh, NOTHING, local_bh_disable(), local_bh_enable())
FLOOR(irq, NOTHING, local_irq_disable(), local_irq_enable())
FLOOR(irqsave, unsigned long flags, local_irq_save(flags), local_irq_restore(flags))

/* ---- updaters ---- */

/* Puts the other object in the present one's place, waits by `wait`, and marks the old one as gone. */
#define GRACE(name, wait)                                                               \
	static noinline void grace_##name(struct lwk_place *at, unsigned long iters)    \
	{                                                                               \
		struct guard *g = at->subject;                                          \
		do {                                                                    \
			struct object *old = g->current_object;                         \
			struct object *new = &g->objects[old == &g->objects[0]];        \
			WRITE_ONCE(new->state, ALIVE);                                  \
			/* Release: the new object is alive where a reader finds it. */ \
			smp_store_release(&g->current_object, new);                     \
			wait;                                                           \
			WRITE_ONCE(old->state, GONE);                                   \
		} while (--iters);                                                      \
	}

GRACE(rcu, synchronize_rcu())
GRACE(rcu_expedited, synchronize_rcu_expedited())
GRACE(srcu, synchronize_srcu(&g->srcu))
GRACE(srcu_expedited, synchronize_srcu_expedited(&g->srcu))
#ifdef HAS_SRCU_FAST_UPDOWN
GRACE(defined, synchronize_srcu(&defined))
GRACE(defined_expedited, synchronize_srcu_expedited(&defined))
#endif
#ifdef CONFIG_TASKS_TRACE_RCU
GRACE(tasks_trace, synchronize_rcu_tasks_trace())
#endif
GRACE(percpu_rwsem, percpu_down_write(&g->percpu_rwsem); percpu_up_write(&g->percpu_rwsem))
GRACE(rwlock, write_lock(&g->rwlock); write_unlock(&g->rwlock))
GRACE(rwsem, down_write(&g->rwsem); up_write(&g->rwsem))
GRACE(mutex, mutex_lock(&g->mutex); mutex_unlock(&g->mutex))
GRACE(spinlock, spin_lock(&g->spinlock); spin_unlock(&g->spinlock))
GRACE(spinlock_irq, spin_lock_irq(&g->spinlock); spin_unlock_irq(&g->spinlock))

/* ---- the table ---- */

static const struct lwk_family family = {
	.name = "readers",
	.bytes = bytes,
	.prepare = prepare,
	.finish = finish,
	.subject = subject,
	.baseline = loop_empty,
};

static const struct kind kind_srcu = { init_srcu, exit_srcu };
#ifdef HAS_SRCU_FAST
static const struct kind kind_fast = { init_fast, exit_srcu };
#endif
#ifdef HAS_SRCU_FAST_UPDOWN
static const struct kind kind_fast_updown = { init_fast_updown, exit_srcu };
#endif
static const struct kind kind_percpu_rwsem = { init_percpu_sem, exit_percpu_sem };

#define FORM(form_name, operation_name, ...) \
	{ .name = #form_name, .operation = operation_name, .width = 8, .order = "relaxed", .family = &family, .loop = loop_##form_name, ##__VA_ARGS__ }
#define PAIR_ROW(form_name, synchronize, expedited, ...) \
	{ .name = #form_name, .operation = "readers_pair", .width = 8, .order = "acq_rel", .family = &family, .loop = loop_##form_name, .verify = verify_##form_name, .grace = { NULL, synchronize, expedited }, ##__VA_ARGS__ }

const struct lwk_form lwk_readers_forms[] = {
	{ .name = "readers_empty",
		.operation = "readers_none",
		.width = 8,
		.order = "relaxed",
		.family = &family,
		.loop = loop_empty },
	PAIR_ROW(rcu, grace_rcu, grace_rcu_expedited),
	PAIR_ROW(srcu, grace_srcu, grace_srcu_expedited, .detail = &kind_srcu),
#ifdef HAS_SRCU_NMISAFE
	PAIR_ROW(srcu_nmisafe, grace_srcu, grace_srcu_expedited, .detail = &kind_srcu),
#endif
#ifdef HAS_SRCU_FAST
	PAIR_ROW(srcu_fast, grace_srcu, grace_srcu_expedited, .detail = &kind_fast),
#endif
#ifdef HAS_SRCU_FAST_UPDOWN
	PAIR_ROW(srcu_fast_updown, grace_srcu, grace_srcu_expedited, .detail = &kind_fast_updown),
	PAIR_ROW(srcu_fast_updown_defined, grace_defined, grace_defined_expedited),
	PAIR_ROW(srcu_fast_updown_irqsave, grace_srcu, grace_srcu_expedited,
		.detail = &kind_fast_updown),
#endif
#ifdef CONFIG_TASKS_TRACE_RCU
	PAIR_ROW(tasks_trace, grace_tasks_trace, NULL),
#endif
	PAIR_ROW(percpu_rwsem, grace_percpu_rwsem, NULL, .detail = &kind_percpu_rwsem,
		.sleeps = true),
	PAIR_ROW(rwlock, grace_rwlock, NULL, SPIN_SLEEPS),
	PAIR_ROW(rwsem, grace_rwsem, NULL, .sleeps = true),
	PAIR_ROW(mutex, grace_mutex, NULL, .sleeps = true),
	PAIR_ROW(spinlock, grace_spinlock, NULL, .keeps_off = "preemption", SPIN_SLEEPS),
	PAIR_ROW(spinlock_irq, grace_spinlock_irq, NULL, .keeps_off = "interrupts", SPIN_SLEEPS),
	PAIR_ROW(refcnt, NULL, NULL),
	FORM(percpuinc, "readers_floor"),
	FORM(incpercpu, "readers_floor"),
	FORM(incpercpu_preempt, "readers_floor"),
	FORM(incpercpu_bh, "readers_floor"),
	FORM(incpercpu_irqsave, "readers_floor", .keeps_off = "interrupts"),
	FORM(acqrel, "readers_floor", .made.racy = true),
	FORM(sched_clock, "readers_floor"),
	FORM(clock, "readers_floor"),
	FORM(coarse_clock, "readers_floor"),
	FORM(preempt, "readers_floor"),
	FORM(bh, "readers_floor"),
	FORM(irq, "readers_floor", .keeps_off = "interrupts"),
	FORM(irqsave, "readers_floor", .keeps_off = "interrupts"),
};

const unsigned int lwk_readers_count = ARRAY_SIZE(lwk_readers_forms);

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SRCU readers without memory barriers, which one context may begin and another end. Included by
 * srcu.h. Names and types are those of kernels that have such readers of their own (7.x).
 */
#ifndef _LINUX_SRCU_FAST_UPDOWN_H
#define _LINUX_SRCU_FAST_UPDOWN_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/lockdep.h>
#include <linux/percpu.h>

/* A reader's counter of locks; which one it was tells unlock where to count. */
struct srcu_ctr;

/* How users tell that this kernel has these readers. */
#define SRCU_READ_FLAVOR_FAST_UPDOWN 0x10

/* A domain that takes these readers, and all others. Returns what init_srcu_struct() does. */
#define init_srcu_struct_fast_updown(ssp)        \
	({                                       \
		int __e = init_srcu_struct(ssp); \
		(ssp)->fast_readers = !__e;      \
		__e;                             \
	})

/*
 * The barriers that other readers execute are the updater's here: between its two sums every CPU is
 * made to pass through a grace period of RCU. Counting is one instruction, or is done with
 * preemption or interrupts off, so it lies on one side of that grace period. The counters are
 * words: atomic_long_t in later kernels, since their other readers may count there in NMI handlers.
 */
static __always_inline void __srcu_count_fast(unsigned long __percpu *counter)
{
	if (IS_ENABLED(CONFIG_NEED_SRCU_NMI_SAFE))
		atomic_long_inc((atomic_long_t *)raw_cpu_ptr(counter));
	else
		this_cpu_inc(*counter);
}

/* A domain's locks of the present index. Its unlocks are two words behind. */
static __always_inline unsigned long __percpu *__srcu_fast_locks(struct srcu_struct *ssp)
{
	/* Whichever index is found: an updater waits for both. */
	return (unsigned long __percpu *)ssp->sda->srcu_lock_count + (READ_ONCE(ssp->srcu_idx) & 1);
}

static __always_inline struct srcu_ctr __percpu *srcu_down_read_fast(struct srcu_struct *ssp)
{
	unsigned long __percpu *locks = __srcu_fast_locks(ssp);

	RCU_LOCKDEP_WARN(!rcu_is_watching(), "A fast reader begins where RCU does not watch");
	if (IS_ENABLED(CONFIG_PROVE_RCU))
		WARN_ON_ONCE(!ssp->fast_readers);
	__srcu_count_fast(locks);
	barrier(); /* the section stays behind; other CPUs: srcu_readers_active_idx_check() */
	return (struct srcu_ctr __percpu *)locks;
}

/* On any CPU, in any context but NMI handlers. */
static __always_inline void srcu_up_read_fast(
	struct srcu_struct *ssp, struct srcu_ctr __percpu *scp)
{
	unsigned long __percpu *locks = (unsigned long __percpu *)scp;

	/* The unlocks of an index are two counters behind its locks. */
	BUILD_BUG_ON(offsetof(struct srcu_data, srcu_unlock_count) !=
		     offsetof(struct srcu_data, srcu_lock_count) + 2 * sizeof(*locks));
	RCU_LOCKDEP_WARN(!rcu_is_watching(), "A fast reader ends where RCU does not watch");
	barrier(); /* the section stays before; other CPUs: srcu_readers_active_idx_check() */
	__srcu_count_fast(locks + 2);
}

/* The same for readers that begin and end in one context, which lockdep then sees. */
static __always_inline struct srcu_ctr __percpu *srcu_read_lock_fast_updown(struct srcu_struct *ssp)
	__acquires(ssp)
{
	struct srcu_ctr __percpu *scp = srcu_down_read_fast(ssp);

	lock_map_acquire_read(&ssp->dep_map);
	return scp;
}

static __always_inline void srcu_read_unlock_fast_updown(
	struct srcu_struct *ssp, struct srcu_ctr __percpu *scp) __releases(ssp)
{
	lock_map_release(&ssp->dep_map);
	srcu_up_read_fast(ssp, scp);
}

/*
 * Later kernels have readers that must end in the context they began in, with domains of their own.
 * Here they are one kind.
 */
#define init_srcu_struct_fast(ssp) init_srcu_struct_fast_updown(ssp)
#define DEFINE_SRCU_FAST(name) DEFINE_SRCU_FAST_UPDOWN(name)
#define DEFINE_STATIC_SRCU_FAST(name) DEFINE_STATIC_SRCU_FAST_UPDOWN(name)

static __always_inline struct srcu_ctr __percpu *srcu_read_lock_fast(struct srcu_struct *ssp)
	__acquires(ssp)
{
	return srcu_read_lock_fast_updown(ssp);
}

static __always_inline void srcu_read_unlock_fast(
	struct srcu_struct *ssp, struct srcu_ctr __percpu *scp) __releases(ssp)
{
	srcu_read_unlock_fast_updown(ssp, scp);
}

#endif

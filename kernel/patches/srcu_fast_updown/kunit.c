// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test of SRCU-fast-updown readers: grace periods wait for them wherever they end, and no count is
 * lost.
 */
#include <kunit/test.h>

#include <linux/completion.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#define WORKERS 4
#define COUNTS 50000

DEFINE_STATIC_SRCU_FAST_UPDOWN(updown_srcu);
static DEFINE_PER_CPU(unsigned long, updown_count);

struct up {
	struct work_struct work;
	struct srcu_ctr __percpu *scp;
};

static void up_elsewhere(struct work_struct *work)
{
	struct up *up = container_of(work, struct up, work);

	srcu_up_read_fast(&updown_srcu, up->scp);
}

struct waiter {
	struct rcu_head head;
	struct completion over;
};

static void waiter_over(struct rcu_head *head)
{
	complete(&container_of(head, struct waiter, head)->over);
}

static void readers_that_have_left(struct kunit *test)
{
	struct srcu_ctr __percpu *scp = srcu_read_lock_fast_updown(&updown_srcu);

	KUNIT_EXPECT_NOT_NULL(test, (__force void *)scp);
	srcu_read_unlock_fast_updown(&updown_srcu, scp);
	synchronize_srcu(&updown_srcu);
	synchronize_srcu_expedited(&updown_srcu);
}

/* The reader begins here and ends in a work item, on whichever CPU that is. */
static void reader_that_ends_elsewhere(struct kunit *test)
{
	struct waiter waiter;
	struct up up;

	INIT_WORK_ONSTACK(&up.work, up_elsewhere);
	init_completion(&waiter.over);
	up.scp = srcu_down_read_fast(&updown_srcu);
	call_srcu(&updown_srcu, &waiter.head, waiter_over);
	KUNIT_EXPECT_EQ_MSG(test, wait_for_completion_timeout(&waiter.over, HZ / 2), 0UL,
		"a grace period ended beside its reader");
	queue_work(system_unbound_wq, &up.work);
	srcu_barrier(&updown_srcu);
	KUNIT_EXPECT_TRUE(test, completion_done(&waiter.over));
	flush_work(&up.work);
	destroy_work_on_stack(&up.work);
}

static void count_much(struct work_struct *work)
{
	for (int i = 0; i < COUNTS; i++)
		__srcu_inc_irqsave(updown_count);
}

static void counts_with_interrupts_off(struct kunit *test)
{
	static struct work_struct works[WORKERS];
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		per_cpu(updown_count, cpu) = 0;
	for (int i = 0; i < WORKERS; i++) {
		INIT_WORK(&works[i], count_much);
		queue_work(system_unbound_wq, &works[i]);
	}
	for (int i = 0; i < WORKERS; i++)
		flush_work(&works[i]);
	for_each_possible_cpu(cpu)
		sum += per_cpu(updown_count, cpu);
	KUNIT_EXPECT_EQ(test, sum, (unsigned long)WORKERS * COUNTS);
}

static struct kunit_case updown_cases[] = { KUNIT_CASE(readers_that_have_left),
	KUNIT_CASE(reader_that_ends_elsewhere), KUNIT_CASE(counts_with_interrupts_off), {} };

static struct kunit_suite updown_suite = {
	.name = "srcu_fast_updown",
	.test_cases = updown_cases,
};
kunit_test_suite(updown_suite);

MODULE_DESCRIPTION("Test of SRCU-fast-updown readers");
MODULE_LICENSE("GPL");

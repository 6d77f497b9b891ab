// SPDX-License-Identifier: GPL-2.0-only
/* Runs one cell: its threads, its windows, the baseline windows beside them, and the sum that shows nothing was lost. */
#include <linux/cpu.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "linewright.h"

/* Longest baseline window: the loop without the operation settles sooner than a contended one. */
#define BASELINE_NS 2000000u

/* One window as the timed thread saw it. */
struct window {
	u64 ns;
	u64 ops;
	u64 longest_ns;		/* its longest batch */
	unsigned long switches; /* how often the timed thread left its CPU */
};

u64 lwk_now_ns(void)
{
	return ktime_get_raw_ns();
}

/* Whether the cell has to end early: its request was killed, or its time is up. */
bool lwk_over(const struct lwk_run *run)
{
	return READ_ONCE(run->stop) || lwk_now_ns() > run->deadline_ns;
}

static unsigned long switches_of(const struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* Does `iters` operations and counts them. `ops` pairs with the READ_ONCE() in note_ops(): a counter alone. */
static void do_batch(struct lwk_thread *thread, lwk_loop loop, unsigned long iters)
{
	loop(&thread->at, iters);
	if (loop == thread->loop) {
		thread->line_ops += iters;
		WRITE_ONCE(thread->ops, thread->ops + iters);
	}
}

/* The iterations whose time is at least LWK_BATCH_NS, found by doubling; it warms up at once. */
static unsigned long calibrate(struct lwk_thread *thread, lwk_loop loop)
{
	unsigned long iters = 1;

	while (iters < (1ul << 20) && !lwk_over(thread->run)) {
		u64 start = lwk_now_ns();

		do_batch(thread, loop, iters);
		if (lwk_now_ns() - start >= LWK_BATCH_NS)
			break;
		iters *= 2;
		cond_resched();
	}
	return iters;
}

/* Times batches until `length_ns` has passed. Interrupts and preemption are as the operation itself leaves them: on. */
static void measure(struct lwk_thread *thread, lwk_loop loop, unsigned long batch, u64 length_ns,
	struct window *window)
{
	u64 start, before, now;

	memset(window, 0, sizeof(*window));
	window->switches = switches_of(current);
	start = lwk_now_ns();
	before = start;
	do {
		do_batch(thread, loop, batch);
		window->ops += batch;
		cond_resched();
		now = lwk_now_ns();
		window->longest_ns = max(window->longest_ns, now - before);
		before = now;
	} while (now - start < length_ns && now < thread->run->deadline_ns &&
		 !READ_ONCE(thread->run->stop));
	window->ns = now - start;
	window->switches = switches_of(current) - window->switches;
}

/* ---- contenders ---- */

static unsigned int contenders(const struct lwk_run *run)
{
	return run->cell.threads - 1;
}

/* Waits for a round, works until it is over, and waits again, until it is stopped. */
static int contend(void *data)
{
	struct lwk_thread *thread = data;
	struct lwk_run *run = thread->run;

	for (;;) {
		unsigned long batch;

		wait_event_idle(
			run->wake, READ_ONCE(run->round) != thread->round || kthread_should_stop());
		if (kthread_should_stop())
			return 0;
		thread->round = READ_ONCE(run->round);
		batch = calibrate(thread, thread->loop);
		atomic_inc(&run->running); /* orders nothing: it is a count */
		wake_up_all(&run->wake);
		while (READ_ONCE(run->going)) {
			do_batch(thread, thread->loop, batch);
			cond_resched();
		}
		/* Release: line_ops is seen where stop_contenders() has acquired the count. */
		(void)atomic_inc_return_release(&run->finished);
		wake_up_all(&run->wake);
	}
}

static bool all_running(struct lwk_run *run)
{
	return atomic_read(&run->running) == contenders(run);
}

/* Begins a round and returns once every contender is inside its loop. */
static void start_contenders(struct lwk_run *run)
{
	if (!contenders(run))
		return;
	atomic_set(&run->running, 0);
	atomic_set(&run->finished, 0);
	WRITE_ONCE(run->going, true);
	/* Release: the line's new start and `going` come before the round; wait_event_idle() in contend() reads it. */
	smp_store_release(&run->round, run->round + 1);
	wake_up_all(&run->wake);
	while (!wait_event_idle_timeout(run->wake, all_running(run), HZ / 10) && !lwk_over(run))
		;
}

/* Ends the round and returns once every contender has left its loop, also one that entered it late. */
static void stop_contenders(struct lwk_run *run)
{
	if (!contenders(run))
		return;
	WRITE_ONCE(run->going, false);
	/* Acquire: pairs with the release in contend(). */
	wait_event_idle(run->wake, atomic_read_acquire(&run->finished) == contenders(run));
}

/* ---- windows ---- */

static void reset_line(struct lwk_run *run, unsigned int line)
{
	const struct lwk_family *family = run->cell.form->family;
	unsigned int index;

	family->reset(run, line);
	for (index = 0; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		thread->line_ops = 0;
		thread->at.subject = family->subject(run, line, index);
	}
}

/* What the operations should have added up to against what the line holds. */
static void check_sum(struct lwk_run *run, unsigned int line)
{
	const struct lwk_form *form = run->cell.form;
	unsigned int index;
	u64 ops = 0;

	for (index = 0; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		run->wrong += thread->at.wrong;
		thread->at.wrong = 0;
		if (thread->loop == form->loop)
			ops += thread->line_ops;
	}
	if (!form->counts || !form->family->sum || run->cell.verify || run->cell.grace)
		return;
	run->sum_expected += form->counts > 0 ? ops : -ops;
	run->sum_found += form->family->sum(run, line);
}

static void say_window(struct lwk_run *run, unsigned int line, const struct window *window,
	const struct window *baseline)
{
	unsigned int index;

	lwk_say(run->text,
		"window line=%u ns=%llu ops=%llu batch=%lu longest_ns=%llu switches=%lu baseline_ns=%llu baseline_ops=%llu threads=%llu",
		line, window->ns, window->ops, run->threads[0]->batch, window->longest_ns,
		window->switches, baseline->ns, baseline->ops, window->ops);
	for (index = 1; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		lwk_say(run->text, ",%lu", thread->in_window);
	}
	lwk_say(run->text, "\n");
}

/* How much each contender did since `at_open`. READ_ONCE() pairs with the WRITE_ONCE() in do_batch(): behind by up to a batch. */
static void note_ops(struct lwk_run *run, bool open)
{
	unsigned int index;

	for (index = 1; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		thread->in_window = READ_ONCE(thread->ops) - (open ? 0 : thread->in_window);
	}
}

static void one_window(struct lwk_run *run, unsigned int line, u64 length_ns, unsigned long *batch)
{
	lwk_loop baseline = run->cell.form->family->baseline;
	struct lwk_thread *timed = run->threads[0];
	struct window window, empty;

	reset_line(run, line);
	if (!*batch)
		*batch = calibrate(timed, baseline);
	if (!timed->batch)
		timed->batch = calibrate(timed, timed->loop);
	start_contenders(run);
	do_batch(timed, timed->loop, timed->batch);
	note_ops(run, true);
	measure(timed, timed->loop, timed->batch, length_ns, &window);
	note_ops(run, false);
	stop_contenders(run);
	check_sum(run, line);
	measure(timed, baseline, *batch, min_t(u64, length_ns, BASELINE_NS), &empty);
	if (raw_smp_processor_id() != timed->cpu)
		run->error = -ENODEV;
	say_window(run, line, &window, &empty);
}

static void windows(struct lwk_run *run)
{
	const struct lwk_cell *cell = &run->cell;
	unsigned long batch = 0;
	unsigned int i;

	for (i = 0; i < cell->windows && !lwk_over(run) && !run->text->full; i++)
		one_window(run, (cell->first_line + i) % cell->lines, 1000ull * cell->window_us,
			&batch);
}

/* The timed thread: everything that the request waits for. */
static int timed(void *data)
{
	struct lwk_thread *thread = data;
	struct lwk_run *run = thread->run;
	const struct lwk_family *family = run->cell.form->family;

	if (family->windows)
		family->windows(run);
	else
		windows(run);
	complete(&run->done);
	while (!kthread_should_stop())
		wait_event_idle(run->wake, kthread_should_stop());
	return 0;
}

/* ---- the run ---- */

/* Which loop a thread runs: an updater is the timed thread of a grace-period cell, else the last thread. */
static lwk_loop loop_of(const struct lwk_cell *cell, unsigned int index)
{
	const struct lwk_form *form = cell->form;
	bool last = index && index + 1 == cell->threads;

	if (cell->grace ? !index : cell->updater && last)
		return form->grace[cell->updater];
	if (index && cell->contender == LWK_PLACEBO)
		return form->family->baseline;
	return cell->verify ? form->verify : form->loop;
}

static struct lwk_thread *new_thread(struct lwk_run *run, unsigned int index)
{
	const struct lwk_cell *cell = &run->cell;
	struct lwk_thread *thread = lwk_alloc_apart(sizeof(*thread));

	if (!thread)
		return NULL;
	thread->run = run;
	thread->index = index;
	thread->cpu = cell->cpus[index];
	thread->loop = loop_of(cell, index);
	thread->at.mask = cell->slots - 1;
	thread->at.work = index ? 0 : cell->work;
	thread->at.spacing = index ? cell->contender_iters : 0;
	thread->at.delay = cell->delay;
	thread->at.random = 0x9e3779b9u * (index + 1); /* not 0, and another one for each */
	return thread;
}

static int start_threads(struct lwk_run *run)
{
	unsigned int index;

	for (index = 0; index < run->cell.threads; index++) {
		struct lwk_thread *thread = new_thread(run, index);
		struct task_struct *task;

		if (!thread)
			return -ENOMEM;
		run->threads[index] = thread;
		task = kthread_create_on_node(index ? contend : timed, thread,
			cpu_to_node(thread->cpu), "linewright/%u", index);
		if (IS_ERR(task))
			return PTR_ERR(task);
		kthread_bind(task, thread->cpu);
		get_task_struct(task);
		thread->task = task;
	}
	for (index = 0; index < run->cell.threads; index++)
		wake_up_process(run->threads[index]->task);
	return 0;
}

static void end_threads(struct lwk_run *run)
{
	unsigned int index;

	for (index = 0; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		if (!thread)
			continue;
		if (thread->task) {
			kthread_stop(thread->task);
			put_task_struct(thread->task);
		}
		kfree(thread);
	}
}

/* Waits for the timed thread; a killed request makes it stop behind its present batch. */
static int wait_for_timed(struct lwk_run *run)
{
	if (!wait_for_completion_killable(&run->done))
		return 0;
	WRITE_ONCE(run->stop, true);
	wait_for_completion(&run->done);
	return -EINTR;
}

static void say_end(struct lwk_run *run)
{
	lwk_say(run->text, "sum expected=%llu found=%llu wrong=%lu\n", run->sum_expected,
		run->sum_found, run->wrong);
	lwk_say(run->text, "end stop=%s\n", lwk_now_ns() > run->deadline_ns ? "time" : "windows");
}

/*
 * A CPU may go away later: its thread then runs elsewhere, and one_window() finds out. Holding the hotplug lock here would
 * deadlock with a grace period that wants it too, behind a waiting writer.
 */
static bool cpus_are_online(const struct lwk_cell *cell)
{
	unsigned int index;

	for (index = 0; index < cell->threads; index++)
		if (!cpu_online(cell->cpus[index]))
			return false;
	return true;
}

/* Runs a cell that lwk_parse_cell() has accepted; its windows go into `text`. Returns 0 or a negative errno. */
int lwk_run_cell(struct lwk_cell *cell, struct lwk_text *text)
{
	const struct lwk_family *family = cell->form->family;
	struct lwk_run *run = kvzalloc(sizeof(*run), GFP_KERNEL);
	int error = -ENOMEM;

	if (!run)
		return error;
	run->cell = *cell;
	run->text = text;
	run->deadline_ns = lwk_now_ns() + 1000000ull * cell->limit_ms;
	init_waitqueue_head(&run->wake);
	init_completion(&run->done);
	run->threads = kcalloc(cell->threads, sizeof(*run->threads), GFP_KERNEL);
	if (run->threads)
		error = family->prepare(run);
	if (!error) {
		error = cpus_are_online(cell) ? start_threads(run) : -ENODEV;
		if (!error)
			error = wait_for_timed(run);
		end_threads(run);
		family->finish(run);
	}
	if (!error)
		error = run->error;
	if (!error)
		say_end(run);
	kfree(run->threads);
	kvfree(run);
	return error;
}

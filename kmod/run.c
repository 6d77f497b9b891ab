// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs the windows of a prepared cell: its threads, their batches, and the sum that shows nothing was lost. Which window comes
 * when, and which ones count, is the probe's to decide, for user space and kernel alike.
 */
#include <linux/cpu.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "linewright.h"

/* Length of a contender's batches: the edges of a window stay sharp. */
#define CONTENDER_BATCH_NS 10000

/* About how long a loop runs before its thread looks whether its window is over: a killed request ends that soon, or behind one operation. */
#define SLICE_NS 1000000

/* The life of a window. Only the timed thread moves it on; every contender watches it. */
enum phase {
	STARTING,
	OPEN,
	CLOSED,
	STOP
};

/* One window runs at a time, under main.c's lock, and keeps the times of its batches here. */
static u32 *batches;

int lwk_run_init(void)
{
	batches = kvmalloc_array(LWK_MAX_BATCHES, sizeof(*batches), GFP_KERNEL);
	return batches ? 0 : -ENOMEM;
}

void lwk_run_exit(void)
{
	kvfree(batches);
}

u64 lwk_now_ns(void)
{
	return ktime_get_raw_ns();
}

/* Whether the window has to end early: its request was killed, or its time is up. */
bool lwk_over(const struct lwk_run *run)
{
	return READ_ONCE(run->stop) || lwk_now_ns() > run->deadline_ns;
}

/* Whether the request that takes a cell's memory was killed; asked behind each of its lines or entries, where others may run. */
bool lwk_killed(void)
{
	cond_resched();
	return fatal_signal_pending(current);
}

/* Whether a window of `ns` is long enough; it is whole then. */
bool lwk_lasted(const struct lwk_run *run, u64 ns)
{
	return ns >= 1000ull * run->request.window_us;
}

void lwk_note_batch(struct lwk_run *run, u64 ns)
{
	if (run->taken < LWK_MAX_BATCHES)
		run->batches[run->taken++] = min_t(u64, ns, U32_MAX);
}

/* ---- one thread's batches ---- */

/* Time in which this thread was ready to run while another had its CPU. */
static u64 away_ns(void)
{
#ifdef CONFIG_SCHED_INFO
	return current->sched_info.run_delay;
#else
	return 0;
#endif
}

static void do_slice(struct lwk_thread *thread, unsigned long iters)
{
	thread->loop(&thread->at, iters);
	thread->ops_all += iters;
}

/* Learns from operations that took `ns` how many take about a slice: an operation's cost changes when others come to its line. */
static void learn_slice(struct lwk_thread *thread, unsigned long iters, u64 ns)
{
	if (ns > 2 * SLICE_NS)
		thread->slice = max(iters / 2, 1ul);
	else if (iters >= thread->slice && ns < SLICE_NS / 2)
		thread->slice = 2 * iters;
}

/*
 * One batch, whatever its length: what takes longer than a slice is done in several. False: the window was over before its end. A batch of one
 * slice, as every batch of about batch_ns is once its length is known, is the loop and nothing else.
 */
static bool do_batch(struct lwk_thread *thread, unsigned long iters)
{
	while (iters > thread->slice) {
		unsigned long some = thread->slice;
		u64 start = lwk_now_ns();

		do_slice(thread, some);
		learn_slice(thread, some, lwk_now_ns() - start);
		iters -= some;
		cond_resched();
		if (lwk_over(thread->run))
			return false;
	}
	do_slice(thread, iters);
	return true;
}

/* The time of a batch; U64_MAX: the window was over before its end. */
static u64 batch_ns(struct lwk_thread *thread, unsigned long iters)
{
	u64 start = lwk_now_ns(), ns;

	if (!do_batch(thread, iters))
		return U64_MAX;
	ns = lwk_now_ns() - start;
	learn_slice(thread, iters, ns);
	return ns;
}

/* Notes where the thread stands when the window opens; note_close() turns that into what came in it. */
static void note_open(struct lwk_thread *thread)
{
	thread->ops = thread->ops_all;
	thread->away_ns = away_ns();
	thread->ns = lwk_now_ns();
}

static void note_close(struct lwk_thread *thread)
{
	thread->ns = lwk_now_ns() - thread->ns;
	thread->away_ns = away_ns() - thread->away_ns;
	thread->ops = thread->ops_all - thread->ops;
	thread->cpu_seen = raw_smp_processor_id();
}

/* ---- contenders ---- */

static void run_until(struct lwk_thread *thread, enum phase phase, unsigned long *iters)
{
	/* Acquire: pairs with the release in move_on(). What the batches do orders nothing here. */
	while (smp_load_acquire(&thread->run->phase) < phase) {
		u64 ns = batch_ns(thread, *iters);

		if (ns < CONTENDER_BATCH_NS / 2 && *iters < (1ul << 20))
			*iters *= 2;
		else if (ns > CONTENDER_BATCH_NS * 2 && *iters > 1)
			*iters /= 2;
		cond_resched();
	}
}

/* Works from before the window opens until it has closed, and notes what came in it. */
static int contend(void *data)
{
	struct lwk_thread *thread = data;
	struct lwk_run *run = thread->run;
	unsigned long iters = 1;

	do_batch(thread, iters);
	/* Release: pairs with the acquire in all_running(): this thread is inside its loop. */
	(void)atomic_inc_return_release(&run->running);
	wake_up_all(&run->wake);
	run_until(thread, OPEN, &iters);
	note_open(thread);
	run_until(thread, CLOSED, &iters);
	note_close(thread);
	run_until(thread, STOP, &iters);
	return 0;
}

static bool all_running(struct lwk_run *run)
{
	/* Acquire: pairs with the release in contend(). */
	return atomic_read_acquire(&run->running) == run->cell.threads - 1;
}

static void move_on(struct lwk_run *run, enum phase phase)
{
	/* Release: pairs with the acquire in run_until(). */
	smp_store_release(&run->phase, phase);
}

/* ---- the timed thread ---- */

/* The operations that take about half a batch or more, found by doubling while the contenders run. 0: time is up. */
static unsigned long find_batch(struct lwk_thread *thread)
{
	struct lwk_run *run = thread->run;
	unsigned long iters;
	int i;

	for (iters = 1; iters < (1ul << 20); iters *= 2) {
		u64 shortest = U64_MAX;

		for (i = 0; i < 3; i++) {
			if (lwk_over(run))
				return 0;
			shortest = min(shortest, batch_ns(thread, iters));
			cond_resched();
		}
		if (shortest >= run->request.batch_ns / 2)
			break;
	}
	return iters;
}

/* Times batches until the window is long enough. Interrupts and preemption are as the operation itself leaves them: on. */
static void time_batches(struct lwk_thread *thread)
{
	struct lwk_run *run = thread->run;
	u64 start = lwk_now_ns(), before = start, now;

	do {
		bool done = do_batch(thread, run->batch);

		cond_resched();
		if (!done)
			return;
		now = lwk_now_ns();
		learn_slice(thread, run->batch, now - before);
		lwk_note_batch(run, now - before);
		before = now;
		run->whole = lwk_lasted(run, now - start);
	} while (!run->whole && !lwk_over(run));
}

/* The window from the side of the timed thread, with the contenders running. */
static void time_window(struct lwk_thread *thread)
{
	struct lwk_run *run = thread->run;

	run->batch = run->request.batch ?: find_batch(thread);
	if (!run->batch)
		return;
	/* Warm, and the length of a batch that was given is not taken on trust. */
	if (batch_ns(thread, run->batch) == U64_MAX || lwk_over(run))
		return;
	lwk_counters_begin(&run->counters);
	move_on(run, OPEN);
	note_open(thread);
	time_batches(thread);
	note_close(thread);
	move_on(run, CLOSED);
	lwk_counters_end(&run->counters);
	do_batch(thread,
		run->batch); /* contenders see the window close while this thread still works */
}

/* What the request waits for. */
static int timed(void *data)
{
	struct lwk_thread *thread = data;
	struct lwk_run *run = thread->run;

	/* A window that a family runs by itself has no contenders. */
	while (!wait_event_idle_timeout(run->wake, all_running(run), HZ / 10) && !lwk_over(run))
		;
	if (run->cell.form->family->window) {
		note_open(thread);
		run->cell.form->family->window(run);
		thread->away_ns = away_ns() - thread->away_ns;
		thread->cpu_seen = raw_smp_processor_id();
	} else if (all_running(run)) {
		time_window(thread);
	}
	move_on(run, STOP);
	complete(&run->done);
	return 0;
}

/* ---- threads ---- */

/* Which loop a thread runs: an updater is the timed thread of a grace-period cell, else the last thread. */
static lwk_loop loop_of(const struct lwk_run *run, unsigned int index)
{
	const struct lwk_cell *cell = &run->cell;
	const struct lwk_form *form = cell->form;
	bool last = index && index + 1 == cell->threads;

	if (run->request.baseline || (index && cell->contender == LWK_PLACEBO))
		return form->family->baseline;
	if (cell->grace ? !index : cell->updater && last)
		return form->grace[cell->updater];
	return cell->verify ? form->verify : form->loop;
}

static struct lwk_thread *new_thread(struct lwk_run *run, unsigned int index)
{
	const struct lwk_cell *cell = &run->cell;
	const struct lwk_family *family = cell->form->family;
	struct lwk_thread *thread = lwk_alloc_apart(sizeof(*thread));

	if (!thread)
		return NULL;
	thread->run = run;
	thread->index = index;
	thread->cpu = run->request.cpus[index];
	thread->loop = loop_of(run, index);
	thread->slice = 1;
	if (family->subject)
		thread->at.subject = family->subject(run, run->request.line, index);
	thread->at.mask = cell->slots - 1;
	thread->at.work = index || cell->work_kind ? 0 : cell->work;
	thread->at.traffic = !index && cell->work_kind ? cell->work : 0;
	thread->at.spacing = index ? cell->contender_iters : 0;
	thread->at.delay = cell->delay;
	thread->at.random = 0x9e3779b9u * (index + 1); /* not 0, and another one for each */
	return thread;
}

/* Open counters cost every change of tasks something: a cell that measures such changes, or waits for them, goes without. */
static bool counted(const struct lwk_cell *cell)
{
	return !cell->form->sleeps && !cell->grace;
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
	/* The first counter of all waits for a grace period of RCU, which no request can cut short: before a loop of ours makes it longer. */
	if (counted(&run->cell))
		lwk_counters_open(&run->counters, run->threads[0]->task);
	for (index = 0; index < run->cell.threads; index++)
		wake_up_process(run->threads[index]->task);
	return 0;
}

/* Returns once every thread has ended; those that were never woken end without having run. */
static void end_threads(struct lwk_run *run)
{
	unsigned int index;

	move_on(run, STOP);
	for (index = 0; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		if (!thread || !thread->task)
			continue;
		kthread_stop(thread->task);
		put_task_struct(thread->task);
		thread->task = NULL;
	}
}

static void free_threads(struct lwk_run *run)
{
	unsigned int index;

	for (index = 0; run->threads && index < run->cell.threads; index++)
		kfree(run->threads[index]);
	kfree(run->threads);
	run->threads = NULL;
}

/* Waits for the timed thread; a killed request makes it stop behind its present slice. */
static int wait_for_timed(struct lwk_run *run)
{
	if (!wait_for_completion_killable(&run->done))
		return 0;
	WRITE_ONCE(run->stop, true); /* pairs with the READ_ONCE() in lwk_over() */
	wait_for_completion(&run->done);
	return -EINTR;
}

/* ---- what a window has shown ---- */

/* What the operations should have added up to against what the line holds; wrong reads are the threads'. */
static void say_window(struct lwk_run *run, struct lwk_text *text)
{
	const struct lwk_form *form = run->cell.form;
	u64 ops = 0, expected = 0, found = 0;
	unsigned int index;

	for (index = 0; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		run->wrong += thread->at.wrong;
		if (thread->loop == form->loop)
			ops += thread->ops_all;
	}
	if (form->counts && form->family->sum && !run->cell.verify && !run->cell.grace) {
		expected = form->counts > 0 ? ops : -ops;
		found = form->family->sum(run, run->request.line);
	}
	if (form->family->wrong)
		run->wrong += form->family->wrong(run, run->request.line);
	lwk_say(text, "window batch=%llu stop=%s expected=%llu found=%llu wrong=%lu\n", run->batch,
		run->whole ? "length" : "time", expected, found, run->wrong);
	for (index = 0; index < run->cell.threads; index++) {
		struct lwk_thread *thread = run->threads[index];

		lwk_say(text, "thread ops=%llu ns=%llu away_ns=%llu cpu=%u\n", thread->ops,
			thread->ns, thread->away_ns, thread->cpu_seen);
	}
	lwk_say_counters(&run->counters, text);
	lwk_say(text, "batches");
	for (index = 0; index < run->taken; index++)
		lwk_say(text, " %u", run->batches[index]);
	lwk_say(text, "\n");
}

/*
 * A CPU may go away later: its thread then runs elsewhere, and says so. Holding the hotplug lock here would deadlock with a grace
 * period that wants it too, behind a waiting writer.
 */
static bool cpus_are_online(const struct lwk_request *request)
{
	unsigned int index;

	for (index = 0; index < request->cpu_count; index++)
		if (!cpu_online(request->cpus[index]))
			return false;
	return true;
}

/* Runs the window that lwk_parse_window() has accepted; what it shows goes into `text`. Returns 0 or a negative errno. */
int lwk_window(struct lwk_run *run, struct lwk_text *text)
{
	int error;

	run->deadline_ns = lwk_now_ns() + 1000000ull * run->request.limit_ms;
	run->batches = batches;
	run->taken = 0;
	run->batch = 0;
	run->wrong = 0;
	run->error = 0;
	memset(&run->counters, 0, sizeof(run->counters));
	run->stop = false;
	run->whole = false;
	run->phase = STARTING;
	atomic_set(&run->running, 0);
	reinit_completion(&run->done);
	run->threads = kcalloc(run->cell.threads, sizeof(*run->threads), GFP_KERNEL);
	if (!run->threads)
		return -ENOMEM;
	if (run->cell.form->family->reset)
		run->cell.form->family->reset(run, run->request.line);
	error = cpus_are_online(&run->request) ? start_threads(run) : -ENODEV;
	if (!error)
		error = wait_for_timed(run);
	end_threads(run);
	lwk_counters_close(&run->counters);
	if (!error)
		error = run->error;
	if (!error)
		say_window(run, text);
	free_threads(run);
	return error;
}

/* ---- cells ---- */

/* Refuses a cell that would take more than half of the memory that there is without taking it from anybody. */
static bool fits(const struct lwk_cell *cell, struct lwk_text *text)
{
	const u64 mib = 1u << 20, needed = cell->form->family->bytes(cell);
	const u64 room = (u64)max(si_mem_available(), 0l) * PAGE_SIZE / 2;

	if (needed <= room)
		return true;
	lwk_say(text,
		"error the cell needs about %llu MiB, and %llu MiB, half of what is free, are allowed: smaller lines, slots, instances, entries or entry_bytes\n",
		needed / mib + 1, room / mib);
	return false;
}

/* Takes a cell's memory. NULL: the reason is in `text`, and everything is given back. */
struct lwk_run *lwk_prepare(const struct lwk_cell *cell, struct lwk_text *text)
{
	struct lwk_run *run;
	int error;

	if (!fits(cell, text))
		return NULL;
	run = kvzalloc(sizeof(*run), GFP_KERNEL);
	if (!run) {
		lwk_say(text, "error the cell could not be prepared: %d\n", -ENOMEM);
		return NULL;
	}
	run->cell = *cell;
	init_waitqueue_head(&run->wake);
	init_completion(&run->done);
	error = cell->form->family->prepare(run);
	if (!error)
		return run;
	lwk_say(text, "error the cell could not be prepared: %d\n", error);
	lwk_forget(run);
	return NULL;
}

void lwk_forget(struct lwk_run *run)
{
	if (!run)
		return;
	run->cell.form->family->finish(run);
	kvfree(run);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of linewright.ko share: the cell that was asked for, one run of it, and the tables of forms. */
#ifndef LINEWRIGHT_KMOD_H
#define LINEWRIGHT_KMOD_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/limits.h>
#include <linux/types.h>
#include <linux/wait.h>

/* Number of the debugfs interface: changes whenever a key, a line or its meaning does. */
#define LWK_INTERFACE 5

/* Limits of a cell and of its windows. With the largest work or spacing one operation takes some milliseconds. */
#define LWK_MAX_CELLS 256
#define LWK_MAX_THREADS 512
#define LWK_MAX_LINES 4096
#define LWK_MAX_SLOTS 64
#define LWK_MAX_INSTANCES 16384
#define LWK_MAX_UNITS 1000000
#define LWK_MAX_LIMIT_MS 60000
#define LWK_MAX_ENTRIES 16384
#define LWK_MAX_ENTRY_BYTES (4u << 20)
#define LWK_MAX_LIST_BYTES (64ul << 20)
/* Units of work that all threads together may do with interrupts off, or spin for with preemption off, one behind the other: a millisecond at 1 GHz. */
#define LWK_MAX_UNITS_OFF 1000000
/* Batches whose times a window keeps. */
#define LWK_MAX_BATCHES 65536
/* For memory that is taken once the cell is known: refused where there is none, without killing a process for it. */
#define LWK_GFP (GFP_KERNEL | __GFP_NORETRY | __GFP_NOWARN)

/* Bytes between what different threads write: two lines of 128, since some parts fetch lines in pairs. */
#define LWK_APART 256
/* Events that are counted, where they can be. */
#define LWK_EVENTS 4

enum lwk_contender {
	LWK_NONE,
	LWK_PLACEBO,
	LWK_SAME_LINE
};
enum lwk_updater {
	LWK_NO_UPDATER,
	LWK_SYNCHRONIZE,
	LWK_EXPEDITED,
	LWK_REPLACE, /* waits for no reader */
	LWK_UPDATERS
};
/* What a unit of work is. */
enum lwk_work {
	LWK_CHAIN,
	LWK_TRAFFIC
};
enum lwk_wait {
	LWK_WAIT_EACH,
	LWK_WAIT_ONCE
};
enum lwk_state {
	LWK_CLEAN,
	LWK_DIRTY
};

/* What one thread's loop works on. Its fields do not change while the loop runs, but the last two. */
struct lwk_place {
	void *subject;
	unsigned long mask;    /* slots - 1: per-CPU loops go round that many words */
	unsigned long work;    /* units of dependent additions between operations */
	unsigned long traffic; /* or iterations of a loop that counts in memory */
	unsigned long spacing; /* iterations of a one-NOP loop between operations */
	unsigned long delay;   /* units inside a read-side critical section */
	unsigned long wrong;   /* what a verifying loop found to be wrong */
	u32 random;	       /* where the draws of a lookup are */
};

typedef void (*lwk_loop)(struct lwk_place *at, unsigned long iters);

struct lwk_run;
struct lwk_cell;
struct perf_event;
struct task_struct;

/* What the forms of one family have in common. Every function may sleep; `run` has its cell filled in. */
struct lwk_family {
	const char *name;
	/* The memory that prepare() is going to take, about. */
	u64 (*bytes)(const struct lwk_cell *cell);
	int (*prepare)(struct lwk_run *run);
	/* Also called behind a prepare() that failed: it gives back what that took. */
	void (*finish)(struct lwk_run *run);
	/* Starts line number `line` anew, in the timed thread, before any contender runs. */
	void (*reset)(struct lwk_run *run, unsigned int line);
	void *(*subject)(struct lwk_run *run, unsigned int line, unsigned int thread);
	/* What the operations have added up to on that line; NULL where nothing is counted. */
	u64 (*sum)(struct lwk_run *run, unsigned int line);
	/* What a window has left there that cannot be; NULL: nothing is looked at. */
	unsigned long (*wrong)(struct lwk_run *run, unsigned int line);
	/* Takes the place of the batches of run.c; NULL: those. */
	void (*window)(struct lwk_run *run);
	lwk_loop baseline;
	bool verifies; /* that window knows what verify=1 asks for */
};

/* The last columns of a row of wire/forms/rmw.def, which wire/forms.def explains; of them the module reads `racy`. */
struct lwk_made_of {
	const char *base;
	const char *prefetch;
	const char *loop;
	const char *instruction;
	const char *reach;
	const char *stands_for;
	bool exclusive;
	bool returns_old;
	bool racy; /* loses counts between threads: never contended */
};

/* One row of the table of forms: an instruction sequence or a kernel interface. */
struct lwk_form {
	const char *name;
	const char *operation;
	const char *order;
	unsigned int width;
	const struct lwk_family *family;
	lwk_loop loop;
	lwk_loop verify; /* the loop that checks what a reader is promised; NULL: none */
	lwk_loop grace[LWK_UPDATERS]; /* the updater's loop, by enum lwk_updater */
	const char *(*missing)(void); /* why it cannot run here, NULL when it can */
	const void *detail;	      /* the family's own */
	struct lwk_made_of made;
	s8 counts;   /* what an operation adds to the line; 0: not checked */
	bool sleeps; /* leaves the CPU on purpose */
	/* What it keeps off for as long as it, and all before it, stay inside; NULL: nothing. */
	const char *keeps_off;
};

struct lwk_cell {
	const struct lwk_form *form;
	bool grace; /* the timed thread is the updater (operation readers_grace) */
	bool verify;
	u32 contender;
	u32 contender_iters;
	u32 work;
	u32 work_kind;
	u32 delay;
	u32 lines;
	u32 slots;
	u32 instances;
	u32 threads;
	u32 updater;
	u32 entries;
	u32 entry_bytes;
	u32 direction;
	u32 wait;
	u32 state;
};

/* One window of a prepared cell. */
struct lwk_request {
	u32 line;
	u32 window_us;
	u32 limit_ms;
	u32 batch; /* operations of a batch; 0: as many as take about batch_ns */
	u32 batch_ns;
	u32 baseline; /* every thread runs the loop without the operation */
	u32 cpu_count;
	u32 cpus[LWK_MAX_THREADS];
};

/* A thread of a window, on memory of its own; what it has seen is read once it has finished. */
struct lwk_thread {
	struct lwk_run *run;
	struct task_struct *task;
	lwk_loop loop;
	struct lwk_place at;
	unsigned int index;
	unsigned int cpu;
	/* Operations that take about SLICE_NS of run.c, as far as is known; at least 1. */
	unsigned long slice;
	u64 ops_all; /* since the line was started anew, warm-up included */
	u64 ops;     /* in the window, as are the next two */
	u64 ns;
	u64 away_ns;	       /* ready to run, but another had its CPU */
	unsigned int cpu_seen; /* when the window closed */
};

/* What an event counted, and the ns in which it was to count and did. */
struct lwk_count {
	u64 value;
	u64 enabled;
	u64 running;
};

/* The events of the timed thread; each is an error where it cannot be counted. */
struct lwk_counters {
	struct perf_event *event[LWK_EVENTS];
	struct lwk_count count[LWK_EVENTS];
};

/* The text of an answer. `full` once something did not fit. */
struct lwk_text {
	char *at;
	size_t used;
	size_t room;
	bool full;
};

/* A prepared cell, and the window of it that is being run. */
struct lwk_run {
	struct lwk_cell cell;
	struct lwk_request request;
	struct lwk_thread **threads;
	void *memory; /* the family's own */
	u64 deadline_ns;
	u64 batch;    /* operations of a batch, as given or as found */
	u32 *batches; /* their times */
	u32 taken;    /* how many of them there are */
	struct lwk_counters counters;
	unsigned long wrong;
	int error;
	bool stop;
	bool whole;	    /* the window was not cut short */
	unsigned int phase; /* enum phase of run.c: the contenders watch it */
	atomic_t running;   /* contenders that are inside their loops */
	wait_queue_head_t wake;
	struct completion done;
};

/* cell.c */
int lwk_parse_cell(struct lwk_cell *cell, char *request, struct lwk_text *text);
int lwk_parse_window(struct lwk_run *run, char *request, struct lwk_text *text);

/* main.c */
__printf(2, 3) void lwk_say(struct lwk_text *text, const char *format, ...);

/* forms.c */
const struct lwk_form *lwk_find_form(const char *operation, const char *name, unsigned int width);
void lwk_list_forms(struct lwk_text *text);

/* run.c */
int lwk_run_init(void);
void lwk_run_exit(void);
struct lwk_run *lwk_prepare(const struct lwk_cell *cell, struct lwk_text *text);
void lwk_forget(struct lwk_run *run);
int lwk_window(struct lwk_run *run, struct lwk_text *text);
bool lwk_over(const struct lwk_run *run);
bool lwk_killed(void);
bool lwk_lasted(const struct lwk_run *run, u64 ns);
void lwk_note_batch(struct lwk_run *run, u64 ns);
u64 lwk_now_ns(void);

/* counters.c: a thread's, which is not running when they are opened and closed, and reads them itself */
bool lwk_counters_on(void);
void lwk_counters_open(struct lwk_counters *counters, struct task_struct *task);
void lwk_counters_begin(struct lwk_counters *counters);
void lwk_counters_end(struct lwk_counters *counters);
void lwk_counters_close(struct lwk_counters *counters);
void lwk_say_counters(const struct lwk_counters *counters, struct lwk_text *text);
void lwk_list_counters(struct lwk_text *text, bool lacking);

/* control.c */
void lwk_say_control(struct lwk_text *text);

/* loop.c */
unsigned long lwk_chain(unsigned long x, unsigned long units);
void lwk_nops(unsigned long iters);
void lwk_traffic(unsigned long iters);
void *lwk_alloc_apart(size_t bytes);

/* the families: rmw.c, percpu.c, readers.c, lookups.c, dma.c */
extern const struct lwk_form lwk_rmw_forms[], lwk_percpu_forms[], lwk_readers_forms[];
extern const struct lwk_form lwk_lookups_forms[], lwk_dma_forms[];
extern const unsigned int lwk_rmw_count, lwk_percpu_count, lwk_readers_count;
extern const unsigned int lwk_lookups_count, lwk_dma_count;
int lwk_lookups_init(void);
void lwk_lookups_exit(void);
int lwk_dma_init(void);
void lwk_dma_exit(void);
const char *lwk_dma_kind(void);

/* Whether the instructions that a form needs are there; one function for each word of wire/forms. */
const char *lwk_missing_none(void);
const char *lwk_missing_lse(void);
const char *lwk_missing_cx8(void);
const char *lwk_missing_prefetchw(void);
const char *lwk_missing_clwb(void);
const char *lwk_missing_clflushopt(void);
const char *lwk_missing_clflush(void);

#endif

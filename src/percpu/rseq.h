/* What the per-CPU files of the library share: start-up, the calling thread's registration, possible CPUs. */
#ifndef LINEWRIGHT_SRC_RSEQ_H
#define LINEWRIGHT_SRC_RSEQ_H

#include <linewright/percpu.h>

/* A build option of the tests: a hook between the steps of the fall-back for values, where a test migrates, interrupts or forks. */
enum lw__step { LW__BEFORE_LOCK, LW__LOCKED, LW__LOADED };
#ifdef LW_RSEQ_DELAY
extern void (*volatile lw__pause_hook)(enum lw__step step);
#define LW__PAUSE(step) (lw__pause_hook ? lw__pause_hook(step) : (void)0)
#else
#define LW__PAUSE(step) ((void)0)
#endif

/* Decides the mode once; every allocation calls it. 0, or a negative errno. */
int lw__percpu_start(void);

/* Gives this process the number that lock words hold; at start-up, and in a child of fork(). */
void lw__percpu_number_process(void);
void lw__percpu_renumber_process(void);

/* True when the calling thread may run sequences; registers it where this library has to. Async-signal-safe. */
bool lw__rseq_thread_ready(void);

/* Has sums visit the first words of CPUs up to this one, before anything is counted there. */
void lw__percpu_use_cpu(unsigned cpu);

/* Aborts every sequence that runs on `cpu` now, and makes earlier stores of the caller visible there. False: not available. */
bool lw__rseq_abort_cpu(unsigned cpu);

/* Largest number in a list of the kernel's ("0-3,8,10-11"), or -1 when it is not such a list. */
long lw__cpu_list_max(const char *list);

#endif

/* SPDX-License-Identifier: MIT */
/* The thread that advances the domains' callbacks and poll requests. */
#ifndef LINEWRIGHT_SRC_SRCU_WORKER_H
#define LINEWRIGHT_SRC_SRCU_WORKER_H

#include <stdbool.h>

/* Remembers the scheduling of the thread that loads the library. */
void lw__srcu_worker_at_load(void);

/* Starts the worker where it may be started and is missing, or cannot do its work and the calling thread can replace it. 0,
 * or the negative errno of starting it. */
int lw__srcu_worker_ensure(void);
/* Says that there is something to do. Ensures a worker; the result is lw__srcu_worker_ensure()'s. */
int lw__srcu_worker_wake(void);
/* False: there is none, and none is started until lw_srcu_worker_start(). */
bool lw__srcu_worker_exists(void);

void lw__srcu_worker_before_fork(void);
void lw__srcu_worker_after_fork(bool child);

#endif

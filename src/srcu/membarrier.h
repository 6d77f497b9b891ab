/* SPDX-License-Identifier: MIT */
/* The barrier on all threads of the process, on which fast readers rely. */
#ifndef LINEWRIGHT_SRC_SRCU_MEMBARRIER_H
#define LINEWRIGHT_SRC_SRCU_MEMBARRIER_H

#include "domain.h"

/* Registers the process with the kernel; once at start-up, and in a child of fork(). */
void lw__srcu_membarrier_start(void);
void lw__srcu_membarrier_after_fork(void);
/* True: the kernel has the command, and this process is registered for it. */
bool lw__srcu_registered(void);
/* True: the calling thread may use it now. A system-call filter can deny it to some threads. */
bool lw__srcu_have_membarrier(void);

/* The same without a barrier, which interrupts other CPUs: false where the thread's filter denies the system call, whatever its arguments. */
bool lw__srcu_may_membarrier(void);

/* 0: every thread of this process has executed a full barrier during the call. Else an errno. Keeps the caller's errno. */
int lw__srcu_membarrier(void);

/* 0: every thread of this process has executed a full barrier during the call, or the domain's readers have their own.
 * Else an errno. Keeps the caller's errno. */
int lw__srcu_heavy_barrier(struct lw__srcu_domain *d);

#endif

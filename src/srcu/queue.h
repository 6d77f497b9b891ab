/* SPDX-License-Identifier: MIT */
/* The domains' queues of callbacks: advancing what they wait for, and running them. */
#ifndef LINEWRIGHT_SRC_SRCU_QUEUE_H
#define LINEWRIGHT_SRC_SRCU_QUEUE_H

#include "domain.h"

/* A callback below this value is no function but an offset: the object that begins so far before the head is freed. See
 * lw_srcu_free(). */
#define LW__SRCU_FREE_OFFSETS 4096u

/* True: the calling thread is in a callback. */
bool lw__srcu_in_callback(void);

/* True: nothing else was waiting for the worker to take it. */
bool lw__srcu_push(struct lw__srcu_domain *d, struct lw_srcu_head *head);

/* Says that the domain has callbacks or requests, before a worker is woken for them. */
void lw__srcu_has_work(struct lw__srcu_domain *d);

/* Callbacks that have not returned. Under the registry. */
unsigned long lw__srcu_queued(struct lw__srcu_domain *d);
/* The same, taking the registry. *taken: the value of `returned` by which all that were queued before the call have
 * returned. */
unsigned long lw__srcu_count(struct lw__srcu_domain *d, unsigned long *taken);

/* Advances what one domain's callbacks and poll cookies wait for, without waiting. *pause_ns: how long to wait before the
 * next call; 0: nothing to do. 1: callbacks are ready to run; 0: none; or the negative errno of the barrier. */
int lw__srcu_advance(struct lw__srcu_domain *d, unsigned scans, uint64_t *pause_ns);

/* One round: advances every domain that has work and runs at most LW__SRCU_BATCH callbacks of each. Returns the nanoseconds
 * to wait before the next round; 0: callbacks ran; LW_FUTEX_FOREVER: nothing to do. Waits for a thread that runs
 * callbacks. */
#define LW__SRCU_BATCH 256
uint64_t lw__srcu_serve_all(unsigned scans);

/* Runs all callbacks of a domain that has no readers, without a grace period. */
void lw__srcu_run_all(struct lw__srcu_domain *d);

/* Gives back the entries of domains that ended while they were listed for work, where no worker does so. */
void lw__srcu_give_back_ended(void);

/* Sleeps until further callbacks may have returned, for at most `ns`. `seen`: the result of lw__srcu_batches() before the
 * caller checked. */
uint32_t lw__srcu_batches(void);
void lw__srcu_wait_for_batch(uint32_t seen, uint64_t ns);

/* The child has all callbacks but the one that another thread runs at that moment. */
void lw__srcu_queue_after_fork(void);

#endif

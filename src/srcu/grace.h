/* SPDX-License-Identifier: MIT */
/* Advancing a domain's grace period. */
#ifndef LINEWRIGHT_SRC_SRCU_GRACE_H
#define LINEWRIGHT_SRC_SRCU_GRACE_H

#include "domain.h"

/* Full barrier; then the value of seq at which a whole grace period, begun after the call, is over. Never 0. */
unsigned long lw__srcu_cookie(struct lw__srcu_domain *d);
/* True: `cookie` is reached, and what the caller does next comes after the scans. */
bool lw__srcu_reached(struct lw__srcu_domain *d, unsigned long cookie);

/* Asks for grace periods until `cookie` is reached by lw__srcu_advance(). */
void lw__srcu_request(struct lw__srcu_domain *d, unsigned long cookie);
/* The furthest cookie that is requested and not reached; 0: none. */
unsigned long lw__srcu_requested(struct lw__srcu_domain *d);

/* Advances the grace period without waiting; begins one if none is in progress and `needed` is not reached. Under step_lock.
 * 0, or the negative errno of the barrier. */
int lw__srcu_step(struct lw__srcu_domain *d, unsigned long needed);
/* How long to leave the grace period alone, in nanoseconds, after `scans` calls of lw__srcu_step() that ended none. */
uint64_t lw__srcu_pause_ns(struct lw__srcu_domain *d, unsigned scans);

#endif

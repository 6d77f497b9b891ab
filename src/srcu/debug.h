/* SPDX-License-Identifier: MIT */
/* What LW_DEBUG checks outside of the readers' own calls. */
#ifndef LINEWRIGHT_SRC_SRCU_DEBUG_H
#define LINEWRIGHT_SRC_SRCU_DEBUG_H

#include "domain.h"

/* Aborts when the calling thread is in a critical section of the domain. `where`: the function to name. */
void lw__srcu_debug_waiting(struct lw_srcu *s, const char *where);
/* A callback is about to run: its head may be queued again. */
void lw__srcu_debug_returned(const struct lw_srcu_head *head);
/* The domain has no readers any more. */
void lw__srcu_debug_forget(const struct lw_srcu *s);

void lw__srcu_debug_before_fork(void);
void lw__srcu_debug_after_fork(void); /* in the child */

#endif

/* What the other files ask of the thread that runs callbacks. */
#ifndef LINEWRIGHT_SRC_SRCU_CALLBACKS_H
#define LINEWRIGHT_SRC_SRCU_CALLBACKS_H

#include "domain.h"

/* Has the worker advance grace periods until `cookie` is reached. 0, or why the worker could not be started. */
int lw__srcu_request(struct lw__srcu_domain *d, unsigned long cookie);

void lw__srcu_callbacks_before_fork(void);
void lw__srcu_callbacks_after_fork(bool child);

#endif

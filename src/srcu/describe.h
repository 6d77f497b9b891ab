/* SPDX-License-Identifier: MIT */
/* What a domain says of itself. */
#ifndef LINEWRIGHT_SRC_SRCU_DESCRIBE_H
#define LINEWRIGHT_SRC_SRCU_DESCRIBE_H

#include "domain.h"

/* The text of a report about a grace period that has lasted `age_ms`: the domain, and every record's and CPU's counts that
 * leave a reader inside. At most size - 1 bytes and a NUL. */
void lw__srcu_stall_text(struct lw__srcu_domain *d, uint64_t age_ms, char *text, size_t size);

#endif

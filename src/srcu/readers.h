/* SPDX-License-Identifier: MIT */
/* Readers whose inline path in srcu.h does not apply. */
#ifndef LINEWRIGHT_SRC_SRCU_READERS_H
#define LINEWRIGHT_SRC_SRCU_READERS_H

#include "domain.h"

/* True: this copy of the library must not read in the domain, because another copy made it and does not sum this copy's
 * records. Domains that count per CPU can be shared. */
bool lw__srcu_foreign(const struct lw__srcu_domain *d);

#endif

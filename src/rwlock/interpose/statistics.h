/* SPDX-License-Identifier: MIT */
/* Counts of each lock of a program, and the lines about them at its exit. */
#ifndef LINEWRIGHT_SRC_RWLOCK_STATISTICS_H
#define LINEWRIGHT_SRC_RWLOCK_STATISTICS_H

#include "hooks.h"

enum counted { READS, WRITES, REVOCATIONS, COUNTED };

/* For LINEWRIGHT_RWLOCK_STATISTICS=1; every count is an atomic operation on a shared line, so a program that is counted does not scale. */
void count_lock(const struct lw_rwlock *l, enum counted what, void *where);
/* A lock begins at an address, which another one may have had. */
void count_begins(const struct lw_rwlock *l, void *where);

#endif

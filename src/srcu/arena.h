/* SPDX-License-Identifier: MIT */
/* The domains' memory: entries of one reserved range of addresses that stay readable when a domain ends, so that a pointer
 * to one can be checked. All under the registry, but for lw__srcu_in_arena(). */
#ifndef LINEWRIGHT_SRC_SRCU_ARENA_H
#define LINEWRIGHT_SRC_SRCU_ARENA_H

#include "domain.h"

#ifdef __LP64__
#define LW__SRCU_DOMAINS 65536u
#else
#define LW__SRCU_DOMAINS 8192u
#endif

/* An entry with zeroed contents, the free one that was given back last. NULL: none is left, or no memory. */
struct lw__srcu_domain *lw__srcu_arena_take(void);
void lw__srcu_arena_give(struct lw__srcu_domain *d);
/* Entry `i`; NULL: there is none from there on. */
struct lw__srcu_domain *lw__srcu_arena_at(unsigned i);
unsigned lw__srcu_arena_index(const struct lw__srcu_domain *d);
/* True: `d` is an entry of this copy of the library; it may be read. */
bool lw__srcu_in_arena(const struct lw__srcu_domain *d);

/* In a child of fork(), before its entries are given back: forgets the list of free ones. */
void lw__srcu_arena_after_fork(void);

/* The live domain of *s, of which nothing is read; NULL: none. */
struct lw__srcu_domain *lw__srcu_live(const struct lw_srcu *s);
void lw__srcu_live_add(struct lw__srcu_domain *d);
void lw__srcu_live_remove(struct lw__srcu_domain *d);

#endif

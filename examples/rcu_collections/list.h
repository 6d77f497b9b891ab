/* SPDX-License-Identifier: MIT */
/* A linked list that readers walk while updaters change it, for any SRCU domain.
 *
 *   struct rcu_list sessions = RCU_LIST_INIT(sessions);
 *
 *   reader    lw_srcu_index i = lw_srcu_read_lock_fast(&domain);
 *             rcu_list_for_each(node, &sessions)
 *                 use(rcu_list_entry(node, struct session, node));
 *             lw_srcu_read_unlock_fast(&domain, i);
 *   updater   lock(&mutex); rcu_list_remove(&s->node); unlock(&mutex);
 *             lw_srcu_free(&domain, s, head);
 *
 * What a reader may rely on:
 * - It meets every node that is in the list from before its walk until after it, once, in the list's order. Nodes that come,
 * go or are
 *   replaced meanwhile it may or may not meet. A walk is no snapshot: it can meet a node that was added after another one that it
 *   missed.
 * - It sees whatever was stored into a node before the node was added.
 * - A node that is removed keeps its link forward, so a reader that stands on it goes on to the rest of the list.
 *
 * What an updater has to keep to:
 * - One updater at a time, by a lock of the caller's. Readers never wait for it.
 * - A removed or replaced node is neither freed, written, nor added anywhere until a grace period of the readers' domain is
 * over: a
 *   reader may stand on it, and would follow it into another list, whose end it does not know.
 * - There is no "is it empty?" followed by "then take the first": the list may change in between. rcu_list_first() is both
 * in one.
 *
 * Readers follow `next` only; `prev` belongs to updaters. */
#ifndef RCU_LIST_H
#define RCU_LIST_H

#include <linewright/srcu.h>

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct rcu_list_node {
    struct rcu_list_node *next, *prev;
};

/* A ring: the last node's `next` and the first one's `prev` are `ends`. */
struct rcu_list {
    struct rcu_list_node ends;
};

#define RCU_LIST_INIT(list)            \
    {                                  \
        {                              \
            &(list).ends, &(list).ends \
        }                              \
    }

static inline void rcu_list_init(struct rcu_list *list)
{
    list->ends.next = list->ends.prev = &list->ends;
}

/* ---- readers, and updaters under their lock ---- */

/* The node after this one; NULL at the end. */
static inline struct rcu_list_node *rcu_list_next(const struct rcu_list *list, const struct rcu_list_node *node)
{
    struct rcu_list_node *next = lw_srcu_dereference(node->next); /* pairs with rcu_list_publish() */

    return next == &list->ends ? NULL : next;
}

static inline struct rcu_list_node *rcu_list_first(const struct rcu_list *list)
{
    return rcu_list_next(list, &list->ends);
}

#define rcu_list_for_each(node, list) \
    for (struct rcu_list_node *node = rcu_list_first(list); node; node = rcu_list_next((list), node))

/* The structure of this type whose member is at `node`. */
#define rcu_list_entry(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))

/* ---- updaters, under their lock ---- */

/* Makes `node`, whose own links are set, what readers find after `prev`. */
static inline void rcu_list_publish(struct rcu_list_node *prev, struct rcu_list_node *node)
{
    lw_srcu_assign_pointer(prev->next, node);
}

static inline void rcu_list_insert_after(struct rcu_list_node *prev, struct rcu_list_node *node)
{
    struct rcu_list_node *next = prev->next;

    node->next = next;
    node->prev = prev;
    rcu_list_publish(prev, node);
    next->prev = node;
}

static inline void rcu_list_add_first(struct rcu_list *list, struct rcu_list_node *node)
{
    rcu_list_insert_after(&list->ends, node);
}

static inline void rcu_list_add_last(struct rcu_list *list, struct rcu_list_node *node)
{
    rcu_list_insert_after(list->ends.prev, node);
}

/* Whether the node is in a list. A node that never was in one must have been zeroed. */
static inline bool rcu_list_linked(const struct rcu_list_node *node)
{
    return node->prev;
}

static inline void rcu_list_remove(struct rcu_list_node *node)
{
    assert(rcu_list_linked(node)); /* removed twice? */
    rcu_list_publish(node->prev, node->next);
    node->next->prev = node->prev;
    node->prev = NULL;
}

/* Puts `fresh` in the place of `old` in one step: a reader meets one of the two. */
static inline void rcu_list_replace(struct rcu_list_node *old, struct rcu_list_node *fresh)
{
    assert(rcu_list_linked(old));
    fresh->next = old->next;
    fresh->prev = old->prev;
    rcu_list_publish(fresh->prev, fresh);
    fresh->next->prev = fresh;
    old->prev = NULL;
}

#endif

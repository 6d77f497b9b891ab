/* SPDX-License-Identifier: MIT */
/* A hash map from 64-bit keys to nodes that readers search while updaters change and resize it, for any SRCU domain.
 *
 *   reader    lw_srcu_index i = lw_srcu_read_lock_fast(&domain);
 *             struct rcu_map_node *n = rcu_map_find(&map, key);
 *             … use what contains *n …
 *             lw_srcu_read_unlock_fast(&domain, i);
 *   updater   lock(&mutex); n = rcu_map_remove(&map, key); unlock(&mutex);
 *             lw_srcu_free(&domain, container of n, head);
 *
 * Readers do not wait and write nothing. A key that is in the map from before a search until after it is found, also while
 * the map is resized or the key's node is replaced. Updaters exclude each other by a lock of the caller's. A node that was
 * removed or replaced keeps its links, and is neither freed, written nor inserted anywhere until a grace period is over.
 *
 * Resizing. A reader in the middle of a chain must not be led into a chain of another table. So a node has two links and a
 * table uses one of them: the new table chains all nodes by the link that the old one does not use, is published by one
 * store, and after a grace period no reader is in the old table, which is freed; its links are those of the next table. The
 * price: a word more per node, and rcu_map_resize() waits for a grace period while it has the updaters' lock. */
#ifndef RCU_MAP_H
#define RCU_MAP_H

#include <linewright/srcu.h>

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct rcu_map_node {
    struct rcu_map_node *next[2]; /* which one: rcu_map_table.link */
    uint64_t key;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* C++ has no flexible array member, but as an extension of gcc and clang */
struct rcu_map_table {
    unsigned link;
    unsigned bits; /* there are 1 << bits chains */
    struct rcu_map_node *first[];
};
#pragma GCC diagnostic pop

struct rcu_map {
    struct lw_srcu *domain;
    struct rcu_map_table *table; /* readers load it once a search */
    struct rcu_map_table *retired; /* readers may still be in it, because a grace period failed; else NULL */
    size_t count;
};

static inline struct rcu_map_node **rcu_map_chain(struct rcu_map_table *table, uint64_t key)
{
    uint64_t hash =
        key * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio, odd: its upper bits depend on all of the key's */

    return &table->first[table->bits ? hash >> (64 - table->bits) : 0];
}

/* For readers, and updaters under their lock. NULL: no such key. */
static inline struct rcu_map_node *rcu_map_find(const struct rcu_map *map, uint64_t key)
{
    struct rcu_map_table *table = lw_srcu_dereference(map->table); /* pairs with rcu_map_resize() */
    struct rcu_map_node *node = lw_srcu_dereference(*rcu_map_chain(table, key)); /* pairs with the assignments below */

    while (node && node->key != key)
        node = lw_srcu_dereference(node->next[table->link]);
    return node;
}

/* Calls `visit` for every node, each once: those that are there all the time, and perhaps others. For readers and
 * updaters. */
static inline void rcu_map_visit(const struct rcu_map *map, void (*visit)(struct rcu_map_node *, void *), void *argument)
{
    struct rcu_map_table *table = lw_srcu_dereference(map->table);

    for (size_t i = 0; i < (size_t)1 << table->bits; i++)
        for (struct rcu_map_node *node = lw_srcu_dereference(table->first[i]); node;
             node = lw_srcu_dereference(node->next[table->link]))
            visit(node, argument);
}

/* ---- updaters, under their lock ---- */

static inline struct rcu_map_table *rcu_map_new_table(unsigned bits, unsigned link)
{
    struct rcu_map_table *table = (struct rcu_map_table *)calloc(1, sizeof *table + (sizeof table->first[0] << bits));

    if (table) {
        table->bits = bits;
        table->link = link;
    }
    return table;
}

/* A map of 1 << bits chains; bits at most 30. 0, -EINVAL or -ENOMEM. */
static inline int rcu_map_init(struct rcu_map *map, struct lw_srcu *domain, unsigned bits)
{
    map->domain = domain;
    map->retired = NULL;
    map->count = 0;
    map->table = bits > 30 ? NULL : rcu_map_new_table(bits, 0);
    return map->table ? 0 : bits > 30 ? -EINVAL : -ENOMEM;
}

/* Frees the tables. No reader uses the map any more; its nodes are the caller's. */
static inline void rcu_map_destroy(struct rcu_map *map)
{
    free(map->retired);
    free(map->table);
    map->table = map->retired = NULL;
}

/* The link that leads to the key's node, or to the end of its chain. */
static inline struct rcu_map_node **rcu_map_link_to(struct rcu_map *map, uint64_t key)
{
    struct rcu_map_node **link = rcu_map_chain(map->table, key);

    while (*link && (*link)->key != key)
        link = &(*link)->next[map->table->link];
    return link;
}

/* Inserts a node, whose key is set. 0, or -EEXIST: the key is there already. */
static inline int rcu_map_insert(struct rcu_map *map, struct rcu_map_node *node)
{
    struct rcu_map_node **first = rcu_map_chain(map->table, node->key);

    if (*rcu_map_link_to(map, node->key))
        return -EEXIST;
    node->next[map->table->link] = *first;
    lw_srcu_assign_pointer(*first, node);
    map->count++;
    return 0;
}

/* Takes a key's node out and returns it; NULL: no such key. */
static inline struct rcu_map_node *rcu_map_remove(struct rcu_map *map, uint64_t key)
{
    struct rcu_map_node **link = rcu_map_link_to(map, key), *node = *link;

    if (node) {
        lw_srcu_assign_pointer(*link, node->next[map->table->link]);
        map->count--;
    }
    return node;
}

/* Puts a node in the place of the one with the same key, which it returns, in one step. NULL: no such key, nothing done. */
static inline struct rcu_map_node *rcu_map_replace(struct rcu_map *map, struct rcu_map_node *fresh)
{
    struct rcu_map_node **link = rcu_map_link_to(map, fresh->key), *old = *link;

    if (old) {
        fresh->next[map->table->link] = old->next[map->table->link];
        lw_srcu_assign_pointer(*link, fresh);
    }
    return old;
}

/* Frees the table before the present one when no reader is in it any more: only then are its links free for another one. */
static inline int rcu_map_wait_for_retired(struct rcu_map *map)
{
    int error = map->retired ? lw_srcu_synchronize(map->domain) : 0;

    if (!error) {
        free(map->retired);
        map->retired = NULL;
    }
    return error;
}

/* Gives the map 1 << bits chains. Waits for a grace period, so not for critical sections of the domain. 0, -EINVAL, -ENOMEM,
 * or an error of lw_srcu_synchronize(): the map is whole after any of them. */
static inline int rcu_map_resize(struct rcu_map *map, unsigned bits)
{
    struct rcu_map_table *old = map->table, *table;
    int error = bits > 30 ? -EINVAL : rcu_map_wait_for_retired(map);

    if (error)
        return error;
    table = rcu_map_new_table(bits, !old->link);
    if (!table)
        return -ENOMEM;
    for (size_t i = 0; i < (size_t)1 << old->bits; i++)
        for (struct rcu_map_node *node = old->first[i]; node; node = node->next[old->link]) {
            struct rcu_map_node **first = rcu_map_chain(table, node->key);

            node->next[table->link] = *first;
            *first = node;
        }
    lw_srcu_assign_pointer(map->table, table); /* pairs with rcu_map_find(): the chains before the table */
    map->retired = old;
    return rcu_map_wait_for_retired(map);
}

#endif

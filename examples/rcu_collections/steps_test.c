/* SPDX-License-Identifier: MIT */
/* The list and the map step by step: what a reader meets that is in the middle of a walk when something changes. */
#undef NDEBUG
#include "list.h"
#include "map.h"

#include <stdio.h>
#include <string.h>

struct item {
    struct rcu_list_node node;
    struct rcu_map_node by_key;
};

static struct item items[64];
static struct lw_srcu_fast domain;

static struct item *item(uint64_t key)
{
    items[key] = (struct item){.by_key.key = key};
    return &items[key];
}

static uint64_t key_of(const struct rcu_list_node *node)
{
    return rcu_list_entry(node, struct item, node)->by_key.key;
}

/* The keys from `node` on, in words. */
static const char *rest(const struct rcu_list *list, const struct rcu_list_node *node)
{
    static char text[200];
    size_t at = 0;

    text[0] = 0;
    for (; node; node = rcu_list_next(list, node))
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", at ? " " : "", (int)key_of(node));
    return text;
}

static void list_steps(void)
{
    struct rcu_list list = RCU_LIST_INIT(list);

    assert(!rcu_list_first(&list));
    for (uint64_t key = 1; key <= 5; key++)
        rcu_list_add_last(&list, &item(key)->node);
    rcu_list_add_first(&list, &item(0)->node);
    assert(!strcmp(rest(&list, rcu_list_first(&list)), "0 1 2 3 4 5"));

    const struct rcu_list_node *reader = &items[2].node; /* stands here from now on */
    rcu_list_remove(&items[2].node);
    assert(!rcu_list_linked(&items[2].node) && rcu_list_linked(&items[3].node));
    assert(!strcmp(rest(&list, rcu_list_first(&list)), "0 1 3 4 5"));
    assert(!strcmp(rest(&list, reader), "2 3 4 5")); /* the removed node still leads on */
    rcu_list_remove(&items[3].node); /* its successor goes as well: both are what they were until the grace period's end */
    assert(!strcmp(rest(&list, reader), "2 3 4 5"));
    rcu_list_insert_after(&items[4].node, &item(6)->node);
    assert(!strcmp(rest(&list, reader), "2 3 4 6 5")); /* what is added further on is met */

    reader = &items[4].node;
    rcu_list_replace(&items[4].node, &item(7)->node);
    assert(!strcmp(rest(&list, rcu_list_first(&list)), "0 1 7 6 5"));
    assert(!strcmp(rest(&list, reader), "4 6 5"));
    while (rcu_list_first(&list))
        rcu_list_remove(list.ends.prev); /* from the end: `prev` is right everywhere */
    assert(list.ends.next == &list.ends && list.ends.prev == &list.ends);
}

static void sum(struct rcu_map_node *node, void *argument)
{
    *(uint64_t *)argument += node->key;
}

static void map_steps(void)
{
    struct rcu_map map;
    const unsigned sizes[] = {0, 5, 2, 10, 10, 0, 3};
    uint64_t expected = 0;

    assert(!lw_srcu_init(&domain));
    assert(rcu_map_init(&map, &domain.srcu, 31) == -EINVAL && !rcu_map_init(&map, &domain.srcu, 1));
    for (uint64_t key = 0; key < 60; key++) {
        assert(!rcu_map_find(&map, key) && !rcu_map_insert(&map, &item(key)->by_key));
        expected += key;
    }
    struct rcu_map_node again = {.key = 7};
    assert(rcu_map_insert(&map, &again) == -EEXIST && map.count == 60);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t seen = 0;

        assert(!rcu_map_resize(&map, sizes[i]) && map.table->bits == sizes[i] && !map.retired);
        for (uint64_t key = 0; key < 60; key++)
            assert(rcu_map_find(&map, key) == &items[key].by_key);
        rcu_map_visit(&map, sum, &seen);
        assert(seen == expected && !rcu_map_find(&map, 60));
    }
    assert(rcu_map_resize(&map, 31) == -EINVAL);
    /* All in one chain: a reader at the removed one goes on, whichever neighbour goes too. */
    assert(!rcu_map_resize(&map, 0));
    struct rcu_map_node *removed = rcu_map_remove(&map, 30), *after = removed->next[map.table->link];
    assert(removed == &items[30].by_key && !rcu_map_find(&map, 30) && after && map.count == 59);
    assert(rcu_map_replace(&map, &again) == &items[7].by_key && rcu_map_find(&map, 7) == &again);
    assert(!rcu_map_remove(&map, 30) && !rcu_map_replace(&map, removed));
    rcu_map_destroy(&map);
    assert(!lw_srcu_cleanup(&domain));
}

int main(void)
{
    list_steps();
    map_steps();
    puts("all right");
    return 0;
}

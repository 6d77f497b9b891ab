/* SPDX-License-Identifier: MIT */
/* liburcu's memb as the comparison uses it besides its loops. */
#include <urcu/urcu-memb.h>

#include "pairs.h"

#include <stdlib.h>
#include <urcu/compiler.h>

extern const struct pair_loops loops_at_0, loops_at_1, loops_at_2, loops_at_3, loops_at_4, loops_at_5, loops_at_6,
    loops_at_7;

const struct pair_loops *loops_at(unsigned placement) {
    static const struct pair_loops *const all[placements] = {&loops_at_0, &loops_at_1, &loops_at_2, &loops_at_3,
                                                             &loops_at_4, &loops_at_5, &loops_at_6, &loops_at_7};
    return all[placement];
}

void urcu_join(void) { urcu_memb_register_thread(); }
void urcu_part(void) { urcu_memb_unregister_thread(); }
void urcu_wait(void) { urcu_memb_synchronize_rcu(); }

struct item {
    struct rcu_head head;
    size_t *called;
};

static void count(struct rcu_head *head) { ++*caa_container_of(head, struct item, head)->called; }

void urcu_callbacks(size_t n, size_t *called) {
    static struct item *items; /* kept: the other side's first use of its memory is not timed either */
    static size_t room;

    if (n > room) {
        free(items);
        items = malloc(n * sizeof *items);
        room = items ? n : 0;
    }
    if (!items)
        return; /* the caller finds that nothing was called */
    for (size_t i = 0; i < n; i++) {
        items[i].called = called;
        urcu_memb_call_rcu(&items[i].head, count);
    }
    urcu_memb_barrier();
}

/* SPDX-License-Identifier: MIT */
/* A plug-in with a copy of the library of its own, which must neither read in the program's domains nor wait for their
 * readers. */
#include <linewright/srcu.h>

#include <string.h>

void plugin_read(struct lw_srcu *s);
void plugin_read(struct lw_srcu *s) {
    lw_srcu_index index;
    struct lw_srcu_normal *normal = (struct lw_srcu_normal *)s;
    struct lw_srcu_fast *fast = (struct lw_srcu_fast *)s;
    if (s->flavour == LW__SRCU_NORMAL)
        index = lw_srcu_read_lock(normal), lw_srcu_read_unlock(normal, index);
    else
        index = lw_srcu_read_lock_fast(fast), lw_srcu_read_unlock_fast(fast, index);
}

/* The calling thread has a record of this copy after that. */
int plugin_read_own(void);
int plugin_read_own(void) {
    struct lw_srcu_fast own;
    int err = lw_srcu_init(&own);
    if (!err)
        plugin_read(&own.srcu);
    return err ? err : lw_srcu_cleanup(&own);
}

static void nothing(struct lw_srcu_head *head) { (void)head; }

/* The number of updaters' functions that did not refuse. */
int plugin_update(struct lw_srcu *s);
int plugin_update(struct lw_srcu *s) {
    static struct lw_srcu_head head;
    char text[100] = "";
    lw_srcu_describe(s, text, sizeof text);
    return (lw_srcu_synchronize(s) == 0) + (lw_srcu_synchronize_expedited(s) == 0) +
           (lw_srcu_synchronize_timeout(s, 1000000) == 0) + (lw_srcu_cond_synchronize(s, 2) == 0) +
           (lw_srcu_call(s, &head, nothing) == 0) + (lw_srcu_barrier(s) == 0) + (lw_srcu_get_state(s) != 0) +
           (lw_srcu_start_poll(s) != 0) + lw_srcu_poll(s, 2) + (lw_srcu_on_stall(s, 1, 0, 0) == 0) +
           (lw_srcu_forget_readers(s) == 0) + (lw_srcu_cleanup(s) == 0) + (lw_srcu_cleanup_idle(s) == 0) +
           (strstr(text, "another copy of the library") == 0);
}

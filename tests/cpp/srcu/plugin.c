/* A plug-in with a copy of the library of its own, which must not read in the program's domains. */
#include <linewright/srcu.h>

void plugin_read(struct lw_srcu *s);
void plugin_read(struct lw_srcu *s) {
    lw_srcu_index index;
    if (s->flavour == LW_SRCU_NORMAL)
        index = lw_srcu_read_lock(s), lw_srcu_read_unlock(s, index);
    else
        index = lw_srcu_read_lock_fast(s), lw_srcu_read_unlock_fast(s, index);
}

/* The calling thread has a record of this copy after that. */
int plugin_read_own(void);
int plugin_read_own(void) {
    struct lw_srcu own;
    int err = lw_srcu_init(&own, LW_SRCU_FAST);
    if (!err)
        plugin_read(&own);
    return err ? err : lw_srcu_cleanup(&own);
}

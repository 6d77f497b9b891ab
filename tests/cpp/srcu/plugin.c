/* A plug-in with a copy of the library of its own, which must not read in the program's domains. */
#include <linewright/srcu.h>

void plugin_read(struct lw_srcu *s);
void plugin_read(struct lw_srcu *s) { lw_srcu_read_unlock_fast(s, lw_srcu_read_lock_fast(s)); }

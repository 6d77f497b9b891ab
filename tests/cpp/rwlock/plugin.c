/* SPDX-License-Identifier: MIT */
/* A plug-in with a copy of the library of its own, which uses readers-writer locks and nothing else of it. */
#include <linewright/rwlock.h>

int plugin_read_lock(struct lw_rwlock *l);
int plugin_read_lock(struct lw_rwlock *l) { return lw_rwlock_read_lock(l); }

int plugin_read_unlock(struct lw_rwlock *l);
int plugin_read_unlock(struct lw_rwlock *l) { return lw_rwlock_read_unlock(l); }

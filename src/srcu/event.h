/* SPDX-License-Identifier: MIT */
/* Numbers that threads sleep on until they change: wake.h on futexes. */
#ifndef LINEWRIGHT_SRC_SRCU_EVENT_H
#define LINEWRIGHT_SRC_SRCU_EVENT_H

#include "../common/futex.h"

struct lw__srcu_event {
    uint32_t number; /* futex */
    uint32_t sleepers; /* threads that may be in the futex */
};

struct lw__srcu_worker {
    struct lw__srcu_event work; /* there is something to do */
    uint32_t current; /* number of the worker that is to work; 0: none */
};

#define LW_WAKE struct lw__srcu_event
#define LW_WAKE_NOTE(e) __atomic_fetch_add(&(e)->number, 1, __ATOMIC_SEQ_CST)
#define LW_WAKE_SLEEPERS(e) __atomic_load_n(&(e)->sleepers, __ATOMIC_SEQ_CST)
#define LW_WAKE_ALL(e) lw_futex_wake_all(&(e)->number)
#define LW_WAKE_ENTER(e) __atomic_fetch_add(&(e)->sleepers, 1, __ATOMIC_SEQ_CST)
#define LW_WAKE_LEAVE(e) __atomic_fetch_sub(&(e)->sleepers, 1, __ATOMIC_RELAXED)
#define LW_WAKE_SLEEP(e, seen, ns) lw_futex_wait(&(e)->number, seen, ns)
#define LW_WAKE_WORKER struct lw__srcu_worker
#define LW_WAKE_WORKER_NUMBER(w) __atomic_load_n(&(w)->work.number, __ATOMIC_SEQ_CST)
#define LW_WAKE_WORKER_SET(w, n) __atomic_store_n(&(w)->current, n, __ATOMIC_SEQ_CST)
#include "wake.h"

#endif

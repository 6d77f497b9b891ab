/* SPDX-License-Identifier: MIT */
/* A library with a copy of its own of everything, opened by life.c. Adds to the caller's counter and to one of its own. */
#include <linewright/percpu.h>

uint64_t plugin_use(uint64_t *theirs, int times);

static uint64_t *own;

__attribute__((visibility("default"))) uint64_t plugin_use(uint64_t *theirs, int times) {
    if (!own)
        own = lw_percpu_alloc(sizeof *own, sizeof *own);
    for (int i = 0; own && i < times; i++) {
        lw_this_cpu_inc(own);
        lw_this_cpu_inc(theirs);
    }
    return own ? lw_percpu_sum(own) : 0;
}

/* SPDX-License-Identifier: MIT */
/* One of liburcu's flavours as the probe's cells use it: loops over critical sections, and an updater's wait. */
#ifndef LINEWRIGHT_BENCH_URCU_FLAVOUR_H
#define LINEWRIGHT_BENCH_URCU_FLAVOUR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct urcu_flavour {
    const char *name;
    /* `readers` critical sections of `delay` one-NOP iterations each. With `current`, each reads the word that *current
     * points to at its beginning, and at its end counts it as wrong unless it is 1; the count is returned. */
    uint64_t (*pairs)(size_t readers, size_t delay, uint64_t **current);
    uint64_t (*checked)(size_t readers, size_t delay, uint64_t **current);
    void (*synchronize)(void);
    void (*join)(void); /* each thread before its first critical section */
    void (*part)(void); /* and after its last */
};

extern const struct urcu_flavour urcu_memb, urcu_memb_call, urcu_bp, urcu_bp_call, urcu_mb, urcu_mb_call, urcu_qsbr;

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: MIT */
/* No cache-maintenance instruction is known here: the library answers -EOPNOTSUPP unless devices are coherent. */
#ifndef LINEWRIGHT_ARCH_GENERIC_CACHE_H
#define LINEWRIGHT_ARCH_GENERIC_CACHE_H

#include "cpu.h"

enum lw_cache_insn { LW_INSN_NONE, LW_INSN_COUNT };
#define LW_CACHE_INSNS(X)

#define LW_CACHE_INVALIDATORS 0u
#define LW_CACHE_CLEANERS 0u
#define LW_CACHE_PERSISTERS 0u

static inline int lw_cache_insn_is_strict(enum lw_cache_insn insn)
{
    (void)insn;
    return 0;
}

/* Nothing was issued, so nothing waits; a full fence keeps the meaning "later accesses come after". */
#define LW_CACHE_WAIT_STORES "fence"
static inline void lw_cache_arch_wait_stores(void)
{
    lw_full_fence();
}

#define LW_CACHE_WAIT_ALL "fence"
static inline void lw_cache_arch_wait_all(void)
{
    lw_full_fence();
}

#define LW_CACHE_ORDER "fence"
static inline void lw_cache_arch_order(void)
{
    lw_full_fence();
}

#endif

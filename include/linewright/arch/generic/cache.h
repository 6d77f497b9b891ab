/* No cache-maintenance instruction is known here: the library answers -EOPNOTSUPP unless devices are coherent. */
#ifndef LINEWRIGHT_ARCH_GENERIC_CACHE_H
#define LINEWRIGHT_ARCH_GENERIC_CACHE_H

enum lw_cache_insn { LW_INSN_NONE, LW_INSN_COUNT };
#define LW_CACHE_INSNS(X)

static inline int lw_cache_insn_is_strict(enum lw_cache_insn insn)
{
    (void)insn;
    return 0;
}

/* Nothing was issued, so nothing waits; a full fence keeps the meaning "later accesses come after". */
#define LW_CACHE_WAIT_STORES "fence"
static inline void lw_cache_arch_wait_stores(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define LW_CACHE_WAIT_ALL "fence"
static inline void lw_cache_arch_wait_all(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define LW_CACHE_ORDER "fence"
static inline void lw_cache_arch_order(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#endif

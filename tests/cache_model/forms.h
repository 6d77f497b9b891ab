/* SPDX-License-Identifier: MIT */
/* Cache-maintenance forms of the modelled, non-coherent cache: each is an event that the model sees. */
#ifndef LINEWRIGHT_CACHE_MODEL_FORMS_H
#define LINEWRIGHT_CACHE_MODEL_FORMS_H

#ifdef __cplusplus
extern "C" {
#endif

enum lw_cache_insn {
    LW_INSN_NONE,
    LW_INSN_CLEAN,
    LW_INSN_CLEAN_INVALIDATE,
    LW_INSN_PERSIST,
    LW_INSN_DISCARD, /* the kernel's true invalidate; the library must never issue it */
    LW_INSN_FLUSH,   /* as CLFLUSH on old AMD parts: only a full fence orders it, on both sides */
    LW_INSN_COUNT
};

void lw_model_insn(enum lw_cache_insn insn, const void *line);
void lw_model_wait(int orders_loads);
void lw_model_order(void);

static inline void lw_model_clean(const void *line) { lw_model_insn(LW_INSN_CLEAN, line); }

static inline void lw_model_clean_invalidate(const void *line) { lw_model_insn(LW_INSN_CLEAN_INVALIDATE, line); }

static inline void lw_model_persist(const void *line) { lw_model_insn(LW_INSN_PERSIST, line); }

static inline void lw_model_discard(const void *line) { lw_model_insn(LW_INSN_DISCARD, line); }

static inline void lw_model_flush(const void *line) { lw_model_insn(LW_INSN_FLUSH, line); }

#define LW_CACHE_INSNS(X)                                                    \
    X(CLEAN, "model_clean", lw_model_clean)                                  \
    X(CLEAN_INVALIDATE, "model_clean_invalidate", lw_model_clean_invalidate) \
    X(PERSIST, "model_persist", lw_model_persist)                            \
    X(DISCARD, "model_discard", lw_model_discard)                            \
    X(FLUSH, "model_flush", lw_model_flush)

#define LW_CACHE_INVALIDATORS (1u << LW_INSN_CLEAN_INVALIDATE | 1u << LW_INSN_FLUSH)
#define LW_CACHE_CLEANERS (LW_CACHE_INVALIDATORS | 1u << LW_INSN_CLEAN | 1u << LW_INSN_PERSIST)
#define LW_CACHE_PERSISTERS (1u << LW_INSN_PERSIST | 1u << LW_INSN_FLUSH)

static inline int lw_cache_insn_is_strict(enum lw_cache_insn insn) { return insn == LW_INSN_FLUSH; }

#define LW_CACHE_WAIT_STORES "model_wait_stores"
static inline void lw_cache_arch_wait_stores(void) { lw_model_wait(0); }

#define LW_CACHE_WAIT_ALL "model_wait_all"
static inline void lw_cache_arch_wait_all(void) { lw_model_wait(1); }

#define LW_CACHE_ORDER "model_order"
static inline void lw_cache_arch_order(void) { lw_model_order(); }

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT */
/* What the parts of the cache library share: the word that holds the choice, and detection. */
#ifndef LINEWRIGHT_CACHE_INTERNAL_H
#define LINEWRIGHT_CACHE_INTERNAL_H

#include <linewright/cache.h>
#ifdef LW_CACHE_MODEL
#include <cache_model/forms.h>
#else
#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(cache.h)
#endif

#include <stdbool.h>
#include <stdint.h>

/*
 * The whole choice fits one word, so it is published with one store and read with one load; nothing else
 * depends on it, hence relaxed on both sides.  Zero: not chosen yet.
 */
enum {
    LW_WORD_CLEAN = 0, /* enum lw_cache_insn, 3 bits each */
    LW_WORD_INVALIDATE = 3,
    LW_WORD_PERSIST = 6,
    LW_WORD_DEEP = 9,
    LW_WORD_LINE = 12,    /* log2 of the line's bytes, 4 bits */
    LW_WORD_GRANULE = 16, /* log2 of the granule's bytes, 4 bits */
    LW_WORD_HAVE = 20,    /* one bit per instruction that may be chosen */
    LW_WORD_TRAPPED = 28,
    LW_WORD_COHERENT = 29,
    LW_WORD_READY = 31
};
#define LW_BIT(n) (UINT32_C(1) << (n))

static inline enum lw_cache_insn lw_word_insn(uint32_t word, unsigned int field)
{
    return (enum lw_cache_insn)((word >> field) & 7);
}

/* The part of a complete word that names the instructions. */
static inline uint32_t lw_word_of(enum lw_cache_insn clean, enum lw_cache_insn invalidate, enum lw_cache_insn persist,
                                  enum lw_cache_insn deep)
{
    return LW_BIT(LW_WORD_READY) | (uint32_t)clean << LW_WORD_CLEAN | (uint32_t)invalidate << LW_WORD_INVALIDATE |
           (uint32_t)persist << LW_WORD_PERSIST | (uint32_t)deep << LW_WORD_DEEP;
}

/* log2 of a power of two; 0 bytes: not known, taken to be 64 */
static inline uint32_t lw_log2_of(uint32_t bytes)
{
    return bytes ? 31u - (uint32_t)__builtin_clz(bytes) : 6;
}

/* The part that gives the line and the granule, both in bytes. */
static inline uint32_t lw_word_geometry(uint32_t line, uint32_t granule)
{
    return lw_log2_of(line) << LW_WORD_LINE | lw_log2_of(granule) << LW_WORD_GRANULE;
}

static inline uintptr_t lw_word_line(uint32_t word)
{
    return (uintptr_t)1 << ((word >> LW_WORD_LINE) & 15);
}

/* The published choice; 0 before the first use. Accessed through the functions below and in cache_config.c only. */
extern uint32_t lw_cache_chosen __attribute__((visibility("hidden")));

/* Detects, publishes and returns the choice. */
uint32_t lw_cache_choose_first(void);

/* The choice; detects on first use. */
static inline uint32_t lw_cache_word(void)
{
    /* pairs with the stores in cache_config.c; one word on which nothing else depends, hence relaxed */
    uint32_t word = __atomic_load_n(&lw_cache_chosen, __ATOMIC_RELAXED);

    return __builtin_expect(word != 0, 1) ? word : lw_cache_choose_first();
}

/* What this machine has and what is best: a complete word without LW_WORD_COHERENT.  No side effect that lasts. */
uint32_t lw_cache_detect(void);

#endif

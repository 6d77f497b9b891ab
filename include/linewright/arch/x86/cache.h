/* SPDX-License-Identifier: MIT */
/* x86 cache-maintenance forms: one line each, and the fences that order them. */
#ifndef LINEWRIGHT_ARCH_X86_CACHE_H
#define LINEWRIGHT_ARCH_X86_CACHE_H

#include <stdint.h>

/*
 * All three write a dirty line back; CLFLUSHOPT and CLFLUSH also drop it from every cache of the coherence
 * domain, CLWB may keep it (some processors drop it too).  None of them loses a store: x86 has no
 * discard-without-write-back outside the kernel.
 *
 * CLWB and CLFLUSHOPT are ordered after the same thread's older stores to that line, and with fences and
 * locked operations; not with each other, and not with loads (Intel SDM vol. 2).
 */
static inline void lw_clwb(const void *line)
{
    __asm__ __volatile__("clwb %[line]" : : [line] "m"(*(const char *)line) : "memory");
}

static inline void lw_clflushopt(const void *line)
{
    __asm__ __volatile__("clflushopt %[line]" : : [line] "m"(*(const char *)line) : "memory");
}

/*
 * Intel: ordered with writes, fences and other CLFLUSHes.  AMD processors without CLFLUSHOPT: ordered by
 * MFENCE alone, on both sides (AMD APM vol. 3), so its issuer fences before and after.
 */
static inline void lw_clflush(const void *line)
{
    __asm__ __volatile__("clflush %[line]" : : [line] "m"(*(const char *)line) : "memory");
}

/* Older stores, CLWBs and CLFLUSHOPTs before younger stores.  Says nothing about younger loads. */
static inline void lw_sfence(void)
{
    __asm__ __volatile__("sfence" : : : "memory");
}

/* As SFENCE, and with loads on both sides: what a load that must see the effect of CLFLUSHOPT needs. */
static inline void lw_mfence(void)
{
    __asm__ __volatile__("mfence" : : : "memory");
}

/* The instructions by number, for code that is specialised for one of them (the number is a constant there). */
enum lw_cache_insn { LW_INSN_NONE, LW_INSN_CLWB, LW_INSN_CLFLUSHOPT, LW_INSN_CLFLUSH, LW_INSN_COUNT };
#define LW_CACHE_INSNS(X)                      \
    X(CLWB, "clwb", lw_clwb)                   \
    X(CLFLUSHOPT, "clflushopt", lw_clflushopt) \
    X(CLFLUSH, "clflush", lw_clflush)

/* Bits, by the numbers above, of the instructions that may stand for each operation. */
#define LW_CACHE_INVALIDATORS (1u << LW_INSN_CLFLUSHOPT | 1u << LW_INSN_CLFLUSH)
#define LW_CACHE_CLEANERS (LW_CACHE_INVALIDATORS | 1u << LW_INSN_CLWB)
#define LW_CACHE_PERSISTERS LW_CACHE_CLEANERS

/* Does this instruction need the full fence on both sides, whatever it is used for? */
static inline int lw_cache_insn_is_strict(enum lw_cache_insn insn)
{
    return insn == LW_INSN_CLFLUSH;
}

/* Younger stores (a doorbell, the next record) come after all maintenance issued before. */
#define LW_CACHE_WAIT_STORES "sfence"
static inline void lw_cache_arch_wait_stores(void)
{
    lw_sfence();
}

/* Younger loads and stores come after all maintenance issued before. */
#define LW_CACHE_WAIT_ALL "mfence"
static inline void lw_cache_arch_wait_all(void)
{
    lw_mfence();
}

/* Maintenance issued after comes after older loads and stores: the load that said "the device is done". */
#define LW_CACHE_ORDER "mfence"
static inline void lw_cache_arch_order(void)
{
    lw_mfence();
}

#endif

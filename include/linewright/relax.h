/* SPDX-License-Identifier: MIT */
/* One round of a spin loop, the part of wait.h that the library's own loops use: the hint that the process chose, or the usual one. */
#ifndef LINEWRIGHT_RELAX_H
#define LINEWRIGHT_RELAX_H

#include <linewright/api.h>
#include <linewright/arch/cpu.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The choice: 0 until a setting chooses, by `auto` and by the usual hint. Written through lw_wait_set() only. Whichever value a thread reads, its hint is a
 * right one, and nothing else depends on it: relaxed on both sides. */
LW_API extern uint32_t lw_wait_word;

/* What lw_relax() is where lw_wait_word is not 0. */
LW_API void lw__relax_chosen(uint32_t chosen);

/* By `auto` lw_cpu_relax(): x86 `pause`, arm64 `isb`, elsewhere nothing. Orders nothing. May be called anywhere. */
LW_ALWAYS_INLINE void lw_relax(void)
{
    uint32_t chosen = __atomic_load_n(&lw_wait_word, __ATOMIC_RELAXED); /* pairs with the store in src/wait/setting.c */
    if (__builtin_expect(chosen == 0, 1))
        lw_cpu_relax();
    else
        lw__relax_chosen(chosen);
}

#ifdef __cplusplus
}
#endif

#endif

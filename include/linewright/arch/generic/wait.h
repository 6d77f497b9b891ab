/* SPDX-License-Identifier: MIT */
/* Any other architecture: no form of waiting is known, so a waiting thread looks again at once. */
#ifndef LINEWRIGHT_ARCH_GENERIC_WAIT_H
#define LINEWRIGHT_ARCH_GENERIC_WAIT_H

/* As in arch/x86/wait.h */
#define LW_WAIT_HINTS(delays, watches) delays(none, nothing)
#define LW_WAIT_USUAL none /* what lw_cpu_relax() is */

static inline void lw_hint_none(void)
{
    __asm__ __volatile__("" : : : "memory");
}

#endif

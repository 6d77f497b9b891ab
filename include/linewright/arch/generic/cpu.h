/* SPDX-License-Identifier: MIT */
/* Any other architecture: full fence and the spin loop's hint. */
#ifndef LINEWRIGHT_ARCH_GENERIC_CPU_H
#define LINEWRIGHT_ARCH_GENERIC_CPU_H

static inline void lw_full_fence(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* No hint is known. */
static inline void lw_cpu_relax(void) {}

/* Adding to memory takes several instructions here: see arch/x86/cpu.h. */
#define LW_HAVE_THREAD_WORDS 0

#endif

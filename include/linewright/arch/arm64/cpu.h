/* SPDX-License-Identifier: MIT */
/* arm64: full fence, the spin loop's hint, and the kernel's feature bits. */
#ifndef LINEWRIGHT_ARCH_ARM64_CPU_H
#define LINEWRIGHT_ARCH_ARM64_CPU_H

/* `dmb ish`: every earlier access of this thread before every later one. In assembly because ThreadSanitizer refuses the
 * compiler's fence. */
static inline void lw_full_fence(void)
{
    __asm__ __volatile__("dmb ish" : : : "memory");
}

/* One round of a spin loop. `isb` takes some tens of cycles; `yield` takes none on most cores. */
static inline void lw_cpu_relax(void)
{
    __asm__ __volatile__("isb");
}

/* Bits of AT_HWCAP and AT_HWCAP2 by the kernel's interface (asm/hwcap.h), given here because older headers lack some. */
#define LW_HWCAP_LSE (1ul << 8)     /* HWCAP_ATOMICS: the LSE atomics, CASP among them */
#define LW_HWCAP_DC_CVAP (1ul << 16) /* HWCAP_DCPOP */
#define LW_HWCAP_LSE2 (1ul << 25)   /* HWCAP_USCAT: an aligned LDP or STP of 16 bytes is one access */
#define LW_HWCAP_EVTSTRM (1ul << 2)  /* HWCAP_EVTSTRM: the generic timer's event stream, about 100 us between two events */
#define LW_HWCAP_SB (1ul << 29)      /* HWCAP_SB */
#define LW_HWCAP2_DC_CVADP (1ul << 0) /* HWCAP2_DCPODP */
#define LW_HWCAP2_WFXT (1ul << 31)    /* HWCAP2_WFXT: WFET */

/* Adding to memory takes several instructions here: see arch/x86/cpu.h. */
#define LW_HAVE_THREAD_WORDS 0

#endif

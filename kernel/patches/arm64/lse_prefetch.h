/* SPDX-License-Identifier: GPL-2.0-only */
/* The prefetch for write that stands before an LSE atomic, where the boot option asks for it. */
#ifndef __ASM_LSE_PREFETCH_H
#define __ASM_LSE_PREFETCH_H

#ifdef CONFIG_ARM64_LSE_PREFETCH

#include <asm/alternative_also.h>

/* In an asm statement whose location is the operand [v]: a NOP that becomes the prefetch. */
#define LSE_PREFETCH ALTERNATIVE("nop", "prfm\tpstl1strm, %[v]", ARM64_LSE_PREFETCH)

/*
 * Behind ARM64_LSE_ATOMIC_INSN(), whose location is operand 2: the LSE sequence, one NOP shorter,
 * with the prefetch before it.
 */
#define LSE_ALSO_PREFETCH(lse) \
	ALTERNATIVE_ALSO(__LSE_PREAMBLE "\tprfm\tpstl1strm, %2\n" lse, ARM64_LSE_PREFETCH)

#else

#define LSE_PREFETCH ""
#define LSE_ALSO_PREFETCH(lse) ""

#endif /* CONFIG_ARM64_LSE_PREFETCH */
#endif /* __ASM_LSE_PREFETCH_H */

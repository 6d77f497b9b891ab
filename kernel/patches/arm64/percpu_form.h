/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The other forms of a per-CPU operation without a value: by a load instruction, or with a prefetch
 * for write before the store.
 */
#ifndef __ASM_PERCPU_FORM_H
#define __ASM_PERCPU_FORM_H

#ifdef CONFIG_ARM64_PERCPU_FORM

#include <asm/alternative_also.h>
#include <asm/lse.h>

/*
 * A destination that is a register, never XZR: with XZR these would be the store form again. The
 * old value goes to the register that the LL/SC loop uses.
 */
#define __PERCPU_LOAD_stadd "ldadd"
#define __PERCPU_LOAD_stclr "ldclr"
#define __PERCPU_LOAD_stset "ldset"

/*
 * Behind ARM64_LSE_ATOMIC_INSN() with the operands of __PERCPU_OP_CASE(): four instructions each,
 * as its LL/SC loop has.
 */
#define PERCPU_ALSO(w, sfx, store)                                                              \
	ALTERNATIVE_ALSO(__LSE_PREAMBLE __PERCPU_LOAD_##store #sfx "\t%" #w "[val], %" #w       \
								   "[tmp], %[ptr]\n" __nops(3), \
		ARM64_PERCPU_LOAD)                                                              \
	ALTERNATIVE_ALSO(__LSE_PREAMBLE "prfm\tpstl1strm, %[ptr]\n" #store #sfx "\t%" #w        \
					"[val], %[ptr]\n" __nops(2),                            \
		ARM64_PERCPU_PREFETCH)

#else

#define PERCPU_ALSO(w, sfx, store) ""

#endif /* CONFIG_ARM64_PERCPU_FORM */
#endif /* __ASM_PERCPU_FORM_H */

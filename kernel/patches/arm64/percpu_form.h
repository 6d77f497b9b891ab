/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The forms of a per-CPU operation without a value: by a store instruction, by a load instruction,
 * or by the store instruction with a prefetch for write before it.
 */
#ifndef __ASM_PERCPU_FORM_H
#define __ASM_PERCPU_FORM_H

#ifdef CONFIG_ARM64_PERCPU_FORM

#include <asm/alternative_also.h>
#include <asm/lse.h>

#define __PERCPU_STORE_add "stadd"
#define __PERCPU_STORE_andnot "stclr"
#define __PERCPU_STORE_or "stset"
#define __PERCPU_LOAD_add "ldadd"
#define __PERCPU_LOAD_andnot "ldclr"
#define __PERCPU_LOAD_or "ldset"

#define __PERCPU_STORE(w, sfx, name) __PERCPU_STORE_##name #sfx "\t%" #w "[val], %[ptr]\n"

/*
 * The destination is the register of the LL/SC loop, never XZR: with XZR this would be the store
 * form again.
 */
#define __PERCPU_LOAD(w, sfx, name) \
	__PERCPU_LOAD_##name #sfx "\t%" #w "[val], %" #w "[tmp], %[ptr]\n"

/*
 * Behind ARM64_LSE_ATOMIC_INSN() with the operands of __PERCPU_OP_CASE(): four instructions each,
 * as its LL/SC loop has.
 */
#define PERCPU_ALSO(w, sfx, name)                                                                 \
	ALTERNATIVE_ALSO(                                                                         \
		__LSE_PREAMBLE __PERCPU_STORE(w, sfx, name) __nops(3), ARM64_PERCPU_STORE)        \
	ALTERNATIVE_ALSO(__LSE_PREAMBLE __PERCPU_LOAD(w, sfx, name) __nops(3), ARM64_PERCPU_LOAD) \
	ALTERNATIVE_ALSO(__LSE_PREAMBLE "prfm\tpstl1strm, %[ptr]\n" __PERCPU_STORE(w, sfx, name)  \
				 __nops(2),                                                       \
		ARM64_PERCPU_PREFETCH)

#else

#define PERCPU_ALSO(w, sfx, name) ""

#endif /* CONFIG_ARM64_PERCPU_FORM */
#endif /* __ASM_PERCPU_FORM_H */

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A further replacement for a site that ALTERNATIVE() has just made: the later one whose
 * capability is there is what runs.
 */
#ifndef __ASM_ALTERNATIVE_ALSO_H
#define __ASM_ALTERNATIVE_ALSO_H

#include <asm/alternative-macros.h>

/*
 * Stands right behind ALTERNATIVE() in the same asm statement and uses its labels 661 and 662, the
 * original's begin and end. Entries are applied in the order of the table, so that this replacement
 * overwrites the first one. As there, the .org lines fail where the lengths differ.
 */
#define ALTERNATIVE_ALSO(newinstr, cpucap)                       \
	".pushsection .altinstructions,\"a\"\n" ALTINSTR_ENTRY(  \
		cpucap) ".popsection\n"                          \
			".subsection 1\n"                        \
			"663:\n\t" newinstr "\n"                 \
			"664:\n\t"                               \
			".org	. - (664b-663b) + (662b-661b)\n\t" \
			".org	. - (662b-661b) + (664b-663b)\n\t" \
			".previous\n"

#endif /* __ASM_ALTERNATIVE_ALSO_H */

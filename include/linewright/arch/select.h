/* SPDX-License-Identifier: MIT */
/* The architecture compiled for: the one list of those that have a folder here, and what every folder holds.
 *
 *   cpu.h       full fence, the spin loop's hint, bits of the kernel's feature words, words of one thread
 *   forms.h     the forms of 32- and 64-bit operations, one instruction sequence each
 *   wide.h      the forms wider than a register
 *   wait.h      the forms of waiting: what passes some time, and what watches a word
 *   cache.h     cache maintenance: one line each, and the barriers
 *   measure.h   clock, NOP and the wait for completion, and lists of forms, for timed loops
 *
 *   rseq.h      restartable sequences, if the kernel has them there; generic/rseq.h does without
 *
 * A new architecture is such a folder, rmw/<name>.h if atomic.h shall not be made of builtins, and two entries here: its
 * name in the list, and what stands for it below. LW_OWN_<name> marks the rows of the table of forms that are its own. */
#ifndef LINEWRIGHT_ARCH_SELECT_H
#define LINEWRIGHT_ARCH_SELECT_H

/* Every architecture by name, for tables of their forms; `generic` stands for all without a folder. */
#define LW_ARCHITECTURES(entry) entry(x86_64) entry(i386) entry(arm64) entry(generic)

#if defined(__aarch64__)
#define LW_ARCH_NAME "arm64"
#define LW_OWN_arm64(bits) 0,
#define LW_ARCH_HEADER(file) <linewright/arch/arm64/file>
#define LW_RMW_HEADER <linewright/rmw/arm64.h>
#elif defined(__x86_64__)
#define LW_ARCH_NAME "x86_64"
#define LW_OWN_x86_64(bits) 0,
#define LW_ARCH_HEADER(file) <linewright/arch/x86/file>
#define LW_RMW_HEADER <linewright/rmw/x86.h>
#elif defined(__i386__)
#define LW_ARCH_NAME "i386"
#define LW_OWN_i386(bits) 0,
#define LW_ARCH_HEADER(file) <linewright/arch/x86/file>
#define LW_RMW_HEADER <linewright/rmw/x86.h>
#else
#define LW_ARCH_NAME "generic"
#define LW_ARCH_HEADER(file) <linewright/arch/generic/file>
#define LW_RMW_HEADER <linewright/rmw/generic.h>
#endif

#endif

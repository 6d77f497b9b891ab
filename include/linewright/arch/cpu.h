/* SPDX-License-Identifier: MIT */
/* Facts about the CPU compiled for that several parts need: full fence, the spin loop's hint, feature bits. */
#ifndef LINEWRIGHT_ARCH_CPU_H
#define LINEWRIGHT_ARCH_CPU_H

#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(cpu.h)

#endif

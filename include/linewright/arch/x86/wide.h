/* SPDX-License-Identifier: MIT */
/* Forms wider than a register on x86: eight bytes on i386, sixteen on x86-64. */
#ifndef LINEWRIGHT_ARCH_X86_WIDE_H
#define LINEWRIGHT_ARCH_X86_WIDE_H

#ifdef __x86_64__
#include "../x86_64/wide.h"
#else
#include "../i386/wide.h"
#endif

#endif

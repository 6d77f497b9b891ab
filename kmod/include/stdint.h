/* SPDX-License-Identifier: GPL-2.0-only */
/* <stdint.h> as the form headers want it, made of the kernel's types. */
#ifndef LINEWRIGHT_KMOD_STDINT_H
#define LINEWRIGHT_KMOD_STDINT_H

#include <linux/limits.h>
#include <linux/types.h>

#ifndef UINTPTR_MAX
#define UINTPTR_MAX ULONG_MAX
#endif

#endif

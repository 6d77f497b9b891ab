/* SPDX-License-Identifier: GPL-2.0-only */
/* <stdbool.h> as the form headers want it: the kernel has the type and its values in <linux/types.h>. */
#ifndef LINEWRIGHT_KMOD_STDBOOL_H
#define LINEWRIGHT_KMOD_STDBOOL_H

#include <linux/types.h>

#endif

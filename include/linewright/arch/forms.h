/* SPDX-License-Identifier: MIT */
/* The forms of the architecture being compiled for, with the portable ones beside them for comparison.
 *
 * A form is one instruction sequence in one inline function, `lw_<form>_u<bits>`. Every form takes the
 * address in one register and addresses with base only, so that what differs between two forms is the
 * instructions they are named after and nothing else. Nothing here tests the CPU: the caller does. */
#ifndef LINEWRIGHT_ARCH_FORMS_H
#define LINEWRIGHT_ARCH_FORMS_H

#include "generic/forms.h"

#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(forms.h)

#endif

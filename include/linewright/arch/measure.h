/* SPDX-License-Identifier: MIT */
/* Chooses the timing helpers of the architecture compiled for. */
#ifndef LINEWRIGHT_ARCH_MEASURE_H
#define LINEWRIGHT_ARCH_MEASURE_H

#include <linewright/arch/select.h>
#include LW_ARCH_HEADER(measure.h)

#endif

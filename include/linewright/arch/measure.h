/* Chooses the timing helpers of the architecture compiled for. */
#ifndef LINEWRIGHT_ARCH_MEASURE_H
#define LINEWRIGHT_ARCH_MEASURE_H

#if defined(__x86_64__) || defined(__i386__)
#include <linewright/arch/x86/measure.h>
#elif defined(__aarch64__)
#include <linewright/arch/arm64/measure.h>
#else
#include <linewright/arch/generic/measure.h>
#endif

#endif

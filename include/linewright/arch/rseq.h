/* SPDX-License-Identifier: MIT */
/* Chooses the restartable sequences of the architecture compiled for; ABIs without any do without. Included by percpu.h. */
#ifndef LINEWRIGHT_ARCH_RSEQ_H
#define LINEWRIGHT_ARCH_RSEQ_H

#if defined(LW_NO_RSEQ)
#include <linewright/arch/generic/rseq.h>
#elif defined(__x86_64__) && defined(__LP64__)
#include <linewright/arch/x86_64/rseq.h>
#elif defined(__i386__)
#include <linewright/arch/i386/rseq.h>
#elif defined(__aarch64__) && defined(__LP64__)
#include <linewright/arch/arm64/rseq.h>
#else
#include <linewright/arch/generic/rseq.h>
#endif

#endif

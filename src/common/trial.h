/* SPDX-License-Identifier: MIT */
/* Whether an instruction runs here: feature bits come from a kernel, a hypervisor or an emulator, which may refuse what they advertise. */
#ifndef LW_TRIAL_H
#define LW_TRIAL_H

#include <stdbool.h>

/* Does insn(arg) run to its end without SIGILL?  The program's signal handlers neither change nor run. */
bool lw__trial(void (*insn)(void *), void *arg);

#endif

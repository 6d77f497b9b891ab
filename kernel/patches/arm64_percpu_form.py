# SPDX-License-Identifier: GPL-2.0-only
"""arm64: the form of per-CPU additions and bit operations, chosen at boot

What: `this_cpu_add`, `this_cpu_sub`, `this_cpu_inc`, `this_cpu_and` and `this_cpu_or` without a
value, 8 to 64 bits. With `percpu_form=store` they are `STADD`, `STCLR` and `STSET`; with
`percpu_form=load` they are `LDADD`, `LDCLR` and `LDSET` with a destination that is thrown away (a
register: with XZR it would be the store form); with `percpu_form=prefetch` they are `PRFM
PSTL1STRM` and the store form. Operations with a value are load forms anyway. Debian's 6.1 has the
store forms, and has them with a width of 32 bits for variables of 8 and 16, so that a carry or
borrow reaches the neighbours: the forms of this patch have the right width. Debian's 6.12 (seen in
6.12.117) has the load forms.

Why: per-CPU memory belongs to its CPU, and some cores perform a store form far away all the same:
about 100 ns a pair of SRCU reader operations on Neoverse V2 by STADD, 8.4 with the prefetch. There
is counter-evidence, a tracing benchmark that is faster with STADD. So it is a choice, and three
boots of one kernel compare the forms.

Switch: CONFIG_ARM64_PERCPU_FORM, off by default, compiles it in; then the boot option
`percpu_form=store`, `load` or `prefetch`. Without the option the code is what it was. Any other
value is refused in the kernel's log, and the form stays. On a system without LSE the option has no
effect, and the log says so.

Kernels: 6.1 and 6.12. A kernel whose header looks different is refused by name of the file.

A backport of the load form for 6.1. Upstream (late 2026): load forms since 6.18 and in the 6.12
series, without a choice (7.3.4:
PERCPU_OP() of arch/arm64/include/asm/percpu.h)."""

# ruff: noqa: E101 (Kconfig text is indented by a tab and two blanks)
from lwkernel.edits import Edit

ARCHES = ("arm64",)
SERIES = ("6.1", "6.12")
CONFIG = ("CONFIG_ARM64_PERCPU_FORM=y",)

FILES = {
    "arch/arm64/include/asm/alternative_also.h": "arm64/alternative_also.h",
    "arch/arm64/include/asm/percpu_form.h": "arm64/percpu_form.h",
    "arch/arm64/kernel/percpu_form_option.h": "arm64/percpu_form_option.h",
    "arch/arm64/kernel/percpu_form.c": "arm64/percpu_form.c",
}

HELP = """\
config ARM64_PERCPU_FORM
	bool "Form of per-CPU operations without a value, by a boot option"
	depends on ARM64_LSE_ATOMICS
	help
	  With percpu_form=store on the kernel's command line, additions and
	  bit operations on per-CPU memory are STADD, STCLR and STSET; with
	  percpu_form=load they are LDADD, LDCLR and LDSET; with
	  percpu_form=prefetch a prefetch for writing stands before the store
	  form. Which is faster depends on the machine: measure.
	  If unsure, say N.
"""

FEATURES = """\
#ifdef CONFIG_ARM64_PERCPU_FORM
	{
		.desc = "per-CPU operations by store forms (percpu_form=store)",
		.capability = ARM64_PERCPU_STORE,
		.type = ARM64_CPUCAP_SYSTEM_FEATURE,
		.matches = has_percpu_store,
	},
	{
		.desc = "per-CPU operations by load forms (percpu_form=load)",
		.capability = ARM64_PERCPU_LOAD,
		.type = ARM64_CPUCAP_SYSTEM_FEATURE,
		.matches = has_percpu_load,
	},
	{
		.desc = "prefetch for write before per-CPU operations (percpu_form=prefetch)",
		.capability = ARM64_PERCPU_PREFETCH,
		.type = ARM64_CPUCAP_SYSTEM_FEATURE,
		.matches = has_percpu_prefetch,
	},
#endif
"""

EDITS = (
    Edit(
        path="arch/arm64/Kconfig",
        before=r'^endmenu # "ARMv8\.1 architectural features"$',
        text=HELP + "\n",
    ),
    Edit(
        path="arch/arm64/tools/cpucaps",
        before=r"^SME$",
        text="PERCPU_LOAD\nPERCPU_PREFETCH\nPERCPU_STORE",
    ),
    Edit(
        path="arch/arm64/kernel/Makefile",
        before=r"^obj-\$\(CONFIG_ARM64_MTE\)",
        text="obj-$(CONFIG_ARM64_PERCPU_FORM)		+= percpu_form.o",
    ),
    Edit(
        path="arch/arm64/kernel/cpufeature.c",
        before=r"^/\* Kernel representation of AT_HWCAP",
        text='#include "percpu_form_option.h"\n\n',
    ),
    Edit(
        path="arch/arm64/kernel/cpufeature.c",
        before=r"^#ifdef CONFIG_ARM64_LSE_ATOMICS$",
        text=FEATURES,
    ),
    Edit(
        path="arch/arm64/include/asm/percpu.h",
        after=r"^#include <asm/cmpxchg\.h>$",
        text="#include <asm/percpu_form.h>",
    ),
    # The instruction, three NOPs and the end of ARM64_LSE_ATOMIC_INSN(): the operations with a
    # value have two NOPs.
    Edit(
        path="arch/arm64/include/asm/percpu.h",
        after=r"__nops\(3\)\)",
        text="\tPERCPU_ALSO(w, sfx, name)",
    ),
)

"""arm64: prefetch for write before LSE atomics, chosen at boot

What: every atomic operation of the kernel that is one LSE instruction gets `PRFM PSTL1STRM` on its location before it:
the operations without a value (`STADD`, `STCLR`, `STSET`, `STEOR`), those that fetch or return (`LDADD`, `LDCLR`,
`LDSET`, `LDEOR`, in all four orders, 32 and 64 bits), `SWP` and `CAS` of 8 to 64 bits, `CASP`, and the loop of
`atomic64_dec_if_positive`. The instruction itself stays. What is built of these, `atomic_add_unless`, locks, reference
counts, bit operations, gets it with them. Operations on per-CPU memory are the other patch's (arm64_percpu_form), but
for those that are a `SWP` or `CAS`.

Why: on some cores an atomic whose line is not held exclusively is performed far away, at the interconnect, and a
prefetch for write first has it performed near. Published with it on: futex wake-ups 5 to 17 % better, tbench 2 to 7 %,
lock torture 1 to 3 % worse. So it is a choice for a machine and a workload, not a default.

Switch: CONFIG_ARM64_LSE_PREFETCH, off by default, compiles it in; then the boot option `lse_prefetch=on` turns it on.
Without the option each site is a `NOP`; exchanges and what has spare room in its LL/SC loop gain no instruction. Any
other value is refused in the kernel's log, and the option stays off.

On a system without LSE the option has no effect, and the log says so.

Kernels: 6.1, 6.12 and 7.3. A kernel whose headers look different is refused by name of the file.

Upstream (late 2026): an option of this kind was proposed and never answered; 7.3.4 has none (its atomic_lse.h has no
prefetch, and its Kconfig no option for one).
"""

# ruff: noqa: E101 (Kconfig text is indented by a tab and two blanks)
from lwkernel.edits import Edit

ARCHES = ("arm64",)
SERIES = ("6.1", "6.12", "7.3")
CONFIG = ("CONFIG_ARM64_LSE_PREFETCH=y",)

FILES = {
    "arch/arm64/include/asm/alternative_also.h": "arm64/alternative_also.h",
    "arch/arm64/include/asm/lse_prefetch.h": "arm64/lse_prefetch.h",
    "arch/arm64/kernel/lse_prefetch_option.h": "arm64/lse_prefetch_option.h",
    "arch/arm64/kernel/lse_prefetch.c": "arm64/lse_prefetch.c",
}

HELP = """\
config ARM64_LSE_PREFETCH
	bool "Prefetch for write before LSE atomics, by a boot option"
DEPENDS	help
	  With lse_prefetch=on on the kernel's command line, every LSE atomic
	  is preceded by a prefetch of its location for writing. Cores that
	  perform atomics far away then perform them near. Without it, the
	  place of the prefetch is a NOP.

	  Which is faster depends on machine and workload: measure both.
	  If unsure, say N.
"""

FEATURE = """\
#ifdef CONFIG_ARM64_LSE_PREFETCH
	{
		.desc = "prefetch for write before LSE atomics (lse_prefetch=on)",
		.capability = ARM64_LSE_PREFETCH,
		.type = ARM64_CPUCAP_SYSTEM_FEATURE,
		.matches = has_lse_prefetch,
	},
#endif
"""

# LSE atomics are a choice of the configuration up to 6.x, and always there in 7.3.
DEPENDS = {"6.1": "\tdepends on ARM64_LSE_ATOMICS\n", "6.12": "\tdepends on ARM64_LSE_ATOMICS\n", "7.3": ""}

EDITS = (
    *(
        Edit(
            path="arch/arm64/Kconfig",
            before=r'^endmenu # "ARMv8\.1 architectural features"$',
            series=(series,),
            text=HELP.replace("DEPENDS", depends) + "\n",
        )
        for series, depends in DEPENDS.items()
    ),
    Edit(path="arch/arm64/tools/cpucaps", before=r"^MISMATCHED_CACHE_TYPE$", text="LSE_PREFETCH"),
    Edit(
        path="arch/arm64/kernel/Makefile",
        before=r"^obj-\$\(CONFIG_ARM64_MTE\)",
        text="obj-$(CONFIG_ARM64_LSE_PREFETCH)	+= lse_prefetch.o",
    ),
    Edit(
        path="arch/arm64/kernel/cpufeature.c",
        before=r"^/\* Kernel representation of AT_HWCAP",
        text='#include "lse_prefetch_option.h"\n\n',
    ),
    Edit(
        path="arch/arm64/kernel/cpufeature.c",
        after=r"^static const struct arm64_cpu_capabilities arm64_features\[\] = \{$",
        text=FEATURE,
    ),
    # Before the condition: exchanges name the macro in kernels without LSE, too.
    Edit(
        path="arch/arm64/include/asm/lse.h",
        after=r"^#include <asm/atomic_ll_sc\.h>$",
        text="#include <asm/lse_prefetch.h>",
    ),
    # Every asm statement of the LSE operations begins with the preamble: two widths of operations without a value and
    # of fetching ones, dec_if_positive, and compare-and-swap of one and of two words.
    Edit(path="arch/arm64/include/asm/atomic_lse.h", after=r"^\t__LSE_PREAMBLE\b", text="\tLSE_PREFETCH", times=7),
    # swp, three NOPs and, with full order, a fourth in the place of the barrier: the prefetch takes the place of one.
    Edit(
        path="arch/arm64/include/asm/cmpxchg.h",
        after=r"#nop_lse\)",
        text='\tLSE_ALSO_PREFETCH("\\tswp" #acq_lse #rel #sfx "\\t%" #w "3, %" #w "0, %2\\n"\n\t\t__nops(2) "\\t"'
        " #nop_lse)",
    ),
)

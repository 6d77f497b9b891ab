# SPDX-License-Identifier: GPL-2.0-only
"""arm64: prefetch for write before LSE atomics, chosen at boot

What: every atomic operation of the kernel that is one LSE instruction gets `PRFM PSTL1STRM` on its
location before it: the operations without a value (`STADD`, `STCLR`, `STSET`, `STEOR`), those that
fetch or return (`LDADD`, `LDCLR`, `LDSET`, `LDEOR`, in all four orders, 32 and 64 bits), `SWP` and
`CAS` of 8 to 64 bits, `CASP`, and the loop of `atomic64_dec_if_positive`. The instruction itself
stays. What is built of these, `atomic_add_unless`, locks, reference counts, bit operations, gets it
with them. Operations on per-CPU memory are the other patch's (arm64_percpu_form), but for those
that are a `SWP` or `CAS`.

Why: a core that performs atomics near, in its own cache, waits for the line first. A prefetch for
write asks for it early, as LL/SC loops have done since 0ea366f5e1b6; that is the reason of the RFC
below. On a core that performs some atomics far away unless it holds the line, the prefetch also
makes these near. Published with the RFC, on one machine of the first kind: futex wake-ups 5 to 17 %
better, tbench 2 to 7 %, lock torture 1 to 3 % worse. So it is a choice for a machine and a
workload, not a default.

Switch: option and configuration have the published names. CONFIG_ARM64_NEAR_ATOMICS_OPTIMIZATION,
off by default, compiles it in; then the boot option `arm64.near_atomics_optimization=` turns it on,
in every spelling of kstrtobool, or without a value. Each site is one alternative of its own: a
`NOP`, or the prefetch. Any other value is refused in the kernel's log ("Malformed early option"),
and the option stays off. A misspelt name is not: the kernel takes an unknown name with a dot for a
module's parameter.

On a system without LSE the option has no effect, and the log says so.

Kernels: 6.1, 6.12 and 7.3. A kernel whose headers look different is refused by name of the file.

Upstream (late 2026): names and reason are those of Yicong Yang's RFC of 19 September 2025, which
was never answered; the code is ours. 7.3.4 has none of it (its atomic_lse.h has no prefetch, and
its Kconfig no option for one)."""

# ruff: noqa: E101 (Kconfig text is indented by a tab and two blanks)
from lwkernel.edits import Edit, Step

ARCHES = ("arm64",)
SERIES = ("6.1", "6.12", "7.3")
CONFIG = ("CONFIG_ARM64_NEAR_ATOMICS_OPTIMIZATION=y",)
TESTS = ("CONFIG_ARM64_NEAR_ATOMICS_KUNIT_TEST=y",)

KCONFIG = {
    "path": "arch/arm64/Kconfig",
    "before": r'^endmenu # "ARMv8\.1 architectural features"$',
}

HELP = """\
config ARM64_NEAR_ATOMICS_OPTIMIZATION
	bool "Prefetch for write before LSE atomics, by a boot option"
DEPENDS	help
	  With arm64.near_atomics_optimization=1 on the kernel's command
	  line, every LSE atomic is preceded by a prefetch of its location
	  for writing. Where the CPU performs atomics in its own cache, the
	  line is then on its way early, as it is for LL/SC loops. Without
	  it, the place of the prefetch is a NOP.

	  Which is faster depends on the machine and on the workload:
	  measure both. If unsure, say N.

"""

# LSE atomics are a choice of the configuration up to 6.x, and always there in 7.3.
DEPENDS = {
    "6.1": "\tdepends on ARM64_LSE_ATOMICS\n",
    "6.12": "\tdepends on ARM64_LSE_ATOMICS\n",
    "7.3": "",
}

OPTION = """\
#ifdef CONFIG_ARM64_NEAR_ATOMICS_OPTIMIZATION
static bool near_atomics_optimization __ro_after_init;

static int __init early_near_atomics_optimization(char *word)
{
	/* As for any boolean parameter, its bare name means yes. */
	return kstrtobool(word ?: "y", &near_atomics_optimization);
}
early_param("arm64.near_atomics_optimization", early_near_atomics_optimization);

static int __init near_atomics_optimization_report(void)
{
	if (near_atomics_optimization && !cpus_have_cap(ARM64_HAS_LSE_ATOMICS))
		pr_notice("near_atomics_optimization: no effect: this system has no LSE atomics\\n");
	return 0;
}
core_initcall(near_atomics_optimization_report);

/* The LL/SC loops of a system without LSE prefetch anyway. */
static bool has_lse_prefetch(const struct arm64_cpu_capabilities *entry, int scope)
{
	return near_atomics_optimization && has_cpuid_feature(entry, scope);
}
#endif

"""

FEATURE = """\
#ifdef CONFIG_ARM64_NEAR_ATOMICS_OPTIMIZATION
	{
		.desc = "Prefetch before LSE atomics (arm64.near_atomics_optimization)",
		.capability = ARM64_LSE_PREFETCH,
		.type = ARM64_CPUCAP_SYSTEM_FEATURE,
		.matches = has_lse_prefetch,
FIELDS	},
#endif"""

FIELDS = {
    "6.1": """\
		.sys_reg = SYS_ID_AA64ISAR0_EL1,
		.sign = FTR_UNSIGNED,
		.field_pos = ID_AA64ISAR0_EL1_ATOMIC_SHIFT,
		.field_width = 4,
		.min_field_value = ID_AA64ISAR0_EL1_ATOMIC_IMP,
""",
    "6.12": "\t\tARM64_CPUID_FIELDS(ID_AA64ISAR0_EL1, ATOMIC, IMP)\n",
    "7.3": "\t\tARM64_CPUID_FIELDS(ID_AA64ISAR0_EL1, ATOMIC, IMP)\n",
}

MACRO = """
#ifdef CONFIG_ARM64_NEAR_ATOMICS_OPTIMIZATION
#include <asm/alternative-macros.h>
/* In front of an LSE atomic on the operand [v]. */
#define __LSE_PREFETCH	ALTERNATIVE("nop", "prfm\\tpstl1strm, %[v]", ARM64_LSE_PREFETCH)
#else
#define __LSE_PREFETCH	""
#endif"""

PARAMETER = """\
	arm64.near_atomics_optimization=
			[TAGS] Prefetch for write before LSE atomics.
			Format: <bool>
			For systems that perform atomics near, in the
			CPU's own cache. Whether it is faster depends on
			the machine and the workload. No effect on systems
			without LSE atomics. Needs a kernel with
			CONFIG_ARM64_NEAR_ATOMICS_OPTIMIZATION.
			Default: off

"""

CPUFEATURE = "arch/arm64/kernel/cpufeature.c"
PARAMETERS = "Documentation/admin-guide/kernel-parameters.txt"
XCHG = "arch/arm64/include/asm/cmpxchg.h"

OPTION_EDITS = (
    *(
        Edit(**KCONFIG, series=(series,), text=HELP.replace("DEPENDS", depends))
        for series, depends in DEPENDS.items()
    ),
    Edit(path="arch/arm64/tools/cpucaps", before=r"^MISMATCHED_CACHE_TYPE$", text="LSE_PREFETCH"),
    Edit(
        path=CPUFEATURE,
        before=r"^static const struct arm64_cpu_capabilities arm64_features\[\] = \{$",
        text=OPTION,
    ),
    *(
        Edit(
            path=CPUFEATURE,
            inside=r"^\t\t\.capability = ARM64_HAS_LSE_ATOMICS,$",
            until=r"^\t\},$",
            after=r"^\t\},$",
            text=FEATURE.replace("FIELDS", fields),
            series=(series,),
        )
        for series, fields in FIELDS.items()
    ),
    # Before the condition: exchanges name the macro in kernels without LSE, too.
    Edit(
        path="arch/arm64/include/asm/lse.h", after=r"^#include <asm/atomic_ll_sc\.h>$", text=MACRO
    ),
    # Every asm statement of the LSE operations begins with the preamble: two widths of operations
    # without a value and of fetching ones, dec_if_positive, and compare-and-swap of one and of two
    # words.
    Edit(
        path="arch/arm64/include/asm/atomic_lse.h",
        after=r"^\t__LSE_PREAMBLE\b",
        text="\t__LSE_PREFETCH",
        times=7,
    ),
    # An exchange is itself an alternative, of LL/SC loop and swp: the prefetch is a site of its own
    # before it.
    Edit(
        path=XCHG,
        replace=r"asm volatile\(ARM64_LSE_ATOMIC_INSN\(",
        text="asm volatile(__LSE_PREFETCH ARM64_LSE_ATOMIC_INSN(",
    ),
    Edit(path=XCHG, replace=r'(?<=, )"\+Q" \(\*\(u##sz ', text=r"[v] \g<0>"),
    # The namespace is in alphabetical order, in 6.1 with an exception.
    *(
        Edit(
            path=PARAMETERS,
            before=rf"^\tarm64\.{next_one}\b",
            series=(series,),
            text=PARAMETER.replace("TAGS", tags),
        )
        for series, next_one, tags in (
            ("6.1", "nobti", "ARM64"),
            ("6.12", "no32bit_el0", "ARM64,EARLY"),
            ("7.3", "no32bit_el0", "ARM64,EARLY"),
        )
    ),
)

TEST_HELP = """\
config ARM64_NEAR_ATOMICS_KUNIT_TEST
	tristate "KUnit test of the prefetches before LSE atomics" if !KUNIT_ALL_TESTS
	depends on ARM64_NEAR_ATOMICS_OPTIMIZATION && KUNIT
	default KUNIT_ALL_TESTS
	help
	  Tests that each kind of atomic operation has its result, leaves
	  its neighbours alone, and has a prefetch for write or a NOP in
	  front of its LSE instruction, as the boot option says.

	  If unsure, say N.

"""

RFC = "https://lists.infradead.org/pipermail/linux-arm-kernel/2025-September/1064419.html"
CREDIT = "Suggested-by: Yicong Yang <yangyicong@hisilicon.com>"

COVER = (
    "arm64: prefetch for write before LSE atomics, by a boot option",
    f"""
    A CPU may perform an LSE atomic near, in its own cache, or far, at the interconnect or where the
    line's data are. Yicong Yang's RFC of September 2025 [1] prefetches the line for write in front
    of each on systems of the first kind, as LL/SC loops have done since commit 0ea366f5e1b6
    ("arm64: atomics: prefetch the destination word for write prior to stxr"). It was not answered.
    This series takes up its option, its configuration symbol and its reason; the code is new.

    Operations with and without a value, SWP, CAS, CASP and dec_if_positive have the prefetch. Each
    is one alternative of its own. An exchange is an alternative already, of its
    LL/SC loop and SWP; the prefetch is a site in front of it, and not a third body of that
    alternative, whose result would depend on the order of the table. The price is one NOP in front
    of each site on systems that do not use the option. The second patch is a KUnit test that looks
    at values, neighbours and the instructions in memory.

    Measured: the RFC reports futex wake-ups 5 to 17 % faster and lock torture 1 to 3 % slower with
    its option, on a HIP09 server. Nothing of this series was run on hardware. Under emulation
    (QEMU, with LSE and on cortex-a53 and cortex-a57 without) the code at every site is what the
    option asks for, and the KUnit tests pass; an atomic addition executes one instruction more.

    Link: {RFC} [1]
    """,
)

STEPS = (
    Step(
        subject="arm64: lse: prefetch for write before atomics, by a boot option",
        message="""
        LL/SC loops begin with a prefetch for write. LSE instructions that the CPU performs in its
        own cache wait for the line as well, and have none. The RFC "arm64: atomics: add
        optimization support for implementations using near atomics" of September 2025 has this
        option; the code is new.

        Put a NOP in front of every LSE atomic that becomes PRFM PSTL1STRM where the boot option
        arm64.near_atomics_optimization is given: operations with and without a value, SWP, CAS,
        CASP and dec_if_positive. The atomic instruction itself stays what it is. Systems without
        LSE ignore the option and say so in the log.

        Operations on per-CPU memory are left as they are, but for those that are a SWP or CAS.
        """,
        tags=CREDIT,
        edits=OPTION_EDITS,
    ),
    Step(
        subject="arm64: lse: test the prefetches before atomics",
        message="""
        Add a KUnit test that performs each kind of atomic operation between two canaries, and that
        reads the code of each: in front of every LSE instruction there has to be a prefetch for
        write of the same register where the option is on, and a NOP where it is off.
        """,
        files={"arch/arm64/kernel/near_atomics_kunit.c": "arm64/near_atomics_kunit.c"},
        edits=(
            Edit(**KCONFIG, text=TEST_HELP),
            Edit(
                path="arch/arm64/kernel/Makefile",
                before=r"^obj-\$\(CONFIG_ARM64_MTE\)",
                text="obj-$(CONFIG_ARM64_NEAR_ATOMICS_KUNIT_TEST)	+= near_atomics_kunit.o",
            ),
        ),
    ),
)

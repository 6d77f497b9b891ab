# SPDX-License-Identifier: GPL-2.0-only
"""SRCU readers without memory barriers, which one context may begin and another end: for kernels
that lack them.

What: in 6.1 and 6.12 the readers: init_srcu_struct_fast_updown(), DEFINE_STATIC_SRCU_FAST_UPDOWN(),
srcu_read_lock_fast_updown(), srcu_down_read_fast() and their counterparts, by the names of 7.x. A
reader counts on its CPU and executes no barrier. For domains made so, the updater's scan puts a
grace period of RCU between its two sums, which orders every CPU, in place of its own barrier. In
all three kernels a choice of how these readers count, and the types of refscale that the kernel
lacks: 12 of 7.3's, and srcu-fast-updown-irqsave, which counts with interrupts off whatever the
choice.

Why: a pair of barriers costs a normal reader about ten nanoseconds; a domain with many readers and
few updates need not pay them. Grace periods of such a domain last two of RCU's longer. Where
this_cpu_inc() is slow, as the store form is on some arm64 cores, interrupts off around a plain
increment are faster: published for Neoverse V2 are 100 nanoseconds a pair against 13, with STADD.
7.3 counts by LDADD (6.18 and later do), for which nothing was published.

Switch: CONFIG_SRCU_FAST_UPDOWN compiles the readers into 6.1 and 6.12; only domains that ask for it
behave differently. CONFIG_SRCU_FAST_UPDOWN_IRQSAVE compiles the choice in; then the boot option
`srcutree.fast_updown_irqsave=1` has all fast-updown readers count with interrupts off. The choice
is in /sys/module/srcutree/parameters/fast_updown_irqsave. It forbids srcu_read_lock_nmisafe() on
these domains, whose counts in NMI handlers a plain increment could lose; 7.x forbids that in any
case.

Kernels: 6.1, 6.12 and 7.3. In 6.1 and 6.12 a reader counts in words of its CPU, locks and unlocks
by index beside each other, and the updater's scan is one function, called by a worker that may
sleep. Proof: src/srcu/gp.h, whose scan this is. In 6.1 that worker runs on the queue that carries
out RCU's expedited grace periods, so that the scan there waits for a normal one.

A backport for 6.1 and 6.12. Upstream: SRCU-fast since 6.15, up-down readers merged for 6.19
(mainline's merge 6fcc739a04b2; that it is 6.19's follows from the patches' date, November 2025),
and refscale's types for both (read in 7.3.4); the choice is not there.
"""

# ruff: noqa: E101 (Kconfig text is indented by a tab and two blanks)
from lwkernel import refscale
from lwkernel.edits import Edit, Step

ARCHES = ("arm64", "x86_64")
SERIES = ("6.1", "6.12", "7.3")
LACKING = ("6.1", "6.12")
CONFIG = {
    **dict.fromkeys(LACKING, ("CONFIG_SRCU_FAST_UPDOWN=y", "CONFIG_SRCU_FAST_UPDOWN_IRQSAVE=y")),
    "7.3": ("CONFIG_SRCU_FAST_UPDOWN_IRQSAVE=y",),
}
TESTS = ("CONFIG_SRCU_FAST_UPDOWN_KUNIT_TEST=y",)

TREE_C = "kernel/rcu/srcutree.c"
TREE_H = "include/linux/srcutree.h"
REFSCALE = "kernel/rcu/refscale.c"


def barrier_on_all_cpus(series: str, wait: str) -> Edit:
    """The updater's barrier; `wait` is how it waits for RCU."""
    return Edit(
        path=TREE_C,
        series=(series,),
        after=r"^static void srcu_delay_timer\(struct timer_list \*t\);$",
        text=f"""
/*
 * Every CPU passes through a full barrier between the call and its return. A reader without
 * barriers whose unlock was summed before is thereby over with all its accesses; one whose lock is
 * not summed behind it sees what the updater did before.
 */
static void srcu_barrier_on_all_cpus(struct srcu_struct *ssp)
{{
{wait}
}}

static bool srcu_has_fast_readers(struct srcu_struct *ssp)
{{
	return IS_ENABLED(CONFIG_SRCU_FAST_UPDOWN) && ssp->fast_readers;
}}
""",
    )


WAITS = {
    # The scan's worker occupies the queue that would carry out an expedited grace period, no matter
    # who asks for one: synchronize_rcu() becomes expedited with rcu_expedited=1.
    "6.1": "\twait_rcu_gp(call_rcu);",
    "6.12": """\
	if (ULONG_CMP_LT(READ_ONCE(ssp->srcu_sup->srcu_gp_seq),
			 READ_ONCE(ssp->srcu_sup->srcu_gp_seq_needed_exp)))
		synchronize_rcu_expedited();
	else
		synchronize_rcu();""",
}

# A domain at build time, beside the kernel's own macros. A module's is found by its section when it
# is loaded.
IN_SECTION = """\
	extern struct srcu_struct * const __srcu_struct_##name;
	struct srcu_struct * const __srcu_struct_##name
		__section("___srcu_struct_ptrs") = &name"""
DEFINED = {
    "6.1": (
        f"""\
# define __DEFINE_SRCU_FAST_UPDOWN(name, is_static)
	is_static struct srcu_struct name = {{ .fast_readers = true }};
{IN_SECTION}""",
        """\
# define __DEFINE_SRCU_FAST_UPDOWN(name, is_static)
	static DEFINE_PER_CPU(struct srcu_data, name##_srcu_data);
	is_static struct srcu_struct name = {
		.sda = &name##_srcu_data,
		.lock = __SPIN_LOCK_UNLOCKED(name.lock),
		.srcu_gp_seq_needed = -1UL,
		.work = __DELAYED_WORK_INITIALIZER(name.work, NULL, 0),
		.fast_readers = true,
		__SRCU_DEP_MAP_INIT(name)
	}""",
    ),
    "6.12": (
        f"""\
# define __DEFINE_SRCU_FAST_UPDOWN(name, is_static)
	static struct srcu_usage name##_srcu_usage =
		__SRCU_USAGE_INIT(name##_srcu_usage);
	is_static struct srcu_struct name = {{
		.fast_readers = true,
		__SRCU_STRUCT_INIT_COMMON(name, name##_srcu_usage)
	}};
{IN_SECTION}""",
        """\
# define __DEFINE_SRCU_FAST_UPDOWN(name, is_static)
	static DEFINE_PER_CPU(struct srcu_data, name##_srcu_data);
	static struct srcu_usage name##_srcu_usage =
		__SRCU_USAGE_INIT(name##_srcu_usage);
	is_static struct srcu_struct name = {
		.sda = &name##_srcu_data,
		.fast_readers = true,
		__SRCU_STRUCT_INIT_COMMON(name, name##_srcu_usage)
	}""",
    ),
}


def defined(series: str) -> Edit:
    """DEFINE_SRCU_FAST_UPDOWN() and DEFINE_STATIC_SRCU_FAST_UPDOWN()."""
    module, built_in = ("\n".join(continued(text)) for text in DEFINED[series])
    return Edit(
        path=TREE_H,
        series=(series,),
        after=r"^#define DEFINE_STATIC_SRCU\(name\)",
        text=f"""
/* The same for domains with fast-updown readers. */
#ifdef MODULE
{module}
#else
{built_in}
#endif
#define DEFINE_SRCU_FAST_UPDOWN(name)		__DEFINE_SRCU_FAST_UPDOWN(name, /* not static */)
#define DEFINE_STATIC_SRCU_FAST_UPDOWN(name)	__DEFINE_SRCU_FAST_UPDOWN(name, static)""",
    )


def continued(text: str) -> list[str]:
    """Lines of a macro with their backslashes, but for the last."""
    lines = text.split("\n")
    return [f"{line}\t\\" for line in lines[:-1]] + lines[-1:]


READERS = (
    Edit(
        path="kernel/rcu/Kconfig",
        series=LACKING,
        before=r"^config FORCE_TASKS_RCU$",
        text="""\
config SRCU_FAST_UPDOWN
	bool "SRCU readers without memory barriers"
	depends on TREE_SRCU
	help
	  Adds domains whose readers execute no memory barrier and may end in
	  another context than they began in. Only those that are made by
	  init_srcu_struct_fast_updown() or DEFINE_STATIC_SRCU_FAST_UPDOWN()
	  are: their grace periods take longer, by two of RCU's.

	  If unsure, say N.

""",
    ),
    # Behind an index of four bytes and before a pointer, or among the updater's fields: no reader's
    # line grows.
    Edit(
        path=TREE_H,
        series=LACKING,
        after=r"^\tunsigned int srcu_idx;",
        text="\tbool fast_readers;\t\t\t/* Readers may lack barriers. */",
    ),
    *map(defined, LACKING),
    # A domain made at build time keeps what its definition says.
    Edit(
        path=TREE_C,
        series=LACKING,
        inside=r"^static int init_srcu_struct_fields\(",
        after=r"^\tssp->srcu_idx = 0;$",
        text="\tif (!is_static)\n\t\tssp->fast_readers = false;",
    ),
    # 6.1 initialises a module's domains as if they were not static.
    Edit(
        path=TREE_C,
        series=("6.1",),
        inside=r"^static int srcu_module_coming\(",
        after=r"^\tfor \(i = 0;",
        text="\t\tbool fast_readers = (*sspp)->fast_readers;\n",
    ),
    Edit(
        path=TREE_C,
        series=("6.1",),
        inside=r"^static int srcu_module_coming\(",
        after=r"^\t\tret = init_srcu_struct\(",
        text="\t\tsspp[-1]->fast_readers = fast_readers;",
    ),
    Edit(
        path="include/linux/srcu.h",
        series=LACKING,
        before=r"^DEFINE_LOCK_GUARD_1\(srcu, struct srcu_struct,$",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n#include <linux/srcu-fast-updown.h>\n#endif\n",
    ),
    *(barrier_on_all_cpus(series, wait) for series, wait in WAITS.items()),
    Edit(
        path=TREE_C,
        series=LACKING,
        inside=r"^static bool srcu_readers_active_idx_check\(",
        after=r"^\tunlocks = srcu_readers_unlock_idx\(ssp, idx\);$",
        text="""
	if (srcu_has_fast_readers(ssp)) {
		/* While readers are inside, a grace period of RCU would prove nothing. */
		if (srcu_readers_lock_idx(ssp, idx) != unlocks)
			return false;
		srcu_barrier_on_all_cpus(ssp);
	}
""",
    ),
)

CHOICE = """\
#ifdef CONFIG_SRCU_FAST_UPDOWN_IRQSAVE
/* Whether fast-updown readers count with interrupts off. Chosen at boot, for good. */
struct static_key_false srcu_fast_updown_irqsave = STATIC_KEY_FALSE_INIT;
EXPORT_SYMBOL_GPL(srcu_fast_updown_irqsave);
static bool fast_updown_irqsave;

static int fast_updown_irqsave_set(const char *val, const struct kernel_param *kp)
{
	int ret = param_set_bool(val, kp);

	if (!ret && fast_updown_irqsave)
		static_branch_enable(&srcu_fast_updown_irqsave);
	else if (!ret)
		static_branch_disable(&srcu_fast_updown_irqsave);
	return ret;
}

static const struct kernel_param_ops fast_updown_irqsave_ops = {
	.flags = KERNEL_PARAM_OPS_FL_NOARG,
	.set = fast_updown_irqsave_set,
	.get = param_get_bool,
};
module_param_cb(fast_updown_irqsave, &fast_updown_irqsave_ops, &fast_updown_irqsave, 0444);
#endif

"""

COUNT = """\
/*
 * A reader's count with interrupts off around a plain increment. Faster than this_cpu_inc() where
 * that is an atomic instruction that is performed far away; not for NMI handlers.
 * Marked, because the updater reads it from another CPU.
 */
#define __srcu_inc_irqsave(pcp)				\\
do {							\\
	typeof(raw_cpu_ptr(&(pcp))) __word;		\\
	unsigned long __flags;				\\
							\\
	raw_local_irq_save(__flags);			\\
	__word = raw_cpu_ptr(&(pcp));			\\
	WRITE_ONCE(*__word, READ_ONCE(*__word) + 1);	\\
	raw_local_irq_restore(__flags);			\\
} while (0)

#ifdef CONFIG_SRCU_FAST_UPDOWN_IRQSAVE
DECLARE_STATIC_KEY_FALSE(srcu_fast_updown_irqsave);

#define srcu_fast_updown_inc(pcp)					\\
do {									\\
	if (static_branch_unlikely(&srcu_fast_updown_irqsave))		\\
		__srcu_inc_irqsave(pcp);				\\
	else								\\
		this_cpu_inc(pcp);					\\
} while (0)
#else
#define srcu_fast_updown_inc(pcp)	this_cpu_inc(pcp)
#endif

"""

PARAMETER = """\
	srcutree.fast_updown_irqsave= [KNL]
			Format: <bool>
			SRCU-fast-updown readers count with interrupts
			off around a plain increment, in place of
			this_cpu_inc(). Faster on systems that perform
			the instruction of this_cpu_inc() far away from
			the CPU, slower on others. Needs a kernel with
			CONFIG_SRCU_FAST_UPDOWN_IRQSAVE.
			Default: off

"""


def counting(path: str, function: str, series: tuple[str, ...]) -> Edit:
    """A reader's increment, by choice."""
    return Edit(
        path=path,
        series=series,
        inside=function,
        replace=r"\bthis_cpu_inc\(",
        text="srcu_fast_updown_inc(",
    )


OPTION = (
    *(
        Edit(
            path="kernel/rcu/Kconfig",
            series=series,
            before=r"^config FORCE_TASKS_RCU$",
            text=f"""\
config SRCU_FAST_UPDOWN_IRQSAVE
	bool "SRCU-fast-updown readers with interrupts off, by a boot option"
	depends on {depends}
	help
	  With srcutree.fast_updown_irqsave=1 on the kernel's command line,
	  SRCU-fast-updown readers count by a plain increment with interrupts
	  off. That is faster where this_cpu_inc() is an atomic instruction
	  that the CPU performs far away.

	  If unsure, say N.

""",
        )
        for series, depends in (
            (LACKING, "SRCU_FAST_UPDOWN && !NEED_SRCU_NMI_SAFE"),
            (("7.3",), "TREE_SRCU && !NEED_SRCU_NMI_SAFE"),
        )
    ),
    Edit(
        path=TREE_H,
        after=r"^#include <linux/completion\.h>$",
        text="".join(
            f"#include <linux/{name}.h>\n" for name in ("irqflags", "jump_label", "percpu")
        ),
    ),
    Edit(
        path=TREE_H,
        before=r"^void synchronize_srcu_expedited\(struct srcu_struct \*ssp\);$",
        text=COUNT,
    ),
    counting("include/linux/srcu-fast-updown.h", r"__srcu_count_fast\(unsigned", LACKING),
    counting(TREE_H, r"\*__srcu_read_lock_fast_updown\(struct srcu_struct \*ssp\)$", ("7.3",)),
    counting(TREE_H, r"^__srcu_read_unlock_fast_updown\(", ("7.3",)),
    Edit(path=TREE_C, before=r"^/\* Overflow-check frequency\.", text=CHOICE),
    Edit(
        path="Documentation/admin-guide/kernel-parameters.txt",
        before=r"^\tsrcutree\.srcu_max_nodelay \[KNL\]$",
        text=PARAMETER,
    ),
)

TORTURE = (
    Edit(
        path="kernel/rcu/rcutorture.c",
        series=LACKING,
        before=r"^/\* As above, but broken due to inappropriate reader extension\. \*/$",
        text='#ifdef CONFIG_SRCU_FAST_UPDOWN\n#include "rcutorture-fast-updown.h"\n#endif\n',
    ),
    Edit(
        path="kernel/rcu/rcutorture.c",
        series=LACKING,
        before=r"^\t\t&trivial_ops,$",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n\t\t&srcu_fast_ops,\n#endif",
    ),
    Edit(
        path="kernel/rcu/rcutorture.c",
        series=LACKING,
        before=r"^\tif \(!torture_init_begin\(torture_type, verbose\)\)$",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n\tsrcu_fast_torture_fill();\n#endif",
    ),
)

# How a reader finds its counters, where it is not the readers' own function that counts.
IRQSAVE = {
    **dict.fromkeys(
        LACKING, refscale.irqsave("*locks", "locks = __srcu_fast_locks(srcu_ctlp);", "locks[2]")
    ),
    "7.3": refscale.irqsave(
        "scp->srcu_locks.counter",
        "scp = READ_ONCE(srcu_ctlp->srcu_ctrp);",
        "scp->srcu_unlocks.counter",
    ),
}
UNDER = {**dict.fromkeys(LACKING, "CONFIG_SRCU_FAST_UPDOWN"), "7.3": "CONFIG_TREE_SRCU"}
INIT = {"6.1": ("void", ""), "6.12": ("bool", "const "), "7.3": ("bool", "const ")}


def benchmark(series: str) -> tuple[Edit, ...]:
    """The types that refscale of a series lacks."""
    readers = (*(refscale.FAST if series in LACKING else ()), IRQSAVE[series])
    others = refscale.OTHERS * (series in LACKING) + (refscale.JIFFIES,) * (series == "6.1")
    under = f"#ifdef {UNDER[series]}\n{{}}\n#endif"
    fast = under.format(refscale.code(readers, *INIT[series]))
    text = f"// Readers of SRCU without memory barriers.\n{fast}\n\n"
    if others:
        text += f"{refscale.code(others, *INIT[series])}\n"
    rows = under.format(refscale.rows(readers)) + f"\n{refscale.rows(others)}" * bool(others)
    last = "rwsem" if series == "6.1" else "typesafe_ref"
    return (
        Edit(
            path=REFSCALE,
            series=(series,),
            before=r"^static void rcu_scale_one_reader\(void\)$",
            text=text,
        ),
        Edit(path=REFSCALE, series=(series,), after=rf"^\t\t&{last}_ops, ", text=rows),
    )


HARNESS = (
    Edit(
        path=REFSCALE,
        series=LACKING,
        after=r"^#include <linux/sched\.h>$",
        text="#include <linux/sched/clock.h>",
    ),
    Edit(
        path=REFSCALE,
        series=LACKING,
        after=r"^\tvoid \(\*delaysection\)\(",
        text="\tbool enable_irqs;",
    ),
    *(
        Edit(
            path=REFSCALE,
            series=LACKING,
            inside=r"^ref_scale_reader\(void \*arg\)$",
            replace=rf"^\t(local_irq_{what}\(flags\);)$",
            text="\tif (!cur_ops->enable_irqs)\n\t\t\\1",
        )
        for what in ("save", "restore")
    ),
)

TEST = (
    Edit(
        path="kernel/rcu/Kconfig.debug",
        before=r"^config RCU_CPU_STALL_TIMEOUT$",
        text="""\
config SRCU_FAST_UPDOWN_KUNIT_TEST
	tristate "KUnit test of SRCU-fast-updown readers" if !KUNIT_ALL_TESTS
	depends on SRCU_FAST_UPDOWN_IRQSAVE && KUNIT
	default KUNIT_ALL_TESTS
	help
	  Tests that grace periods wait for SRCU-fast-updown readers that end
	  in another context, and that increments with interrupts off are
	  never lost.

	  If unsure, say N.

""",
    ),
    Edit(
        path="kernel/rcu/Makefile",
        after=r"^obj-\$\(CONFIG_RCU_REF_SCALE_TEST\)",
        text="obj-$(CONFIG_SRCU_FAST_UPDOWN_KUNIT_TEST) += srcu_fast_updown_kunit.o",
    ),
)

COVER = (
    "srcu: SRCU-fast-updown readers with interrupts off, by a boot option",
    """
    An SRCU-fast-updown reader is two increments of words of its CPU, by this_cpu_inc(). On arm64
    that is an atomic instruction, which some cores perform far away, at the interconnect: about 100
    nanoseconds a pair were published for Neoverse V2, against 13 with interrupts off around plain
    increments. These readers are not for NMI handlers, so that interrupts off are enough.

    Those figures are of this_cpu_inc() as STADD, which it was until 6.17. Since 6.18 it is LDADD,
    which those cores perform near: whether interrupts off still gain anything there, as in 7.3, has
    to be measured, and this series has not been run on hardware.

    This series lets the boot decide, by srcutree.fast_updown_irqsave, and adds a type to refscale
    that counts with interrupts off whatever the option says, so that one boot compares the two. The
    option is a static branch, and compiled out by default.

    In a kernel without SRCU-fast-updown the series begins with the readers themselves, with
    rcutorture's type for them and with the types of refscale that later kernels have.
    """,
)

STEPS = (
    Step(
        subject="srcu: add readers without memory barriers, SRCU-fast-updown",
        message="""
        A normal SRCU reader executes a full memory barrier on both sides. Where readers are many
        and updates few, that is most of what a reader costs.

        Add domains whose readers execute none: the updater's scan sums the unlocks, waits for a
        grace period of RCU, which orders every CPU, and then sums the locks. Readers may end in
        another context than they began in. Names are those of later kernels. Domains are made by
        init_srcu_struct_fast_updown() or defined by DEFINE_STATIC_SRCU_FAST_UPDOWN(); all others
        keep their scan.
        """,
        files={
            "include/linux/srcu-fast-updown.h": dict.fromkeys(
                LACKING, "srcu_fast_updown/srcu-fast-updown.h"
            ),
        },
        edits=READERS,
    ),
    Step(
        subject="srcu: count SRCU-fast-updown readers with interrupts off, by an option",
        message="""
        Where this_cpu_inc() is an atomic instruction that is performed far away from the CPU, an
        SRCU-fast-updown reader is slower than with interrupts off around a plain increment.

        Add the boot option srcutree.fast_updown_irqsave, off by default, that makes these readers
        count so. Both ways count in the same words of the same CPU, and neither is divided by an
        interrupt, so that they agree with each other. A plain increment with interrupts off is an
        RCU reader as well, which is what the updater relies on.
        """,
        edits=OPTION,
    ),
    Step(
        subject="rcutorture: add a type for SRCU-fast-updown",
        message="""
        Add torture_type=srcu_fast_updown: as srcud, but with SRCU-fast-updown readers of a domain
        of that kind.
        """,
        files={
            "kernel/rcu/rcutorture-fast-updown.h": dict.fromkeys(
                LACKING, "srcu_fast_updown/rcutorture.h"
            )
        },
        edits=TORTURE,
    ),
    Step(
        subject="refscale: add SRCU-fast-updown readers with interrupts off",
        message="""
        Add scale_type=srcu-fast-updown-irqsave: SRCU-fast-updown readers that count with interrupts
        off, whatever srcutree.fast_updown_irqsave says, to be compared with type srcu-fast-updown
        in one boot.

        Where refscale lacks them, add the types that later kernels have: SRCU-fast readers, per-CPU
        increments of several kinds, the scheduler's clock, and pairs that switch preemption, bottom
        halves or interrupts off. Types that need interrupts on say so, since local_bh_enable() must
        not run with interrupts off.
        """,
        edits=(*HARNESS, *(edit for series in SERIES for edit in benchmark(series))),
    ),
    Step(
        subject="srcu: test SRCU-fast-updown readers",
        message="""
        Add a KUnit test: grace periods end behind readers that have left, do not end beside one
        that is inside, and end once that reader has ended in another context; and increments with
        interrupts off are never lost.
        """,
        files={"kernel/rcu/srcu_fast_updown_kunit.c": "srcu_fast_updown/kunit.c"},
        edits=TEST,
    ),
)

"""SRCU readers without memory barriers, which one context may begin and another end, for a kernel that lacks them.

What: init_srcu_struct_fast_updown(), srcu_read_lock_fast_updown(), srcu_down_read_fast() and their counterparts, by
the names of 7.x. A reader counts on its CPU and executes no barrier. For domains made so, the updater's scan puts a
grace period of RCU between its two sums, which orders every CPU, in place of its own barrier. Nothing outside of SRCU
changes, but for rcutorture, which gets a type for them.

Why: a pair of barriers costs a normal reader about ten nanoseconds; a domain with many readers and few updates need
not pay them. Grace periods of such a domain last two of RCU's longer.

Switch: CONFIG_SRCU_FAST_UPDOWN compiles it in; only domains that ask for it at init behave differently.

Kernels: 6.1 and 6.12. In both a reader counts in words of its CPU, locks and unlocks by index beside each other, and
the updater's scan is one function, called by a worker that may sleep. Proof: src/srcu/gp.h, whose scan this is.

Upstream: SRCU-fast is in 7.x.
"""

# ruff: noqa: E101 (Kconfig text is indented by a tab and two blanks)
from lwkernel.edits import Edit

ARCHES = ("arm64", "x86_64")
SERIES = ("6.1", "6.12")
CONFIG = ("CONFIG_SRCU_FAST_UPDOWN=y",)

FILES = {
    "include/linux/srcu-fast-updown.h": "srcu_fast_updown/srcu-fast-updown.h",
    "kernel/rcu/rcutorture-fast-updown.h": "srcu_fast_updown/rcutorture.h",
}


def barrier_on_all_cpus(series: str, usage: str) -> Edit:
    """The updater's barrier; `usage` holds a domain's grace-period numbers."""
    return Edit(
        path="kernel/rcu/srcutree.c",
        series=(series,),
        after=r"^static void srcu_delay_timer\(struct timer_list \*t\);$",
        text=f"""
#ifdef CONFIG_SRCU_FAST_UPDOWN
/*
 * Every CPU passes through a full barrier between the call and its return. A reader without barriers whose unlock
 * was summed before is thereby over with all its accesses; one whose lock is not summed behind it sees what the
 * updater did before.
 */
static void srcu_barrier_on_all_cpus(struct srcu_struct *ssp)
{{
	if (ULONG_CMP_LT(READ_ONCE({usage}->srcu_gp_seq),
			 READ_ONCE({usage}->srcu_gp_seq_needed_exp)))
		synchronize_rcu_expedited();
	else
		synchronize_rcu();
}}

static bool srcu_has_fast_readers(struct srcu_struct *ssp)
{{
	return ssp->fast_readers;
}}
#else
static void srcu_barrier_on_all_cpus(struct srcu_struct *ssp)
{{
}}

static bool srcu_has_fast_readers(struct srcu_struct *ssp)
{{
	return false;
}}
#endif
""",
    )


EDITS = (
    Edit(
        path="kernel/rcu/Kconfig",
        before=r"^config FORCE_TASKS_RCU$",
        text="""\
config SRCU_FAST_UPDOWN
	bool "SRCU readers without memory barriers"
	depends on TREE_SRCU
	help
	  Adds domains whose readers execute no memory barrier and may end in
	  another context than they began in. Only those that are made by
	  init_srcu_struct_fast_updown() are: their grace periods take longer,
	  by two of RCU's.

""",
    ),
    # Behind an index of four bytes and before a pointer, or among the updater's fields: no reader's line grows.
    Edit(
        path="include/linux/srcutree.h",
        after=r"^\tunsigned int srcu_idx;",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n\tbool fast_readers;\t\t\t/* Readers may lack barriers. */\n#endif",
    ),
    Edit(
        path="kernel/rcu/srcutree.c",
        inside=r"^static int init_srcu_struct_fields\(",
        after=r"^\tssp->srcu_idx = 0;$",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n\tssp->fast_readers = false;\n#endif",
    ),
    Edit(
        path="include/linux/srcu.h",
        before=r"^DEFINE_LOCK_GUARD_1\(srcu, struct srcu_struct,$",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n#include <linux/srcu-fast-updown.h>\n#endif\n",
    ),
    barrier_on_all_cpus("6.1", "ssp"),
    barrier_on_all_cpus("6.12", "ssp->srcu_sup"),
    Edit(
        path="kernel/rcu/srcutree.c",
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
    # ---- the kernel's own torture: torture_type=srcu_fast_updown ----
    Edit(
        path="kernel/rcu/rcutorture.c",
        before=r"^/\* As above, but broken due to inappropriate reader extension\. \*/$",
        text='#ifdef CONFIG_SRCU_FAST_UPDOWN\n#include "rcutorture-fast-updown.h"\n#endif\n',
    ),
    Edit(
        path="kernel/rcu/rcutorture.c",
        before=r"^\t\t&trivial_ops,$",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n\t\t&srcu_fast_ops,\n#endif",
    ),
    Edit(
        path="kernel/rcu/rcutorture.c",
        before=r"^\tif \(!torture_init_begin\(torture_type, verbose\)\)$",
        text="#ifdef CONFIG_SRCU_FAST_UPDOWN\n\tsrcu_fast_torture_fill();\n#endif",
    ),
)

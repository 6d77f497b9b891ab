# SPDX-License-Identifier: GPL-2.0-only
"""Types of refscale, the kernel's benchmark of readers, as C: written from a table, two functions
and a row a type."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

LONGEST = 100
"""Characters of a line of the kernel's code."""


@dataclass(frozen=True)
class Type:
    """What differs between types."""

    name: str
    enter: str
    leave: str = ""
    variables: str = ""
    before: str = ""
    """In front of the loop, and `after` behind it."""
    after: str = ""
    domain: str = ""
    """The kind of SRCU domain of its own, as in DEFINE_STATIC_…()."""
    interrupts: bool = False
    """Whether it needs interrupts on, which the harness keeps off otherwise."""

    @property
    def ident(self) -> str:
        return self.name.replace("-", "_")


READER = "struct srcu_ctr __percpu *scp;"
UP, DOWN = (f"WRITE_ONCE(*tap, READ_ONCE(*tap) {sign} 1);" for sign in "+-")
OWN = f"tap = this_cpu_ptr(&test_acqrel);\n{UP}"
PREEMPT = {"before": "preempt_disable();", "after": "preempt_enable();"}
CLOCK = {
    "variables": "u64 x = 0;",
    "before": "preempt_disable();",
    "after": "preempt_enable();\nstopopts = x;",
}
FLAGS = "unsigned long flags;"

FAST = (
    Type(
        "srcu-fast",
        "scp = srcu_read_lock_fast(srcu_ctlp);",
        "srcu_read_unlock_fast(srcu_ctlp, scp);",
        READER,
        domain="SRCU_FAST",
    ),
    Type(
        "srcu-fast-updown",
        "scp = srcu_read_lock_fast_updown(srcu_ctlp);",
        "srcu_read_unlock_fast_updown(srcu_ctlp, scp);",
        READER,
        domain="SRCU_FAST_UPDOWN",
    ),
)

OTHERS = (
    Type("percpuinc", "this_cpu_inc(test_acqrel);", "this_cpu_dec(test_acqrel);"),
    # Counts may be lost where preemption is possible; raw_cpu_ptr() as that is known.
    Type("incpercpu", OWN.replace("this_cpu_ptr", "raw_cpu_ptr"), DOWN, "unsigned long *tap;"),
    Type(
        "incpercpupreempt",
        f"preempt_disable();\n{OWN}",
        f"{DOWN}\npreempt_enable();",
        "unsigned long *tap;",
    ),
    Type(
        "incpercpubh",
        f"local_bh_disable();\n{OWN}",
        f"{DOWN}\nlocal_bh_enable();",
        "unsigned long *tap;",
        interrupts=True,
    ),
    Type(
        "incpercpuirqsave",
        f"local_irq_save(flags);\n{OWN}",
        f"{DOWN}\nlocal_irq_restore(flags);",
        f"{FLAGS}\nunsigned long *tap;",
    ),
    Type("sched-clock", "x += sched_clock();", **CLOCK),
    Type("preempt", "preempt_disable();", "preempt_enable();"),
    Type("bh", "local_bh_disable();", "local_bh_enable();", interrupts=True, **PREEMPT),
    Type("irq", "local_irq_disable();", "local_irq_enable();", interrupts=True, **PREEMPT),
    Type("irqsave", "local_irq_save(flags);", "local_irq_restore(flags);", FLAGS, **PREEMPT),
)
"""The types of 7.x that 6.12 has not, besides those of SRCU."""

JIFFIES = Type("jiffies", "x += jiffies;", **CLOCK)
"""6.1 has not even this one."""


def irqsave(locks: str, enter: str, leave: str) -> Type:
    """Readers that count with interrupts off, whatever the boot option says."""
    return Type(
        "srcu-fast-updown-irqsave",
        f"{enter}\n__srcu_inc_irqsave({locks});\nbarrier();",
        f"barrier();\n__srcu_inc_irqsave({leave});",
        "unsigned long __percpu *locks;" if "scp" not in locks else READER,
        domain="SRCU_FAST_UPDOWN",
    )


def _function(kind: Type, delay: bool) -> str:
    parameters = "const int nloops, const int udl, const int ndl" if delay else "const int nloops"
    inside = "\n".join(
        filter(None, [kind.enter, "un_delay(udl, ndl);" if delay else "", kind.leave])
    )
    one = "\n" not in inside
    loop = (
        f"for (i = nloops; i >= 0; i--){'' if one else ' {'}\n{textwrap.indent(inside, chr(9))}"
        + "\n}" * (not one)
    )
    declared = "\n".join(filter(None, [kind.variables, "int i;"]))
    body = "\n".join(filter(None, [kind.before, loop, kind.after]))
    text = textwrap.indent(f"{declared}\n\n{body}", "\t", lambda line: bool(line.strip()))
    head = f"static void ref_{kind.ident}_{'delay_' * delay}section("
    if len(head + parameters) >= LONGEST:
        parameters = parameters.replace(", const int ndl", ",\n" + "\t" * 7 + "const int ndl")
    return f"{head}{parameters})\n{{\n{text}\n}}\n"


def _init(kind: Type, init: str) -> str:
    """The function that makes a type's domain the one of the readers."""
    if not kind.domain:
        return ""
    name = f"{kind.ident}_refctl"
    answer = "\treturn true;\n" if init == "bool" else ""
    return (
        f"DEFINE_STATIC_{kind.domain}({name});\n\n"
        f"static {init} ref_{kind.ident}_init(void)\n{{\n\tsrcu_ctlp = &{name};\n{answer}}}\n\n"
    )


def code(kinds: tuple[Type, ...], init: str, const: str) -> str:
    """All of some types: functions and rows. `init` is the type that a row's init() has, `const`
    that of a row."""
    parts = []
    for kind in kinds:
        fields = [
            f".init\t\t= ref_{kind.ident}_init," if kind.domain else "",
            f".readsection\t= ref_{kind.ident}_section,",
            f".delaysection\t= ref_{kind.ident}_delay_section,",
            ".enable_irqs\t= true," if kind.interrupts else "",
            f'.name\t\t= "{kind.name}"',
        ]
        row = "".join(f"\t{field}\n" for field in fields if field)
        parts += [
            _init(kind, init) + _function(kind, delay=False),
            _function(kind, delay=True),
            f"static {const}struct ref_scale_ops {kind.ident}_ops = {{\n{row}}};\n",
        ]
    return "\n".join(parts).removesuffix("\n")


def rows(kinds: tuple[Type, ...]) -> str:
    """The types' lines in the table of all."""
    return "\n".join(f"\t\t&{kind.ident}_ops," for kind in kinds)

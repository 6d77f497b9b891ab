"""Whether two runs were made under the same conditions: the fields of their contexts that change what is measured."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from linewright.schema import Context

FREQUENCY_SHARE = 0.05
"""Relative difference of the core's cycle from which a comparison carries a warning."""


class Unlike(Struct, frozen=True, kw_only=True):
    """One condition that differs."""

    field: str
    before: list[str]
    after: list[str]


FIELDS = (
    "target",
    "arch",
    "cpu_model",
    "cpu_ids",
    "cpus",
    "emulated",
    "virtualised",
    "kernel",
    "boot_parameters",
    "governor",
    "smt",
    "tool_version",
    "compiler",
    "features",
    "line_bytes",
    "page_bytes",
    "time_source",
    "realtime",
    "locked_memory",
    "rseq",
)
"""Conditions in the order in which they are reported, the weightiest first.

Left out: what names one launch (`context_id`, `started_utc`, `plan`, `launch`), and what is measured afresh each time
(`tick_ns`, `timer_cost_ns`, `cycle_ns`, the work's figures), how the launch was laid out (`loop_offset_bytes`,
`launches`).
"""
IN_MACHINE_ID = {"arch", "cpu_model", "cpu_ids", "cpus", "kernel"}
"""What `machine_id` is made of, beside the system's own id: where one of these differs, it says nothing new."""


def _text(context: Context, field: str) -> str:
    """A condition in words."""
    value = getattr(context, field)
    if field == "cpus":
        return f"{len(value)}, {sum(c.allowed for c in value)} allowed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(sorted(value) if field == "features" else value) if isinstance(value, list) else str(value)


def unlike(before: Iterable[Context], after: Iterable[Context]) -> list[Unlike]:
    """Conditions that differ between two runs or within one of them; none when they may be compared as they are."""
    left, right = list(before), list(after)
    found = []
    for name in FIELDS:
        one, two = (sorted({_text(c, name) for c in side}) for side in (left, right))
        if one != two or len(one) > 1:
            found.append(Unlike(field=name, before=one, after=two))
    if not {u.field for u in found} & IN_MACHINE_ID:
        one, two = (sorted({c.machine_id for c in side}) for side in (left, right))
        if one != two:
            found.append(Unlike(field="machine_id", before=one, after=two))
    return found


def frequency_warning(before: Iterable[Context], after: Iterable[Context]) -> str:
    """One sentence where the core ran at another frequency, or nothing."""
    one, two = (sorted(c.cycle_ns for c in side if c.cycle_ns > 0) for side in (before, after))
    if not one or not two:
        return ""
    a, b = one[len(one) // 2], two[len(two) // 2]
    if abs(b / a - 1) < FREQUENCY_SHARE:
        return ""
    return (
        f"a core cycle took {a:.3f} ns before and {b:.3f} ns after: the frequency changed by {a / b - 1:+.0%},"
        " which moves every cell"
    )

# SPDX-License-Identifier: MIT
"""Whether two runs were made under the same conditions: the fields of their contexts that change
what is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from linewright.schema import Context


class ConditionDifference(Struct, frozen=True, kw_only=True):
    """One condition that differs."""

    field: str
    before: list[str]
    after: list[str]


Refuse = Callable[[str, str, Sequence[ConditionDifference]], None]
"""What is asked of a baseline, a file and the conditions that differ, before anything is computed:
it raises a UserError where such files shall not be compared."""


def compare_whatever(baseline: str, other: str, unlike: Sequence[ConditionDifference]) -> None:
    """A `Refuse` that takes all files."""


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

Left out: what names one launch (`context_id`, `started_utc`, `plan`, `launch`), and what is
measured afresh each time (`tick_ns`, `timer_cost_ns`, `cycle_ns`, the work's figures), how the
launch was laid out (`loop_offset_bytes`, `launches`). """
IN_MACHINE_ID = {"arch", "cpu_model", "cpu_ids", "cpus", "kernel"}
"""What `machine_id` is made of, beside the system's own id: where one of these differs, it says
nothing new."""


def _text(context: Context, field: str) -> str:
    """A condition in words."""
    value = getattr(context, field)
    if field == "cpus":
        return f"{len(value)}, {sum(c.allowed for c in value)} allowed"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        ",".join(sorted(value) if field == "features" else value)
        if isinstance(value, list)
        else str(value)
    )


def simulated(contexts: Iterable[Context]) -> bool:
    """Whether a model made every launch: a seed gives the same result, so that launches bring no
    luck."""
    made_by = [context.simulated for context in contexts]
    return bool(made_by) and all(made_by)


def differences(before: Iterable[Context], after: Iterable[Context]) -> list[ConditionDifference]:
    """Conditions that differ between two runs or within one of them; none when they may be compared
    as they are, and none of two simulations: the machine is what is compared."""
    left, right = list(before), list(after)
    found: list[ConditionDifference] = []
    if simulated([*left, *right]):
        return found
    for name in FIELDS:
        one, two = (sorted({_text(c, name) for c in side}) for side in (left, right))
        if one != two or len(one) > 1:
            found.append(ConditionDifference(field=name, before=one, after=two))
    if not {d.field for d in found} & IN_MACHINE_ID:
        one, two = (sorted({c.machine_id for c in side}) for side in (left, right))
        if one != two:
            found.append(ConditionDifference(field="machine_id", before=one, after=two))
    return found

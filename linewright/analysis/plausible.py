"""Results that doubt themselves: what makes a figure implausible, and the likely cause."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from linewright.analysis.intervals import contrast
from linewright.analysis.summary import Summary
from linewright.schema import Cell, Context

FLOORS = frozenset({"plain_add", "empty"})
"""Forms that are no atomic operation: what others cannot undercut, never a recommendation."""

MEANING: dict[str, str] = {
    "metastable": "The launches fall into separate groups: read the modes and their shares, not one number.",
    "bimodal_lines": "Lines fall into separate groups: their home nodes, or their positions in a cache, differ.",
    "one_launch": "Contended, but only one launch: its luck is not in the interval; measure with at least 5 launches.",
    "emulated": "Run by an emulator: the times mean nothing, only the sums do.",
    "faster_than_floor": "Cheaper than a plain add or than one core cycle: most likely the loop does not hold the operation.",
    "doubled": "Exactly 2.00 times its uncontended twin: most likely two threads share one CPU.",
    "negative_cost": "Below its empty twin by more than noise: most likely the two loops are placed or clocked differently.",
    "zero_cost": "No cost at all where the operation cannot be free: most likely it was optimised away.",
    "placebo_differs": "The placebo differs from no contender: SMT, frequency or power effects are in the contended figures too.",
    "coarse_clock": "A batch lasts fewer than 100 ticks of the clock: percentiles are quantised.",
    "no_context": "The file has no context line for this cell: machine and clock are unknown.",
}
"""Every flag that analysis adds, with its sentence; records bring the probe's own beside these."""

DOUBLED = 0.005
"""Relative distance from 2 within which a ratio is 'exactly 2.00'."""
PLACEBO_MARGIN = 0.02
"""Relative difference below which a placebo is not worth a warning, however certain."""
ZERO_CYCLES = 0.1
"""An operation that loads, adds and stores costs at least this many cycles back to back; less was optimised away."""
TICKS = 100
"""Fewest clock ticks in a batch for its percentiles to show under 1 % of the clock's step."""


def _key(cell: Cell, **changes: object) -> str:
    return msgspec.structs.replace(cell, **changes).id


def _alone(cell: Cell, contender: str) -> list[str]:
    """Ids under which a contended cell's twin may have been measured."""
    bare = {"contender": contender, "contender_iters": 0}
    alone = {1} if contender == "none" else {cell.threads}
    return [
        _key(cell, **bare, threads=threads, placement=placement)
        for threads in alone | {cell.threads}
        for placement in dict.fromkeys(("auto", cell.placement))
    ]


def _cycle(summary: Summary, contexts: Mapping[str, Context]) -> float:
    lengths = [contexts[i].cycle_ns for i in summary.context_ids if i in contexts]
    return max(lengths, default=0.0)


def _is_atomic(cell: Cell) -> bool:
    return cell.operation not in ("none", "read") and cell.form not in FLOORS


def _below_floor(summary: Summary, known: Mapping[str, Summary], cycle: float) -> bool:
    cell = summary.cell
    if not _is_atomic(cell) or cell.contender == "same_line" or cell.work_iters or summary.issue is None:
        return False
    if cycle > 0 and summary.issue.high_ns < cycle and cell.operation in ("add", "fetch_add", "xchg", "cmpxchg"):
        return True
    floor = known.get(_key(cell, operation="add", form="plain_add", order="relaxed"))
    return bool(floor and floor.issue and summary.issue.high_ns < floor.issue.low_ns)


def _doubled(summary: Summary, known: Mapping[str, Summary]) -> bool:
    cell = summary.cell
    if cell.contender == "none" or summary.issue is None:
        return False
    twins = [known.get(i) for kind in ("none", "placebo") for i in _alone(cell, kind)]
    return any(
        twin and twin.issue and twin.id != summary.id and twin.issue.median_ns > 0
        and abs(summary.issue.median_ns / twin.issue.median_ns - 2) <= 2 * DOUBLED
        for twin in twins
    )  # fmt: skip


def _zero(summary: Summary, cycle: float) -> bool:
    """Back to back, a loop around an operation cannot run faster than a tenth of a cycle per turn."""
    cell = summary.cell
    if summary.issue is None or cell.operation == "none" or cell.work_iters:
        return False
    return summary.issue.median_ns <= (ZERO_CYCLES * cycle if cycle > 0 else 0.0)


def _placebo_differs(summary: Summary, known: Mapping[str, Summary]) -> bool:
    if summary.cell.contender != "placebo":
        return False
    for twin_id in _alone(summary.cell, "none"):
        twin = known.get(twin_id)
        if twin is None or twin.issue is None or summary.issue is None:
            continue
        apart = summary.issue.low_ns > twin.issue.high_ns or summary.issue.high_ns < twin.issue.low_ns
        found = contrast(summary.unit_ns, twin.unit_ns)
        if apart and found and found.p < 0.01 and abs(summary.issue.median_ns / twin.issue.median_ns - 1) > PLACEBO_MARGIN:
            return True
    return False


def _coarse(summary: Summary, contexts: Mapping[str, Context]) -> bool:
    if summary.batch is None or summary.published:
        return False
    tick = max((contexts[i].tick_ns for i in summary.context_ids if i in contexts), default=0.0)
    return tick > 0 and summary.batch.p50_ns * summary.batch.ops_per_sample < TICKS * tick


def flags_of(summary: Summary, known: Mapping[str, Summary], contexts: Mapping[str, Context]) -> list[str]:
    """Names (keys of `MEANING`) of what is implausible about one cell; `known` holds its machine's cells by id."""
    cycle = _cycle(summary, contexts)
    checks = {
        "no_context": not any(i in contexts for i in summary.context_ids),
        "emulated": summary.emulated,
        "faster_than_floor": _below_floor(summary, known, cycle),
        "doubled": _doubled(summary, known),
        "negative_cost": summary.exposed is not None and summary.exposed.high_ns < 0,
        "zero_cost": _zero(summary, cycle),
        "placebo_differs": _placebo_differs(summary, known),
        "coarse_clock": _coarse(summary, contexts),
    }
    return [name for name, found in checks.items() if found]


def with_flags(summaries: list[Summary], contexts: Mapping[str, Context]) -> list[Summary]:
    """The same summaries, each with the flags that its neighbours on the same machine give it."""
    machines: dict[str, dict[str, Summary]] = {}
    for summary in summaries:
        machines.setdefault(summary.machine_id, {})[summary.id] = summary
    return [
        msgspec.structs.replace(
            summary,
            flags=sorted({*summary.flags, *flags_of(summary, machines[summary.machine_id], contexts)}),
        )
        for summary in summaries
    ]


def explain(flag: str) -> str:
    """The sentence for a flag; the probe's own flags are explained in docs/records.md."""
    return MEANING.get(flag, f"{flag.replace('_', ' ')}: see docs/records.md.")

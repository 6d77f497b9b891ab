"""What a run says about itself: how far identical machine code differed, and whether the loop without an operation is a
measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import paired
from linewright.analysis.summary import Summary
from linewright.families import IDENTICAL, family_of
from linewright.schema import Cell, Context

LINEAR = 0.05
"""Relative difference between work lengths in the time of one unit of work, from which the unit is no unit."""
STEADY = 0.10
"""Relative distance from the 10th to the 90th percentile of the baseline loop's windows, from which it is not
repeatable."""
LEAST_NS = 0.5
"""Differences of baselines below this are the clock's, not the loop's."""


class Floor(Struct, frozen=True, kw_only=True):
    """What forms with identical machine code differed by under one condition: nothing smaller is claimed there."""

    condition: tuple
    """`condition_of` of the cells."""
    pairs: int
    share: float
    """Largest difference of issue intervals, as a share."""
    ns: float
    """Largest difference of exposed costs; 0 where there is no work."""


class Baseline(Struct, frozen=True, kw_only=True):
    """The loop without an operation at one work length, over all uncontended cells of one family."""

    family: str
    work_iters: int
    ns: float
    unit_ns: float
    """Time of one unit of work: what the loop takes more than without work, over the units."""
    spread: float
    """Distance from the 10th to the 90th percentile of one launch's windows, over the median."""
    why: str
    """Why exposed costs are withheld at this length: ``not_proportional``, ``not_steady``; empty where they are
    shown."""


class WorkLoop(Struct, frozen=True, kw_only=True):
    """The loop around operations as the probe itself measures it at the start of every launch; medians over
    launches."""

    unit_ns: float
    bent: float
    """Largest distance from proportionality to the units of work, 10 to 500 of them, as a share."""
    spread: float
    """Distance from the 10th to the 90th percentile of windows of one length, over their median."""

    @property
    def why(self) -> str:
        """As `Baseline.why`, of every length."""
        return "not_proportional" if self.bent > LINEAR else "not_steady" if self.spread > STEADY else ""


def condition_of(cell: Cell) -> tuple:
    """What cells share whose noise is alike: everything but operation, form, order, width and lines."""
    return (
        cell.contender, cell.contender_iters, cell.work_iters, cell.placement, cell.threads,
        family_of(cell.operation).name,
    )  # fmt: skip


def identical_to(form: str, arch: str) -> tuple[str, ...]:
    """The forms whose loops hold the same machine code, this one included; the first is the one that is named."""
    return next((group for group in IDENTICAL.get(arch, ()) if form in group), (form,))


def floors(summaries: Iterable[Summary], arch: str) -> dict[tuple, Floor]:
    """The noise floor under each condition that identical forms were measured under, by `condition_of`."""
    groups: dict[tuple, dict[str, Summary]] = {}
    for s in summaries:
        group = identical_to(s.cell.form, arch)
        if len(group) > 1 and s.status == "ok" and not s.emulated:
            key = (condition_of(s.cell), s.cell.width_bits, s.cell.lines, s.machine_id, group)
            groups.setdefault(key, {})[s.cell.form] = s
    found: dict[tuple, list[tuple[float, float]]] = {}
    for (condition, *_, group), members in groups.items():
        first, *others = [members[form] for form in group if form in members]
        for other in others:
            shares = paired(other.by_launch, first.by_launch)
            if shares is not None:
                costs = paired(other.exposed_by_launch, first.exposed_by_launch, "ns")
                share = max(shares.value, 1 / shares.value) - 1
                found.setdefault(condition, []).append((share, abs(costs.value) if costs else 0.0))
    return {
        condition: Floor(
            condition=condition, pairs=len(seen), share=max(s for s, _ in seen), ns=max(ns for _, ns in seen)
        )
        for condition, seen in found.items()
    }  # fmt: skip


def work_loop(contexts: Iterable[Context]) -> WorkLoop | None:
    """The control of one machine's launches; None where none has it, or an emulator ran them."""
    found = [
        (c.work_unit_ns, c.work_linearity, c.work_spread)
        for c in contexts
        if None not in (c.work_unit_ns, c.work_linearity, c.work_spread) and not c.emulated
    ]
    if not found:
        return None
    unit, bent, spread = (float(np.median(values)) for values in zip(*found, strict=True))
    return WorkLoop(unit_ns=unit, bent=bent, spread=spread)


def baselines(summaries: Iterable[Summary]) -> list[Baseline]:
    """The control, family by family and work length by work length.

    Proportional: a unit costs the same at every length, within `LINEAR`.  Steady: the windows of a launch repeat within
    `STEADY`; launches may differ, since a clock's change falls on operation and baseline alike.
    """
    cells: dict[str, dict[int, list[Summary]]] = {}
    for s in summaries:
        if s.baseline_by_launch and s.cell.contender == "none" and s.status == "ok" and not s.emulated:
            cells.setdefault(family_of(s.cell.operation).name, {}).setdefault(s.cell.work_iters, []).append(s)
    return [b for family, lengths in cells.items() for b in _of_family(family, lengths)]


def _of_family(family: str, lengths: Mapping[int, Sequence[Summary]]) -> list[Baseline]:
    launches = {
        work: [ns for s in own for ns in s.baseline_by_launch.values()] for work, own in sorted(lengths.items())
    }
    middles = {work: float(np.median(values)) for work, values in launches.items()}
    empty = middles.get(0, 0.0)
    units = {work: (ns - empty) / work for work, ns in middles.items() if work > 0}
    usual = float(np.median(list(units.values()))) if units else 0.0
    answers = []
    for work, ns in middles.items():
        reach = float(np.median([s.baseline_reach_ns for s in lengths[work]]))
        why = ""
        if work > 0 and abs(units[work] - usual) * work > max(LINEAR * usual * work, LEAST_NS):
            why = "not_proportional"
        elif work > 0 and reach > max(STEADY * ns, LEAST_NS):
            why = "not_steady"
        answers.append(
            Baseline(
                family=family, work_iters=work, ns=ns, unit_ns=units.get(work, 0.0),
                spread=reach / ns if ns > 0 else 0.0, why=why,
            )
        )  # fmt: skip
    return answers


def with_baselines(summaries: Iterable[Summary], contexts: Mapping[str, Context]) -> list[Summary]:
    """The same summaries of one machine; exposed costs are gone where the baseline loop is no measure of the work."""
    members = list(summaries)
    failed = {(b.family, b.work_iters): b.why for b in baselines(members) if b.why}
    loop = work_loop(contexts[i] for i in {i for s in members for i in s.context_ids} if i in contexts)
    return [
        msgspec.structs.replace(
            s, exposed=None, exposed_by_launch={}, withheld=why, flags=sorted({*s.flags, f"baseline_{why}"})
        )
        if (why := failed.get((family_of(s.cell.operation).name, s.cell.work_iters)) or _of_chain(s.cell, loop))
        else s
        for s in members
    ]


def _of_chain(cell: Cell, loop: WorkLoop | None) -> str:
    """Why a cell's work is no measure whatever its length."""
    return loop.why if loop and cell.work_iters and cell.work == "chain" else ""

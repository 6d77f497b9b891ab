# SPDX-License-Identifier: MIT
"""What a run says about itself: how far identical machine code differed, whether the loop without
an operation is a measure, and whether other programs or a change of frequency disturbed the
launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import (
    Contrast,
    Scale,
    paired_t,
    paired_t_by_rounds,
    simulated_contrast,
)
from linewright.analysis.summary import Summary, figure_of
from linewright.analysis.variance_components import FEWEST_POOLED
from linewright.families import IDENTICAL, family_of
from linewright.schema import Cell, Context, Interval, Situation

LINEAR = 0.05
"""Relative difference between work lengths in the time of one unit of work, from which the unit is
no unit."""
STEADY = 0.10
"""Relative distance from the 10th to the 90th percentile of the baseline loop's windows, from which
it is not repeatable."""
LEAST_NS = 0.5
"""Differences of baselines below this are the clock's, not the loop's."""


class Floor(Struct, frozen=True, kw_only=True):
    """What forms with identical machine code differed by in one situation."""

    group: NoiseGroup
    pairs: int
    size: float
    """Largest difference: a share of issue intervals, with work ns of exposed costs."""
    scale: Scale
    ids: tuple[str, ...]
    """Of the cells with identical machine code."""


class Baseline(Struct, frozen=True, kw_only=True):
    """The loop without an operation at one work length, over all uncontended cells of one
    family."""

    family: str
    work_iters: int
    ns: float
    unit_ns: float
    """Time of one unit of work: what the loop takes more than without work, over the units."""
    spread: float
    """Distance from the 10th to the 90th percentile of one launch's windows, over the median."""
    why: str
    """Why exposed costs are withheld at this length: ``not_proportional``, ``not_steady``; empty
    where they are shown."""


class WorkLoop(Struct, frozen=True, kw_only=True):
    """The loop around operations as the probe itself measures it at the start of every launch;
    medians over launches."""

    unit_ns: float
    nonlinearity: float
    """Largest distance from proportionality to the units of work, 10 to 500 of them, as a share."""
    spread: float
    """Distance from the 10th to the 90th percentile of windows of one length, over their median."""

    @property
    def why(self) -> str:
        """As `Baseline.why`, of every length."""
        if self.nonlinearity > LINEAR:
            return "not_proportional"
        return "not_steady" if self.spread > STEADY else ""


class NoiseGroup(NamedTuple):
    """What cells share whose noise is alike: their situation but for lines, width and parameters,
    and their family; plain loads are apart, which the loop around them hides more or less of, and
    so are the distances of words apart, whose lines are fought over or not."""

    situation: Situation
    family: str
    loads: bool


def noise_group_of(cell: Cell) -> NoiseGroup:
    apart = cell.params.get("bytes_apart")
    situation = Situation(
        contender=cell.contender,
        contender_iters=cell.contender_iters,
        work=cell.work,
        work_iters=cell.work_iters,
        placement=cell.placement,
        threads=cell.threads,
        params=(("bytes_apart", apart),) if apart else (),
    )
    return NoiseGroup(situation, family_of(cell.operation).name, cell.operation == "read")


def kind_of(group: NoiseGroup) -> NoiseGroup:
    """The group without spacing and work: in all of these code has the same luck."""
    return group._replace(situation=group.situation.without("contender_iters", "work_iters"))


def identical_to(form: str, arch: str) -> tuple[str, ...]:
    """The forms whose loops hold the same machine code, this one included; the first is the one
    that is named."""
    return next((group for group in IDENTICAL.get(arch, ()) if form in group), (form,))


def pooled_interval(s: Summary, members: Iterable[Summary]) -> Interval:
    """A cell's issue interval, widened twice where other cells of its situation call for it: to
    hold the intervals of all forms with identical machine code, which have one true cost, and to be
    at least as wide as the median interval of the situation, since a few launches may agree by
    chance.  A model's band is its whole interval."""
    if s.band is not None:
        return s.band
    group = noise_group_of(s.cell)
    known = [
        (t, t.issue)
        for t in members
        if t.status == "ok" and t.issue and t.issue.confidence > 0 and t.issue.low_ns > 0
        if t.machine_id == s.machine_id and noise_group_of(t.cell) == group
    ]
    key = _of_code(s, s.arch)
    spans = [
        s.issue,
        *(i for t, i in known if t.cell.form in key[-1] and _of_code(t, s.arch) == key),
    ]
    low, high = min(i.low_ns for i in spans), max(i.high_ns for i in spans)
    if len(known) >= FEWEST_POOLED:
        below, above = (
            s.issue.median_ns * float(np.median([end / i.median_ns for end, i in ends]))
            for ends in ([(i.low_ns, i) for _, i in known], [(i.high_ns, i) for _, i in known])
        )
        low, high = min(low, below), max(high, above)
    return msgspec.structs.replace(s.issue, low_ns=low, high_ns=high)


def _of_code(s: Summary, arch: str) -> tuple:
    """What cells of identical machine code have in common, their situation first and their forms
    last."""
    where = s.cell.width_bits, s.cell.lines, s.machine_id
    return noise_group_of(s.cell), *where, identical_to(s.cell.form, arch)


def identical_contrasts(
    summaries: Iterable[Summary], arch: str
) -> dict[NoiseGroup, list[Contrast]]:
    """What cells with identical machine code differed by in each situation, by
    `noise_group_of`."""
    found: dict[NoiseGroup, list[Contrast]] = {}
    for group, others, first in _identical(summaries, arch):
        contrasts = [contrast_of(other, first, figure_of(first)) for other in others]
        found.setdefault(group, []).extend(filter(None, contrasts))
    return found


def _identical(
    summaries: Iterable[Summary], arch: str
) -> Iterator[tuple[NoiseGroup, list[Summary], Summary]]:
    """Cells with identical machine code by situation, and the one that the others are held
    against."""
    groups: dict[tuple, dict[str, Summary]] = {}
    for s in summaries:
        key = _of_code(s, arch)
        if len(key[-1]) > 1 and s.status == "ok" and not s.emulated:
            groups.setdefault(key, {})[s.cell.form] = s
    for (group, *_, forms), members in groups.items():
        first, *others = [members[form] for form in forms if form in members]
        yield group, others, first


def contrast_of(first: Summary, second: Summary, figure: str) -> Contrast | None:
    """Two cells of one run by their issue intervals (a ratio) or exposed costs (ns): paired by
    rounds where as many launches have them, else by launches; simulated ones within each draw of
    the constants."""
    if first.simulated and second.simulated:
        return simulated_contrast(first, second, figure)
    scale, name = "ns" if figure == "exposed" else "ratio", f"{figure}_ns"
    whole = paired_t(first.of_launches(name), second.of_launches(name), scale, first.places)
    close = paired_t_by_rounds(first.of_rounds(name), second.of_rounds(name), scale, first.places)
    return close if close and whole and close.launches >= whole.launches else whole


def floors(summaries: Iterable[Summary], arch: str) -> dict[NoiseGroup, Floor]:
    """What identical forms differed by in each situation that they were measured in, by
    `noise_group_of`: shown, and no threshold of anything."""
    members = list(summaries)
    found = identical_contrasts(members, arch)
    ids: dict[NoiseGroup, list[str]] = {}
    for group, others, first in _identical(members, arch):
        ids.setdefault(group, []).extend(s.id for s in (first, *others))
    away = lambda c: abs(c.value) if c.scale == "ns" else max(c.value, 1 / c.value) - 1
    return {
        group: Floor(
            group=group,
            pairs=len(own),
            size=max(map(away, own)),
            scale=own[0].scale,
            ids=tuple(dict.fromkeys(ids[group])),
        )
        for group, own in found.items()
        if own
    }


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
    return WorkLoop(unit_ns=unit, nonlinearity=bent, spread=spread)


def baselines(summaries: Iterable[Summary]) -> list[Baseline]:
    """The control, family by family and work length by work length.

    Proportional: a unit costs the same at every length, within `LINEAR`.  Steady: the windows of a
    launch repeat within `STEADY`; launches may differ, since a clock's change falls on operation
    and baseline alike."""
    cells: dict[str, dict[int, list[Summary]]] = {}
    for s in summaries:
        alone = s.of_launches("baseline_ns") and s.cell.contender == "none"
        if alone and s.status == "ok" and not s.emulated:
            lengths = cells.setdefault(family_of(s.cell.operation).name, {})
            lengths.setdefault(s.cell.work_iters, []).append(s)
    return [b for family, lengths in cells.items() for b in _of_family(family, lengths)]


def _of_family(family: str, lengths: Mapping[int, Sequence[Summary]]) -> list[Baseline]:
    launches = {
        work: [ns for s in own for ns in s.of_launches("baseline_ns").values()]
        for work, own in sorted(lengths.items())
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
    """The same summaries of one machine; exposed costs are gone where the baseline loop is no
    measure of the work."""
    members = list(summaries)
    failed = {(b.family, b.work_iters): b.why for b in baselines(members) if b.why}
    loop = work_loop(
        contexts[i] for i in {i for s in members for i in s.context_ids} if i in contexts
    )
    answers = []
    for s in members:
        family = family_of(s.cell.operation).name
        why = failed.get((family, s.cell.work_iters)) or work_loop_fault(s.cell, loop)
        if why:
            flags = sorted({*s.flags, f"baseline_{why}"})
            s = msgspec.structs.replace(s, withheld=why, flags=flags, exposed=None)
        answers.append(s)
    return answers


def work_loop_fault(cell: Cell, loop: WorkLoop | None) -> str:
    """Why a cell's work is no measure whatever its length."""
    return loop.why if loop and cell.work_iters and cell.work == "chain" else ""


LEAST_LOAD = 0.25
"""CPUs kept busy by others, mean of the launches, that disturb: counting in clock ticks alone gives
up to a tenth."""
LEAST_SHARE = 0.02
"""The same as a share of all CPUs: a large machine is never quite idle."""
FREQUENCY_SHARE = 0.05
"""Relative difference of the core's cycle from which the frequency counts as changed."""


def disturbing_load(contexts: Sequence[Context]) -> float | None:
    """CPUs that other programs kept busy, mean of the launches; None where they hardly did, or
    where that is unknown."""
    loads = [context.other_load for context in contexts if context.other_load is not None]
    mean = sum(loads) / len(loads) if loads else 0.0
    disturbs = loads and mean >= max(LEAST_LOAD, LEAST_SHARE * len(contexts[0].cpus))
    return mean if disturbs else None


def changed_cycle_ns(contexts: Sequence[Context]) -> tuple[float, float] | None:
    """The shortest and the longest core cycle of the launches, where the frequency changed."""
    cycles = [c.cycle_ns for c in contexts if c.cycle_ns > 0]
    changed = cycles and max(cycles) > (1 + FREQUENCY_SHARE) * min(cycles)
    return (min(cycles), max(cycles)) if changed else None


def cycles_of_two(
    before: Sequence[Context], after: Sequence[Context]
) -> tuple[float, float] | None:
    """The middle core cycle of two runs, in ns, where the frequency differed."""
    one, two = (sorted(c.cycle_ns for c in side if c.cycle_ns > 0) for side in (before, after))
    if not one or not two:
        return None
    a, b = one[len(one) // 2], two[len(two) // 2]
    return (a, b) if abs(b / a - 1) >= FREQUENCY_SHARE else None

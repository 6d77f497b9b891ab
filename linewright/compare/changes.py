"""Two sets of summaries, cell by cell: what changed, what is the same, what is undecided, corrected for every cell
compared.

Launches that both sides ran in turns are paired.  Of runs made one after the other the drift inside them is allowed
for.  With work around the operation the exposed costs are compared, in ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import (
    ALPHA,
    IN_SEQUENCE,
    SAME_NS,
    Contrast,
    Judged,
    corrected,
    difference_ns,
    in_sequence,
    judge,
    paired,
    steadied,
)
from linewright.analysis.control import Floor, condition_of, floors
from linewright.analysis.findings import figure_of, floor_at
from linewright.analysis.summary import Summary
from linewright.schema import Cell, Context, Interval

SAME = 0.05
"""Relative difference below which a cell is called unchanged, where no limit is asked for."""

Turns = Mapping[str, str]
"""Launches of the second side by the launch of the first beside which each ran, by context."""


class Change(Struct, frozen=True, kw_only=True):
    """One cell in two runs."""

    id: str
    cell: Cell
    figure: str
    """``issue`` or ``exposed``: what was compared."""
    before: Interval | None
    after: Interval | None
    difference: Interval | None
    """After minus before, ns."""
    judged: Judged
    """After over before (issue intervals) or after minus before in ns (exposed costs)."""
    finding: str
    """``slower``, ``faster``, ``same``, ``undecided`` or ``not_comparable``."""
    reason: str
    """Why a cell is not comparable, as one sentence."""


class _Pair(Struct, frozen=True):
    before: Summary
    after: Summary
    obstacle: str
    contrast: Contrast | None
    floor: float


def turns(before: Iterable[Context], after: Iterable[Context]) -> dict[str, str]:
    """Launches that ran next to each other, one of each side, in order of time.

    Empty unless all of them did, on one machine, and each side came first in half of the turns, so that a drift falls
    on neither: of launches in the order A B A B, the second side would always have the later moment.  One launch of
    each side is no turn yet: every run is next to the one after it.
    """
    before, after = list(before), list(after)
    if len({c.machine_id for c in (*before, *after)}) != 1:
        return {}
    began = sorted(
        [(c.started_utc, 0, c.context_id) for c in before] + [(c.started_utc, 1, c.context_id) for c in after]
    )
    couples = list(zip(began[::2], began[1::2], strict=False))
    if len(couples) < 2 or len(began) % 2 or any(x[1] == y[1] for x, y in couples):
        return {}
    lead = sum((x[0] < y[0]) * (1 if x[1] == 0 else -1) for x, y in couples)
    if abs(lead) > 1:
        return {}
    return dict((x[2], y[2]) if x[1] == 0 else (y[2], x[2]) for x, y in couples)


def _obstacle(before: Summary, after: Summary) -> str:
    for name, summary in (("before", before), ("after", after)):
        if summary.status != "ok" or summary.issue is None:
            return f"{name}: status {summary.status}" + (f" ({summary.reason})" if summary.reason else "")
        if summary.emulated:
            return f"{name}: run by an emulator, times mean nothing"
        if not summary.by_launch:
            return f"{name}: no windows, only percentiles"
        if figure_of(summary) == "exposed" and summary.withheld:
            return (
                f"{name}: the loop around the operation is no measure of its work"
                f" ({summary.withheld.replace('_', ' ')})"
            )
        if figure_of(summary) == "exposed" and not summary.exposed_by_launch:
            return f"{name}: no baseline loop to take off"
    return ""


def _figures(summary: Summary) -> dict[str, float]:
    return summary.exposed_by_launch if figure_of(summary) == "exposed" else summary.by_launch


def _contrast(before: Summary, after: Summary, beside: Turns, order: Mapping[str, int]) -> Contrast | None:
    one, two = _figures(before), _figures(after)
    scale = "ns" if figure_of(before) == "exposed" else "ratio"
    if beside:
        turned = {k: two[beside[k]] for k in one if beside.get(k) in two}
        return paired(turned, one, scale, before.place_by_launch)
    # All launches in order of time; of moments that are not known, the first side's come first.
    in_time = sorted(
        (order.get(launch, 0), side, n, ns)
        for side, figures in enumerate((one, two))
        for n, (launch, ns) in enumerate(figures.items())
    )
    left, right = ([(rank, ns) for rank, (_, of, _, ns) in enumerate(in_time) if of == side] for side in (0, 1))
    return in_sequence([ns for _, ns in right], [ns for _, ns in left], scale, [rank for rank, _ in left + right])


def compare(
    before: Sequence[Summary],
    afters: Sequence[Sequence[Summary]],
    contexts: Iterable[Context] = (),
    same: float = SAME,
    alpha: float = ALPHA,
) -> list[list[Change]]:
    """Every cell that the baseline and a run both have, run by run, corrected over all cells of all runs together.

    `contexts` of both sides say which launches ran in turns.  Cells are matched by id; a side that holds several
    machines must be split by the caller (ValueError otherwise).  The largest changes come first, then the others by id.
    """
    known = {c.context_id: c for c in contexts}
    left = _by_id(before, "before")
    sides = [_pairs(left, _by_id(after, "after"), known) for after in afters]
    ps = iter(corrected(pair.contrast for side in sides for pair in side))
    changes = [[_change(pair, next(ps), same, alpha) for pair in side] for side in sides]
    return [sorted(side, key=_weight) for side in changes]


def _pairs(left: Mapping[str, Summary], right: Mapping[str, Summary], known: Mapping[str, Context]) -> list[_Pair]:
    shared = [(left[i], right[i]) for i in left if i in right]
    ids = [{i for s in side for i in s.context_ids} for side in zip(*shared, strict=True)] or [set(), set()]
    beside = turns(*([known[i] for i in side if i in known] for side in ids))
    order = {c: n for n, c in enumerate(sorted(known, key=lambda i: (known[i].started_utc, known[i].launch)))}
    noise = [floors(side, side[0].arch) for side in map(list, zip(*shared, strict=True))]
    made = [
        _Pair(a, b, found, None if found else _contrast(a, b, beside, order), _floor(a, noise))
        for a, b in shared
        for found in [_obstacle(a, b)]
    ]
    return _steadied(made)


def _floor(s: Summary, noise: Sequence[Mapping[tuple, Floor]]) -> float:
    """The larger noise floor of the two runs where a cell was measured."""
    return max((floor_at(s.cell, found, figure_of(s) == "exposed") for found in noise), default=0.0)


def _steadied(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Each with the spread that the cells measured under its condition have in common, where launches are paired."""
    contrasts = steadied([p.contrast for p in pairs], [condition_of(p.before.cell) for p in pairs])
    return [
        _Pair(p.before, p.after, p.obstacle, c, p.floor) for p, c in zip(pairs, contrasts, strict=True)
    ]  # fmt: skip


def _change(pair: _Pair, p: float | None, same: float, alpha: float) -> Change:
    a, b, c = pair.before, pair.after, pair.contrast
    figure = figure_of(a)
    shown = [(s.exposed if figure == "exposed" and s.exposed else s.issue) for s in (a, b)]
    bound = max(SAME_NS, same * shown[0].median_ns) if figure == "exposed" and shown[0] else same
    why = "one_launch" if min(len(a.by_launch), len(b.by_launch)) < 2 else ""
    alpha *= IN_SEQUENCE if c and not c.paired else 1.0
    judged = judge(c, p, alpha=alpha, same=bound, floor=pair.floor, why=why)
    finding = "slower" if judged.slower else "faster" if judged.cheaper else judged.answer
    return Change(
        id=a.id, cell=a.cell, figure=figure, before=shown[0], after=shown[1],
        difference=difference_ns(c, shown[0].median_ns) if c else None, judged=judged,
        finding="not_comparable" if pair.obstacle else finding, reason=pair.obstacle,
    )  # fmt: skip


def _weight(change: Change) -> tuple:
    certain = change.finding in ("slower", "faster")
    c = change.judged.contrast
    size = (abs(np.log(c.value)) if c.scale == "ratio" and c.value > 0 else abs(c.value)) if certain else 0.0
    rank = {"undecided": 1, "same": 2, "not_comparable": 3}
    return (rank.get(change.finding, 0), -float(size), change.id)


def _by_id(summaries: Iterable[Summary], side: str) -> dict[str, Summary]:
    answer: dict[str, Summary] = {}
    for summary in summaries:
        if summary.id in answer:
            raise ValueError(f"{side}: cell {summary.id} occurs for two machines; compare one machine at a time")
        answer[summary.id] = summary
    return answer

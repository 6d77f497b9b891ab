"""Two sets of summaries, cell by cell: the ratio with its interval, corrected for the number of cells compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from scipy import stats

from linewright.analysis.intervals import CONFIDENCE, Contrast, Estimate, contrast, holm
from linewright.analysis.summary import STATES, Summary
from linewright.schema import Cell, Interval

ALPHA = 1 - CONFIDENCE
ONE_LAUNCH = 0.01
"""Relative standard deviation between launches that is assumed where a cell ran in one launch and cannot show its own."""
Correction = Literal["holm", "bh", "none"]


class Change(Struct, frozen=True, kw_only=True):
    """One cell in two runs."""

    id: str
    cell: Cell
    before: Interval | None
    after: Interval | None
    ratio: Estimate | None
    """After over before, plain 95 % interval; None where it cannot be formed."""
    difference: Interval | None
    """After minus before, ns.  With equal work around the operation this is also the difference of exposed costs."""
    p: float | None
    """Of 'no difference', corrected."""
    finding: str
    """``slower``, ``faster``, ``no_difference`` or ``not_comparable``."""
    reason: str
    """Why a cell is not comparable, as one sentence."""


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values that control the share of false claims among the claims made."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i], reverse=True)
    adjusted = [1.0] * len(p_values)
    running = 1.0
    for position, index in enumerate(order):
        running = min(running, p_values[index] * len(p_values) / (len(p_values) - position))
        adjusted[index] = running
    return adjusted


def _adjust(p_values: Sequence[float], correction: Correction) -> list[float]:
    if correction == "holm":
        return holm(p_values)
    if correction == "bh":
        return benjamini_hochberg(p_values)
    return list(p_values)


def _obstacle(before: Summary, after: Summary) -> str:
    for name, summary in (("before", before), ("after", after)):
        if summary.status != "ok" or summary.issue is None:
            return f"{name}: status {summary.status}" + (f" ({summary.reason})" if summary.reason else "")
        if summary.emulated:
            return f"{name}: run by an emulator, times mean nothing"
        if not summary.unit_ns:
            return f"{name}: no windows, only percentiles"
    return ""


def _floor(before: Summary, after: Summary) -> float:
    if "short_span" in before.flags or "short_span" in after.flags:
        return STATES
    return ONE_LAUNCH if "launch" not in (before.unit, after.unit) or before.unit != after.unit else 0.0


def compare(
    before: Iterable[Summary], after: Iterable[Summary], correction: Correction = "holm", alpha: float = ALPHA
) -> list[Change]:
    """Every cell that both sides have, the largest certain changes first, then the others by id.

    Cells are matched by id; a side that holds several machines must be split by the caller (ValueError otherwise).
    Where both ran in one launch, `ONE_LAUNCH` stands for the luck that such a run cannot show, and `STATES` where a
    contended cell's launches lay too close together.
    """
    return compare_all(before, [after], correction, alpha)[0]


def compare_all(
    before: Iterable[Summary],
    afters: Iterable[Iterable[Summary]],
    correction: Correction = "holm",
    alpha: float = ALPHA,
) -> list[list[Change]]:
    """`compare` of one baseline with several runs; p values are corrected over all cells of all runs together."""
    left = _by_id(before, "before")
    sides = [_by_id(after, "after") for after in afters]
    pairs = [[(left[i], right[i]) for i in left if i in right] for right in sides]
    obstacles = [[_obstacle(a, b) for a, b in side] for side in pairs]
    contrasts = [
        [
            None if o else contrast(b.unit_ns, a.unit_ns, relative_floor=_floor(a, b))
            for (a, b), o in zip(side, told, strict=True)
        ]
        for side, told in zip(pairs, obstacles, strict=True)
    ]
    corrected = iter(_adjust([c.p for side in contrasts for c in side if c], correction))
    return [
        sorted(
            (_change(a, b, o, c, next(corrected) if c else None, alpha) for (a, b), o, c in zip(*side, strict=True)),
            key=_weight,
        )
        for side in zip(pairs, obstacles, contrasts, strict=True)
    ]


def _change(
    before: Summary, after: Summary, obstacle: str, found: Contrast | None, p: float | None, alpha: float
) -> Change:
    finding = "not_comparable"
    if found:
        finding = "no_difference" if p >= alpha else "slower" if found.difference.median_ns > 0 else "faster"
    return Change(
        id=before.id, cell=before.cell, before=before.issue, after=after.issue, ratio=found.ratio if found else None,
        difference=found.difference if found else None, p=p, finding=finding,
        reason=obstacle or ("" if found else "too few values"),
    )  # fmt: skip


def _weight(change: Change) -> tuple:
    certain = change.finding in ("slower", "faster")
    size = abs(np.log(change.ratio.value)) if certain and change.ratio else 0.0
    return (0 if certain else 1 if change.finding == "no_difference" else 2, -float(size), change.id)


def _by_id(summaries: Iterable[Summary], side: str) -> dict[str, Summary]:
    answer: dict[str, Summary] = {}
    for summary in summaries:
        if summary.id in answer:
            raise ValueError(f"{side}: cell {summary.id} occurs for two machines; compare one machine at a time")
        answer[summary.id] = summary
    return answer


def worse_than(changes: Iterable[Change], share: float) -> list[Change]:
    """Changes certain to be slower whose whole interval lies above 1 + share."""
    return [c for c in changes if c.finding == "slower" and c.ratio is not None and c.ratio.low > 1 + share]


class FalseAlarms(Struct, frozen=True, kw_only=True):
    """How often a cell compared with itself was called different."""

    trials: int
    alarms: int
    rate: float
    low: float
    high: float
    """Exact (Clopper-Pearson) 95 % interval of the rate."""


def false_alarms(summaries: Iterable[Summary], splits: int = 20, seed: int = 1, alpha: float = ALPHA) -> FalseAlarms:
    """A/A test on recorded cells: each cell's units are dealt at random into two halves, which are compared.

    Uncorrected, so that `rate` is to be at most `alpha`.  Cells with fewer than four units cannot be split.
    """
    rng = np.random.default_rng(seed)
    trials = alarms = 0
    for summary in summaries:
        units = np.asarray(summary.unit_ns)
        if units.size < 4:
            continue
        for _ in range(splits):
            dealt = rng.permutation(units)
            found = contrast(dealt[: units.size // 2], dealt[units.size // 2 :])
            if found is not None:
                trials += 1
                alarms += found.p < alpha
    if not trials:
        return FalseAlarms(trials=0, alarms=0, rate=0.0, low=0.0, high=1.0)
    bounds = stats.binomtest(int(alarms), trials).proportion_ci(CONFIDENCE, method="exact")
    return FalseAlarms(
        trials=trials, alarms=int(alarms), rate=alarms / trials, low=float(bounds.low), high=float(bounds.high)
    )

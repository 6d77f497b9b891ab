"""Does a cell have one figure or several?  Launches (or lines) that fall into separate groups.

The rule: sort the logarithms of the medians, cut where the two halves are tightest, and call them two modes when
(a) the cut explains more of the spread than in all but `FALSE_ALARM` of samples from one normal distribution, and
(b) the neighbouring values on both sides of the cut differ by at least `MIN_GAP`.  Each mode is then cut again by
the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

FALSE_ALARM = 0.05
"""Chance that condition (a) alone calls one normal distribution two modes; (b) makes it less."""
MIN_GAP = 1.25
"""Ratio across the cut below which nobody would act on the difference."""
FEWEST = 4
"""Medians needed before anything is said."""
LINE_SHARE = 0.1
"""Smallest share of lines that makes a mode: a few odd lines are outliers, not a second home."""


class Mode(Struct, frozen=True, kw_only=True):
    """One group of medians."""

    median_ns: float
    share: float
    """Of the launches (or lines)."""


def _explained(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per row of sorted values: best share of the squared spread that one cut explains, and the cut's position."""
    n = ordered.shape[1]
    left = np.cumsum(ordered, axis=1)[:, :-1]
    total = ordered.sum(axis=1, keepdims=True)
    size = np.arange(1, n)
    mean = total / n
    between = size * (left / size - mean) ** 2 + (n - size) * ((total - left) / (n - size) - mean) ** 2
    spread = ((ordered - mean) ** 2).sum(axis=1)
    best = between.argmax(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = between[np.arange(len(best)), best] / spread
    return np.where(spread > 0, share, 0.0), best + 1


@lru_cache(maxsize=256)
def critical(n: int) -> float:
    """Share explained that one normal distribution of n values exceeds with `FALSE_ALARM` (seeded simulation)."""
    if n > 200:
        return critical(200)
    sample = np.sort(np.random.default_rng(n).standard_normal((20_000, n)), axis=1)
    return float(np.quantile(_explained(sample)[0], 1 - FALSE_ALARM))


def _cut(logs: np.ndarray, fewest_in_mode: int) -> list[np.ndarray]:
    if logs.size < FEWEST or logs[-1] - logs[0] < np.log(MIN_GAP):
        return [logs]
    share, position = (x[0] for x in _explained(logs[None, :]))
    gap = logs[position] - logs[position - 1]
    small = min(position, logs.size - position)
    if share <= critical(logs.size) or gap < np.log(MIN_GAP) or small < fewest_in_mode:
        return [logs]
    return _cut(logs[:position], fewest_in_mode) + _cut(logs[position:], fewest_in_mode)


def modes(medians_ns: Sequence[float], least_share: float = 0.0) -> list[Mode]:
    """The groups that the medians fall into, cheapest first; one group when nothing separates; none without values."""
    values = np.asarray([x for x in medians_ns if np.isfinite(x)], dtype=float)
    if values.size == 0:
        return []
    if (values <= 0).any():
        return [Mode(median_ns=float(np.median(values)), share=1.0)]
    groups = _cut(np.sort(np.log(values)), max(1, int(np.ceil(least_share * values.size))))
    return [Mode(median_ns=float(np.median(np.exp(g))), share=g.size / values.size) for g in groups]


def lines_spread(line_medians_ns: Sequence[float]) -> float:
    """(p95 - p5) / median over the lines' medians; 0 for fewer than two lines."""
    values = np.asarray(line_medians_ns, dtype=float)
    if values.size < 2 or np.median(values) <= 0:
        return 0.0
    low, middle, high = np.percentile(values, [5, 50, 95])
    return float((high - low) / middle)

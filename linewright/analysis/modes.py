"""Does a cell have one figure or several?  Launches (or lines) that fall into separate groups.

The rule: sort the logarithms of the medians and call them two modes when
(a) one cut explains more of the spread than in all but `CUT_ALARM` of samples from one normal distribution, or the two
widest gaps together fill more of the range than in all but `GAP_ALARM` of them (three modes, which no one cut explains),
(b) the neighbouring values on both sides of the cut differ by at least `MIN_GAP`.
A mode of at least `FEWEST_AGAIN` is then cut again by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

CUT_ALARM, GAP_ALARM = 0.04, 0.01
FALSE_ALARM = CUT_ALARM + GAP_ALARM
"""Chance that condition (a) alone calls one normal distribution two modes; (b) makes it less."""
MIN_GAP = 1.25
"""Ratio across the cut below which nobody would act on the difference."""
FEWEST = 4
"""Medians needed before anything is said."""
FEWEST_AGAIN = 6
"""Medians that a mode needs before it is cut again."""
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


def _gap_share(ordered: np.ndarray) -> np.ndarray:
    """Per row of sorted values: share of the range that its two widest gaps fill."""
    gaps = np.sort(np.diff(ordered, axis=1), axis=1)
    span = ordered[:, -1] - ordered[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(span > 0, gaps[:, -2:].sum(axis=1) / span, 0.0)


@lru_cache(maxsize=256)
def critical(n: int) -> tuple[float, float]:
    """What one normal distribution of n values exceeds with `CUT_ALARM` and `GAP_ALARM` (seeded simulation)."""
    if n > 200:
        return critical(200)
    sample = np.sort(np.random.default_rng(n).standard_normal((20_000, n)), axis=1)
    return float(np.quantile(_explained(sample)[0], 1 - CUT_ALARM)), float(
        np.quantile(_gap_share(sample), 1 - GAP_ALARM)
    )


def _position(logs: np.ndarray) -> int:
    """Where to cut, 0 for nowhere."""
    share, position = (x[0] for x in _explained(logs[None, :]))
    cut_bound, gap_bound = critical(logs.size)
    if share > cut_bound:
        return int(position)
    return int(np.diff(logs).argmax()) + 1 if _gap_share(logs[None, :])[0] > gap_bound else 0


def cut(logs: np.ndarray, fewest_in_mode: int = 1) -> list[np.ndarray]:
    """Sorted logarithms, split into modes of at least so many values."""
    if logs.size < FEWEST or np.diff(logs).max() < np.log(MIN_GAP):
        return [logs]  # (b) holds nowhere: asked first, since what (a) compares with is simulated
    position = _position(logs)
    if not position or logs[position] - logs[position - 1] < np.log(MIN_GAP):
        return [logs]
    if min(position, logs.size - position) < fewest_in_mode:
        return [logs]
    parts = logs[:position], logs[position:]
    return [m for part in parts for m in (cut(part, fewest_in_mode) if part.size >= FEWEST_AGAIN else [part])]


def modes(medians_ns: Sequence[float], least_share: float = 0.0) -> list[Mode]:
    """The groups that the medians fall into, cheapest first; one group when nothing separates; none without values."""
    values = np.asarray(medians_ns, dtype=float)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return []
    if (values <= 0).any():
        return [Mode(median_ns=float(np.median(values)), share=1.0)]
    groups = cut(np.sort(np.log(values)), max(1, int(np.ceil(least_share * values.size))))
    return [Mode(median_ns=float(np.median(np.exp(g))), share=g.size / values.size) for g in groups]


def lines_spread(line_medians_ns: Sequence[float]) -> float:
    """(p95 - p5) / median over the lines' medians; 0 for fewer than two lines."""
    values = np.asarray(line_medians_ns, dtype=float)
    if values.size < 2 or np.median(values) <= 0:
        return 0.0
    low, middle, high = np.percentile(values, [5, 50, 95])
    return float((high - low) / middle)

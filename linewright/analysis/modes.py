# SPDX-License-Identifier: MIT
"""Does a cell have one figure or several?  Launches (or lines) that fall into separate modes.

The rule: sort the logarithms of the medians and call them two modes when (a) one cut explains more
of the spread than in all but a share of samples from one normal distribution, or the two widest
gaps together fill more of the range than in all but a share of them (three modes, which no one cut
explains), (b) the neighbouring values on both sides of the cut differ by at least `MIN_GAP`. A mode
of at least `FEWEST_AGAIN` is then cut again by the same rule."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from linewright.analysis import distributions
from linewright.analysis.mode_bounds import BOUNDS, LEVELS

FALSE_ALARM = 0.05
"""Chance that rule (a) alone calls one normal distribution two modes; (b) makes it less."""
GAPS_SHARE = 0.2
"""Of the chance of a false alarm, what the rule about gaps may use; the rule about one cut has the
rest."""
LINE_ALARM = 0.0005
"""The same chance for the lines of one cell: a run has about a hundred cells whose lines are looked
at."""
MIN_GAP = 1.25
"""Ratio across the cut below which the difference changes no decision."""
FEWEST = 4
"""Medians that an interval needs before it allows for modes."""
FEWEST_MODES = 8
"""Medians needed before modes are claimed: of five launches, four can fall into one state by
chance."""
FEWEST_IN_MODE = 2
"""Medians that make a mode: one launch that stands apart is an outlier, and nothing shows that it
would come again."""
FEWEST_AGAIN = 6
"""Medians that a mode needs before it is cut again."""
LINE_SHARE = 0.1
"""Smallest share of lines that makes a mode: a few odd lines are outliers, not a second home."""


class Mode(Struct, frozen=True, kw_only=True):
    """One group of medians."""

    median_ns: float
    share: float
    """Of the launches (or lines)."""
    share_low: float
    share_high: float
    """Its exact (Clopper-Pearson) 95 % interval."""


def explained(ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per row of sorted values: best share of the squared spread that one cut explains, and the
    cut's position."""
    n = ordered.shape[1]
    left = np.cumsum(ordered, axis=1)[:, :-1]
    total = ordered.sum(axis=1, keepdims=True)
    size = np.arange(1, n)
    mean = total / n
    between = (
        size * (left / size - mean) ** 2 + (n - size) * ((total - left) / (n - size) - mean) ** 2
    )
    spread = ((ordered - mean) ** 2).sum(axis=1)
    best = between.argmax(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = between[np.arange(len(best)), best] / spread
    return np.where(spread > 0, share, 0.0), best + 1


def gap_share(ordered: np.ndarray) -> np.ndarray:
    """Per row of sorted values: share of the range that its two widest gaps fill."""
    gaps = np.sort(np.diff(ordered, axis=1), axis=1)
    span = ordered[:, -1] - ordered[:, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(span > 0, gaps[:, -2:].sum(axis=1) / span, 0.0)


def critical(n: int, alarm: float = FALSE_ALARM) -> tuple[float, float]:
    """What one normal distribution of n values exceeds with the two parts of `alarm`, or of the
    next smaller level in the table."""
    level = max(0, min(LEVELS - 1, math.ceil(math.log2(FALSE_ALARM / alarm) - 1e-9)))
    cut_bounds, gap_bounds = BOUNDS[max(known for known in BOUNDS if known <= max(n, FEWEST))]
    return cut_bounds[level], gap_bounds[level]


def _position(logs: np.ndarray, alarm: float) -> int:
    """Where to cut, 0 for nowhere."""
    share, position = (x[0] for x in explained(logs[None, :]))
    cut_bound, gap_bound = critical(logs.size, alarm)
    if share > cut_bound:
        return int(position)
    return int(np.diff(logs).argmax()) + 1 if gap_share(logs[None, :])[0] > gap_bound else 0


def cut(logs: np.ndarray, fewest_in_mode: int = 1, alarm: float = FALSE_ALARM) -> list[np.ndarray]:
    """Sorted logarithms, split into modes of at least `fewest_in_mode` values."""
    if logs.size < FEWEST or np.diff(logs).max() < np.log(MIN_GAP):
        return [logs]  # (b) holds nowhere: the quick question first
    position = _position(logs, alarm)
    if not position or logs[position] - logs[position - 1] < np.log(MIN_GAP):
        return [logs]
    if min(position, logs.size - position) < fewest_in_mode:
        return [logs]
    parts = logs[:position], logs[position:]
    return [
        m
        for part in parts
        for m in (cut(part, fewest_in_mode, alarm) if part.size >= FEWEST_AGAIN else [part])
    ]


def _mode(group: np.ndarray, count: int) -> Mode:
    k, n = group.size, count
    low = distributions.beta_quantile(k, n - k + 1, 0.025) if k else 0.0
    high = distributions.beta_quantile(k + 1, n - k, 0.975) if k < n else 1.0
    return Mode(median_ns=float(np.median(group)), share=k / n, share_low=low, share_high=high)


def modes(
    medians_ns: Sequence[float], least_share: float = 0.0, alarm: float = FALSE_ALARM
) -> list[Mode]:
    """The groups that the medians fall into, cheapest first; one group when nothing separates; none
    without values.

    `alarm` is the chance of calling one group several: a caller that judges many cells divides it
    among them."""
    values = np.asarray(medians_ns, dtype=float)
    values = values[np.isfinite(values)]
    if values.size == 0:
        return []
    if values.size < FEWEST_MODES or (values <= 0).any():
        return [_mode(values, values.size)]
    logs = np.sort(np.log(values))
    groups = cut(logs, max(FEWEST_IN_MODE, int(np.ceil(least_share * values.size))), alarm)
    return [_mode(np.exp(group), values.size) for group in groups]

# SPDX-License-Identifier: MIT
"""Does a cell have one figure or several?  Launches (or lines) that fall into separate modes.

The rule: sort the logarithms of the medians and call them two modes when (a) one cut explains more
of the spread than in all but a share of samples from one normal distribution, or the two widest
gaps together fill more of the range than in all but a share of them (three modes, which no one cut
explains), (b) the neighbouring values on both sides of the cut differ by at least `MIN_GAP`. A mode
of at least `FEWEST_AGAIN` is then cut again by the same rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from linewright.analysis import distributions

LEVELS = 12
"""Chances of a false alarm, from `FALSE_ALARM` down by halves."""

# fmt: off
BOUNDS: Mapping[int, tuple[tuple[float, ...], tuple[float, ...]]] = {
    4: (
        (.9888, .9945, .9972, .9986, .9993, .9997, .9998, .9999, 1.0, 1.0, 1.0, 1.0),
        (.9981, .999, .9995, .9997, .9999, .9999, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    ),
    5: (
        (.9666, .9789, .9866, .9917, .9948, .9966, .9979, .9986, .9991, .9995, .9997, .9998),
        (.9727, .9805, .9865, .9905, .9933, .9955, .9967, .9972, .9981, .9985, .9993, .9994),
    ),
    6: (
        (.9422, .9591, .9712, .9795, .9852, .9896, .9922, .9944, .9959, .9969, .9975, .9978),
        (.9274, .9425, .9545, .9636, .9711, .9774, .9819, .9861, .9899, .9907, .9922, .9933),
    ),
    7: (
        (.9195, .9384, .9529, .9646, .9725, .9791, .984, .9882, .9914, .9934, .9948, .9962),
        (.878, .898, .914, .9276, .9401, .9514, .9581, .9656, .97, .9744, .9812, .9822),
    ),
    8: (
        (.9011, .9217, .9377, .9501, .9602, .9679, .9745, .9796, .9831, .987, .9903, .9923),
        (.8344, .8561, .8736, .8914, .9053, .9149, .9228, .9339, .9425, .9447, .9497, .9504),
    ),
    10: (
        (.8716, .8923, .9097, .9232, .9365, .9462, .9547, .9615, .9688, .9731, .9791, .981),
        (.7563, .7807, .8022, .8221, .8384, .8504, .8659, .88, .8902, .8924, .9037, .9041),
    ),
    12: (
        (.8496, .8697, .8869, .9016, .9136, .9254, .9343, .9431, .9508, .9562, .9644, .9682),
        (.6987, .7254, .7475, .767, .7834, .8026, .8144, .8266, .8445, .8525, .8638, .8649),
    ),
    16: (
        (.8182, .8371, .8538, .8673, .88, .8914, .9017, .9126, .9203, .9306, .9375, .9433),
        (.6203, .6465, .6715, .6907, .7078, .7261, .7394, .7605, .7752, .7848, .7912, .7979),
    ),
    24: (
        (.7826, .7986, .8136, .8264, .8392, .8493, .8587, .8676, .8762, .8824, .8907, .8954),
        (.5341, .5599, .5819, .6033, .6218, .6383, .6517, .669, .6774, .6953, .7083, .7109),
    ),
    40: (
        (.7461, .7603, .7722, .7836, .7946, .8045, .812, .8186, .826, .8327, .8374, .846),
        (.4554, .4784, .5019, .5177, .533, .5484, .5642, .5763, .5852, .5942, .5971, .609),
    ),
    100: (
        (.7028, .7117, .7199, .7272, .7346, .741, .7464, .7515, .7573, .7636, .7689, .7724),
        (.364, .384, .4066, .4219, .4417, .4542, .4635, .4726, .4765, .4862, .4953, .5006),
    ),
    200: (
        (.6823, .6892, .6956, .7016, .7074, .7113, .716, .7184, .7218, .7247, .7297, .7316),
        (.3148, .3356, .3519, .3684, .3815, .3946, .4083, .4155, .4229, .4297, .435, .438),
    ),
}
# fmt: on
"""By number of medians the critical values of the rule's two parts: the share of the spread that
the best cut explains, and the share of the range that the two widest gaps fill, which one normal
distribution exceeds with a chance of 5 %, 2.5 %, 1.25 % … (each half the one before).  Made by
bench/claims/mode_bounds.py, by simulation; between two numbers the smaller one's value holds, which
is the larger."""

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

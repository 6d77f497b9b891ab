# SPDX-License-Identifier: MIT
"""Intervals of medians and shares, the modes that launches or lines fall into, and the few
distributions that both are read from.

SciPy has the distributions and is 140 MB; the command has to fit small machines.
tests/py/analysis/test_distributions.py holds every function of them against SciPy's.

Whether a cell has one figure or several: sort the logarithms of the medians and call them two modes
when (a) one cut explains more of the spread than in all but a share of samples from one normal
distribution, or the two widest gaps together fill more of the range than in all but a share of them
(three modes, which no one cut explains), (b) the neighbouring values on both sides of the cut
differ by at least `MIN_GAP`. A mode of at least `FEWEST_AGAIN` is then cut again by the same rule.

Medians are of *groups*: a list of arrays, one array of values (window times, ns) per launch, or
per line when there is one launch only.  A cell's figure is the median of its groups' medians.
docs/reference/method.md says what each interval promises; tests/py/analysis/test_intervals.py
checks the promise by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from linewright.schema import Estimate, Interval

_NORMAL = NormalDist()
_TINY = 1e-300
_STEPS = 10_000
"""Far above the terms that a fraction takes: about the square root of the larger parameter."""


def normal_cdf(z: float) -> float:
    """P(Z <= z), to full relative precision in the lower tail too."""
    return math.erfc(-z / math.sqrt(2)) / 2


def normal_quantile(p: float) -> float:
    """The z with P(Z <= z) = p; infinite at 0 and 1."""
    if not 0 < p < 1:
        return math.copysign(math.inf, p - 0.5)
    return _NORMAL.inv_cdf(p)


def beta_cdf(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b) (DLMF 8.17.22, by Lentz's method)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(b, a, 1 - x)
    log_front = _log_beta(a, b) + a * math.log(x) + b * math.log1p(-x)
    c, d, fraction = 1.0, 0.0, 1.0
    for step in range(_STEPS):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (1 + term * d or _TINY)
        c = 1 + term / c or _TINY
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(log_front) * (fraction - 1) / a


def _log_beta(a: float, b: float) -> float:
    """The logarithm of 1 / B(a, b)."""
    return math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)


@lru_cache(maxsize=4096)
def beta_quantile(a: float, b: float, p: float) -> float:
    """The x with I_x(a, b) = p."""
    return root(lambda x: beta_cdf(a, b, x) - p, 0.0, 1.0)


def t_cdf(degrees: float, t: float) -> float:
    """P(T <= t) of Student's t."""
    if t * t < degrees:  # near the middle a tail would be rounded against one half
        middle = beta_cdf(0.5, degrees / 2, t * t / (degrees + t * t)) / 2
        return 0.5 + math.copysign(middle, t)
    tail = beta_cdf(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2
    return tail if t < 0 else 1 - tail


@lru_cache(maxsize=4096)
def t_quantile(degrees: float, p: float) -> float:
    """The t with P(T <= t) = p, for p of at least one half."""
    if math.isinf(degrees):
        return normal_quantile(p)
    if p < 0.9:  # as in t_cdf
        x = 1 - (y := beta_quantile(0.5, degrees / 2, 2 * p - 1))
    else:
        y = 1 - (x := beta_quantile(degrees / 2, 0.5, 2 * (1 - p)))
    return math.sqrt(degrees * y / x)


def f_above(above: float, below: float, f: float) -> float:
    """P(F > f) of the ratio of two variances with these degrees of freedom."""
    return beta_cdf(below / 2, above / 2, below / (below + above * f))


def f_quantile(above: float, below: float, p: float) -> float:
    """The f with P(F <= f) = p."""
    x = beta_quantile(above / 2, below / 2, p)
    return below * x / (above * (1 - x))


def binomial_cdf(k: int, n: int) -> float:
    """P(at most k of n fair coins show heads)."""
    return 0.0 if k < 0 else 1.0 if k >= n else beta_cdf(n - k, k + 1, 0.5)


EXACT = 60
"""Values up to which the signed-rank distribution is counted out; above, its normal
approximation."""


@lru_cache(maxsize=128)
def _signed_rank(n: int) -> np.ndarray:
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(counts)
        shifted[rank:] = counts[: counts.size - rank]
        counts = (counts + shifted) / 2
    return np.cumsum(counts)


def _signed_rank_moments(n: int) -> tuple[float, float]:
    return n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)


def signed_rank_cdf(n: int, t: int) -> float:
    """P(T <= t) of Wilcoxon's signed-rank sum of n values."""
    if n <= EXACT:
        return float(_signed_rank(n)[t])
    mean, deviation = _signed_rank_moments(n)
    return normal_cdf((t + 0.5 - mean) / deviation)


def signed_rank_bound(n: int, tail: float) -> int:
    """Largest t with P(T <= t) <= tail; -1 where there is none."""
    if n <= EXACT:
        return int(np.searchsorted(_signed_rank(n), tail * (1 + 1e-12), side="right")) - 1
    mean, deviation = _signed_rank_moments(n)
    return math.floor(mean + normal_quantile(tail) * deviation - 0.5)


def beta_binomial_at_least(k: int, n: int, a: float, b: float) -> float:
    """P(at least k of n), each with a chance that is drawn once from Beta(a, b)."""
    front = _log_beta(a, b) - math.log(n + 1)
    return math.fsum(
        math.exp(front + _log_beta(n - i + 1, i + 1) - _log_beta(i + a, n - i + b))
        for i in range(k, n + 1)
    )


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a growing function crosses 0: by the secant of the bracket, and every third step by its
    middle, so that it always shrinks."""
    at_low, at_high = function(low), function(high)
    for step in range(200):
        point = (low + high) / 2
        if step % 3:
            secant = low - at_low * (high - low) / (at_high - at_low)
            # A step beyond what rounding hides, so that the other end comes near too.
            step_least = 1e-15 * high
            point = min(max(secant, low + step_least), high - step_least)
        if not low < point < high:
            break
        at = function(point)
        if at < 0:
            low, at_low = point, at
        elif at > 0:
            high, at_high = point, at
        else:
            return point
    return low if -at_low < at_high else high


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
    low = beta_quantile(k, n - k + 1, 0.025) if k else 0.0
    high = beta_quantile(k + 1, n - k, 0.975) if k < n else 1.0
    return Mode(median_ns=float(np.median(group)), share=k / n, share_low=low, share_high=high)


def modes(
    medians_ns: Sequence[float], least_share: float = 0.0, alarm: float = FALSE_ALARM
) -> list[Mode]:
    """The groups that the medians fall into, cheapest first; one group when nothing separates; none
    without values.

    `alarm` is the chance of calling one group several: a caller that judges many cells divides it
    among them."""
    values = finite(medians_ns)
    if values.size == 0:
        return []
    if values.size < FEWEST_MODES or (values <= 0).any():
        return [_mode(values, values.size)]
    logs = np.sort(np.log(values))
    groups = cut(logs, max(FEWEST_IN_MODE, int(np.ceil(least_share * values.size))), alarm)
    return [_mode(np.exp(group), values.size) for group in groups]


CONFIDENCE = 0.95
BAND = 0.9
"""What a simulated figure's band holds: from its 5th to its 95th percentile."""
MANY_GROUPS = 12
"""Groups above which order statistics are fine enough to replace Student's t."""
UNLIKELY = 0.01
"""Chance below which a repeat's median is not expected in a mode."""

ValueGroups = Sequence[np.ndarray]


def finite(values: Sequence[float]) -> np.ndarray:
    """The values as an array, without those that are no number."""
    array = np.asarray(values, dtype=float)
    return array[np.isfinite(array)]


def median(values: np.ndarray) -> float:
    """Median of a non-empty array; several times faster than NumPy's for the short arrays that
    records hold."""
    ordered = np.array(values)
    ordered.sort()
    half = ordered.size // 2
    low = ordered[half - 1 + ordered.size % 2]
    return float(low / 2 + ordered[half] / 2)  # halves: no sum overflows


def median_of(values: Iterable[float], otherwise: float) -> float:
    """Median of those values that are numbers, or `otherwise` without any."""
    array = finite(list(values))
    return median(array) if array.size else otherwise


def between(values: np.ndarray, low: float, high: float) -> float:
    """From one quantile to another of a non-empty array, as NumPy interpolates them; several times
    faster for short ones."""
    ordered = np.sort(values)
    ends = []
    for share in (low, high):
        place = share * (ordered.size - 1)
        below = int(place)
        above = min(below + 1, ordered.size - 1)
        ends.append(
            float(ordered[below]) + (place - below) * float(ordered[above] - ordered[below])
        )
    return ends[1] - ends[0]


def lines_spread(line_medians_ns: Sequence[float]) -> float:
    """(p95 - p5) / median over the lines' medians; 0 for fewer than two lines."""
    values = np.asarray(line_medians_ns, dtype=float)
    if values.size < 2 or (middle := median(values)) <= 0:
        return 0.0
    return between(values, 0.05, 0.95) / middle


@lru_cache(maxsize=4096)
def order_ranks(n: int) -> tuple[int, int, float]:
    """Ranks (from 0) of the narrowest symmetric pair of order statistics that cover the median, and
    their exact coverage.

    Coverage of [x(k), x(n-1-k)] is 1 - 2·P(Binomial(n, 1/2) <= k).  Below six values no pair
    reaches 95 %: the outermost pair is returned with the coverage it has."""
    outside = (1 - CONFIDENCE) / 2
    k = max(0, int(n / 2 + normal_quantile(outside) * math.sqrt(n) / 2) + 1)
    while k > 0 and binomial_cdf(k, n) > outside:
        k -= 1
    k = min(k, (n - 1) // 2)
    return k, n - 1 - k, max(0.0, 1 - 2 * binomial_cdf(k, n))


def extremes(values: Sequence[float]) -> Interval:
    """Median, least and greatest of a few values: the outermost order statistics, which cover the
    median of what they were drawn from unless all n lie on one side of it, twice 1 in 2^n (David
    and Nagaraja 2003, section 7.1). For costs of several modes, where nothing narrower holds."""
    ordered = np.sort(np.asarray(values, dtype=float))
    return Interval(
        median_ns=median(ordered),
        low_ns=float(ordered[0]),
        high_ns=float(ordered[-1]),
        confidence=1 - 2.0 ** (1 - ordered.size),
    )


def wilson_score(part: int, whole: int) -> Estimate | None:
    """A share of samples with its score interval (Wilson 1927); None of no samples."""
    if whole <= 0:
        return None
    value, z = min(part, whole) / whole, normal_quantile((1 + CONFIDENCE) / 2)
    middle = (value + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z * math.sqrt(value * (1 - value) / whole + (z / (2 * whole)) ** 2)
    half /= 1 + z * z / whole
    return Estimate(value=value, low=max(0.0, middle - half), high=min(1.0, middle + half))


def medians_of(groups: ValueGroups) -> np.ndarray:
    """Each group's median."""
    sizes = {values.size for values in groups}
    if len(sizes) > 1:
        return np.array([median(values) for values in groups])
    ordered = np.sort(np.array(groups), axis=1)
    half = ordered.shape[1] // 2
    low = ordered[:, half - 1 + ordered.shape[1] % 2]
    return low / 2 + ordered[:, half] / 2


def bounded_exp(value: float) -> float:
    """e to the value, as far as doubles go."""
    return math.exp(max(-700.0, min(value, 700.0)))


def _median_variance(medians: np.ndarray) -> float:
    """Variance of the median of independent medians.

    Up to `MANY_GROUPS`: π/2 times that of their mean (normal theory, generous for few).  Above:
    from the width of their order-statistic interval (McKean and Schrader 1984), which a few odd
    values do not move."""
    if medians.size > MANY_GROUPS:
        low, high, reached = order_ranks(medians.size)
        ordered = np.sort(medians)
        deviations = 2 * normal_quantile((1 + reached) / 2)
        return float((ordered[high] - ordered[low]) / deviations) ** 2
    away = medians - medians.sum() / medians.size
    return float(away @ away) / (medians.size - 1) * math.pi / 2 / medians.size


def repeat_interval(groups: ValueGroups, logarithmic: bool = True) -> Interval | None:
    """Median of the groups, and where the median of a repeat of the same measurement falls at
    `CONFIDENCE`.

    Predicted from the spread between groups, which allows for the repeat's own luck: up to
    `MANY_GROUPS` by Student's t, above by order statistics, which odd lines do not move.  Groups in
    separate modes: every mode that a repeat's median could reasonably land in is inside.  One group
    only: order statistics of its windows.  `logarithmic` is for times, which vary by factors;
    differences of times do not."""
    groups = [values for values in groups if values.size]
    if not groups:
        return None
    if len(groups) == 1:
        return _single(groups[0])
    medians = medians_of(groups)
    middle = median(medians)
    logarithmic = logarithmic and bool((medians > 0).all())
    below, above = _predicted(np.sort(np.log(medians) if logarithmic else medians), logarithmic)
    if logarithmic:
        below, above = bounded_exp(below), bounded_exp(above)
    return Interval(
        median_ns=middle,
        low_ns=float(min(below, middle)),
        high_ns=float(max(above, middle)),
        confidence=CONFIDENCE,
    )


def _predicted(ordered: np.ndarray, logarithmic: bool) -> tuple[float, float]:
    """Where the median of as many new launches falls: Student's t from their spread, and every mode
    within reach.

    Modes are looked for among logarithms only.
    """
    n = ordered.size
    if n > MANY_GROUPS:
        single = _single(ordered)
        low, high = single.low_ns, single.high_ns
    else:
        reach = t_quantile(n - 1, (1 + CONFIDENCE) / 2) * math.sqrt(2 * _median_variance(ordered))
        low, high = median(ordered) - reach, median(ordered) + reach
    groups = cut(ordered) if logarithmic else [ordered]
    if len(groups) == 1:
        return low, high
    spread = math.sqrt(
        sum(float(((g - g.mean()) ** 2).sum()) for g in groups) / max(1, n - len(groups))
    )
    within = t_quantile(max(1, n - len(groups)), (1 + CONFIDENCE) / 2) * spread
    reachable = _reachable([g.size for g in groups])
    return min(low, groups[reachable[0]][0] - within), max(high, groups[reachable[1]][-1] + within)


def _reachable(sizes: list[int]) -> tuple[int, int]:
    """First and last mode that the median of a repeat lands in with a chance of `UNLIKELY` or more.

    The number of a repeat's launches at or beyond a mode, given that k of n were, is beta-binomial
    (Jeffreys prior)."""
    n = sum(sizes)

    def chance(k: int) -> float:
        return beta_binomial_at_least((n + 1) // 2, n, k + 0.5, n - k + 0.5)

    first = next(i for i in range(len(sizes)) if chance(sum(sizes[: i + 1])) >= UNLIKELY)
    last = next(i for i in reversed(range(len(sizes))) if chance(sum(sizes[i:])) >= UNLIKELY)
    return first, last


def _single(values: np.ndarray) -> Interval:
    """Order statistics of one group, the ranks moved out by the square root of two for a repeat's
    own noise."""
    ordered = np.sort(values)
    n = ordered.size
    low, high, reached = order_ranks(n)
    extra = math.ceil((math.sqrt(2) - 1) * (high - low) / 2)
    low, high = max(0, low - extra), min(n - 1, high + extra)
    return Interval(
        median_ns=median(ordered),
        low_ns=float(ordered[low]),
        high_ns=float(ordered[high]),
        confidence=reached,
    )

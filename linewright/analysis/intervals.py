"""Intervals of medians: from order statistics, and for launches that each had their own luck.

Everything works on *groups*: a list of arrays, one array of values (window times, ns) per launch, or per line when
there is one launch only.  A cell's figure is the median of its groups' medians.  docs/reference/method.md says what each
interval promises; tests/py/analysis/test_intervals.py checks the promise by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct
from scipy import special, stats

from linewright.analysis.modes import cut
from linewright.schema import Interval

CONFIDENCE = 0.95
RESAMPLES = 999
"""Odd, so that the 2.5 % and 97.5 % quantiles fall on replicates."""

MANY_GROUPS = 12
"""Groups above which order statistics are fine enough to replace Student's t."""
UNLIKELY = 0.01
"""Chance below which a repeat's median is not expected in a mode."""

Groups = Sequence[np.ndarray]


class Estimate(Struct, frozen=True, kw_only=True):
    """A figure without a unit of its own (a ratio, a share) and its interval."""

    value: float
    low: float
    high: float
    confidence: float = CONFIDENCE


def finite(values: Sequence[float]) -> np.ndarray:
    """The values as an array, without those that are no number."""
    array = np.asarray(values, dtype=float)
    return array[np.isfinite(array)]


def median(values: np.ndarray) -> float:
    """Median of a non-empty array; several times faster than NumPy's for the short arrays that records hold."""
    ordered = np.sort(values)
    half = ordered.size // 2
    return float(
        ordered[half] if ordered.size % 2 else ordered[half - 1] / 2 + ordered[half] / 2
    )  # halves: no sum overflows


@lru_cache(maxsize=4096)
def order_ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, int, float]:
    """Ranks (from 0) of the narrowest symmetric pair of order statistics that cover the median, and their exact coverage.

    Coverage of [x(k), x(n-1-k)] is 1 - 2·P(Binomial(n, 1/2) <= k).  Below six values no pair reaches 95 %: the
    outermost pair is returned with the coverage it has.
    """
    k = max(0, int(stats.binom.ppf((1 - confidence) / 2, n, 0.5)))
    while k > 0 and 2 * stats.binom.cdf(k, n, 0.5) > 1 - confidence:
        k -= 1
    k = min(k, (n - 1) // 2)
    return k, n - 1 - k, max(0.0, 1 - 2 * float(stats.binom.cdf(k, n, 0.5)))


def order_statistic(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Median of independent values with its order-statistic interval; `confidence` of the answer is what was reached."""
    array = np.sort(finite(values))
    if array.size == 0:
        return None
    low, high, reached = order_ranks(array.size, confidence)
    return Interval(median_ns=median(array), low_ns=float(array[low]), high_ns=float(array[high]), confidence=reached)


def _resampled_medians(values: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """`draws` medians of resamples (with replacement) of `values`, without making the resamples.

    The k-th smallest of n uniform draws is Beta(k, n-k+1); a resample's k-th smallest is therefore the sorted value
    at index floor(n·Beta).  For even n the next one up follows from the minimum of the n-k draws above it.
    """
    n = values.size
    ordered = np.sort(values)
    if n == 1:
        return np.full(draws, ordered[0])
    k = (n + 1) // 2
    position = rng.beta(k, n - k + 1, draws)
    lower = ordered[np.minimum((position * n).astype(np.int64), n - 1)]
    if n % 2:
        return lower
    position = 1 - (1 - position) * rng.random(draws) ** (1 / (n - k))
    return lower / 2 + ordered[np.minimum((position * n).astype(np.int64), n - 1)] / 2


def medians_of(groups: Groups) -> np.ndarray:
    """Each group's median."""
    sizes = {values.size for values in groups}
    if len(sizes) > 1:
        return np.array([median(values) for values in groups])
    ordered = np.sort(np.array(groups), axis=1)
    half = ordered.shape[1] // 2
    return ordered[:, half] if ordered.shape[1] % 2 else ordered[:, half - 1] / 2 + ordered[:, half] / 2


def replicates(groups: Groups, resamples: int = RESAMPLES, seed: int = 1) -> np.ndarray:
    """Hierarchical bootstrap: launches drawn with replacement, windows drawn within each; medians of launch medians.

    Of more than `MANY_GROUPS` groups (lines) whole groups alone are drawn: their spread holds the windows' noise.
    """
    rng = np.random.default_rng(seed)
    count = len(groups)
    if count == 1:
        return _resampled_medians(groups[0], resamples, rng)
    if count > MANY_GROUPS:
        return _resampled_medians(medians_of(groups), resamples, rng)
    chosen = rng.integers(0, count, (resamples, count))
    medians = np.empty((resamples, count))
    for index, values in enumerate(groups):
        hit = chosen == index
        medians[hit] = _resampled_medians(values, int(np.count_nonzero(hit)), rng)
    medians.sort(axis=1)
    return medians[:, count // 2] if count % 2 else medians[:, count // 2 - 1] / 2 + medians[:, count // 2] / 2


def centre(groups: Groups) -> float:
    """Median of the groups' medians."""
    return median(medians_of(groups))


def _exp(value: float) -> float:
    """e to the value, as far as doubles go."""
    return math.exp(max(-700.0, min(value, 700.0)))


@lru_cache(maxsize=1024)
def _t(confidence: float, degrees: float) -> float:
    return float(special.stdtrit(degrees, (1 + confidence) / 2))


def _median_variance(medians: np.ndarray) -> float:
    """Variance of the median of independent medians.

    Up to `MANY_GROUPS`: π/2 times that of their mean (normal theory, generous for few).  Above: from the width of
    their order-statistic interval (McKean and Schrader 1984), which a few odd values do not move.
    """
    if medians.size > MANY_GROUPS:
        low, high, reached = order_ranks(medians.size)
        ordered = np.sort(medians)
        return float((ordered[high] - ordered[low]) / (2 * special.ndtri((1 + reached) / 2))) ** 2
    away = medians - medians.sum() / medians.size
    return float(away @ away) / (medians.size - 1) * math.pi / 2 / medians.size


def repeat_interval(
    groups: Groups, confidence: float = CONFIDENCE, seed: int = 1, logarithmic: bool = True
) -> Interval | None:
    """Median of the groups, and where the median of a repeat of the same measurement falls at `confidence`.

    The wider, on each side, of the hierarchical bootstrap's percentile range and a range predicted from the spread
    between groups, which allows for the repeat's own luck: up to `MANY_GROUPS` by Student's t, above by order
    statistics, which odd lines do not move.  Groups in separate modes: every mode that a repeat's median could reasonably
    land in is inside.  One group only: order statistics of its windows.  `logarithmic` is for times, which vary by
    factors; differences of times do not.
    """
    groups = [values for values in groups if values.size]
    if not groups:
        return None
    if len(groups) == 1:
        return _single(groups[0], confidence)
    medians = medians_of(groups)
    middle = median(medians)
    low, high = _quantiles(replicates(groups, seed=seed), confidence)
    logarithmic = logarithmic and bool((medians > 0).all())
    below, above = _predicted(np.sort(np.log(medians) if logarithmic else medians), confidence, logarithmic)
    if logarithmic:
        below, above = _exp(below), _exp(above)
    return Interval(
        median_ns=middle,
        low_ns=float(min(low, below, middle)),
        high_ns=float(max(high, above, middle)),
        confidence=confidence,
    )


def _quantiles(values: np.ndarray, confidence: float) -> tuple[float, float]:
    """The outer quantiles of replicates, at whole ranks."""
    ordered = np.sort(values)
    k = round((1 - confidence) / 2 * (ordered.size + 1)) - 1
    return float(ordered[k]), float(ordered[ordered.size - 1 - k])


def _predicted(ordered: np.ndarray, confidence: float, logarithmic: bool) -> tuple[float, float]:
    """Where the median of as many new launches falls: Student's t from their spread, and every mode within reach.

    Modes are looked for among logarithms only.
    """
    n = ordered.size
    if n > MANY_GROUPS:
        single = _single(ordered, confidence)
        low, high = single.low_ns, single.high_ns
    else:
        reach = _t(confidence, n - 1) * math.sqrt(2 * _median_variance(ordered))
        low, high = median(ordered) - reach, median(ordered) + reach
    groups = cut(ordered) if logarithmic else [ordered]
    if len(groups) == 1:
        return low, high
    spread = math.sqrt(sum(float(((g - g.mean()) ** 2).sum()) for g in groups) / max(1, n - len(groups)))
    within = _t(confidence, max(1, n - len(groups))) * spread
    reachable = _reachable([g.size for g in groups])
    return min(low, groups[reachable[0]][0] - within), max(high, groups[reachable[1]][-1] + within)


def _reachable(sizes: list[int]) -> tuple[int, int]:
    """First and last mode that the median of a repeat lands in with a chance of `UNLIKELY` or more.

    The number of a repeat's launches at or beyond a mode, given that k of n were, is beta-binomial (Jeffreys prior).
    """
    n = sum(sizes)

    def chance(k: int) -> float:
        return float(stats.betabinom.sf((n + 1) // 2 - 1, n, k + 0.5, n - k + 0.5))

    first = next(i for i in range(len(sizes)) if chance(sum(sizes[: i + 1])) >= UNLIKELY)
    last = next(i for i in reversed(range(len(sizes))) if chance(sum(sizes[i:])) >= UNLIKELY)
    return first, last


def _single(values: np.ndarray, confidence: float) -> Interval | None:
    """Order statistics of one group, the ranks moved out by the square root of two for a repeat's own noise."""
    ordered = np.sort(values)
    n = ordered.size
    low, high, reached = order_ranks(n, confidence)
    extra = math.ceil((math.sqrt(2) - 1) * (high - low) / 2)
    low, high = max(0, low - extra), min(n - 1, high + extra)
    return Interval(
        median_ns=median(ordered), low_ns=float(ordered[low]), high_ns=float(ordered[high]), confidence=reached
    )


class Contrast(Struct, frozen=True, kw_only=True):
    """One cell against another: difference (ns) and ratio (first over second), with intervals and a p value of 'equal'."""

    difference: Interval
    ratio: Estimate | None
    """None where a median is not positive: a ratio means nothing there."""
    p: float


def _welch(a: np.ndarray, b: np.ndarray, floor: float) -> tuple[float, float]:
    """Standard error of the difference of medians and its degrees of freedom; `floor` is an added variance."""
    parts = [(_median_variance(x), x.size - 1) for x in (a, b) if x.size > 1]
    variance = sum(v for v, _ in parts) + floor
    below = sum(v * v / d for v, d in parts)
    degrees = variance**2 / below if below > 0 else 1e6
    return math.sqrt(variance), max(1.0, min(degrees, 1e6))


def _gaps(a: np.ndarray, b: np.ndarray, of_medians: float) -> tuple[float, float]:
    """Difference of the medians and, of few units, of the means, the smaller first."""
    if max(a.size, b.size) > MANY_GROUPS:
        return of_medians, of_medians
    of_means = float(a.mean() - b.mean())
    return min(of_medians, of_means), max(of_medians, of_means)


def contrast(
    a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE, relative_floor: float = 0.0
) -> Contrast | None:
    """Compare two cells by their units' medians (launches, or lines of one launch): Welch's t on the logarithm.

    Few units in two modes have a median that jumps from one to the other, while Welch's t speaks of means: with up to
    `MANY_GROUPS` units a difference counts as far as medians and means both show it, and the intervals hold both.
    `relative_floor` is a relative standard deviation added to both sides, for luck that the units cannot show.
    None when either side is empty or neither has two units and no floor is given.
    """
    a, b = finite(a), finite(b)
    if not a.size or not b.size or (max(a.size, b.size) < 2 and relative_floor == 0):
        return None
    median_a, median_b = median(a), median(b)
    positive = bool((a > 0).all() and (b > 0).all())
    if positive:
        x, y, floor = np.log(a), np.log(b), 2 * relative_floor**2
        gap = math.log(median_a) - math.log(median_b)
    else:
        x, y, floor = a, b, relative_floor**2 * (median_a**2 + median_b**2)
        gap = median_a - median_b
    error, degrees = _welch(x, y, floor)
    low, high = _gaps(x, y, gap)
    sure = max(low, -high, 0.0)
    p = float(2 * special.stdtr(degrees, -sure / error)) if error > 0 else (1.0 if sure == 0 else 0.0)
    reach = min(_t(confidence, degrees) * error, 50.0) if positive else _t(confidence, degrees) * error
    ratio = None
    linear = reach
    if positive:
        ratio = Estimate(
            value=median_a / median_b,
            low=_exp(low - reach),
            high=_exp(high + reach),
            confidence=confidence,
        )
        spread, degrees_linear = _welch(a, b, relative_floor**2 * (median_a**2 + median_b**2))
        linear = _t(confidence, degrees_linear) * spread
    low, high = _gaps(a, b, median_a - median_b)
    return Contrast(
        difference=Interval(
            median_ns=median_a - median_b,
            low_ns=low - linear,
            high_ns=high + linear,
            confidence=confidence,
        ),
        ratio=ratio,
        p=p,
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the order given: the chance of one false claim among all stays below alpha."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted

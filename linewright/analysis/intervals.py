# SPDX-License-Identifier: MIT
"""Intervals of medians: from order statistics, and for launches that each had their own luck; and
of a share of samples.

Medians are of *groups*: a list of arrays, one array of values (window times, ns) per launch, or
per line when there is one launch only.  A cell's figure is the median of its groups' medians.
docs/reference/method.md says what each interval promises; tests/py/analysis/test_intervals.py
checks the promise by simulation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from linewright.analysis import distributions
from linewright.analysis.modes import cut
from linewright.schema import Estimate, Interval

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
    k = max(0, int(n / 2 + distributions.normal_quantile(outside) * math.sqrt(n) / 2) + 1)
    while k > 0 and distributions.binomial_cdf(k, n) > outside:
        k -= 1
    k = min(k, (n - 1) // 2)
    return k, n - 1 - k, max(0.0, 1 - 2 * distributions.binomial_cdf(k, n))


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
    value, z = min(part, whole) / whole, distributions.normal_quantile((1 + CONFIDENCE) / 2)
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


@lru_cache(maxsize=1024)
def _t(degrees: float) -> float:
    return distributions.t_quantile(degrees, (1 + CONFIDENCE) / 2)


def _median_variance(medians: np.ndarray) -> float:
    """Variance of the median of independent medians.

    Up to `MANY_GROUPS`: π/2 times that of their mean (normal theory, generous for few).  Above:
    from the width of their order-statistic interval (McKean and Schrader 1984), which a few odd
    values do not move."""
    if medians.size > MANY_GROUPS:
        low, high, reached = order_ranks(medians.size)
        ordered = np.sort(medians)
        deviations = 2 * distributions.normal_quantile((1 + reached) / 2)
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
        reach = _t(n - 1) * math.sqrt(2 * _median_variance(ordered))
        low, high = median(ordered) - reach, median(ordered) + reach
    groups = cut(ordered) if logarithmic else [ordered]
    if len(groups) == 1:
        return low, high
    spread = math.sqrt(
        sum(float(((g - g.mean()) ** 2).sum()) for g in groups) / max(1, n - len(groups))
    )
    within = _t(max(1, n - len(groups))) * spread
    reachable = _reachable([g.size for g in groups])
    return min(low, groups[reachable[0]][0] - within), max(high, groups[reachable[1]][-1] + within)


def _reachable(sizes: list[int]) -> tuple[int, int]:
    """First and last mode that the median of a repeat lands in with a chance of `UNLIKELY` or more.

    The number of a repeat's launches at or beyond a mode, given that k of n were, is beta-binomial
    (Jeffreys prior)."""
    n = sum(sizes)

    def chance(k: int) -> float:
        return distributions.beta_binomial_at_least((n + 1) // 2, n, k + 0.5, n - k + 0.5)

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

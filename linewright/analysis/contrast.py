# SPDX-License-Identifier: MIT
"""One thing against another: a ratio or a difference with its interval, by the five designs that
measurements here have, and of two simulated cells.

- `paired_t`: launches that ran both, or were made in turns; `paired_t_by_rounds` pairs the windows
  of one round.  What ran side by side is subtracted first (log ratios, or ns): a machine's state
  falls on both and cancels.
- `signed_rank`: single runs of a program, some of which are wild or fall into modes.
- `welch_t`: launches that share nothing, such as those of two machines.
- `ancova`: two runs of one machine, one after the other, with a line of drift through both.
- `simulated_contrast`: launches of a simulation differ by their random numbers alone, which say
  nothing of a machine, so cells are compared within each draw of the machine's constants: what both
  have in common cancels, and the model's own error of each is added.

What cells of one situation tell of each other's variance is in `control`, and what may be claimed
of a contrast in `comparison`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from linewright.analysis.intervals import (
    BAND,
    CONFIDENCE,
    bounded_exp,
    median,
    normal_quantile,
    signed_rank_bound,
    signed_rank_cdf,
    t_cdf,
    t_quantile,
)
from linewright.analysis.summary import Summary
from linewright.schema import Interval

MOST_UNPAIRED = 0.5
"""Share of a launch's windows without a partner in the same round from which rounds are not
paired."""
Scale = Literal["ratio", "ns"]
ByLaunch = Mapping[str, float]
"""One figure for each launch, by what names the launch."""
Rounds = Mapping[str, Mapping[float, float]]
"""The figures of each launch, by what names the launch and the round in it."""


class Contrast(Struct, frozen=True, kw_only=True):
    """First over second (`scale` ``ratio``) or first minus second (``ns``), with its interval."""

    scale: Scale
    value: float
    low: float
    high: float
    launches: int
    """Pairs of launches, or launches of the smaller side."""
    paired: bool
    p: float
    """Of "no difference", uncorrected; 1 where nothing was tested, as of published percentiles."""
    spread: float
    """Standard deviation of one launch's mean: of log ratios, or ns."""
    leverage: float
    """Standard error of the mean over launches, in `spread`: 1 over the root of their number."""
    degrees: float
    """Degrees of freedom of the spread."""
    residual: float = 0.0
    """Variance of a launch's mean that the rounds in it explain; 0 where rounds are not known."""
    residual_degrees: float = 0.0
    excess: float = 0.0
    """Variance of `mean` that no launch averages out."""
    over: Literal["launches", "draws", "nothing"] = "launches"
    """What the interval is over: launches; draws of a simulated machine's constants, with the
    model's own error; or nothing, where two simulated figures are known and no draws: an exact
    value."""
    confidence: float = CONFIDENCE
    """What the interval holds; 0 where there is none."""

    def enough(self, launches: int) -> bool:
        """Whether a claim may rest on it: on as many launches, or on draws, which need none."""
        return self.over == "draws" or (self.over == "launches" and self.launches >= launches)

    @property
    def mean(self) -> float:
        """The estimate on the scale on which it is averaged: a logarithm, or ns."""
        return math.log(self.value) if self.scale == "ratio" else self.value

    @property
    def error(self) -> float:
        """Standard error of `mean`."""
        return self.spread * self.leverage

    @property
    def reach(self) -> float:
        """Half of the interval on the scale of `mean`."""
        ratio = self.scale == "ratio"
        return (math.log(self.high / self.low) if ratio else self.high - self.low) / 2

    @property
    def neutral(self) -> float:
        """The value that means no difference."""
        return 1.0 if self.scale == "ratio" else 0.0

    @property
    def separate(self) -> bool:
        """Whether the interval excludes no difference."""
        return not self.low <= self.neutral <= self.high

    @property
    def nearest(self) -> float:
        """How far the interval's nearer end is from no difference, as a share or in ns; 0 where it
        includes none."""
        if not self.separate:
            return 0.0
        if self.scale == "ns":
            return min(abs(self.low), abs(self.high))
        return self.low - 1 if self.low > 1 else 1 / max(self.high, 1e-300) - 1

    @property
    def farthest(self) -> float:
        """How far the interval's farther end is from no difference, as a share or in ns."""
        if self.scale == "ns":
            return max(abs(self.low), abs(self.high))
        return max(self.high, 1 / self.low if self.low > 0 else math.inf) - 1

    def below(self, other: Contrast) -> bool:
        """Whether the interval lies below another's: of two forms with one default, a stricter
        test than their own (Schenker and Gentleman 2001)."""
        return self.high < other.low

    def with_variance(self, variance: float, degrees: float) -> Contrast:
        """The same with another variance of one launch's mean; a tenth of a degree is exact enough
        and keeps quantiles in the cache."""
        degrees = math.floor(10 * min(degrees, 1e4)) / 10
        return _contrast(
            self.scale, self.mean, math.sqrt(variance), self.leverage, degrees, self.launches,
            self.paired, (self.residual, self.residual_degrees),
        )  # fmt: skip

    def at(self, confidence: float) -> Contrast:
        """The same with Student's interval of another confidence; a band over draws stays."""
        if self.over != "launches":
            return self
        low, high = _ends(self.scale, self.mean, self.error, self.degrees, confidence)
        return replace(self, low=low, high=high, confidence=confidence)


def _ends(
    scale: Scale, mean: float, error: float, degrees: float, confidence: float
) -> tuple[float, float]:
    reach = t_quantile(degrees, (1 + confidence) / 2) * error
    ends = mean - reach, mean + reach
    return (bounded_exp(ends[0]), bounded_exp(ends[1])) if scale == "ratio" else ends


def _contrast(
    scale: Scale,
    mean: float,
    spread: float,
    leverage: float,
    degrees: float,
    launches: int,
    paired: bool,
    residual: tuple[float, float] = (0.0, 0.0),
) -> Contrast:
    error = spread * leverage
    p = 2 * t_cdf(degrees, -abs(mean) / error) if error > 0 else float(mean == 0)
    low, high = _ends(scale, mean, error, degrees, CONFIDENCE)
    return Contrast(
        scale=scale,
        value=bounded_exp(mean) if scale == "ratio" else mean,
        low=low,
        high=high,
        launches=launches,
        paired=paired,
        p=p,
        spread=spread,
        leverage=leverage,
        degrees=degrees,
        residual=residual[0],
        residual_degrees=residual[1],
    )


def _figures(values: Iterable[float], scale: Scale) -> np.ndarray | None:
    """The figures on the scale on which they are averaged; None where they cannot be: not finite,
    no logarithm."""
    figures = np.fromiter(values, dtype=float)
    if not np.isfinite(figures).all() or (scale == "ratio" and not (figures > 0).all()):
        return None
    return np.log(figures) if scale == "ratio" else figures


NO_PLACES: Mapping[str, int] = {}


def paired_t(
    first: ByLaunch, second: ByLaunch, scale: Scale = "ratio", places: Mapping[str, int] = NO_PLACES
) -> Contrast | None:
    """Two cells over the launches that ran both: the paired t test on log ratios (or on differences
    in ns).

    `places` has each launch's placement of code: launches that share one share its luck, and are
    averaged first.  None with fewer than two such launches, or where a ratio means nothing."""
    common = [launch for launch in first if launch in second]
    a, b = (_figures((side[launch] for launch in common), scale) for side in (first, second))
    if a is None or b is None:
        return None
    return _of_launches(a - b, scale, [places.get(launch, 0) for launch in common])


def paired_t_by_rounds(
    first: Rounds, second: Rounds, scale: Scale = "ratio", places: Mapping[str, int] = NO_PLACES
) -> Contrast | None:
    """The same, each launch by the mean of its round-paired differences, with the residual variance
    between rounds; None unless at least two launches have their rounds in common."""
    sides: tuple[list[float], list[float]] = ([], [])
    sizes, where = [], []
    for launch, own in first.items():
        beside = second.get(launch, {})
        common = [number for number in own if number in beside]
        if len(common) < max(2, MOST_UNPAIRED * min(len(own), len(beside))):
            continue
        where.append(places.get(launch, 0))
        sizes.append(len(common))
        for side, windows in zip(sides, (own, beside), strict=True):
            side.extend(windows[number] for number in common)
    a, b = (_figures(side, scale) for side in sides)
    if len(sizes) < 2 or a is None or b is None:
        return None
    difference, count = a - b, np.array(sizes)
    means = np.add.reduceat(difference, np.cumsum(count) - count) / count
    squares = float(((difference - np.repeat(means, count)) ** 2).sum())
    degrees = int(count.sum()) - count.size
    residual = squares / degrees * float(np.mean(1 / count))
    return _of_launches(means, scale, where, (residual, float(degrees)))


def _of_launches(
    differences: np.ndarray,
    scale: Scale,
    places: Sequence[int],
    residual: tuple[float, float] = (0.0, 0.0),
) -> Contrast | None:
    launches = differences.size
    if 1 < len(set(places)) < launches:
        at = np.array(places)
        differences = np.array([differences[at == place].mean() for place in sorted(set(places))])
        residual = (residual[0] * differences.size / launches, residual[1])
    if differences.size < 2:
        return None
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if not math.isfinite(mean) or not math.isfinite(spread):
        return None
    n = differences.size
    return _contrast(scale, mean, spread, 1 / math.sqrt(n), n - 1, launches, True, residual)


def signed_rank(
    first: Mapping[int, float], second: Mapping[int, float], confidence: float = CONFIDENCE
) -> Contrast | None:
    """Ratio of single runs of a program over the rounds that ran both: the Hodges-Lehmann estimate
    of the log ratio, with the exact p value and interval of Wilcoxon's signed-rank test (Hollander,
    Wolfe and Chicken 2014, chapter 3); None without such a round, or where a ratio means nothing.

    The interval is unbounded where so few rounds cannot give that confidence."""
    rounds = [number for number in first if number in second]
    a, b = (_figures((side[number] for number in rounds), "ratio") for side in (first, second))
    if a is None or b is None or not rounds:
        return None
    d, n = a - b, len(rounds)
    means = _pair_means(d)
    # Means of pairs on one side of zero are the rank sum of that side; at zero they count as both.
    below, above = (int((side <= 0).sum()) for side in (means, -means))
    value, low, high = signed_rank_interval(d, confidence)
    # What the interval's width stands for: wild runs move it as little as the interval.
    bounded = high < math.inf
    deviations = -2 * normal_quantile((1 - confidence) / 2)
    return Contrast(
        scale="ratio",
        value=bounded_exp(value),
        low=bounded_exp(low) if bounded else 0.0,
        high=bounded_exp(high) if bounded else math.inf,
        launches=n,
        paired=True,
        p=min(1.0, 2 * signed_rank_cdf(n, min(below, above))),
        spread=(high - low) / deviations * math.sqrt(n) if bounded else float(d.std()),
        leverage=1 / math.sqrt(n),
        degrees=n - 1,
        confidence=confidence,
    )


def _pair_means(values: np.ndarray) -> np.ndarray:
    """The means of all pairs, each value with itself too, in ascending order."""
    i, j = np.triu_indices(values.size)
    return np.sort((values[i] + values[j]) / 2)


def signed_rank_interval(
    values: np.ndarray, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """The Hodges-Lehmann estimate of where values lie around which they are symmetric, and the ends
    of its interval by the signed-rank test, which are infinite where so few cannot give that
    confidence."""
    means, k = _pair_means(values), signed_rank_bound(values.size, (1 - confidence) / 2)
    ends = (float(means[k]), float(means[-1 - k])) if k >= 0 else (-math.inf, math.inf)
    return (median(means), *ends)


def satterthwaite(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """The sum of independent variances, each with its degrees of freedom, and the sum's degrees
    (Satterthwaite 1946)."""
    known = [(variance, degrees) for variance, degrees in parts if variance > 0]
    whole = sum(variance for variance, _ in known)
    below = sum(variance / whole * variance / whole / degrees for variance, degrees in known)
    return whole, min(max(1.0, 1 / below), 1e6) if below > 0 else 1e6


def welch_t(
    first: Sequence[float], second: Sequence[float], scale: Scale = "ratio", common: float = 0.0
) -> Contrast | None:
    """First over (or minus) second, of launches that share nothing, such as those of two machines:
    Welch's t test, on logarithms where the scale is a ratio.  None with fewer than two launches on
    a side.

    `common`: standard deviation of what falls on all of a side alike, which they cannot show."""
    a, b = _figures(first, scale), _figures(second, scale)
    if a is None or b is None or min(a.size, b.size) < 2:
        return None
    parts = [(float(x.var(ddof=1)) / x.size, x.size - 1.0) for x in (a, b)]
    variance, degrees = satterthwaite([*parts, (2 * common**2, math.inf)])
    leverage, mean = math.sqrt(1 / a.size + 1 / b.size), float(a.mean() - b.mean())
    degrees = degrees if variance > 0 else a.size + b.size - 2.0
    spread, launches = math.sqrt(variance) / leverage, min(a.size, b.size)
    return _contrast(scale, mean, spread, leverage, degrees, launches, False)


def ancova(
    after: Sequence[float],
    before: Sequence[float],
    scale: Scale = "ratio",
    when: Sequence[float] | np.ndarray = (),
) -> Contrast | None:
    """Two runs whose launches were not paired, by an analysis of covariance: least squares with one
    line of drift through the launches of both.

    Each run has its own spread between launches, as in Welch's test.  `when` says where the
    launches stand in time, those of `before` first, then those of `after`; without it all of
    `before` came first, both in order.  What the drift explains of the difference is taken off and
    its uncertainty added, so that a machine that warms up by some percent a launch is no change.
    None with fewer than two launches on a side."""
    a, b = _figures(before, scale), _figures(after, scale)
    if a is None or b is None or min(a.size, b.size) < 2 or a.size + b.size < 5:
        return None
    when = np.asarray(when if len(when) else np.arange(a.size + b.size), dtype=float)
    side = np.repeat([0.0, 1.0], [a.size, b.size])
    terms = np.column_stack([np.ones_like(when), when - when.mean(), side])
    values = np.concatenate([a, b])
    inverse = np.linalg.inv(terms.T @ terms)
    weights = inverse @ terms.T
    residuals = values - terms @ (weights @ values)
    # Each run has its own spread: 40 launches of a quiet hour would else vouch for 5 of a busy one.
    free = 1 - (terms * weights.T).sum(axis=1)
    degrees = np.array([free[side == of].sum() for of in (0.0, 1.0)])
    squares = np.array([(residuals[side == of] ** 2).sum() for of in (0.0, 1.0)])
    parts = squares / degrees * np.array([(weights[2, side == of] ** 2).sum() for of in (0.0, 1.0)])
    variance, joint = satterthwaite(zip(parts.tolist(), degrees.tolist(), strict=True))
    leverage, mean = math.sqrt(float(inverse[2, 2])), float(weights[2] @ values)
    joint = joint if variance > 0 else values.size - 3.0
    spread, launches = math.sqrt(variance) / leverage, min(a.size, b.size)
    return _contrast(scale, mean, spread, leverage, joint, launches, False)


def difference_ns(contrast: Contrast, second_ns: float) -> Interval:
    """A contrast as a difference in ns, given what the second side takes."""
    ends = (contrast.value, contrast.low, contrast.high)
    if contrast.scale == "ratio":
        ends = tuple((end - 1) * second_ns for end in ends)
    return Interval(
        median_ns=ends[0], low_ns=ends[1], high_ns=ends[2], confidence=contrast.confidence
    )


ENDS = (50 * (1 - BAND), 50 * (1 + BAND))
"""Percentiles at the ends of a band."""


def with_model_error(values: Sequence[float], misses: Sequence[float]) -> np.ndarray:
    """What a measurement may be where a model says `values`, a row each: as it is said, and with
    each of the logarithms of simulated over measured by which the model missed before."""
    return np.outer(values, np.exp([0.0, *(-miss for miss in misses)]))


def ratios_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """First over second within each draw (their rows), with each miss of either (their columns)."""
    return first[:, :, None] / second[:, None, :]


def cost_ratio(first: Summary, second: Summary) -> Contrast | None:
    """First over second by their issue intervals: over the launches that ran both, or of simulated
    cells over draws."""
    if first.simulated and second.simulated:
        return simulated_contrast(first, second, "issue")
    return paired_t(first.of_launches("issue_ns"), second.of_launches("issue_ns"))


def simulated_contrast(first: Summary, second: Summary, figure: str) -> Contrast | None:
    """Two simulated cells of one run by their issue intervals (a ratio) or their exposed costs (a
    difference in ns); None where one has no such figure."""
    one, two = (s.exposed if figure == "exposed" else s.issue for s in (first, second))
    if one is None or two is None:
        return None
    if figure == "exposed":
        return over_draws(first, second, "ns", one.median_ns - two.median_ns)
    if min(one.median_ns, two.median_ns) <= 0:
        return None
    return over_draws(first, second, "ratio", one.median_ns / two.median_ns)


def over_draws(first: Summary, second: Summary, scale: Scale, value: float) -> Contrast:
    """A ratio (or difference in ns) of two simulated cells with the band that the constants and the
    model's own error leave it; without an interval where the records hold no draws.

    Draws of one number had the same random numbers: the same constants on one machine, and on a
    copy of it all but those that were edited.  One cell on a machine and on such a copy is missed
    alike, so that its error cancels, too."""
    found = _found(first, second, scale)
    reach = [value, *map(float, np.percentile(found, ENDS))] if found.size else [value]
    return Contrast(
        scale=scale, value=value, low=min(reach), high=max(reach),
        launches=min(first.launches, second.launches), paired=True, p=1.0, spread=0.0, leverage=0.0,
        degrees=math.inf, over="draws" if found.size else "nothing",
        confidence=BAND if found.size else 0.0,
    )  # fmt: skip


def _found(first: Summary, second: Summary, scale: Scale) -> np.ndarray:
    """The ratio or difference under each draw and each miss of either cell; nothing without
    draws."""
    one, two = first.drawn, second.drawn
    if one is None or two is None:
        return np.empty(0)
    draws = min(len(one.ns), len(two.ns))
    a, b = (with_model_error(own.ns[:draws], own.misses) for own in (one, two))
    alike = first.id == second.id and one.misses == two.misses
    if scale == "ratio":
        whole = min(*one.ns, *two.ns) > 0
        return (a / b if alike else ratios_of(a, b)) if whole else np.empty(0)
    loops = [s.issue.median_ns - s.exposed.median_ns for s in (first, second)]
    return (a - b if alike else a[:, :, None] - b[:, None, :]) - (loops[0] - loops[1])

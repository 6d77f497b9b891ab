"""One cell against another, launch by launch: ratio or difference with its interval, and one of three answers.

The launch is the unit.  Cells that ran in the same launches are paired: a launch's luck falls on both and cancels.
Runs that were made one after the other cannot be paired; a drift as steep as the one inside them is then allowed for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
from msgspec import Struct
from scipy import special

from linewright.analysis.intervals import CONFIDENCE, bounded_exp
from linewright.schema import Interval

ALPHA = 0.05
"""Chance of one false claim in one run, over all questions together."""
QUESTIONS: Mapping[str, float] = {"forms": 0.03, "readers": 0.01, "cores": 0.005, "across": 0.005}
"""How the questions asked of one run share `ALPHA`: form against default at every point (crossovers follow from it),
readers against their number and updaters, core against core, operation against operation."""
IN_SEQUENCE = 0.2
"""Of `ALPHA`, what a comparison of runs made one after the other may use: its fit of one line of drift holds only
nearly."""
FEWEST_LAUNCHES = 5
"""Launches that a claim needs: with fewer, a launch's luck passes for a difference."""
FEWEST_ALIKE = 3
"""Contrasts of one condition from which their usual spread is taken."""
SAME_ALONE = 0.05
SAME_CONTENDED = 0.10
"""Relative difference below which two costs are called the same, alone and contended."""
SAME_NS = 0.5
"""Exposed costs that differ by less are called the same, about two cycles: a share of a cost that work hides is
nothing."""

Answer = Literal["different", "same", "undecided"]
ByLaunch = Mapping[str, float]
"""One figure for each launch, by what names the launch."""


class Placed(Struct, frozen=True):
    """How the launches of a contrast fall onto placements of code, of which each comes again after a few launches."""

    between: float
    """Of the spread of what was averaged, the share (of squares) between placements."""
    places: int
    launches: int
    together: float
    """Launches at the placement of a launch, itself included, on average."""


class Contrast(Struct, frozen=True, kw_only=True):
    """First over second (`scale` ``ratio``) or first minus second (``ns``), with a plain 95 % interval."""

    scale: Literal["ratio", "ns"]
    value: float
    low: float
    high: float
    launches: int
    """Pairs of launches, or launches of the smaller side."""
    paired: bool
    p: float
    """Of "no difference", uncorrected."""
    spread: float
    """Standard deviation between launches of what was averaged: log ratios, or ns."""
    leverage: float
    """Standard error of the value, in spreads."""
    degrees: float
    """Degrees of freedom of the spread."""
    placed: Placed | None = None
    """Where launches shared placements, and not all of them one."""

    @property
    def neutral(self) -> float:
        """The value that means no difference."""
        return 1.0 if self.scale == "ratio" else 0.0

    @property
    def nearest(self) -> float:
        """How far the interval's nearer end is from no difference, as a share or in ns; 0 where it includes none."""
        if self.low > self.neutral:
            return self.low - 1 if self.scale == "ratio" else self.low
        if self.high < self.neutral:
            return (1 / self.high - 1 if self.high > 0 else math.inf) if self.scale == "ratio" else -self.high
        return 0.0

    @property
    def farthest(self) -> float:
        """How far the interval's farther end is from no difference, as a share or in ns."""
        if self.scale == "ns":
            return max(abs(self.low), abs(self.high))
        return max(self.high, 1 / self.low if self.low > 0 else math.inf) - 1


NO_PLACES: Mapping[str, int] = {}


def _made(
    scale: str, mean: float, spread: float, leverage: float, degrees: float, launches: int, paired: bool
) -> Contrast:
    error = spread * leverage
    reach = float(special.stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error
    p = float(2 * special.stdtr(degrees, -abs(mean) / error)) if error > 0 else (1.0 if mean == 0 else 0.0)
    ends = (mean, mean - reach, mean + reach)
    value, low, high = map(bounded_exp, ends) if scale == "ratio" else ends
    return Contrast(
        scale=scale, value=value, low=low, high=high, launches=launches, paired=paired, p=p, spread=spread,
        leverage=leverage, degrees=degrees,
    )  # fmt: skip


def _figures(values: Sequence[float], scale: str) -> np.ndarray | None:
    """The figures on the scale on which they are averaged; None where they cannot be: not finite, no logarithm."""
    figures = np.asarray(values, dtype=float)
    if not np.isfinite(figures).all() or (scale == "ratio" and not (figures > 0).all()):
        return None
    return np.log(figures) if scale == "ratio" else figures


def paired(
    first: ByLaunch,
    second: ByLaunch,
    scale: Literal["ratio", "ns"] = "ratio",
    places: Mapping[str, int] = NO_PLACES,
) -> Contrast | None:
    """Two cells over the launches that ran both: the paired t test on log ratios (or on differences in ns).

    `places` has each launch's placement of code, for `steadied` and `no_surer` to heed.  None with fewer than two such
    launches, or where a ratio means nothing.
    """
    common = [launch for launch in first if launch in second]
    a, b = (_figures([side[launch] for launch in common], scale) for side in (first, second))
    if len(common) < 2 or a is None or b is None:
        return None
    mean, spread = float((a - b).mean()), float((a - b).std(ddof=1))
    if not math.isfinite(mean) or not math.isfinite(spread):
        return None
    found = _made(scale, mean, spread, 1 / math.sqrt(len(common)), len(common) - 1, len(common), True)
    return msgspec.structs.replace(found, placed=_placed(a - b, [places.get(launch, 0) for launch in common]))


def _placed(figures: np.ndarray, places: Sequence[int]) -> Placed | None:
    """None where there is nothing to see: every launch at a placement of its own, all at one, or figures that agree."""
    groups: dict[int, list[float]] = {}
    for place, figure in zip(places, figures, strict=True):
        groups.setdefault(place, []).append(float(figure))
    whole = float(((figures - figures.mean()) ** 2).sum())
    if not 1 < len(groups) < figures.size or whole <= 0:
        return None
    inside = sum(float(((np.array(g) - np.mean(g)) ** 2).sum()) for g in groups.values())
    together = sum(len(g) ** 2 for g in groups.values()) / figures.size
    return Placed(max(0.0, 1 - inside / whole), len(groups), figures.size, together)


def unpaired(first: Sequence[float], second: Sequence[float], floor: float = 0.0) -> Contrast | None:
    """Ratio of two sets of independent figures (Welch's t on logarithms); `floor`: relative deviation added to each
    side.

    None unless one side has two positive figures, or a floor stands for what one figure cannot show.
    """
    a, b = _figures(first, "ratio"), _figures(second, "ratio")
    if a is None or b is None or not a.size or not b.size or (max(a.size, b.size) < 2 and floor == 0):
        return None
    parts = [(float(x.var(ddof=1)) / x.size, x.size - 1) for x in (a, b) if x.size > 1]
    variance = sum(v for v, _ in parts) + 2 * floor**2
    below = sum(v * v / d for v, d in parts)
    degrees = min(max(1.0, variance**2 / below), 1e6) if below > 0 else 1e6
    spread = math.sqrt(sum(v * (d + 1) for v, d in parts) / len(parts)) if parts else floor
    spread = spread or floor
    leverage = math.sqrt(variance) / spread if spread else 0.0
    return _made("ratio", float(a.mean() - b.mean()), spread, leverage, degrees, min(a.size, b.size), False)


def in_sequence(
    after: Sequence[float],
    before: Sequence[float],
    scale: Literal["ratio", "ns"] = "ratio",
    when: Sequence[float] = (),
) -> Contrast | None:
    """Two runs whose launches were not paired: least squares with one line of drift through the launches of both.

    Each run has its own spread between launches, as in Welch's test.  `when` says where the launches stand in time,
    those of `before` first, then those of `after`; without it all of `before` came first, both in order.  What the
    drift explains of the difference is taken off and its uncertainty added, so that a machine that warms up by some
    percent a launch is no change.  None with fewer than two launches on a side.
    """
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
    error = math.sqrt(float(parts.sum()))
    leverage = math.sqrt(float(inverse[2, 2]))
    joint = float(parts.sum()) ** 2 / float((parts**2 / degrees).sum()) if error > 0 else values.size - 3.0
    return _made(
        scale, float(weights[2] @ values), error / leverage, leverage, joint, min(a.size, b.size), False
    )  # fmt: skip


LIKE_USUAL = 2.4
"""Ratio of a contrast's variance to the usual one up to which four degrees of freedom do not tell them apart (F test, 5
%)."""


def steadied(found: Sequence[Contrast | None], kinds: Sequence[Hashable]) -> list[Contrast | None]:
    """Contrasts of forms, each with the spread between launches that it has in common with the others of its kind.

    Five launches tell little of a spread.  On a machine whose cells have two states, five that all fell the same way
    agree to the last digit, so a spread below the usual one counts as the usual one.  Where a spread is larger by no
    more than chance makes it, the variance is the mean of both.  Both count twice the degrees of freedom; a larger one
    is kept.
    """
    return _by_kind(found, kinds, _borrowed)


def no_surer(found: Sequence[Contrast | None], kinds: Sequence[Hashable]) -> list[Contrast | None]:
    """Contrasts of unlike cells, none more certain than the usual spread of its kind allows: nothing is borrowed but
    doubt."""
    return _by_kind(found, kinds, _doubted)


def _by_kind(
    found: Sequence[Contrast | None], kinds: Sequence[Hashable], rule: Callable[[Contrast, float], Contrast]
) -> list[Contrast | None]:
    """A rule applied to each contrast and the middle spread of its kind, where there are enough to have one."""
    found = _with_places(found, kinds)
    spreads: dict[Hashable, list[float]] = {}
    for c, kind in zip(found, kinds, strict=True):
        if c is not None:
            spreads.setdefault(kind, []).append(c.spread)
    usual = {kind: float(np.median(own)) for kind, own in spreads.items() if len(own) >= FEWEST_ALIKE}
    return [
        rule(c, usual[kind]) if c is not None and kind in usual else c for c, kind in zip(found, kinds, strict=True)
    ]


def _with_places(found: Sequence[Contrast | None], kinds: Sequence[Hashable]) -> list[Contrast | None]:
    """The contrasts with what launches at one placement of code have in common, as one kind shows it: they are no
    independent witnesses.

    The share of the variance that is the placement's (analysis of variance, one way, the contrasts of a kind together)
    widens the standard error by the design effect and takes degrees of freedom away, down to those of the placements.
    """
    parts: dict[Hashable, list[Placed]] = {}
    for c, kind in zip(found, kinds, strict=True):
        if c is not None and c.placed is not None:
            parts.setdefault(kind, []).append(c.placed)
    shares = {kind: _placement_share(own) for kind, own in parts.items()}
    return [_spread_over(c, shares[kind]) if c and c.placed else c for c, kind in zip(found, kinds, strict=True)]


def _placement_share(own: Sequence[Placed]) -> float:
    between, inside = sum(p.between for p in own), sum(1 - p.between for p in own)
    free = sum(p.places - 1 for p in own), sum(p.launches - p.places for p in own)
    if inside <= 0:
        return 1.0
    ratio = between / free[0] / (inside / free[1])
    size = sum((p.launches - p.together) / (p.places - 1) for p in own) / len(own)
    return max(0.0, (ratio - 1) / (ratio - 1 + size))


def _spread_over(c: Contrast, share: float) -> Contrast:
    p = c.placed
    wider = math.sqrt(1 + (p.together - 1) * share)
    degrees = c.degrees / (1 + share * (c.degrees / (p.places - 1) - 1))
    return _respread(msgspec.structs.replace(c, leverage=c.leverage * wider), c.spread, degrees)


def _borrowed(c: Contrast, usual: float) -> Contrast:
    if not c.paired:
        return _doubted(c, usual)
    if c.spread**2 > LIKE_USUAL * usual**2:
        return c
    return _respread(c, math.sqrt((max(c.spread, usual) ** 2 + usual**2) / 2), 2 * c.degrees)


def _doubted(c: Contrast, usual: float) -> Contrast:
    return _respread(c, usual, c.degrees) if c.spread < usual else c


def _respread(c: Contrast, spread: float, degrees: float) -> Contrast:
    mean = math.log(c.value) if c.scale == "ratio" else c.value
    made = _made(c.scale, mean, spread, c.leverage, degrees, c.launches, c.paired)
    return msgspec.structs.replace(made, placed=c.placed)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the order given: the chance of one false claim among all stays below
    alpha."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [1.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def corrected(found: Iterable[Contrast | None]) -> list[float | None]:
    """Holm's p values over the contrasts of one question; None where there is no contrast."""
    kept = list(found)
    adjusted = iter(holm([c.p for c in kept if c]))
    return [next(adjusted) if c else None for c in kept]


class Judged(Struct, frozen=True, kw_only=True):
    """A contrast and what may be said of it."""

    answer: Answer
    why: str
    """Of an undecided one: ``one_launch``, ``few_launches``, ``noise_floor`` (identical code differed as much),
    ``wide`` (the interval holds both same and different), ``baseline`` (the loop without the operation is no measure
    here), ``no_figure``, ``published`` (percentiles only).  Empty otherwise."""
    contrast: Contrast | None
    p: float | None
    """Corrected over the question's family."""
    within: float | None
    """Of ``same``: what the interval shows the difference to be below, as a share or in ns."""

    @property
    def cheaper(self) -> bool:
        """Shown to cost less than what it is compared with."""
        return self.answer == "different" and self.contrast.value < self.contrast.neutral

    @property
    def slower(self) -> bool:
        """Shown to cost more than what it is compared with."""
        return self.answer == "different" and self.contrast.value > self.contrast.neutral


def undecided(why: str, contrast: Contrast | None = None, p: float | None = None) -> Judged:
    return Judged(answer="undecided", why=why, contrast=contrast, p=p, within=None)


def judge(
    contrast: Contrast | None, p: float | None, *, alpha: float, same: float, floor: float = 0.0, why: str = ""
) -> Judged:
    """Different, same within `same` (a share, or ns) or undecided; nothing at or below `floor` is called different.

    `why` says why there is no contrast.
    """
    if contrast is None:
        return undecided(why or "no_figure")
    if contrast.launches < FEWEST_LAUNCHES:
        return undecided("one_launch" if contrast.launches < 2 else "few_launches", contrast, p)
    if contrast.farthest <= same:
        return Judged(answer="same", why="", contrast=contrast, p=p, within=contrast.farthest)
    if p is not None and p < alpha and contrast.nearest > 0:
        if contrast.nearest > floor:
            return Judged(answer="different", why="", contrast=contrast, p=p, within=None)
        return undecided("noise_floor", contrast, p)
    return undecided("wide", contrast, p)


def difference_ns(contrast: Contrast, second_ns: float) -> Interval:
    """A contrast as a difference in ns, given what the second side takes."""
    ends = (contrast.value, contrast.low, contrast.high)
    if contrast.scale == "ratio":
        ends = tuple((end - 1) * second_ns for end in ends)
    return Interval(median_ns=ends[0], low_ns=ends[1], high_ns=ends[2], confidence=CONFIDENCE)

"""Variance components of contrasts: what launches add under one condition, and what identical code
adds beyond that.

The residual variance comes from the rounds of each contrast (Searle, Casella and McCulloch 1992,
chapter 3). What launches add beyond it is estimated by the analysis of variance of each contrast
and pooled as the median over the contrasts of one condition. A contrast whose launches differ by
more than both explain (F test, 5 %) keeps its own variance. Pairs of identical machine code show
what no launch averages out, as the heterogeneity of a meta-analysis is found: a third component, of
every contrast of their kind. Degrees of freedom by Satterthwaite (1946)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from linewright.analysis import distributions
from linewright.analysis.contrast import Contrast, satterthwaite

FEWEST_POOLED = 3
"""Contrasts of one condition from which its launch component is taken; fewer keep their own."""
EFFECTIVE_DEGREES = 0.3
"""Of the degrees of freedom of a condition's contrasts, the share that their median counts: they
have a default in common, and a median uses less than all of what they say.  By simulation
(bench/claims/rule.py), as is `MOST_DEGREES`."""
MOST_DEGREES = 16.0
"""Degrees of freedom that a launch component has at most: cells differ in what launches add to
them, which no number of launches averages out."""
EXCESSIVE = 0.01
"""Level of the F test by which identical code differs by more than chance."""
OUTLYING = 0.05
"""Level of the F test by which a contrast keeps its own variance between launches."""


class Component(Struct, frozen=True, kw_only=True):
    """A variance that the contrasts of one condition share."""

    variance: float
    degrees: float


Identical = Mapping[Hashable, Sequence[Contrast]]
"""Contrasts of cells with identical machine code, by condition."""


def pool_components(
    found: Sequence[Contrast | None],
    conditions: Sequence[Hashable],
    identical: Identical | None = None,
    kind: Callable[[Hashable], Hashable] = lambda condition: condition,
) -> list[Contrast | None]:
    """Contrasts with the launch component that is usual under their condition, and the excess that
    `identical` code of the same run shows in all conditions of the same `kind`.

    The component is the median over the condition's contrasts of what their launches differ by
    beyond their rounds, never below zero; a contrast whose launches differ by more (F test) keeps
    its own.  Contrasts with rounds and without, of either scale, are conditions apart."""
    beside = identical or {}
    groups: dict[Hashable, list[Contrast]] = {}
    for condition, c in [
        *zip(conditions, found, strict=True),
        *((condition, c) for condition, own in beside.items() for c in own),
    ]:
        if c:
            groups.setdefault(_group(condition, c), []).append(c)
    usual = {key: launch_component(own) for key, own in groups.items()}

    def estimated(condition: Hashable, c: Contrast | None) -> Contrast | None:
        return c and _estimated(c, usual[_group(condition, c)])

    excess = heterogeneities(
        {condition: [estimated(condition, c) for c in own] for condition, own in beside.items()},
        kind,
    )
    kinds = list(map(kind, conditions))
    return add_components(list(map(estimated, conditions, found)), kinds, excess)


def _group(condition: Hashable, c: Contrast) -> Hashable:
    return condition, c.scale, c.paired, c.residual > 0


def heterogeneities(
    identical: Identical, kind: Callable[[Hashable], Hashable]
) -> dict[Hashable, Component]:
    """What identical code differs by beyond its standard error, by kind of condition and scale."""
    scales: dict[Hashable, list[Contrast]] = {}
    for condition, own in identical.items():
        for c in own:
            scales.setdefault((kind(condition), c.scale), []).append(c)
    return {key: heterogeneity(own) for key, own in scales.items()}


def add_components(
    found: Sequence[Contrast | None],
    kinds: Sequence[Hashable],
    excess: Mapping[Hashable, Component],
) -> list[Contrast | None]:
    """Contrasts with the excess of their kind and scale added to their variance."""
    return [
        c and _with_excess(c, excess.get((kind, c.scale)))
        for c, kind in zip(found, kinds, strict=True)
    ]


def launch_component(own: Sequence[Contrast]) -> Component | None:
    """What launches add under one condition; None where too few contrasts show it."""
    if len(own) < FEWEST_POOLED:
        return None
    # The middle of chi-squared lies below its mean: a median of variances is too small by that.
    beyond = [c.spread**2 * _of_median(c.degrees) - c.residual for c in own]
    degrees = min(MOST_DEGREES, max(1.0, EFFECTIVE_DEGREES * sum(c.degrees for c in own)))
    return Component(variance=max(0.0, float(np.median(beyond))), degrees=degrees)


def _of_median(degrees: float) -> float:
    """Mean over median of an estimated variance (the median of chi-squared by Wilson and Hilferty
    1931)."""
    return (1 - 2 / (9 * degrees)) ** -3


def _estimated(c: Contrast, usual: Component | None) -> Contrast:
    variance = c.residual + usual.variance if usual else 0.0
    if variance <= 0:
        return c
    # The component is the median less what rounds explain: as uncertain as that median, but for the
    # share of it that rounds explain.
    share = (c.residual / variance) ** 2
    known = share / c.residual_degrees if share else 0.0
    degrees = 1 / (known + (1 - share) / usual.degrees)
    if c.spread**2 > _outlying(c.degrees, round(min(degrees, 1e4))) * variance:
        return c
    return c.with_variance(variance, degrees)


@lru_cache(maxsize=4096)
def _outlying(above: float, below: float) -> float:
    """Ratio of variances that chance exceeds in a share `OUTLYING` of cases."""
    return distributions.f_quantile(above, below, 1 - OUTLYING)


def heterogeneity(pairs: Sequence[Contrast]) -> Component:
    """What pairs of identical machine code differ by beyond their standard errors, as a variance,
    each weighted by its precision (the moment estimate of DerSimonian and Laird 1986, about a mean
    of zero); nothing where chance explains it."""
    weights = [1 / c.error**2 for c in pairs if c.error > 0]
    known = [c for c in pairs if c.error > 0]
    squares = sum(w * c.mean**2 for w, c in zip(weights, known, strict=True))
    free = sum(c.degrees for c in known)
    if not known or distributions.f_above(len(known), free, squares / len(known)) > EXCESSIVE:
        return Component(variance=0.0, degrees=float(len(pairs)))
    beyond = (squares - len(known)) / sum(weights)
    return Component(variance=max(0.0, beyond), degrees=float(len(known)))


def _with_excess(c: Contrast, excess: Component | None) -> Contrast:
    if excess is None or excess.variance <= 0:
        return c
    variance, degrees = satterthwaite([(c.error**2, c.degrees), (excess.variance, excess.degrees)])
    return c.with_variance(variance / c.leverage**2, degrees)

# SPDX-License-Identifier: MIT
"""Variance components of contrasts: what launches add in one situation, how unlike that is from
cell to cell, and what identical code adds beyond that.

The residual variance comes from the rounds of each contrast (Searle, Casella and McCulloch 1992,
chapter 3). What launches add beyond it is estimated by the analysis of variance of each contrast
and pooled as the median over the contrasts of one situation. A contrast's own variance is moderated
by that pooled one, which weighs the more the more alike the variances of one kind are (Smyth 2004,
section 6.2), and is never less than it: cells that differ in what launches add to them are judged
by their own. One whose launches differ by more than the pooled variance explains (F test, 5 %)
keeps its own alone. Pairs of identical machine code show what no launch averages out, as the
heterogeneity of a meta-analysis is found: a third component, of every contrast of their kind.
Degrees of freedom by Satterthwaite (1946)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct

from linewright.analysis import distributions
from linewright.analysis.contrast import Contrast, satterthwaite

FEWEST_POOLED = 3
"""Contrasts of one situation from which its launch component is taken; fewer keep their own."""
EFFECTIVE_DEGREES = 0.3
"""Of the degrees of freedom of a situation's contrasts, the share that their median counts: they
have a default in common, and a median uses less than all of what they say.  By simulation
(bench/claims/rule.py), as is `MOST_DEGREES`."""
MOST_DEGREES = 16.0
"""Degrees of freedom that a launch component has at most: cells differ in what launches add to
them, which no number of launches averages out."""
EXCESSIVE = 0.01
"""Level of the F test by which identical code differs by more than chance."""
OUTLYING = 0.05
"""Level of the F test by which a contrast keeps its own variance between launches."""
DOUBT = 0.674
"""Normal quantile of the chance, one in four, with which variances are less alike than the pooled
one counts them: a few dozen show only roughly how alike they are.  By simulation, as above."""


class Component(Struct, frozen=True, kw_only=True):
    """A variance that the contrasts of one situation share."""

    variance: float
    degrees: float


Identical = Mapping[Hashable, Sequence[Contrast]]
"""Contrasts of cells with identical machine code, by situation."""


def pool_components(
    found: Sequence[Contrast | None],
    situations: Sequence[Hashable],
    identical: Identical | None = None,
    kind: Callable[[Hashable], Hashable] = lambda situation: situation,
) -> list[Contrast | None]:
    """Contrasts with the launch component that is usual in their situation, and the excess that
    `identical` code of the same run shows in all situations of the same `kind`.

    The component is the median over the situation's contrasts of what their launches differ by
    beyond their rounds, never below zero; it moderates each contrast's own variance by as much as
    those of one kind are alike.  Contrasts with rounds and without, of either scale, are situations
    apart."""
    beside = identical or {}
    groups: dict[Hashable, list[Contrast]] = {}
    for situation, c in [
        *zip(situations, found, strict=True),
        *((situation, c) for situation, own in beside.items() for c in own),
    ]:
        if c and c.over == "launches":
            groups.setdefault(_group(situation, c), []).append(c)
    usual = {key: launch_component(own) for key, own in groups.items()}
    kinds_of = {key: (kind(key[0]), *key[1:]) for key in groups}
    unlike: dict[Hashable, list[tuple[float, float]]] = {}
    for key, own in groups.items():
        unlike.setdefault(kinds_of[key], []).extend(_log_ratios(own, usual[key]))
    prior = {key: prior_degrees(ratios) for key, ratios in unlike.items()}

    def estimated(situation: Hashable, c: Contrast | None) -> Contrast | None:
        if c is None or c.over != "launches":
            return c
        key = _group(situation, c)
        return _moderated(c, usual[key], prior[kinds_of[key]])

    excess = heterogeneities(
        {situation: [estimated(situation, c) for c in own] for situation, own in beside.items()},
        kind,
    )
    kinds = list(map(kind, situations))
    return add_components(list(map(estimated, situations, found)), kinds, excess)


def _group(situation: Hashable, c: Contrast) -> tuple:
    return situation, c.scale, c.paired, c.residual > 0


def heterogeneities(
    identical: Identical, kind: Callable[[Hashable], Hashable]
) -> dict[Hashable, Component]:
    """What identical code differs by beyond its standard error, by kind of situation and scale."""
    scales: dict[Hashable, list[Contrast]] = {}
    for situation, own in identical.items():
        for c in own:
            scales.setdefault((kind(situation), c.scale), []).append(c)
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
    """What launches add in one situation; None where too few contrasts show it."""
    if len(own) < FEWEST_POOLED:
        return None
    # The middle of chi-squared lies below its mean: a median of variances is too small by that.
    beyond = [c.spread**2 * _over_quantile(c.degrees) - c.residual for c in own]
    degrees = min(MOST_DEGREES, max(1.0, EFFECTIVE_DEGREES * sum(c.degrees for c in own)))
    return Component(variance=max(0.0, float(np.median(beyond))), degrees=degrees)


def _over_quantile(degrees: float, below: float = 0.0) -> float:
    """Mean over median of an estimated variance, or over what lies `below` it by so many normal
    deviations (the quantile of chi-squared by Wilson and Hilferty 1931)."""
    return (1 - 2 / (9 * degrees) - below * (2 / (9 * degrees)) ** 0.5) ** -3


def _log_ratios(own: Sequence[Contrast], usual: Component | None) -> list[tuple[float, float]]:
    """Logarithms of what launches differ by over what their situation explains, with the degrees of
    freedom of each."""
    known = [(c, c.residual + usual.variance) for c in own if c.spread > 0] if usual else []
    return [(math.log(c.spread**2 / v), c.degrees) for c, v in known if v > 0]


def prior_degrees(ratios: Sequence[tuple[float, float]]) -> float:
    """How many degrees of freedom a pooled variance counts beside one's own: those with which
    variances would differ among each other by more than chance as these do (Smyth 2004).

    The variance of the logarithm of a variance with d degrees is the trigamma function of d / 2
    (DLMF 5.15.8).  `ratios` are logarithms of variances, with the degrees of each; their own
    variance is taken at the upper end of what it may be, by `DOUBT`."""
    if len(ratios) < FEWEST_POOLED:
        return math.inf
    logs, degrees = np.array(ratios).T
    chance = float(np.mean(2 / degrees + 2 / degrees**2 + 4 / (3 * degrees**3)))
    beyond = float(logs.var(ddof=1)) * _over_quantile(logs.size - 1, DOUBT) - chance
    return 2 / (math.sqrt(1 + 2 * beyond) - 1) if beyond > 0 else math.inf


def _moderated(c: Contrast, usual: Component | None, prior: float) -> Contrast:
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
    counted = min(degrees, prior)
    joint = counted + c.degrees
    moderated = (counted * variance + c.degrees * c.spread**2) / joint
    # Launches that agree by luck are no surer than their neighbours.
    return c.with_variance(max(variance, moderated), joint)


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
    if excess is None or excess.variance <= 0 or c.over != "launches":
        return c
    variance, degrees = satterthwaite([(c.error**2, c.degrees), (excess.variance, excess.degrees)])
    return c.with_variance(variance / c.leverage**2, degrees)

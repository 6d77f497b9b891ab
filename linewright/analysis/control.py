# SPDX-License-Identifier: MIT
"""What a run says about itself: how far identical machine code differed, whether the loop without
an operation is a measure, whether other programs or a change of frequency disturbed the launches;
and variance components of contrasts: what launches add in one situation, how unlike that is from
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
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import (
    Contrast,
    Scale,
    paired_t,
    paired_t_by_rounds,
    satterthwaite,
    simulated_contrast,
)
from linewright.analysis.intervals import f_above, f_quantile
from linewright.analysis.summary import Summary, figure_of
from linewright.forms import IDENTICAL, family_of
from linewright.schema import Cell, Context, Interval, Situation

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
    """The mean of an estimated variance over its median, or over the quantile that lies `below`
    standard deviations of the normal distribution under its median (the quantile of chi-squared by
    Wilson and Hilferty 1931)."""
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
    return f_quantile(above, below, 1 - OUTLYING)


def heterogeneity(pairs: Sequence[Contrast]) -> Component:
    """What pairs of identical machine code differ by beyond their standard errors, as a variance,
    each weighted by its precision (the moment estimate of DerSimonian and Laird 1986, about a mean
    of zero); nothing where chance explains it."""
    weights = [1 / c.error**2 for c in pairs if c.error > 0]
    known = [c for c in pairs if c.error > 0]
    squares = sum(w * c.mean**2 for w, c in zip(weights, known, strict=True))
    free = sum(c.degrees for c in known)
    if not known or f_above(len(known), free, squares / len(known)) > EXCESSIVE:
        return Component(variance=0.0, degrees=float(len(pairs)))
    beyond = (squares - len(known)) / sum(weights)
    return Component(variance=max(0.0, beyond), degrees=float(len(known)))


def _with_excess(c: Contrast, excess: Component | None) -> Contrast:
    if excess is None or excess.variance <= 0 or c.over != "launches":
        return c
    variance, degrees = satterthwaite([(c.error**2, c.degrees), (excess.variance, excess.degrees)])
    widened = c.with_variance(variance / c.leverage**2, degrees)
    return msgspec.structs.replace(widened, excess=excess.variance)


LINEAR = 0.05
"""Relative difference between work lengths in the time of one unit of work, from which the unit is
no unit."""
STEADY = 0.10
"""Relative distance from the 10th to the 90th percentile of the baseline loop's windows, from which
it is not repeatable."""
LEAST_NS = 0.5
"""Differences of baseline loops below this are the clock's, not the loop's."""


class Floor(Struct, frozen=True, kw_only=True):
    """What forms with identical machine code differed by in one situation."""

    group: NoiseGroup
    pairs: int
    size: float
    """Largest difference: a share of issue intervals, with work ns of exposed costs."""
    scale: Scale
    ids: tuple[str, ...]
    """Of the cells with identical machine code."""


class WorkLoop(Struct, frozen=True, kw_only=True):
    """The loop around operations as the probe itself measures it at the start of every launch;
    medians over launches."""

    unit_ns: float
    nonlinearity: float
    """Largest distance from proportionality to the units of work, 10 to 500 of them, as a share."""
    spread: float
    """Distance from the 10th to the 90th percentile of windows of one length, over their median."""

    @property
    def why(self) -> str:
        """As of `baseline_loop_faults`, of every length."""
        if self.nonlinearity > LINEAR:
            return "not_proportional"
        return "not_steady" if self.spread > STEADY else ""


class NoiseGroup(NamedTuple):
    """What cells share whose noise is alike: their situation but for lines, width and parameters,
    and their family; plain loads are apart, which the loop around them hides more or less of, and
    so are the distances of words apart, whose lines are fought over or not."""

    situation: Situation
    family: str
    loads: bool


def noise_group_of(cell: Cell) -> NoiseGroup:
    apart = cell.params.get("bytes_apart")
    situation = Situation(
        contender=cell.contender,
        contender_iters=cell.contender_iters,
        work=cell.work,
        work_iters=cell.work_iters,
        placement=cell.placement,
        threads=cell.threads,
        params=(("bytes_apart", apart),) if apart else (),
    )
    return NoiseGroup(situation, family_of(cell.operation).name, cell.operation == "read")


def kind_of(group: NoiseGroup) -> NoiseGroup:
    """The group without spacing and work: in all of these code has the same luck."""
    return group._replace(situation=group.situation.without("contender_iters", "work_iters"))


def identical_to(form: str, arch: str) -> tuple[str, ...]:
    """The forms whose loops hold the same machine code, this one included; the first is the one
    that is named."""
    return next((group for group in IDENTICAL.get(arch, ()) if form in group), (form,))


def pooled_interval(s: Summary, members: Iterable[Summary]) -> Interval:
    """A cell's issue interval, widened twice where other cells of its situation call for it: to
    hold the intervals of all forms with identical machine code, which have one true cost, and to be
    at least as wide as the median interval of the situation, since a few launches may agree by
    chance.  A model's band is its whole interval."""
    if s.band is not None:
        return s.band
    group = noise_group_of(s.cell)
    known = [
        (t, t.issue)
        for t in members
        if t.status == "ok" and t.issue and t.issue.confidence > 0 and t.issue.low_ns > 0
        if t.machine_id == s.machine_id and noise_group_of(t.cell) == group
    ]
    key = _of_code(s, s.arch)
    spans = [
        s.issue,
        *(i for t, i in known if t.cell.form in key[-1] and _of_code(t, s.arch) == key),
    ]
    low, high = min(i.low_ns for i in spans), max(i.high_ns for i in spans)
    if len(known) >= FEWEST_POOLED:
        below, above = (
            s.issue.median_ns * float(np.median([end / i.median_ns for end, i in ends]))
            for ends in ([(i.low_ns, i) for _, i in known], [(i.high_ns, i) for _, i in known])
        )
        low, high = min(low, below), max(high, above)
    return msgspec.structs.replace(s.issue, low_ns=low, high_ns=high)


def _of_code(s: Summary, arch: str) -> tuple:
    """What cells of identical machine code have in common, their situation first and their forms
    last."""
    where = s.cell.width_bits, s.cell.lines, s.machine_id
    return noise_group_of(s.cell), *where, identical_to(s.cell.form, arch)


class IdenticalCells(NamedTuple):
    """What cells with identical machine code differed by in one situation."""

    contrasts: list[Contrast]
    ids: list[str]


def identical_cells(summaries: Iterable[Summary], arch: str) -> dict[NoiseGroup, IdenticalCells]:
    """Cells with identical machine code, each held against the first of them, by
    `noise_group_of`."""
    groups: dict[tuple, dict[str, Summary]] = {}
    for s in summaries:
        key = _of_code(s, arch)
        if len(key[-1]) > 1 and s.status == "ok" and not s.emulated:
            groups.setdefault(key, {})[s.cell.form] = s
    found: dict[NoiseGroup, IdenticalCells] = {}
    for (group, *_, forms), members in groups.items():
        first, *others = own = [members[form] for form in forms if form in members]
        contrasts, ids = found.setdefault(group, IdenticalCells([], []))
        ids += (s.id for s in own)
        contrasts += filter(None, (contrast_of(s, first, figure_of(first)) for s in others))
    return found


def identical_contrasts(
    summaries: Iterable[Summary], arch: str
) -> dict[NoiseGroup, list[Contrast]]:
    """The contrasts alone."""
    return {group: own.contrasts for group, own in identical_cells(summaries, arch).items()}


def contrast_of(first: Summary, second: Summary, figure: str) -> Contrast | None:
    """Two cells of one run by their issue intervals (a ratio) or exposed costs (ns): paired by
    rounds where as many launches have them, else by launches; simulated ones within each draw of
    the constants."""
    if first.simulated and second.simulated:
        return simulated_contrast(first, second, figure)
    scale, name = "ns" if figure == "exposed" else "ratio", f"{figure}_ns"
    whole = paired_t(first.of_launches(name), second.of_launches(name), scale, first.places)
    close = paired_t_by_rounds(first.of_rounds(name), second.of_rounds(name), scale, first.places)
    return close if close and whole and close.launches >= whole.launches else whole


def floors(summaries: Iterable[Summary], arch: str) -> dict[NoiseGroup, Floor]:
    """What identical forms differed by in each situation that they were measured in, by
    `noise_group_of`: shown, and no threshold of anything."""
    away = lambda c: abs(c.value) if c.scale == "ns" else max(c.value, 1 / c.value) - 1
    return {
        group: Floor(
            group=group,
            pairs=len(own),
            size=max(map(away, own)),
            scale=own[0].scale,
            ids=tuple(dict.fromkeys(ids)),
        )
        for group, (own, ids) in identical_cells(summaries, arch).items()
        if own
    }


def work_loop(contexts: Iterable[Context]) -> WorkLoop | None:
    """The control of one machine's launches; None where none has it, or an emulator ran them."""
    every = ((c.work_unit_ns, c.work_linearity, c.work_spread) for c in contexts if not c.emulated)
    found = [figures for figures in every if None not in figures]
    if not found:
        return None
    unit, bent, spread = (float(np.median(values)) for values in zip(*found, strict=True))
    return WorkLoop(unit_ns=unit, nonlinearity=bent, spread=spread)


def baseline_loop_faults(summaries: Iterable[Summary]) -> dict[tuple[str, int], str]:
    """By family and work length why the loop without an operation is no measure, over all
    uncontended cells: ``not_proportional``, ``not_steady``, or empty where it is one.

    Proportional: a unit costs the same at every length, within `LINEAR`.  Steady: the windows of a
    launch repeat within `STEADY`; launches may differ, since a clock's change falls on operation
    and loop alike."""
    cells: dict[str, dict[int, list[Summary]]] = {}
    for s in summaries:
        alone = s.of_launches("baseline_ns") and s.cell.contender == "none"
        if alone and s.status == "ok" and not s.emulated:
            lengths = cells.setdefault(family_of(s.cell.operation).name, {})
            lengths.setdefault(s.cell.work_iters, []).append(s)
    return {
        (family, work): why
        for family, lengths in cells.items()
        for work, why in _of_family(lengths).items()
    }


def _of_family(lengths: Mapping[int, Sequence[Summary]]) -> dict[int, str]:
    launches = {
        work: [ns for s in own for ns in s.of_launches("baseline_ns").values()]
        for work, own in sorted(lengths.items())
    }
    middles = {work: float(np.median(values)) for work, values in launches.items()}
    empty = middles.get(0, 0.0)
    units = {work: (ns - empty) / work for work, ns in middles.items() if work > 0}
    usual = float(np.median(list(units.values()))) if units else 0.0
    answers = dict.fromkeys(middles, "")
    for work, ns in middles.items():
        reach = float(np.median([s.baseline_reach_ns for s in lengths[work]]))
        if work > 0 and abs(units[work] - usual) * work > max(LINEAR * usual * work, LEAST_NS):
            answers[work] = "not_proportional"
        elif work > 0 and reach > max(STEADY * ns, LEAST_NS):
            answers[work] = "not_steady"
    return answers


def with_withheld(summaries: Iterable[Summary], contexts: Mapping[str, Context]) -> list[Summary]:
    """The same summaries of one machine; exposed costs are gone where the baseline loop is no
    measure of the work."""
    members = list(summaries)
    failed = baseline_loop_faults(members)
    loop = work_loop(
        contexts[i] for i in {i for s in members for i in s.context_ids} if i in contexts
    )
    answers = []
    for s in members:
        family = family_of(s.cell.operation).name
        why = failed.get((family, s.cell.work_iters), "")
        if not why and loop and s.cell.work_iters and s.cell.work == "chain":
            why = loop.why  # whatever the length
        if why:
            flags = sorted({*s.flags, f"baseline_{why}"})
            s = msgspec.structs.replace(s, withheld=why, flags=flags, exposed=None)
        answers.append(s)
    return answers


LEAST_LOAD = 0.25
"""CPUs kept busy by others, mean of the launches, that disturb: counting in clock ticks alone gives
up to a tenth."""
LEAST_SHARE = 0.02
"""The same as a share of all CPUs: a large machine is never quite idle."""
FREQUENCY_SHARE = 0.05
"""Relative difference of the core's cycle from which the frequency counts as changed."""


def disturbing_load(contexts: Sequence[Context]) -> float | None:
    """CPUs that other programs kept busy, mean of the launches; None where they hardly did, or
    where that is unknown."""
    loads = [context.other_load for context in contexts if context.other_load is not None]
    mean = sum(loads) / len(loads) if loads else 0.0
    disturbs = loads and mean >= max(LEAST_LOAD, LEAST_SHARE * len(contexts[0].cpus))
    return mean if disturbs else None


def changed_cycle_ns(contexts: Sequence[Context]) -> tuple[float, float] | None:
    """The shortest and the longest core cycle of the launches, where the frequency changed."""
    cycles = [c.cycle_ns for c in contexts if c.cycle_ns > 0]
    changed = cycles and max(cycles) > (1 + FREQUENCY_SHARE) * min(cycles)
    return (min(cycles), max(cycles)) if changed else None


def cycles_of_two(
    before: Sequence[Context], after: Sequence[Context]
) -> tuple[float, float] | None:
    """The middle core cycle of two runs, in ns, where the frequency differed."""
    one, two = (sorted(c.cycle_ns for c in side if c.cycle_ns > 0) for side in (before, after))
    if not one or not two:
        return None
    a, b = one[len(one) // 2], two[len(two) // 2]
    return (a, b) if abs(b / a - 1) >= FREQUENCY_SHARE else None

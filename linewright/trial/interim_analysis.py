# SPDX-License-Identifier: MIT
"""What the rounds of a trial allow to be said, and when to stop.

A round runs every setting once, in random order; each setting is compared with the first round by
round: Wilcoxon's signed-rank test (analysis/contrast.py).  The data may be analysed up to four
times (a quarter, half, three quarters and all of the planned rounds).  Each interim analysis spends
its part of the error rate, as the O'Brien-Fleming spending function of Lan and DeMets (1983) allots
it, with Holm's correction over the settings: whatever is claimed at any of them is false with a
chance of at most `ALPHA` in all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from linewright.analysis.comparison import (
    ALPHA,
    Comparison,
    Obstacle,
    Side,
    compared,
    exactly,
    holm,
    judge,
    launches_needed,
    left_open,
    level_of,
)
from linewright.analysis.contrast import signed_rank
from linewright.analysis.intervals import Mode, finite, median, modes, normal_cdf, normal_quantile
from linewright.analysis.questions import QUESTIONS

INTERIM_SHARES = (0.25, 0.5, 0.75, 1.0)

MetricByRound = Mapping[str, Mapping[int, float | None]]
"""The metric of each setting's runs, by round; None where the run failed."""


class SettingFigures(Struct, frozen=True, kw_only=True):
    """What one setting's runs were."""

    name: str
    runs: int
    failed: int
    median: float | None
    modes: list[Mode]
    """More than one: the program itself is bimodal under this setting. (`median_ns` is in the
    metric's unit.)"""


class TrialVerdict(Struct, frozen=True, kw_only=True):
    """What may be said after the rounds so far."""

    settings: list[SettingFigures]
    comparisons: list[Comparison]
    """Each setting over the first.  An interval excludes no change exactly where a difference is
    claimed, at this interim analysis and among all settings."""
    rounds: int
    planned: int
    interim: bool
    """This number of rounds is one of the planned interim analyses; between them nothing is
    claimed."""
    stop: bool
    why: str
    """``clear`` (every setting differs), ``precise`` (every interval is narrow enough), ``rounds``,
    or empty: go on."""

    @property
    def rounds_needed(self) -> dict[str, int]:
        """For each undecided setting the rounds in all that would probably decide it, or without an
        interval the fewest that give one; of these as many fail as did.  None between two interim
        analyses, and where every round failed."""
        fewest = fewest_rounds(len(self.settings)) if len(self.settings) > 1 else 0
        return {
            c.first.id: math.ceil(
                max(0 if c.obstacle else launches_needed(c), fewest) * self.rounds / whole
            )
            for c in self.comparisons
            if self.interim and c.answer == "undecided"
            if (whole := c.contrast.launches if c.contrast else 0)
        }


def schedule(settings: Sequence[str], rounds: int, seed: int) -> list[tuple[int, str]]:
    """(round, setting) in the order to run: every round holds each setting once, shuffled."""
    rng = np.random.default_rng(seed)
    return [
        (number, settings[i]) for number in range(rounds) for i in rng.permutation(len(settings))
    ]


def interim_rounds(planned: int) -> list[int]:
    """Rounds after which the data is analysed."""
    return sorted({max(1, math.ceil(planned * share)) for share in INTERIM_SHARES})


def cumulative_alpha(share: float) -> float:
    """Error rate spent up to this share of the planned rounds: 2 - 2·Phi(z/√share)."""
    return 2 * normal_cdf(normal_quantile(ALPHA / 2) / math.sqrt(share)) if share > 0 else 0.0


def alpha_at(rounds: int, planned: int) -> float:
    """Error rate of the interim analysis after `rounds` rounds: what is spent up to it, less what
    was spent before."""
    before = max((n for n in interim_rounds(planned) if n < rounds), default=0)
    return cumulative_alpha(min(1.0, rounds / planned)) - cumulative_alpha(before / planned)


def fewest_rounds(settings: int) -> int:
    """Planned rounds below which not even rounds that all agree can be called a difference."""
    return next(n for n in itertools.count(2) if 2 ** (1 - n) * (settings - 1) <= alpha_at(n, n))


def setting_figures(name: str, runs: Mapping[int, float | None]) -> SettingFigures:
    """What one setting's runs were, by round."""
    values = finite([value for value in runs.values() if value is not None])
    return SettingFigures(
        name=name,
        runs=len(runs),
        failed=len(runs) - values.size,
        median=median(values) if values.size else None,
        modes=modes(values, least_share=0.1),
    )


def analyse(
    runs: MetricByRound,
    planned: int,
    precision: float = 0.01,
    higher_is_better: bool = False,
    by_how_much: bool = False,
) -> TrialVerdict:
    """What the runs so far allow to be said about each setting against the first.

    `precision` is the relative half-width of every interval at which the trial may end without a
    difference; with `by_how_much` it may end then alone, and not as soon as differences are clear.
    Call it after every round: only at `interim_rounds(planned)` are differences
    claimed or an early end allowed.  A run that failed, and its round for that pair, is left out;
    metrics must be positive."""
    done = len(set.intersection(*(set(own) for own in runs.values())))
    at_interim = done in interim_rounds(planned) or done >= planned
    comparisons = _compare(
        runs, alpha_at(done, planned) if at_interim and done else 0.0, higher_is_better
    )
    why = _why(comparisons, done, planned, precision, at_interim, by_how_much)
    return TrialVerdict(
        settings=[setting_figures(name, own) for name, own in runs.items()],
        comparisons=comparisons,
        rounds=done,
        planned=planned,
        interim=at_interim,
        stop=bool(why),
        why=why,
    )


def _compare(runs: MetricByRound, alpha: float, higher_is_better: bool) -> list[Comparison]:
    """Each setting against the first at this error rate; at none, nothing is claimed."""
    baseline, *others = (
        {n: value for n, value in own.items() if value is not None and 0 < value < math.inf}
        for own in runs.values()
    )
    found = [signed_rank(own, baseline) for own in others]
    adjusted = holm(found)
    left = left_open(adjusted, alpha)
    first, asked = _side(next(iter(runs)), baseline), QUESTIONS["trial"]
    answers = []
    for name, own, c, p in zip(list(runs)[1:], others, found, adjusted, strict=True):
        if c:
            level = level_of(c, p, alpha, left) if alpha else ALPHA / left
            c = signed_rank(own, baseline, 1 - level)
        judgement = judge(
            c, p, alpha=alpha, same=asked.same.share if alpha else 0.0,
            count_small=asked.count_small, higher_is_better=higher_is_better,
        )  # fmt: skip
        known = c is not None and c.high < math.inf
        few = None if known else Obstacle("few_rounds", what=str(len(own.keys() & baseline.keys())))
        answers.append(compared(judgement, "trial", _side(name, own), first, "metric", few))
    return answers


def _side(name: str, runs: Mapping[int, float]) -> Side:
    values = np.array(list(runs.values()))
    return Side(id=name, form=name, ns=exactly(median(values)) if values.size else None)


def _why(
    comparisons: Sequence[Comparison],
    done: int,
    planned: int,
    precision: float,
    at_interim: bool,
    by_how_much: bool,
) -> str:
    settled = [c.differs and not by_how_much for c in comparisons]
    if at_interim and comparisons and all(settled):
        return "clear"
    narrow = all(
        enough or (not c.obstacle and c.contrast.high - c.contrast.low <= 2 * precision)
        for c, enough in zip(comparisons, settled, strict=True)
    )
    if at_interim and comparisons and narrow:
        return "precise"
    return "rounds" if done >= planned else ""

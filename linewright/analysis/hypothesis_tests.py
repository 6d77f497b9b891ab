# SPDX-License-Identifier: MIT
"""What may be claimed of contrasts: cheaper, slower, the same, or none of these.

- *Cheaper*, *slower*: Student's t or Wilcoxon's test, with Holm's correction (1979) over all
  contrasts of one question.
- *Same*: the equivalence test; the 95 % interval lies within the tolerance, which is two one-sided
  tests at 2.5 % each (Schuirmann 1987).
- Of simulated cells nothing is tested: they differ, or are the same, where the whole band over
  draws of the constants says so.
- *Undecided*: everything else, and how many launches would probably decide it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct

from linewright.analysis.contrast import Contrast
from linewright.schema import FEWEST_LAUNCHES

ALPHA = 0.05
"""Chance of one false claim in one run, over all questions together."""
UNPAIRED = 8
"""Times as many launches that runs made one after the other need: their drift is estimated from
them too."""
MOST_LAUNCHES = 40
"""More launches than this are not asked for: what they would tell costs more than it is worth."""

Answer = Literal["cheaper", "slower", "same", "undecided"]
"""What the first side of a comparison is shown to be."""


def holm(contrasts: Iterable[Contrast | None]) -> list[float | None]:
    """Holm's step-down adjusted p values over the contrasts of one question, None where there is
    none: the chance of one false claim among all stays below alpha."""
    adjusted = [c.p if c and c.over == "launches" else None for c in contrasts]
    order = sorted((i for i, p in enumerate(adjusted) if p is not None), key=lambda i: adjusted[i])
    running = 0.0
    for rank, i in enumerate(order):
        running = adjusted[i] = max(running, min(1.0, (len(order) - rank) * adjusted[i]))
    return adjusted


class Judgement(Struct, frozen=True, kw_only=True):
    """A contrast and what may be said of it."""

    answer: Answer
    why: str
    """Of an undecided one: ``one_launch``, ``few_launches``, ``wide`` (the interval holds both same
    and different), ``model`` (so does the band of a simulation), ``no_draws`` (a simulation without
    a band), ``baseline_loop`` (the loop without the operation is no measure here), ``no_figure``,
    ``published`` (percentiles only); of files ``not_comparable``, and ``wrong``: right before and
    wrong now.  Empty otherwise."""
    contrast: Contrast | None
    p: float | None
    """Corrected over the question's family."""
    within: float | None
    """Of ``same``: what the interval shows the difference to be below, as a share or in ns."""
    same: float = 0.0
    """The tolerance of the answer: a difference below it, a share or ns, counts as the same."""

    @property
    def cheaper(self) -> bool:
        """Shown to cost less than what it is compared with."""
        return self.answer == "cheaper"

    @property
    def slower(self) -> bool:
        """Shown to cost more than what it is compared with."""
        return self.answer == "slower"

    @property
    def differs(self) -> bool:
        """Shown to cost less or more."""
        return self.cheaper or self.slower


def undecided(
    why: str, contrast: Contrast | None = None, p: float | None = None, same: float = 0.0
) -> Judgement:
    return Judgement(answer="undecided", why=why, contrast=contrast, p=p, within=None, same=same)


def judge(
    contrast: Contrast | None,
    p: float | None,
    *,
    alpha: float,
    same: float,
    why: str = "",
    fewest: int = FEWEST_LAUNCHES,
    count_small: bool = False,
    higher_is_better: bool = False,
) -> Judgement:
    """Cheaper, slower, same within `same` (a share, or ns) or undecided.

    `why` says why there is no contrast; `fewest` launches allow a claim; `count_small`: of
    programs, a difference that is shown counts even where it lies within `same`;
    `higher_is_better`: of a metric of which more is what costs less."""
    if contrast is None:
        return undecided(why or "no_figure", same=same)
    if contrast.over == "nothing":
        return undecided("no_draws", contrast, p, same)
    drawn = contrast.over == "draws"
    if not contrast.enough(fewest):
        few = "one_launch" if contrast.launches < 2 else "few_launches"
        return undecided(few, contrast, p, same)
    judgement = undecided("model" if drawn else "wide", contrast, p, same)
    different = contrast.separate and (drawn or (p is not None and p < alpha))
    if contrast.farthest <= same and not (different and count_small):
        return msgspec.structs.replace(judgement, answer="same", why="", within=contrast.farthest)
    if not different:
        return judgement
    cheaper = (contrast.value < contrast.neutral) != higher_is_better
    return msgspec.structs.replace(judgement, answer="cheaper" if cheaper else "slower", why="")


def detectable(c: Contrast, launches: int) -> float:
    """The smallest difference that this number of launches would probably show, as a logarithm or
    in ns."""
    return 2.8 * c.spread * math.sqrt((1 if c.paired else UNPAIRED) / launches)


def launches_needed(judgement: Judgement) -> float:
    """Launches from which an undecided comparison would probably be decided, its spread staying
    what it is; infinite where only no difference at all would count as the same."""
    c = judgement.contrast
    if c is None or not c.enough(FEWEST_LAUNCHES) or c.spread <= 0:
        return FEWEST_LAUNCHES
    bound = math.log1p(judgement.same) if c.scale == "ratio" else judgement.same
    if bound <= 0:
        return math.inf
    return max(c.launches + 2, math.ceil((detectable(c, 1) / bound) ** 2))

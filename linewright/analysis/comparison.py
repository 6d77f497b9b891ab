# SPDX-License-Identifier: MIT
"""One thing against another: what was compared, the contrast, and the answer: cheaper, slower, the
same, or none of these.

- *Cheaper*, *slower*: Student's t or Wilcoxon's test, with Holm's correction (1979) over all
  contrasts of one question.
- *Same*: the equivalence test; the 95 % interval lies within the tolerance, which is two one-sided
  tests at 2.5 % each (Schuirmann 1987).
- Of simulated cells nothing is tested: they differ, or are the same, where the whole band over
  draws of the constants says so.
- *Undecided*: everything else, and how many launches would probably decide it.

The interval that is printed has the level at which the answer was given, so that it excludes no
difference where a side is cheaper and never where it is undecided; what else rests on an interval,
such as that a setting is nowhere worse, asks the one of 95 %."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from linewright import numbers, policy
from linewright.analysis.contrast import Contrast, difference_ns
from linewright.analysis.intervals import normal_quantile
from linewright.analysis.summary import Summary
from linewright.schema import FEWEST_LAUNCHES, Cell, Interval, Situation

ALPHA = 0.05
"""Chance of one false claim in one run, over all questions together."""
UNPAIRED = 8
"""Times as many launches that runs made one after the other need: their drift is estimated from
them too."""
POWER = 0.84
"""Standard errors beyond an interval's end at which a test has a power of 80 %."""
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


def left_open(adjusted: Iterable[float | None], alpha: float) -> int:
    """How many of a question's contrasts Holm's steps do not reject: at least one."""
    return max(1, sum(p is not None and p >= alpha for p in adjusted))


def level_of(c: Contrast, p: float, alpha: float, left: int) -> float:
    """The level at which Holm's step judges one contrast, of which `p` is the adjusted p value: the
    interval at that level excludes no difference where the step rejects it, and only there."""
    return alpha * c.p / p if 0 < p < alpha else alpha / left


class Judgement(Struct, frozen=True, kw_only=True):
    """A contrast and what may be said of it."""

    answer: Answer
    why: str = ""
    """Of an undecided one: ``one_launch``, ``few_launches``, ``wide`` (the interval holds both same
    and different), ``model`` (so does the band of a simulation), ``no_draws`` (a simulation without
    a band), ``baseline_loop`` (the loop without the operation is no measure here), ``no_figure``,
    ``published`` (percentiles only); of files ``few_states`` (of a virtual machine, which a
    contended cell depends on), ``no_ratio`` (a launch took 0 ns), ``not_comparable``, and
    ``wrong``: right before and wrong now.  Empty otherwise."""
    contrast: Contrast | None = None
    """With the interval of 95 %, or as the question has it."""
    p: float | None = None
    """Corrected over the question's family."""
    within: float | None = None
    """Of ``same``: what the interval shows the difference to be below, as a share or in ns."""
    same: float = 0.0
    """The tolerance of the answer: a difference below it, a share or ns, counts as the same."""
    shown: Contrast | None = None
    """The contrast with the interval that is printed, which agrees with the answer."""

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
    left: int = 0,
) -> Judgement:
    """Cheaper, slower, same within `same` (a share, or ns) or undecided.

    `why` says why there is no contrast; `fewest` launches allow a claim; `count_small`: of
    programs, a difference that is shown counts even where it lies within `same`;
    `higher_is_better`: of a metric of which more is what costs less; `left`: of contrasts that are
    corrected together, as `left_open`, else the contrast's own interval is printed."""
    if contrast is None:
        return Judgement(answer="undecided", why=why or "no_figure", p=p, same=same)
    shown, drawn, decidable = contrast, contrast.over == "draws", False
    if contrast.over == "nothing":
        why = "no_draws"
    else:
        if left and p is not None:
            shown = contrast.at(1 - level_of(contrast, p, alpha, left))
        decidable = contrast.enough(fewest)
        if decidable:
            why = "model" if drawn else "wide"
        else:
            why = "one_launch" if contrast.launches < 2 else "few_launches"
    judgement = Judgement(
        answer="undecided", why=why, contrast=contrast, p=p, same=same, shown=shown
    )
    if not decidable:
        return judgement
    different = contrast.separate and (drawn or (p is not None and p < alpha))
    if contrast.farthest <= same and not (different and count_small):
        within = contrast.farthest
        return replace(judgement, answer="same", why="", within=within, shown=contrast)
    if not different:
        return judgement
    cheaper = (contrast.value < contrast.neutral) != higher_is_better
    return replace(judgement, answer="cheaper" if cheaper else "slower", why="")


def detectable(judgement: Judgement, launches: int) -> float:
    """The smallest difference that this number of launches would probably show, as a logarithm or
    in ns."""
    c = judgement.contrast
    return _errors_shown(judgement) * math.sqrt(_of_launches(c) / launches + c.excess)


def _errors_shown(judgement: Judgement) -> float:
    """Standard errors of the smallest difference that is probably shown at the level at which the
    answer is given: 2.8 of one comparison, more of one among many."""
    level = 1 - (judgement.shown or judgement.contrast).confidence
    return POWER - normal_quantile(level / 2)


def _of_launches(c: Contrast) -> float:
    """The variance that launches average out, of one."""
    return (1 if c.paired else UNPAIRED) * max(0.0, c.spread**2 - c.excess / c.leverage**2)


def launches_needed(judgement: Judgement) -> float:
    """Launches from which an undecided comparison would probably be decided, its spread staying
    what it is; infinite where no number would."""
    c = judgement.contrast
    if c is None or not c.enough(FEWEST_LAUNCHES) or c.spread <= 0:
        return FEWEST_LAUNCHES
    bound = math.log1p(judgement.same) if c.scale == "ratio" else judgement.same
    error = bound / _errors_shown(judgement)
    if c.excess:  # what launches leave of the error: the estimate, too, is nearly what it will be
        size, shown = abs(c.mean), judgement.shown or c
        error = c.error * max((bound - size) / c.reach, size / shown.reach)
    left = error * abs(error) - c.excess
    return max(c.launches + 2, math.ceil(_of_launches(c) / left)) if left > 0 else math.inf


class Side(Struct, frozen=True, kw_only=True):
    """One of the two things that are compared."""

    id: str
    """The cell's canonical id; of a trial the setting."""
    form: str
    """The form, of a library operation the setting, of a trial the setting."""
    ns: Interval | None
    """What is compared: the issue interval or the exposed cost in ns; of a trial the metric's
    median."""
    operation: str = ""
    order: str = ""
    situation: Situation | None = None
    cpu: int = -1
    """The timed CPU; -1 where it is unknown."""
    library: str = ""
    """The library operation that `form` is a setting of."""
    modes_ns: tuple[float, ...] = ()
    """The median of each mode, of a cell whose launches fall into several."""
    metastable: bool = False
    reliable: bool = True
    """False where too many windows were disturbed."""

    @property
    def figures_ns(self) -> tuple[float, ...]:
        """The median, or the median of each mode."""
        return self.modes_ns or (self.ns.median_ns,)

    def words(self) -> str:
        """``stadd``, or of a library operation ``library_add_u64 under store``."""
        name = f"{self.library}_u{self.situation.width_bits} under " if self.library else ""
        return name + self.form


def policy_of(cell: Cell) -> str:
    """The setting that a library operation was measured under, as a user writes it; empty for a
    form."""
    return policy.of_parameter(str(cell.params.get("policy", "")))


def side_of(s: Summary, figure: str = "issue") -> Side:
    """A cell as one side, by its issue interval or its exposed cost."""
    return Side(
        id=s.id,
        form=policy_of(s.cell) or s.cell.form,
        ns=s.exposed if figure == "exposed" and s.exposed else s.issue,
        operation=s.cell.operation,
        order=s.cell.order,
        situation=s.cell.situation,
        cpu=s.cpus[0] if s.cpus else -1,
        library=s.cell.form if policy_of(s.cell) else "",
        modes_ns=tuple(mode.median_ns for mode in s.modes) if s.metastable else (),
        metastable=s.metastable,
        reliable=s.status == "ok",
    )


class Obstacle(Struct, frozen=True):
    """Why two sides, cells or settings of a trial, are not compared."""

    kind: Literal[
        "status",
        "emulated",
        "published",
        "withheld",
        "no_baseline_loop",
        "few_runs",
        "few_rounds",
        "runs_fail",
    ]
    side: Literal["before", "after", ""] = ""
    """Of a cell, whose figure it keeps out."""
    what: str = ""
    """The status, why the exposed cost is withheld, or how many rounds there are."""
    reason: str = ""
    """What the record says of its status."""


class Comparison(Judgement, frozen=True, kw_only=True):
    """The first side over, or minus, the second, and what may be said of it."""

    question: str
    """Its row in `linewright.analysis.questions`."""
    figure: str = "issue"
    """What is compared: ``issue`` (back to back), ``exposed`` (with work around the operation), or
    of programs ``metric``."""
    first: Side
    second: Side
    obstacle: Obstacle | None = None
    """Why there is nothing to compare, of files and of trials."""

    @property
    def ids(self) -> tuple[str, str]:
        return self.first.id, self.second.id

    @property
    def operation(self) -> str:
        return self.second.operation

    @property
    def situation(self) -> Situation:
        return self.second.situation

    @property
    def contended(self) -> bool:
        return self.situation.contended

    @property
    def times(self) -> float:
        """How many times as much the second side takes as the first."""
        return self.second.ns.median_ns / max(self.first.ns.median_ns, 1e-9)

    @property
    def difference(self) -> Interval | None:
        """First minus second, in ns; of medians of a metric in its unit, without an interval."""
        if self.shown is None:
            return None
        if self.figure == "metric":
            return exactly(self.first.ns.median_ns - self.second.ns.median_ns)
        return difference_ns(self.shown, self.second.ns.median_ns)

    @property
    def size(self) -> Interval | None:
        """The difference without its sign, of two sides that are shown to differ."""
        found = self.difference
        if found is None or self.contrast.value >= self.contrast.neutral:
            return found
        return replace(
            found, median_ns=-found.median_ns, low_ns=-found.high_ns, high_ns=-found.low_ns
        )

    @property
    def few_launches(self) -> bool:
        """Whether cells have too few launches on a side for a claim."""
        few = self.why in ("one_launch", "few_launches")
        return few and self.figure != "metric"

    @property
    def cheapest(self) -> Side:
        """The side that is shown to cost less; the second where neither is."""
        return self.first if self.cheaper else self.second

    def words(self) -> str:
        """The answer: ``48 to 52 % less``, ``the same within 2.1 %``, or ``undecided``, where the
        interval is known with what it leaves possible."""
        c = self.shown
        if self.answer == "same":
            return f"the same within {numbers.within(self.within, c.scale)}"
        change = numbers.change_in_words(c.low, c.high, c.scale) if c else ""
        if self.differs:
            return change
        if self.few_launches and change:
            return f"undecided, {change} in {numbers.count(c.launches, 'launch', 'launches')}"
        return f"undecided, {change} remains possible" if change else "undecided"

    def change(self, behind: int = 1) -> str:
        """The same in signs: ``-52 to -48 %``; below 10 % with `behind` digits behind the point."""
        c = self.shown
        return numbers.change(c.low, c.high, c.scale, behind) if c else ""


def compared(
    judgement: Judgement,
    question: str,
    first: Side,
    second: Side,
    figure: str = "issue",
    obstacle: Obstacle | None = None,
) -> Comparison:
    """A judgement with what it is of."""
    of: dict[str, Any] = dict(question=question, figure=figure, first=first, second=second)
    return Comparison(**asdict(judgement), **of, obstacle=obstacle)


def exactly(value: float | None) -> Interval | None:
    """A median without an interval."""
    if value is None:
        return None
    return Interval(median_ns=value, low_ns=value, high_ns=value, confidence=0.0)

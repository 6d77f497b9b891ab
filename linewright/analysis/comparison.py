# SPDX-License-Identifier: MIT
"""One thing against another: what was compared, the contrast, and the answer."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from linewright import numbers, policy
from linewright.analysis.contrast import difference_ns
from linewright.analysis.hypothesis_tests import Judgement
from linewright.analysis.summary import Summary
from linewright.schema import Cell, Interval, Situation


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
        if self.contrast is None:
            return None
        if self.figure == "metric":
            return exactly(self.first.ns.median_ns - self.second.ns.median_ns)
        return difference_ns(self.contrast, self.second.ns.median_ns)

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
        c = self.contrast
        if self.answer == "same":
            return f"the same within {numbers.within(self.within, c.scale)}"
        change = numbers.change_in_words(c.low, c.high, c.scale) if c else ""
        if self.differs:
            return change
        return f"undecided, {change} remains possible" if change else "undecided"

    def change(self, behind: int = 1) -> str:
        """The same in signs: ``-52 to -48 %``; below 10 % with `behind` digits behind the point."""
        c = self.contrast
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

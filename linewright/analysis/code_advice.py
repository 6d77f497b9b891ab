# SPDX-License-Identifier: MIT
"""What a machine's figures support writing in code: other forms than the default, other operations,
and where a prefetch or a first guess gains nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from linewright.analysis.comparison import Answer, Comparison
from linewright.analysis.control import pooled_interval
from linewright.analysis.findings import Finding
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import QUESTIONS, READERS, defaults
from linewright.analysis.summary import Summary, grouped
from linewright.families import ONE_LINE
from linewright.forms import made_of
from linewright.schema import Interval


class FormAdvice(Struct, frozen=True):
    """A form against the default where it is shown to differ, and where else it is shown to differ
    the other way: a caller has one form for all."""

    operation: str
    """What the caller needs."""
    here: Comparison
    elsewhere: Comparison | None
    lost_rate: tuple[float, float] | None = None
    """As of `total_rate_loss`, here."""

    @property
    def ids(self) -> list[str]:
        """Of the default's cell and the form's, here and elsewhere."""
        both = [self.here] + [self.elsewhere] * bool(self.elsewhere)
        return [i for c in both for i in (c.second.id, c.first.id)]

    @property
    def loses(self) -> bool:
        """Whether it costs more elsewhere than it saves here."""
        return self.elsewhere is not None and 1 / self.elsewhere.times > self.here.times


def add_cost(m: MachineAnswers) -> tuple[Summary | None, Summary | None, Interval | None]:
    """An atomic add alone, and with a second CPU at the least spacing; of the latter its pooled
    interval, unless it is metastable."""
    plain = [
        s
        for s in m.one_line
        if s.has_figures and s.status == "ok" and not s.cell.work_iters and not m.emulated
    ]
    alone = defaults([s for s in plain if s.cell.contender == "none"]).get("add")
    both = [s for s in plain if s.cell.contender == "same_line" and s.cell.threads == 2]
    nearest = min((s.cell.contender_iters for s in both), default=0)
    contended = defaults([s for s in both if s.cell.contender_iters == nearest]).get("add")
    one_figure = contended is not None and not contended.metastable
    return alone, contended, pooled_interval(contended, both) if one_figure else None


def cheaper_instead(m: MachineAnswers, names: tuple[str, str], alone: bool) -> Comparison | None:
    """The comparison in which the first of two forms, or operations, is shown to be cheaper than
    the second (an empty name: whatever stands for one atomic word): contended, or where `alone`
    allows without contention."""
    found = [
        c
        for c in m.select("operations")
        if c.cheaper
        and (c.contended or alone)
        and names
        in (
            (c.first.form, c.second.form),
            (c.first.operation, c.second.operation),
            (c.first.form, ""),
        )
    ]
    return min(found, key=lambda c: not c.contended, default=None)


def updater_of_readers(m: MachineAnswers) -> Summary | None:
    """The updater that waits longest for the readers that are advised: a choice between two readers
    is one between two updaters too. None where it was not measured."""
    return max(
        (
            s
            for s in m.summaries
            if (s.cell.operation, s.cell.form) == ("readers_grace", READERS[0])
            and s.status == "ok"
            and s.issue
            and s.cell.params.get("updater", "synchronize") == "synchronize"
            and not s.cell.params.get("read_delay", 0)
        ),
        key=lambda s: s.issue.median_ns,
        default=None,
    )


def first_guess(m: MachineAnswers) -> FormAdvice | None:
    """A compare-and-swap loop that guesses first and costs more alone than one that reads first,
    and where the guess is cheaper."""
    for f, row in _back_to_back(m):
        guesses = made_of(row.first.form).loop == "guess_first"
        if guesses and row.slower and f.situation.contender == "none":
            return FormAdvice(f.operation, row, _elsewhere(m, f, row, "cheaper"))
    return None


def cheaper_forms(m: MachineAnswers) -> list[FormAdvice]:
    """Other forms that are shown to cost less than the default, alone or contended, those that save
    most first.

    A gain below the tolerance of question ``trade`` that costs more elsewhere is no advice and is
    left out."""
    best: dict[str, tuple[Finding, Comparison]] = {}
    for f in m.of_width:
        row = f.best
        if (
            row
            and f.figure == "issue"
            and f.operation in ONE_LINE.operations
            and made_of(row.first.form).loop != "guess_first"
        ):
            known = best.get(row.first.form)
            if known is None or row.times > known[1].times:
                best[row.first.form] = (f, row)
    ranked = sorted(best.values(), key=lambda pair: -round(pair[1].times, 1))
    advised = [
        FormAdvice(f.operation, row, _elsewhere(m, f, row, "slower"), f.lost_rates.get(name))
        for f, row in ranked
        for name in [row.first.form]
    ]
    least = 1 + QUESTIONS["trade"].same.share
    return [a for a in advised if not a.loses or a.here.times >= least]


def _back_to_back(m: MachineAnswers) -> list[tuple[Finding, Comparison]]:
    return [(f, row) for f in m.of_width if f.figure == "issue" for row in f.rows]


def _elsewhere(
    m: MachineAnswers, here: Finding, row: Comparison, answer: Answer
) -> Comparison | None:
    """Where else the form differs most from the default, because there it is shown to be
    `answer`."""
    against = [
        r
        for f, r in _back_to_back(m)
        if f.operation == here.operation and f is not here
        if r.first.form == row.first.form and r.answer == answer
    ]
    return max(against, key=lambda r: abs(math.log(r.times)), default=None)


class UselessPrefetch(Struct, frozen=True):
    """Prefetches in front of the default that are shown to gain nothing alone."""

    rows: list[Comparison]
    """At every point, alone and with a second CPU."""
    of_another: tuple[Comparison, Comparison] | None
    """Another form alone, which costs more than the default, and the same behind the prefetch,
    which does not."""

    @property
    def defaults(self) -> list[str]:
        return list(dict.fromkeys(r.second.form for r in self.rows))

    @property
    def ids(self) -> list[str]:
        cells = [i for r in self.rows for i in (r.second.id, r.first.id)]
        return cells + [r.first.id for r in self.of_another or ()]

    @property
    def within(self) -> float:
        """What the difference is shown to be below alone, as a share."""
        return max(r.within for r in self._with("none"))

    @property
    def contended(self) -> Comparison | None:
        """The answer with a second CPU, where it is plainest: of the same the widest bound, of what
        costs more the most, of the undecided the widest interval; None where forms differ, or
        without one."""
        both = self._with("same_line")
        answers = {r.answer for r in both}
        if answers == {"same"}:
            return max(both, key=lambda r: r.within)
        if slower := [r for r in both if r.slower]:
            return min(slower, key=lambda r: r.times)
        unclear = [r for r in both if r.answer == "undecided" and r.contrast]
        if not unclear or "cheaper" in answers:
            return None
        return max(unclear, key=lambda r: r.contrast.farthest)

    def _with(self, contender: str) -> list[Comparison]:
        return [r for r in self.rows if r.situation.contender == contender]


def useless_prefetch(m: MachineAnswers, prefetches: Sequence[str]) -> UselessPrefetch | None:
    """One of these prefetches in front of the default; None where it gains something alone, or was
    not measured."""
    every = [r for _, r in _back_to_back(m)]
    behind = [r for r in every if made_of(r.first.form).prefetch in prefetches]
    rows = [r for r in behind if made_of(r.first.form).base == r.second.form]
    alone = {r.answer for r in rows if r.situation.contender == "none"}
    if alone != {"same"}:
        return None
    return UselessPrefetch(rows, _gain_of_another(m, prefetches))


def _gain_of_another(
    m: MachineAnswers, prefetches: Sequence[str]
) -> tuple[Comparison, Comparison] | None:
    for f in m.of_width:
        if f.figure == "issue" and f.situation.contender == "none":
            rows = {r.first.form: r for r in f.rows}
            for form, r in rows.items():
                made = made_of(form)
                bare = rows.get(made.base) if made.prefetch in prefetches else None
                if bare and bare.slower and not r.slower:
                    return bare, r
    return None


def written(
    found: Sequence[Finding],
) -> tuple[
    Literal["better", "same", "default_best", "depends", "undecided"], list[str], Comparison | None
]:
    """What the findings of one need support writing: one form, those that are all as good, or of
    what is undecided the default; of a better form also where it saves most."""
    default = found[0].default
    rows = grouped((r for f in found for r in f.rows), lambda r: r.first.form)
    answers = {name: {r.answer for r in own} for name, own in rows.items()}
    better = [n for n in rows if "cheaper" in answers[n] <= {"cheaper", "same"}]
    same = [n for n in rows if answers[n] == {"same"}]
    if better:
        best = min(better, key=lambda n: sum(r.first.ns.median_ns for r in rows[n]))
        cheaper = [r for r in rows[best] if r.cheaper]
        return "better", [best], max(cheaper, key=lambda r: r.second.ns.median_ns)
    if len(same) == len(rows):
        return "same", [default, *rows], None
    if all("slower" in answers[n] or n in same for n in rows):
        return "default_best", [default, *same], None
    if any("cheaper" in own for own in answers.values()):
        return "depends", [], None
    return "undecided", [default], None


class FarAdd(NamedTuple):
    """The forms of add that behave as if performed at the interconnect, back to back and alone."""

    finding: Finding
    forms: list[str]
    hidden_at: int
    """Units of work around each at which they cost the same as the default; 0 where none are
    shown."""
    hidden_ids: list[str]
    """Of the cells that show it."""


def far_add(m: MachineAnswers) -> FarAdd | None:
    """Where a form of add seems to be performed at the interconnect; None where none does."""
    far = {s.id for s in m.summaries if s.nearness in ("far", "all_far")}
    alone = [f for f in m.findings if f.operation == "add" and f.situation.contender == "none"]
    for f in alone:
        forms = [r.first.form for r in f.rows if r.first.id in far]
        hidden = [] if f.default_id in far else [_same_at(alone, form) for form in forms]
        forms += [f.default] * (f.default_id in far)
        if forms and not f.situation.work_iters:
            shown = [max(own) for own in hidden] if hidden and all(hidden) else []
            at = max((work for work, *_ in shown), default=0)
            return FarAdd(f, forms, at, [i for _, *ids in shown for i in ids])
    return None


def _same_at(alone: Sequence[Finding], form: str) -> list[tuple[int, str, str]]:
    """Lengths of work at which a form is shown to cost the same as the default, each with the ids
    of both cells."""
    return [
        (r.situation.work_iters, r.second.id, r.first.id)
        for f in alone
        for r in f.rows
        if r.first.form == form and r.answer == "same"
    ]

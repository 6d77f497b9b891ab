"""What a machine's figures support writing in code: other forms than the default, other operations,
and where a prefetch or a first guess gains nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from linewright.analysis.across import READERS, OperationPair, defaults
from linewright.analysis.control import pooled_interval
from linewright.analysis.findings import Alternative, Finding, answer_of
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import Summary
from linewright.families import ONE_LINE
from linewright.forms import made_of
from linewright.schema import Interval

LEAST_TRADED = 0.10
"""A form that saves less than this here and costs more elsewhere is not named."""


FormRow = tuple[Finding, Alternative]
"""A form against the default, with the point at which it is."""


class FormAdvice(Struct, frozen=True):
    """A form against the default where it is shown to differ, and where else it is shown to differ
    the other way: a caller has one form for all."""

    finding: Finding
    row: Alternative
    elsewhere: FormRow | None

    @property
    def ids(self) -> list[str]:
        """Of the default's cell and the form's, here and elsewhere."""
        pairs = [(self.finding, self.row)] + [self.elsewhere] * bool(self.elsewhere)
        return [i for f, row in pairs for i in (f.default_id, row.id)]

    @property
    def loses(self) -> bool:
        """Whether it costs more elsewhere than it saves here."""
        saved = times_the_form(self.finding, self.row)
        return self.elsewhere is not None and 1 / times_the_form(*self.elsewhere) > saved


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


def cheaper_instead(m: MachineAnswers, names: tuple[str, str], alone: bool) -> OperationPair | None:
    """The comparison in which the first of two forms, or operations, is shown to be cheaper than
    the second (an empty name: whatever stands for one atomic word): contended, or where `alone`
    allows without contention."""
    found = [
        a
        for a in m.across
        if names
        in (
            (a.first.form, a.second.form),
            (a.first.operation, a.second.operation),
            (a.first.form, ""),
        )
        and a.judgement.cheaper
        and (a.contended or alone)
    ]
    return min(found, key=lambda a: not a.contended, default=None)


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
    for f in m.of_width:
        for row in f.rows:
            if (
                f.figure == "issue"
                and made_of(row.form).loop == "guess_first"
                and row.judgement.slower
                and f.situation.contender == "none"
            ):
                return FormAdvice(f, row, _elsewhere(m, f, row.form, "cheaper"))
    return None


def cheaper_forms(m: MachineAnswers) -> list[FormAdvice]:
    """Other forms that are shown to cost less than the default, alone or contended, those that save
    most first.

    A gain below `LEAST_TRADED` that costs more elsewhere is no advice and is left out."""
    best: dict[str, FormRow] = {}
    for f in m.of_width:
        row = f.best
        if (
            row
            and f.figure == "issue"
            and f.operation in ONE_LINE.operations
            and made_of(row.form).loop != "guess_first"
        ):
            known = best.get(row.form)
            if known is None or times_the_form(f, row) > times_the_form(*known):
                best[row.form] = (f, row)
    ranked = sorted(best.values(), key=lambda pair: -round(times_the_form(*pair), 1))
    advised = [FormAdvice(f, row, _elsewhere(m, f, row.form, "slower")) for f, row in ranked]
    return [
        a for a in advised if not a.loses or times_the_form(a.finding, a.row) >= 1 + LEAST_TRADED
    ]


def times_the_form(f: Finding, row: Alternative) -> float:
    """How many times as much the default takes as the form."""
    return f.default_ns.median_ns / max(row.ns.median_ns, 1e-9)


def _elsewhere(
    m: MachineAnswers, f: Finding, form: str, answer: Literal["slower", "cheaper"]
) -> FormRow | None:
    """Where else the form differs most from the default, because there it is shown to be
    `answer`."""
    against = [
        (g, r)
        for g in m.of_width
        if g.operation == f.operation and g.figure == "issue" and g is not f
        for r in g.rows
        if r.form == form and getattr(r.judgement, answer)
    ]
    return max(against, key=lambda pair: abs(math.log(times_the_form(*pair))), default=None)


class UselessPrefetch(Struct, frozen=True):
    """Prefetches in front of the default that are shown to gain nothing alone."""

    rows: list[FormRow]
    """At every point, alone and with a second CPU."""
    of_another: tuple[Alternative, Alternative] | None
    """Another form alone, which costs more than the default, and the same behind the prefetch,
    which does not."""

    @property
    def defaults(self) -> list[str]:
        return list(dict.fromkeys(f.default for f, _ in self.rows))

    @property
    def ids(self) -> list[str]:
        cells = [i for f, r in self.rows for i in (f.default_id, r.id)]
        return cells + [r.id for r in self.of_another or ()]

    @property
    def within(self) -> float:
        """What the difference is shown to be below alone, as a share."""
        return max(r.judgement.within for f, r in self._with("none"))

    @property
    def contended(self) -> tuple[Literal["same", "slower", "undecided"], FormRow] | None:
        """The answer with a second CPU, and where it is plainest: of the same the widest bound, of
        what costs more the most, of the undecided the widest interval; None where forms differ, or
        without one."""
        both = self._with("same_line")
        answers = {r.judgement.answer for _, r in both}
        if answers == {"same"}:
            return "same", max(both, key=lambda pair: pair[1].judgement.within)
        if slower := [pair for pair in both if pair[1].judgement.slower]:
            return "slower", min(slower, key=lambda pair: times_the_form(*pair))
        unclear = [
            (f, r) for f, r in both if r.judgement.answer == "undecided" and r.judgement.contrast
        ]
        if not unclear or "different" in answers:
            return None
        return "undecided", max(unclear, key=lambda pair: pair[1].judgement.contrast.farthest)

    def _with(self, contender: str) -> list[FormRow]:
        return [row for row in self.rows if row[0].situation.contender == contender]


def useless_prefetch(m: MachineAnswers, prefetches: Sequence[str]) -> UselessPrefetch | None:
    """One of these prefetches in front of the default; None where it gains something alone, or was
    not measured."""
    found = [f for f in m.of_width if f.figure == "issue"]
    rows = [
        (f, r)
        for f in found
        for r in f.rows
        if made_of(r.form).prefetch in prefetches and made_of(r.form).base == f.default
    ]
    alone = {r.judgement.answer for f, r in rows if f.situation.contender == "none"}
    if alone != {"same"}:
        return None
    return UselessPrefetch(rows, _gain_of_another(found, prefetches))


def _gain_of_another(
    found: Sequence[Finding], prefetches: Sequence[str]
) -> tuple[Alternative, Alternative] | None:
    for f in found:
        if f.situation.contender == "none":
            rows = {r.form: r for r in f.rows}
            for r in f.rows:
                made = made_of(r.form)
                bare = rows.get(made.base) if made.prefetch in prefetches else None
                if bare and bare.judgement.slower and not r.judgement.slower:
                    return bare, r
    return None


def written(
    found: Sequence[Finding],
) -> tuple[
    Literal["better", "same", "default_best", "depends", "undecided"], list[str], FormRow | None
]:
    """What the findings of one need support writing: one form, those that are all as good, or of
    what is undecided the default; of a better form also where it saves most."""
    default = found[0].default
    names = list(dict.fromkeys(r.form for f in found for r in f.rows))
    rows = {name: [(f, r) for f in found for r in f.rows if r.form == name] for name in names}
    answers = {name: {answer_of(r.judgement) for _, r in rows[name]} for name in names}
    better = [n for n in names if "cheaper" in answers[n] <= {"cheaper", "same"}]
    same = [n for n in names if answers[n] == {"same"}]
    if better:
        best = min(better, key=lambda n: sum(r.ns.median_ns for _, r in rows[n]))
        cheaper = [(f, r) for f, r in rows[best] if r.judgement.cheaper]
        return "better", [best], max(cheaper, key=lambda x: x[0].default_ns.median_ns)
    if len(same) == len(names):
        return "same", [default, *names], None
    if all("slower" in answers[n] or n in same for n in names):
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
        forms = [r.form for r in f.rows if r.id in far]
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
        (f.situation.work_iters, f.default_id, r.id)
        for f in alone
        for r in f.rows
        if r.form == form and r.judgement.answer == "same"
    ]

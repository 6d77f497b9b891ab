# SPDX-License-Identifier: MIT
"""Every form against the default of its operation, gathered by caller and situation; and where one
form overtakes the default along an axis: between two points at each of which they are shown to
differ."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from linewright.analysis.comparison import Comparison, Judgement, Side, holm, side_of
from linewright.analysis.contrast import Scale, paired_t
from linewright.analysis.questions import QUESTIONS, Candidates, ask, candidates
from linewright.analysis.summary import Summary, figure_of, grouped
from linewright.forms import made_of
from linewright.schema import Situation


class Finding(Struct, frozen=True, kw_only=True):
    """One caller's choice at one point."""

    machine_id: str
    operation: str
    """What the caller needs."""
    order: str
    """The weakest order that any of the forms gives: what the caller accepts."""
    figure: str
    """What is compared: ``issue`` (back to back) or ``exposed`` (with work around the
    operation)."""
    side: Side
    """The default, which every other form is compared with."""
    rows: list[Comparison]
    """Every other form over the default, in the order of the records."""
    lost_rates: dict[str, tuple[float, float]]
    """By form, as of `total_rate_loss`."""
    withheld: str
    """Why exposed costs are not shown; the figures are issue intervals then, and nothing is
    judged."""
    published: bool
    """Percentiles only: forms differ where these do not overlap."""

    @property
    def default(self) -> str:
        return self.side.form

    @property
    def situation(self) -> Situation:
        return self.side.situation

    @property
    def best(self) -> Comparison | None:
        """The cheapest form that is shown to cost less than the default; None where none is."""
        cheaper = {r.first.form: r for r in self.rows if r.cheaper}
        if not cheaper:
            return None
        first = min(cheaper.values(), key=lambda r: r.first.ns.median_ns)
        return cheaper[plainest(first.first.form, cheaper)]

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the default's cell and of every other form's."""
        return (self.side.id, *(r.first.id for r in self.rows))

    def of(self, answer: str) -> list[Comparison]:
        """The rows with one answer."""
        return [r for r in self.rows if r.answer == answer]


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """Comparisons without an answer, for one reason."""

    why: str
    """As `Judgement.why`."""
    rows: list[tuple[Finding, Comparison]]

    @property
    def comparisons(self) -> list[Comparison]:
        return [row for _, row in self.rows]

    @property
    def ids(self) -> list[str]:
        """Of both cells of every comparison."""
        return [i for _, row in self.rows for i in (row.second.id, row.first.id)]

    @property
    def possible(self) -> list[tuple[float, float, Scale]]:
        """What the intervals leave possible, of ratios and of differences."""
        of_scale = grouped((c.shown for c in self.comparisons), lambda c: c.scale)
        return [
            (min(c.low for c in own), max(c.high for c in own), scale)
            for scale, own in of_scale.items()
        ]


def open_questions(found: Iterable[Finding]) -> list[OpenQuestion]:
    """What was compared without an answer, by reason; published percentiles, which claim nothing,
    aside."""
    rows = [(f, row) for f in found if not f.published for row in f.of("undecided")]
    by_reason = grouped(rows, lambda pair: pair[1].why)
    return [OpenQuestion(why=why, rows=own) for why, own in by_reason.items()]


def plainest(form: str, judgements: Mapping[str, Judgement]) -> str:
    """`form`, or the same form without its prefetch where the intervals of both against the default
    overlap."""
    bare = made_of(form).base
    simpler = bare in judgements and not judgements[form].contrast.below(judgements[bare].contrast)
    return bare if simpler else form


def findings(summaries: Sequence[Summary]) -> list[Finding]:
    """Every choice between forms that the summaries of one machine allow, corrected over all of its
    comparisons."""
    known = {c.ids: c for c in ask("forms", summaries)}
    choices = candidates(summaries)
    cheaper = {
        c.ids: (other, choice.default)
        for choice in choices
        for other in choice.others
        if (c := known[other.id, choice.default.id]).cheaper and other.cell.contender == "same_line"
    }
    lost = total_rate_loss(list(cheaper.values()))
    return [_finding(choice, known, lost) for choice in choices]


def _finding(
    choice: Candidates,
    known: Mapping[tuple[str, str], Comparison],
    lost: Mapping[tuple[str, str], tuple[float, float]],
) -> Finding:
    default, figure = choice.default, figure_of(choice.default)
    rows = [known[other.id, default.id] for other in choice.others]
    return Finding(
        machine_id=default.machine_id,
        operation=choice.operation,
        order=choice.order,
        figure=figure,
        side=side_of(default, figure),
        rows=rows,
        lost_rates={r.first.form: lost[r.ids] for r in rows if r.ids in lost},
        withheld=default.withheld if figure == "exposed" else "",
        published=default.published or any(o.published for o in choice.others),
    )


def total_rate_loss(
    cheaper: Sequence[tuple[Summary, Summary]],
) -> dict[tuple[str, str], tuple[float, float]]:
    """Of contended forms that cost the timed thread less than their default, by both ids the
    operations per µs of all threads with the default and with the form, where those with the form
    are shown to be fewer; corrected over all such forms."""
    found = [paired_t(*(s.of_launches("total_mops") for s in pair)) for pair in cheaper]
    return {
        (form.id, default.id): (default.total_mops, form.total_mops)
        for (form, default), c, p in zip(cheaper, found, holm(found), strict=True)
        if QUESTIONS["forms"].judge(c, p, same=0.0).cheaper
    }


AXES = ("work_iters", "contender_iters")


class Crossover(Struct, frozen=True, kw_only=True):
    """Along `axis` the cheaper of a form and the default changes between two points at which they
    are shown to differ."""

    operation: str
    """What the caller needs."""
    axis: str
    """``work_iters`` or ``contender_iters``."""
    below: Comparison
    above: Comparison

    @property
    def situation(self) -> Situation:
        """What is fixed: without the axis."""
        return self.below.situation.without(self.axis)

    @property
    def ends(self) -> tuple[int, int]:
        """Where on the axis the two points lie."""
        return getattr(self.below.situation, self.axis), getattr(self.above.situation, self.axis)

    @property
    def ids(self) -> list[str]:
        """Of the default and the form at both points."""
        return [i for c in (self.below, self.above) for i in reversed(c.ids)]


def crossovers(findings: Sequence[Finding]) -> list[Crossover]:
    """Every such change.  It rests on the corrected comparisons of `findings` and makes none of its
    own."""
    return [
        Crossover(operation=f.operation, axis=axis, below=one, above=other)
        for axis in AXES
        for sweep in _sweeps(findings, axis)
        for (f, one), (_, other) in itertools.pairwise(sweep)
        if one.answer != other.answer
    ]


def _sweeps(findings: Iterable[Finding], axis: str) -> list[list[tuple[Finding, Comparison]]]:
    """Rows of one form and default that are shown to differ, by themselves in `axis` only."""
    answer: dict[tuple, list[tuple[Finding, Comparison]]] = {}
    for f in findings:
        if axis == "contender_iters" and not f.situation.contended:
            continue
        for row in (row for row in f.rows if row.differs):
            fixed = f.situation.without(axis)
            key = (f.operation, fixed, f.default, row.first.form)
            answer.setdefault(key, []).append((f, row))
    along = lambda pair: getattr(pair[0].situation, axis)
    return [sorted(sweep, key=along) for sweep in answer.values()]

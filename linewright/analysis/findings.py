"""Every form against the default of its operation, point by point: what is shown to differ, to be
the same, or neither.

A point is one situation (schema.Situation).  What is compared with is fixed
beforehand (linewright.families), so that no comparison is chosen by its result; one correction
covers all of a machine's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from linewright import policy
from linewright.analysis.contrast import Contrast, paired_t
from linewright.analysis.control import (
    contrast_of,
    identical_contrasts,
    identical_to,
    kind_of,
    noise_group_of,
)
from linewright.analysis.hypothesis_tests import (
    QUESTIONS,
    SAME_ALONE,
    SAME_CONTENDED,
    SAME_NS,
    Judgement,
    holm,
    judge,
    undecided,
)
from linewright.analysis.summary import Summary, figure_of, grouped, machines_of
from linewright.analysis.variance_components import Identical, pool_components
from linewright.families import FLOORS, default_of, family_of
from linewright.forms import made_of
from linewright.schema import Cell, Interval, Situation

DISTRUSTED = frozenset({"emulated", "faster_than_floor", "doubled", "zero_cost", "same_cpu"})
"""Flags that keep a cell out of every comparison."""
ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst", "full")
"""From weakest to strongest; acquire and release do not contain each other."""
_GIVES = {
    "relaxed": ("relaxed",), "acquire": ("relaxed", "acquire"), "release": ("relaxed", "release"),
    "acq_rel": ORDERS[:4], "seq_cst": ORDERS[:5], "full": ORDERS,
}  # fmt: skip
_MAY_USE = {"add": ("add", "fetch_add")}
"""A caller who does not want the value may use a form that returns it; never the other way
round."""


class Alternative(Struct, frozen=True, kw_only=True):
    """One form against the default at one point."""

    form: str
    """The form, or for a library operation the setting."""
    id: str
    order: str
    ns: Interval
    """What is compared: the issue interval, or with work around the operation the exposed cost (see
    `Finding.figure`)."""
    judgement: Judgement
    """Form over default (issue intervals), or form minus default in ns (exposed costs)."""
    slower_together: tuple[float, float] | None
    """Operations per µs of all threads with the default and with the form, where the form costs the
    timed thread less while all threads together do less."""


class Point(Struct, frozen=True, kw_only=True):
    """Where something is compared with a default."""

    operation: str
    """What the caller needs."""
    situation: Situation
    cpu: int
    """The timed CPU; -1 where it is unknown."""
    figure: str
    """What is compared: ``issue`` (back to back) or ``exposed`` (with work around the
    operation)."""
    default_ns: Interval


class Finding(Point, frozen=True, kw_only=True):
    """One caller's choice at one point."""

    machine_id: str
    order: str
    """The weakest order that any of the forms gives: what the caller accepts."""
    default: str
    default_id: str
    library: str
    """The library operation whose settings are compared; empty where forms are."""
    default_order: str
    rows: list[Alternative]
    """Every other form, in the order of the records."""
    withheld: str
    """Why exposed costs are not shown; the figures are issue intervals then, and nothing is
    judged."""
    published: bool
    """Percentiles only: forms differ where these do not overlap."""

    @property
    def best(self) -> Alternative | None:
        """The cheapest form that is shown to cost less than the default; None where none is."""
        cheaper = {r.form: r for r in self.rows if r.judgement.cheaper}
        if not cheaper:
            return None
        first = min(cheaper.values(), key=lambda r: r.ns.median_ns)
        return cheaper[plainest(first.form, {form: r.judgement for form, r in cheaper.items()})]

    @property
    def ids(self) -> tuple[str, ...]:
        """Of the default's cell and of every other form's."""
        return (self.default_id, *(r.id for r in self.rows))

    def of(self, answer: str) -> list[Alternative]:
        """The rows with one answer: ``cheaper``, ``slower``, ``same`` or ``undecided``."""
        return [r for r in self.rows if answer_of(r.judgement) == answer]


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """Comparisons without an answer, for one reason."""

    why: str
    """As `Judgement.why`."""
    rows: list[tuple[Finding, Alternative]]

    @property
    def judgements(self) -> list[Judgement]:
        return [row.judgement for _, row in self.rows]

    @property
    def ids(self) -> list[str]:
        """Of both cells of every comparison."""
        return [i for f, row in self.rows for i in (f.default_id, row.id)]

    @property
    def possible(self) -> tuple[float, float, str]:
        """What the widest of the intervals leaves possible, with its scale: of the ratios, or where
        there are none of the first difference."""
        contrasts = [j.contrast for j in self.judgements]
        ratios = [c for c in contrasts if c.scale == "ratio"] or contrasts[:1]
        return min(c.low for c in ratios), max(c.high for c in ratios), ratios[0].scale


def open_questions(found: Iterable[Finding]) -> list[OpenQuestion]:
    """What was compared without an answer, by reason; published percentiles, which claim nothing,
    aside."""
    rows = [(f, row) for f in found if not f.published for row in f.of("undecided")]
    by_reason = grouped(rows, lambda pair: pair[1].judgement.why)
    return [OpenQuestion(why=why, rows=own) for why, own in by_reason.items()]


def plainest(form: str, judgements: Mapping[str, Judgement]) -> str:
    """`form`, or the same form without its prefetch where the intervals of both against the default
    overlap."""
    bare = made_of(form).base
    simpler = bare in judgements and not judgements[form].contrast.below(judgements[bare].contrast)
    return bare if simpler else form


def answer_of(judgement: Judgement) -> str:
    """``cheaper``, ``slower``, ``same`` or ``undecided``."""
    if judgement.answer != "different":
        return judgement.answer
    return "cheaper" if judgement.cheaper else "slower"


def comparable(summary: Summary) -> bool:
    """Whether a cell may take part in a comparison."""
    cell, family = summary.cell, family_of(summary.cell.operation)
    return (
        summary.status == "ok"
        and summary.issue is not None
        and math.isfinite(summary.issue.median_ns)
        and cell.form not in FLOORS
        and cell.operation in family.operations
        and (cell.contender == "none" or (cell.situation.contended and family.contended))
        and not DISTRUSTED & set(summary.flags)
    )


def distrust_of(summary: Summary) -> str:
    """The flag for which a cell's figure is not shown as what the cell costs; empty for none.  That
    an emulator ran it is said once, of the whole machine."""
    return min((DISTRUSTED - {"emulated"}) & set(summary.flags), default="")


def policy_of(cell: Cell) -> str:
    """The setting that a library operation was measured under, as a user writes it; empty for a
    form."""
    return policy.of_parameter(str(cell.params.get("policy", "")))


def name_of(cell: Cell) -> str:
    """What a comparison calls a cell: its form, or for one library operation under several settings
    the setting."""
    return policy_of(cell) or cell.form


def _point(cell: Cell) -> tuple[Situation, str]:
    """What the compared cells share: their situation, and where settings of one library operation
    are compared, that operation."""
    return cell.situation, cell.form if policy_of(cell) else ""


class _Candidates(Struct, frozen=True):
    """A caller's forms at one point, the default first."""

    operation: str
    order: str
    default: Summary
    others: list[Summary]


def _callers(members: Sequence[Summary], arch: str) -> list[_Candidates]:
    """For each operation and each distinct set of forms that serve an order: the default and what
    it is compared with."""
    answers: list[_Candidates] = []
    for operation in dict.fromkeys(s.cell.operation for s in members):
        allowed = _MAY_USE.get(operation, (operation,))
        serving = [s for s in members if s.cell.operation in allowed]
        weakest = min(
            (s.cell.order for s in serving if s.cell.operation == operation), key=ORDERS.index
        )
        serving = [s for s in serving if weakest in _GIVES[s.cell.order]]
        named = {name_of(s.cell): s for s in serving}
        default = named[default_of(operation, named)]
        same_code = identical_to(default.cell.form, arch)[1:]
        apart = (s for s in serving if s is not default and s.cell.form not in same_code)
        others = [s for s in apart if not _is_copy(s, named, arch)]
        if others:
            answers.append(_Candidates(operation, weakest, default, others))
    return answers


def _is_copy(s: Summary, named: Mapping[str, Summary], arch: str) -> bool:
    """Whether another form with the same machine code speaks for this one: it is the control, not a
    candidate."""
    first = identical_to(s.cell.form, arch)[0]
    return first != s.cell.form and first in named


def tolerance(summary: Summary) -> float:
    """Below which a difference from this cell is called the same: a share of an issue interval, ns
    of an exposed cost."""
    share = SAME_CONTENDED if summary.cell.contender == "same_line" else SAME_ALONE
    if figure_of(summary) == "issue":
        return share
    return max(SAME_NS, share * summary.exposed.median_ns) if summary.exposed else SAME_NS


def lacking(first: Summary, second: Summary) -> str:
    """Why two cells have no contrast."""
    if first.published or second.published:
        return "published"
    if figure_of(second) == "exposed" and (first.withheld or second.withheld):
        return "baseline"
    if len(first.by_launch) < 2 or len(second.by_launch) < 2:
        return "one_launch"
    return "no_figure"


def apart(first: Summary, second: Summary) -> Judgement:
    """Published percentiles: different where the median of one lies above the 99th percentile of
    the other. The interval's ends are the ratios of median and 99th percentile, either way."""
    a, b = first.batch, second.batch
    contrast = Contrast(
        scale="ratio", value=a.p50_ns / b.p50_ns, low=a.p50_ns / b.p99_ns,
        high=a.p99_ns / b.p50_ns, launches=1, paired=False, p=1.0, spread=0.0, leverage=0.0,
        degrees=0.0,
    )  # fmt: skip
    if not contrast.separate:
        return undecided("published", contrast)
    return Judgement(answer="different", why="", contrast=contrast, p=None, within=None)


def compare_pairs(
    pairs: Sequence[tuple[Summary, Summary]],
    question: str,
    same: Callable[[Summary], float],
    identical: Identical | None = None,
    figure: Callable[[Summary], str] = lambda _: "issue",
) -> list[Judgement]:
    """The answers of one of `QUESTIONS`: pairs of cells of one run, corrected together.

    `same`: the difference from a pair's second cell below which they are called the same;
    `identical`: contrasts of identical machine code; `figure`: what is compared with that cell."""
    contrasts = pool_components(
        [contrast_of(first, second, figure(second)) for first, second in pairs],
        [noise_group_of(first.cell) for first, _ in pairs],
        identical,
        kind_of,
    )
    alpha = QUESTIONS[question]
    return [
        judge(c, p, alpha=alpha, same=same(second), why=lacking(first, second))
        for (first, second), c, p in zip(pairs, contrasts, holm(contrasts), strict=True)
    ]


def _shown(s: Summary) -> Interval:
    return s.exposed if figure_of(s) == "exposed" and s.exposed else s.issue


def findings(summaries: Iterable[Summary]) -> list[Finding]:
    """Every choice between forms that the summaries allow, corrected over each machine's
    comparisons."""
    return [f for members in machines_of(summaries).values() for f in _of_machine(members)]


def _of_machine(summaries: Sequence[Summary]) -> list[Finding]:
    arch = next((s.arch for s in summaries), "")
    points = grouped(filter(comparable, summaries), lambda s: _point(s.cell))
    choices = [choice for members in points.values() for choice in _callers(members, arch)]
    pairs = {(other.id, c.default.id): (other, c.default) for c in choices for other in c.others}
    answers = compare_pairs(
        list(pairs.values()), "forms", tolerance, identical_contrasts(summaries, arch), figure_of
    )
    judgements = {
        key: apart(*pair) if all(s.published for s in pair) else answer
        for (key, pair), answer in zip(pairs.items(), answers, strict=True)
    }
    slower = _slower_together([pairs[key] for key, answer in judgements.items() if answer.cheaper])
    return [_finding(choice, judgements, slower) for choice in choices]


def _finding(
    choice: _Candidates,
    judgements: Mapping[tuple[str, str], Judgement],
    slower: Mapping[tuple[str, str], tuple[float, float]],
) -> Finding:
    default, figure = choice.default, figure_of(choice.default)
    rows = [
        Alternative(
            form=name_of(other.cell),
            id=other.id,
            order=other.cell.order,
            ns=_shown(other),
            judgement=judgements[other.id, default.id],
            slower_together=slower.get((other.id, default.id)),
        )
        for other in choice.others
    ]
    return Finding(
        machine_id=default.machine_id,
        operation=choice.operation,
        order=choice.order,
        situation=default.cell.situation,
        cpu=default.cpus[0] if default.cpus else -1,
        figure=figure,
        default=name_of(default.cell),
        default_id=default.id,
        library=default.cell.form if policy_of(default.cell) else "",
        default_order=default.cell.order,
        default_ns=_shown(default),
        rows=rows,
        withheld=default.withheld if figure == "exposed" else "",
        published=default.published or any(o.published for o in choice.others),
    )


def _slower_together(
    cheaper: Sequence[tuple[Summary, Summary]],
) -> dict[tuple[str, str], tuple[float, float]]:
    """Of forms that cost the timed thread less than their default, by both ids the rates of all
    threads where those with the form are shown to be lower, corrected over all such forms."""
    pairs = [pair for pair in cheaper if pair[0].cell.contender == "same_line"]
    found = [paired_t(form.mops_by_launch, default.mops_by_launch) for form, default in pairs]
    return {
        (form.id, default.id): (default.total_mops, form.total_mops)
        for (form, default), c, p in zip(pairs, found, holm(found), strict=True)
        if judge(c, p, alpha=QUESTIONS["forms"], same=0.0).cheaper
    }

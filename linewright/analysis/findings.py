"""Every form against the default of its operation, point by point: what is shown to differ, to be the same, or neither.

A point is everything of a cell but operation, form and order.  What is compared with is fixed beforehand
(linewright.families), so that no comparison is chosen by its result; one correction covers all of a machine's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from linewright.analysis.contrast import (
    QUESTIONS,
    SAME_ALONE,
    SAME_CONTENDED,
    SAME_NS,
    Contrast,
    Judged,
    corrected,
    judge,
    no_surer,
    paired,
    steadied,
    undecided,
)
from linewright.analysis.control import Floor, condition_of, floors, identical_to
from linewright.analysis.summary import Summary, grouped, has_work, machines_of
from linewright.families import FLOORS, default_of, family_of
from linewright.schema import Cell, Interval

DISTRUSTED = frozenset({"emulated", "faster_than_floor", "doubled", "zero_cost", "same_cpu"})
"""Flags that keep a cell out of every comparison."""
ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst", "full")
"""From weakest to strongest; acquire and release do not contain each other."""
_GIVES = {
    "relaxed": ("relaxed",), "acquire": ("relaxed", "acquire"), "release": ("relaxed", "release"),
    "acq_rel": ORDERS[:4], "seq_cst": ORDERS[:5], "full": ORDERS,
}  # fmt: skip
_MAY_USE = {"add": ("add", "fetch_add")}
"""A caller who does not want the value may use a form that returns it; never the other way round."""


class Against(Struct, frozen=True, kw_only=True):
    """One form against the default at one point."""

    form: str
    """The form, or for a library operation the setting."""
    id: str
    order: str
    ns: Interval
    """What is compared: the issue interval, or with work around the operation the exposed cost (see
    `Finding.figure`)."""
    judged: Judged
    """Form over default (issue intervals), or form minus default in ns (exposed costs)."""
    rate_note: str
    """Set where the form costs the timed thread less while all threads together do less."""


class Finding(Struct, frozen=True, kw_only=True):
    """One caller's choice at one point."""

    machine_id: str
    operation: str
    """What the caller needs."""
    order: str
    """The weakest order that any of the forms gives: what the caller accepts."""
    width_bits: int
    contender: str
    contender_iters: int
    work_iters: int
    placement: str
    lines: int
    threads: int
    params: dict[str, str | int]
    cpu: int
    """The timed CPU; -1 where it is unknown."""
    figure: str
    """What is compared: ``issue`` (back to back) or ``exposed`` (with work around the operation)."""
    default: str
    default_id: str
    default_order: str
    default_ns: Interval
    rows: list[Against]
    """Every other form, in the order of the records."""
    floor: float
    """The run's noise floor at this point, a share or ns; 0 where no identical forms were measured."""
    withheld: str
    """Why exposed costs are not shown; the figures are issue intervals then, and nothing is judged."""
    published: bool
    """Percentiles only: medians order the forms, nothing is judged."""

    @property
    def best(self) -> Against | None:
        """The cheapest form that is shown to cost less than the default; None where none is."""
        cheaper = {r.form: r for r in self.rows if r.judged.cheaper}
        if not cheaper:
            return None
        first = min(cheaper.values(), key=lambda r: r.ns.median_ns)
        return cheaper[plainest(first.form, {form: r.judged for form, r in cheaper.items()})]

    def of(self, answer: str) -> list[Against]:
        """The rows with one answer: ``cheaper``, ``slower``, ``same`` or ``undecided``."""
        return [r for r in self.rows if answer_of(r.judged) == answer]


def plainest(form: str, judged: Mapping[str, Judged]) -> str:
    """`form`, or the same form without its prefetch where the intervals of both against the default overlap."""
    bare = [f for f in judged if form.endswith(f"_{f}") and judged[f].contrast.low <= judged[form].contrast.high]
    return min(bare, key=len, default=form)


def answer_of(judged: Judged) -> str:
    """``cheaper``, ``slower``, ``same`` or ``undecided``."""
    if judged.answer != "different":
        return judged.answer
    return "cheaper" if judged.cheaper else "slower"


def comparable(summary: Summary) -> bool:
    """Whether a cell may take part in a comparison."""
    return (
        summary.status == "ok"
        and summary.issue is not None
        and math.isfinite(summary.issue.median_ns)
        and summary.cell.form not in FLOORS
        and summary.cell.operation in family_of(summary.cell.operation).operations
        and summary.cell.contender != "placebo"
        and (summary.cell.contender == "none" or family_of(summary.cell.operation).contended)
        and not DISTRUSTED & set(summary.flags)
    )


def policy_of(cell: Cell) -> str:
    """The setting that a library operation was measured under, as a user writes it; empty for a form."""
    return str(cell.params.get("policy", "")).replace("+", ",").replace("-", "=")


def name_of(cell: Cell) -> str:
    """What a comparison calls a cell: its form, or for one library operation under several settings the setting."""
    return policy_of(cell) or cell.form


def point_of(cell: Cell) -> tuple:
    """Everything but operation, form and order: cells that share it differ in nothing else.

    Of library operations the settings are compared, so the setting is no part of the point and the operation is.
    """
    return (
        cell.width_bits,
        cell.contender,
        cell.contender_iters,
        cell.work_iters,
        cell.placement,
        cell.lines,
        cell.threads,
        tuple(sorted((key, value) for key, value in cell.params.items() if key != "policy")),
        cell.form if policy_of(cell) else "",
    )


class _Choice(Struct, frozen=True):
    """A caller's forms at one point, the default first."""

    operation: str
    order: str
    default: Summary
    others: list[Summary]


def _callers(members: Sequence[Summary], arch: str) -> list[_Choice]:
    """For each operation and each distinct set of forms that serve an order: the default and what it is compared
    with."""
    answers: list[_Choice] = []
    for operation in dict.fromkeys(s.cell.operation for s in members):
        allowed = _MAY_USE.get(operation, (operation,))
        serving = [s for s in members if s.cell.operation in allowed]
        weakest = min((s.cell.order for s in serving if s.cell.operation == operation), key=ORDERS.index)
        serving = [s for s in serving if weakest in _GIVES[s.cell.order]]
        named = {name_of(s.cell): s for s in serving}
        default = named[default_of(operation, named)]
        same_code = identical_to(default.cell.form, arch)[1:]
        others = [
            s for s in serving if s is not default and s.cell.form not in same_code and not _is_copy(s, named, arch)
        ]
        if others:
            answers.append(_Choice(operation, weakest, default, others))
    return answers


def _is_copy(s: Summary, named: Mapping[str, Summary], arch: str) -> bool:
    """Whether another form with the same machine code speaks for this one: it is the control, not a candidate."""
    first = identical_to(s.cell.form, arch)[0]
    return first != s.cell.form and first in named


def figure_of(summary: Summary) -> str:
    """What is compared of a cell: ``exposed`` where there is work around the operation, else ``issue``."""
    return "exposed" if has_work(summary.cell) and not summary.published else "issue"


def contrast_of(first: Summary, second: Summary) -> Contrast | None:
    """Two cells of one run, paired within launches, by what is to be compared of them."""
    if figure_of(second) == "exposed":
        return paired(first.exposed_by_launch, second.exposed_by_launch, "ns", first.place_by_launch)
    return paired(first.by_launch, second.by_launch, places=first.place_by_launch)


def tolerance(summary: Summary) -> float:
    """Below which a difference from this cell is called the same: a share of an issue interval, ns of an exposed
    cost."""
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


def asked(
    pairs: Sequence[tuple[Summary, Summary]],
    question: str,
    same: Callable[[Summary], float],
    floor: Callable[[Summary], float] = lambda _: 0.0,
) -> list[Judged]:
    """The answers of one of `QUESTIONS`: pairs of cells of one run by their issue intervals, corrected together.

    `same`: the difference from a pair's second cell below which they are called the same; `floor`: up to which it is
    noise.
    """
    contrasts = no_surer(
        [paired(first.by_launch, second.by_launch, places=first.place_by_launch) for first, second in pairs],
        [condition_of(first.cell) for first, _ in pairs],
    )
    return [
        judge(c, p, alpha=QUESTIONS[question], same=same(second), floor=floor(second), why=lacking(first, second))
        for (first, second), c, p in zip(pairs, contrasts, corrected(contrasts), strict=True)
    ]


def _shown(s: Summary) -> Interval:
    return s.exposed if figure_of(s) == "exposed" and s.exposed else s.issue


def floor_at(cell: Cell, found: Mapping[tuple, Floor], exposed: bool) -> float:
    """The noise floor where a cell was measured: a share, or ns of exposed cost; 0 where it is unknown."""
    floor = found.get(condition_of(cell))
    return 0.0 if floor is None else floor.ns if exposed else floor.share


def findings(summaries: Iterable[Summary], alpha: float = QUESTIONS["forms"]) -> list[Finding]:
    """Every choice between forms that the summaries allow, corrected over each machine's comparisons."""
    return [f for members in machines_of(summaries).values() for f in _of_machine(members, alpha)]


def _of_machine(summaries: Sequence[Summary], alpha: float) -> list[Finding]:
    arch = next((s.arch for s in summaries), "")
    noise = floors(summaries, arch)
    points = grouped(filter(comparable, summaries), lambda s: point_of(s.cell))
    choices = [choice for members in points.values() for choice in _callers(members, arch)]
    contrasts = _contrasts(choices)
    order = list(contrasts)
    ps = dict(zip(order, corrected(contrasts[key] for key in order), strict=True))
    return [_finding(choice, contrasts, ps, noise, alpha) for choice in choices]


def _contrasts(choices: Sequence[_Choice]) -> dict[tuple[str, str], Contrast | None]:
    """Each pair of cells once, by their ids, with the spread that is usual under their condition."""
    pairs = {(other.id, c.default.id): (other, c.default) for c in choices for other in c.others}
    found = [contrast_of(*pair) for pair in pairs.values()]
    return dict(zip(pairs, steadied(found, [condition_of(form.cell) for form, _ in pairs.values()]), strict=True))


def _finding(choice: _Choice, contrasts: Mapping, ps: Mapping, noise: Mapping[tuple, Floor], alpha: float) -> Finding:
    default, cell = choice.default, choice.default.cell
    figure = figure_of(default)
    floor = floor_at(cell, noise, figure == "exposed")
    rows = []
    for other in choice.others:
        key = (other.id, default.id)
        why = "" if contrasts[key] else lacking(other, default)
        judged = judge(
            contrasts[key], ps[key], alpha=alpha, same=tolerance(default), floor=floor, why=why
        ) if default.status == "ok" else undecided("no_figure")  # fmt: skip
        rows.append(
            Against(
                form=name_of(other.cell), id=other.id, order=other.cell.order, ns=_shown(other), judged=judged,
                rate_note=_rate_note(other, default) if judged.cheaper else "",
            )
        )  # fmt: skip
    return Finding(
        machine_id=default.machine_id, operation=choice.operation, order=choice.order, width_bits=cell.width_bits,
        contender=cell.contender, contender_iters=cell.contender_iters, work_iters=cell.work_iters,
        placement=cell.placement, lines=cell.lines, threads=cell.threads,
        params={key: value for key, value in cell.params.items() if key != "policy"},
        cpu=default.cpus[0] if default.cpus else -1, figure=figure, default=name_of(cell), default_id=default.id,
        default_order=cell.order, default_ns=_shown(default), rows=rows, floor=floor,
        withheld=default.withheld if figure == "exposed" else "",
        published=default.published or any(o.published for o in choice.others),
    )  # fmt: skip


def _rate_note(form: Summary, default: Summary) -> str:
    """Said of a form that is cheaper for the timed thread while all threads together do less with it."""
    if form.cell.contender != "same_line":
        return ""
    found = paired(form.mops_by_launch, default.mops_by_launch)
    if found is None or found.high >= 1 or found.p >= QUESTIONS["forms"]:
        return ""
    return (
        f"all threads together do more with {name_of(default.cell)}"
        f" ({default.total_mops:.3g} against {form.total_mops:.3g} operations per µs)"
    )

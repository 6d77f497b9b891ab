"""Which setting of the library a machine's measurements support: each class of operations against what it does by default.

A setting holds for a whole process, so a candidate must be certainly better than the default at one point at least
(contention × work) and certainly worse at none.  Certainty is the verdict's: intervals that do not overlap, and p values
corrected by Holm's method over every comparison made here for one machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from linewright.analysis.intervals import Contrast, Estimate, contrast, holm
from linewright.analysis.summary import Summary
from linewright.analysis.verdict import ALPHA, apart, comparable, condition, lone_launch, point_of, policy_of
from linewright.schema import Cell, Context, Interval

REACH: dict[str, dict[str, str]] = {
    "void": {
        "stadd": "store", "prfm_strm_stadd": "store,prefetch", "ldadd": "load", "prfm_strm_ldadd": "load,prefetch",
        "llsc_add": "llsc", "prfm_strm_llsc_add": "llsc,prefetch",
    },
    "fetch": {
        "ldadd": "load", "prfm_strm_ldadd": "load,prefetch",
        "llsc_fetch_add": "llsc", "prfm_strm_llsc_fetch_add": "llsc,prefetch",
    },
    "xchg": {
        "swp": "load", "prfm_strm_swp": "load,prefetch", "llsc_swp": "llsc", "prfm_strm_llsc_swp": "llsc,prefetch",
    },
    "cas": {
        "cas_loop_read_first": "load", "prfm_strm_cas_loop_read_first": "load,prefetch",
        "llsc_cas_loop_read_first": "llsc", "prfm_strm_llsc_cas_loop_read_first": "llsc,prefetch",
    },
}  # fmt: skip
"""Forms that a class of policy.h takes, by the words that choose them.  The library's prefetch is PSTL1STRM, so forms
with PSTL1KEEP are not among them; a loop that reads first is what the library's conditional operations are."""

LIBRARY = {"void": "library_add", "fetch": "library_fetch_add", "xchg": "library_xchg", "cas": "library_cmpxchg"}
"""The operation of plan `operations` that stands for each class; its cells name their setting themselves."""

CLASS_WORDS = {
    "void": "operations without a value", "fetch": "operations that return the value", "xchg": "exchanges",
    "cas": "compare-and-swap",
}  # fmt: skip


class Against(Struct, frozen=True, kw_only=True):
    """One candidate against the default at one point."""

    operations: str
    """Class of operations: ``void``, ``fetch``, ``xchg``, ``cas``."""
    choice: str
    """``store``, ``load`` or ``llsc``, perhaps with ``,prefetch``."""
    form: str
    """The form; of a library operation its name, width and setting."""
    default_form: str
    condition: str
    """Contention in words."""
    contender_iters: int
    work_iters: int
    cpu: int
    ns: Interval
    default_ns: Interval
    difference: Interval
    """ns that the candidate takes more than the default; negative: less."""
    ratio: Estimate | None
    """Candidate over default; None where only percentiles are known."""
    p: float | None
    finding: str
    """``better``, ``worse``, ``same`` (within noise) or ``one_launch`` (not judged)."""


class Choice(Struct, frozen=True, kw_only=True):
    """What the measurement supports for one class of operations."""

    operations: str
    default: str
    """What the class does without a setting on this CPU."""
    choice: str
    """What to set; equal to `default` when no setting is supported."""
    why: str
    """``better`` (a setting is supported), ``noise``, ``default_best``, ``depends`` (better here, worse there),
    ``default_unmeasured`` (the best of what was measured; the default's form is not in the records) or ``one_launch``."""
    also: list[str]
    """Choices that serve as well within noise."""
    points: list[Against]


class _Pair(Struct, frozen=True):
    operations: str
    choice: str
    candidate: Summary
    default: Summary
    contrast: Contrast | None


def default_choice(features: Iterable[str]) -> str:
    """What a compiler's code does at run time: load forms where the CPU has LSE, LL/SC where it has not."""
    return "load" if "lse" in features else "llsc"


def choice_of(cell: Cell, operations: str, default: str) -> str:
    """The choice that a cell stands for in a class, or nothing: by its form, or by the setting of a library operation.

    A setting that only spells the default out is measured twice then, and the cell under ``default`` is taken.
    """
    if cell.operation != LIBRARY[operations]:
        return REACH[operations].get(cell.form, "")
    setting = policy_of(cell)
    form = next((item for item in setting.split(",") if item in ("store", "load", "llsc")), "")
    if not set(setting.split(",")) <= {"default", "store", "load", "llsc", "prefetch"} or form == default:
        return ""
    return (form or default) + (",prefetch" if "prefetch" in setting else "")


def _label(cell: Cell) -> str:
    return f"{cell.form}_u{cell.width_bits} under {policy_of(cell)}" if policy_of(cell) else cell.form


def _by_point(summaries: Iterable[Summary], operations: str, default: str) -> dict[tuple, dict[str, Summary]]:
    """The class's choices that were measured, by point; equal order only, since a stronger form costs more for a reason."""
    answer: dict[tuple, dict[str, Summary]] = {}
    for s in summaries:
        choice = choice_of(s.cell, operations, default)
        if choice and comparable(s):
            answer.setdefault(point_of(s.cell), {})[choice] = s
    return answer


def _finding(pair: _Pair, p: float | None) -> str:
    ours, base = pair.candidate, pair.default
    if lone_launch(ours, base):
        return "one_launch"
    certain = p < ALPHA if p is not None else ours.published and base.published
    if not certain or not apart(ours.issue, base.issue):
        return "same"
    return "better" if ours.issue.median_ns < base.issue.median_ns else "worse"


def _difference(pair: _Pair) -> Interval:
    if pair.contrast:
        return pair.contrast.difference
    ours, base = pair.candidate.issue, pair.default.issue
    return Interval(
        median_ns=ours.median_ns - base.median_ns, low_ns=ours.low_ns - base.high_ns, high_ns=ours.high_ns - base.low_ns,
        confidence=min(ours.confidence, base.confidence),
    )  # fmt: skip


def _against(pair: _Pair, p: float | None) -> Against:
    cell = pair.candidate.cell
    return Against(
        operations=pair.operations, choice=pair.choice, form=_label(cell), default_form=_label(pair.default.cell),
        condition=condition(cell), contender_iters=cell.contender_iters, work_iters=cell.work_iters,
        cpu=pair.candidate.cpus[0] if pair.candidate.cpus else -1,
        ns=pair.candidate.issue, default_ns=pair.default.issue, difference=_difference(pair),
        ratio=pair.contrast.ratio if pair.contrast else None, p=p, finding=_finding(pair, p),
    )  # fmt: skip


def _pairs(points: Mapping[tuple, Mapping[str, Summary]], operations: str, base: str) -> list[_Pair]:
    return [
        _Pair(operations, choice, s, members[base], contrast(s.unit_ns, members[base].unit_ns))
        for members in points.values() if base in members
        for choice, s in members.items() if choice != base
    ]  # fmt: skip


def against_default(summaries: Sequence[Summary], default: str) -> dict[str, list[Against]]:
    """Every candidate against the default's form, class by class, corrected over all of one machine's comparisons.

    Where a class's default form was not measured, its candidates stand against the dearest of them (see `Choice.why`).
    """
    pairs: list[_Pair] = []
    for operations in REACH:
        points = _by_point(summaries, operations, default)
        base = default if any(default in members for members in points.values()) else _dearest(points)
        pairs += _pairs(points, operations, base)
    corrected = iter(holm([p.contrast.p for p in pairs if p.contrast]))
    answer: dict[str, list[Against]] = {}
    for pair in pairs:
        answer.setdefault(pair.operations, []).append(_against(pair, next(corrected) if pair.contrast else None))
    return answer


def _dearest(points: Mapping[tuple, Mapping[str, Summary]]) -> str:
    cost: dict[str, list[float]] = {}
    for members in points.values():
        for choice, s in members.items():
            cost.setdefault(choice, []).append(math.log(max(s.issue.median_ns, 1e-6)))
    return max(cost, key=lambda c: sum(cost[c]) / len(cost[c])) if cost else ""


def _gain(rows: Sequence[Against]) -> float:
    """Mean logarithm of candidate over default; below zero: cheaper."""
    usable = [
        math.log(r.ns.median_ns / r.default_ns.median_ns)
        for r in rows
        if min(r.ns.median_ns, r.default_ns.median_ns) > 0
    ]
    return sum(usable) / len(usable) if usable else 0.0


def _place(r: Against) -> tuple:
    """Where a candidate was held against the default: rows of two candidates that share it can be compared."""
    return r.condition, r.work_iters, r.cpu, r.default_form


def _never_apart(a: Sequence[Against], b: Sequence[Against]) -> bool:
    """Whether two candidates' intervals overlap wherever both were measured."""
    at = {_place(r): r for r in b}
    shared = [(r, at[_place(r)]) for r in a if _place(r) in at]
    return bool(shared) and all(not apart(x.ns, y.ns) for x, y in shared)


def choose(operations: str, rows: Sequence[Against], default: str) -> Choice:
    """The supported setting of one class: the largest gain, and of those alike within noise the simplest."""
    by_choice: dict[str, list[Against]] = {}
    for row in rows:
        by_choice.setdefault(row.choice, []).append(row)
    found = {choice: {r.finding for r in members} for choice, members in by_choice.items()}
    supported = sorted(
        (c for c in found if "better" in found[c] and "worse" not in found[c]), key=lambda c: _gain(by_choice[c])
    )
    names = {form for form, c in REACH[operations].items() if c == default}
    measured = any(r.default_form in names or r.default_form.endswith(" under default") for r in rows)
    if not supported:
        return Choice(
            operations=operations,
            default=default,
            choice=default,
            why=_why_not(found.values()),
            also=[],
            points=list(rows),
        )
    alike = [c for c in supported if c == supported[0] or _never_apart(by_choice[c], by_choice[supported[0]])]
    best = min(alike, key=lambda c: (c.count(","), supported.index(c)))
    why = "better" if measured else "default_unmeasured"
    return Choice(
        operations=operations,
        default=default,
        choice=best,
        why=why,
        also=[c for c in alike if c != best],
        points=list(rows),
    )


def _why_not(found: Iterable[set[str]]) -> str:
    kinds = list(found)
    if any({"better", "worse"} <= k for k in kinds):
        return "depends"
    every = set().union(*kinds)
    if "worse" in every:
        return "default_best"
    return "one_launch" if every == {"one_launch"} else "noise"


def choices(summaries: Sequence[Summary], default: str) -> list[Choice]:
    """Each class that at least two choices were measured for."""
    return [choose(operations, rows, default) for operations, rows in against_default(summaries, default).items()]


def setting_of(chosen: Iterable[Choice]) -> str:
    """The value of LINEWRIGHT_ATOMICS that makes these choices; ``default`` where none differs from the default."""
    items = []
    for c in chosen:
        if c.choice != c.default:
            form, _, prefetch = c.choice.partition(",")
            items += [f"{c.operations}={form}"] if form != c.default else []
            items += [f"{c.operations}=prefetch"] if prefetch else []
    return ",".join(items) or "default"


class CoreType(Struct, frozen=True, kw_only=True):
    """Cores that the system describes alike, and what was found on those of them that were timed."""

    midr: str
    capacity: int
    cpus: list[int]
    """Timed CPUs of this type."""
    choices: list[Choice]
    setting: str


class OneSetting(Struct, frozen=True, kw_only=True):
    """What one process-wide setting costs on one core type, against that type's own."""

    setting: str
    midr: str
    capacity: int
    cost_percent: float
    """At the worst point where the difference is certain; 0 where none is."""
    where: str


def core_types(summaries: Sequence[Summary], contexts: Iterable[Context], default: str) -> list[CoreType]:
    """Timed cores grouped by what the system says of them (only to tell them apart), with each group's own choices."""
    described = {c.cpu: (c.midr, c.capacity) for context in contexts for c in context.cpus}
    groups: dict[tuple[str, int], list[Summary]] = {}
    for s in summaries:
        if s.cpus and s.cpus[0] in described:
            groups.setdefault(described[s.cpus[0]], []).append(s)
    answers = []
    for (midr, capacity), members in sorted(groups.items(), key=lambda item: -item[0][1]):
        own = choices(members, default)
        cpus = sorted({s.cpus[0] for s in members})
        answers.append(CoreType(midr=midr, capacity=capacity, cpus=cpus, choices=own, setting=setting_of(own)))
    return answers


def one_setting(types: Sequence[CoreType]) -> list[OneSetting]:
    """For every setting that some type wants, and the default: its certain cost on each type at the worst point."""
    wanted: dict[str, dict[str, str]] = {"default": {}}
    for t in types:
        wanted[t.setting] = {c.operations: c.choice for c in t.choices}
    answers = []
    for setting, chosen in wanted.items():
        for t in types:
            cost, where = max((_cost(c, chosen.get(c.operations, c.default)) for c in t.choices), default=(0.0, ""))
            answers.append(
                OneSetting(setting=setting, midr=t.midr, capacity=t.capacity, cost_percent=cost, where=where)
            )
    return answers


def _cost(own: Choice, taken: str) -> tuple[float, str]:
    """Largest certain loss of `taken` against the type's own choice, in percent, and where."""

    def at(choice: str) -> dict[tuple, Interval]:
        if choice == own.default:
            return {_place(r): r.default_ns for r in own.points}
        return {_place(r): r.ns for r in own.points if r.choice == choice}

    mine, theirs = at(own.choice), at(taken)
    worst = (0.0, "")
    for key, ns in theirs.items():
        if key in mine and ns.low_ns > mine[key].high_ns and mine[key].median_ns > 0:
            loss = 100 * (ns.median_ns / mine[key].median_ns - 1)
            worst = max(worst, (loss, f"{key[0]}, {key[1]} iterations of work"))
    return worst

"""Which setting of the library a machine's measurements support: each class of operations against what it does by
default.

A setting holds for a whole process.  It is recommended only if it is shown not to be worse at every measured point, of
which at least one is contended, and shown to be better at one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from linewright.analysis.contrast import SAME_NS, Judged
from linewright.analysis.findings import Against, Finding
from linewright.analysis.summary import grouped
from linewright.analysis.words import condition
from linewright.families import LIBRARY
from linewright.schema import Context, Interval

NOT_WORSE = 0.05
"""A setting may cost this share more, upper end of the interval, before it counts as possibly worse."""

_FORMS: Mapping[str, Mapping[str, str]] = {
    "void": {"stadd": "store", "ldadd": "load", "llsc_add": "llsc"},
    "fetch": {"ldadd": "load", "llsc_fetch_add": "llsc"},
    "xchg": {"swp": "load", "llsc_swp": "llsc"},
    "cas": {"cas_loop_read_first": "load", "llsc_cas_loop_read_first": "llsc"},
}
REACH: Mapping[str, Mapping[str, str]] = {
    name: {**forms, **{f"prfm_strm_{form}": f"{word},prefetch" for form, word in forms.items()}}
    for name, forms in _FORMS.items()
}
"""Forms that a class of policy.h takes, by the words that choose them.  The library's prefetch is PSTL1STRM, so forms
with PSTL1KEEP are not among them; a loop that reads first is what the library's conditional operations are."""

OPERATIONS: Mapping[str, tuple[str, str]] = {
    "void": ("add", "library_add"), "fetch": ("fetch_add", "library_fetch_add"), "xchg": ("xchg", "library_xchg"),
    "cas": ("cmpxchg", "library_cmpxchg"),
}  # fmt: skip
"""The operation whose forms a class chooses among, and the library's, whose cells name their setting themselves."""

CLASS_WORDS = {
    "void": "operations without a value", "fetch": "operations that return the value", "xchg": "exchanges",
    "cas": "compare-and-swap",
}  # fmt: skip


class Point(Struct, frozen=True, kw_only=True):
    """One candidate against the default at one point."""

    operations: str
    """Class of operations: ``void``, ``fetch``, ``xchg``, ``cas``."""
    choice: str
    """``store``, ``load`` or ``llsc``, perhaps with ``,prefetch``."""
    form: str
    default_form: str
    condition: str
    """Contention in words."""
    contended: bool
    contender_iters: int
    work_iters: int
    cpu: int
    figure: str
    """``issue`` or ``exposed``."""
    ns: Interval
    default_ns: Interval
    judged: Judged
    not_worse: bool
    """Shown: the upper end of the interval is below `NOT_WORSE` more."""


class Choice(Struct, frozen=True, kw_only=True):
    """What the measurement supports for one class of operations."""

    operations: str
    default: str
    """What the class does without a setting on this CPU."""
    choice: str
    """What to set; equal to `default` when no setting is supported."""
    why: str
    """``better`` (a setting is supported), ``default_best`` (each candidate is shown to be worse somewhere or the
    same), ``depends`` (better here, worse there), ``measure_more`` (undecided, or no contended point), ``published``
    (no intervals), ``default_unmeasured`` (the form taken by default is not in the records)."""
    also: list[str]
    """Other choices that are supported."""
    points: list[Point]


def default_choice(features: Iterable[str]) -> str:
    """What a compiler's code does at run time: load forms where the CPU has LSE, LL/SC where it has not."""
    return "load" if "lse" in features else "llsc"


def choice_of(name: str, operation: str, operations: str, default: str) -> str:
    """The choice that a form, or a setting of a library operation, stands for in a class; empty where it is none.

    A setting that only spells the default out is measured twice, and the cell under ``default`` is taken.
    """
    if operation not in LIBRARY.operations:
        return REACH[operations].get(name, "")
    words = name.split(",")
    form = next((word for word in words if word in ("store", "load", "llsc")), "")
    if not set(words) <= {"default", "store", "load", "llsc", "prefetch"} or form == default:
        return ""
    return (form or default) + (",prefetch" if "prefetch" in words else "")


def _not_worse(row: Against, f: Finding) -> bool:
    c = row.judged.contrast
    if c is None or row.judged.why in ("one_launch", "few_launches"):
        return False
    if c.scale == "ratio":
        return c.high < 1 + NOT_WORSE
    return c.high < max(SAME_NS, NOT_WORSE * f.default_ns.median_ns)


def _point(f: Finding, row: Against, operations: str, choice: str) -> Point:
    library = f.operation in LIBRARY.operations
    name = f"{f.default_id.split('/')[1]}_u{f.width_bits} under " if library else ""
    return Point(
        operations=operations, choice=choice, form=name + row.form, default_form=name + f.default,
        condition=condition(f), contended=f.contender == "same_line", contender_iters=f.contender_iters,
        work_iters=f.work_iters, cpu=f.cpu, figure=f.figure, ns=row.ns, default_ns=f.default_ns, judged=row.judged,
        not_worse=_not_worse(row, f),
    )  # fmt: skip


def points_of(found: Sequence[Finding], default: str) -> dict[str, list[Point]]:
    """Every candidate of every class against the default, from the corrected findings of one machine."""
    answer: dict[str, list[Point]] = {}
    for operations, served in OPERATIONS.items():
        if operations == "void" and not any(f.operation == "add" for f in found):
            served = ("fetch_add", *served)  # forms that return a value serve those who do not want it
        for f in found:
            if f.operation in served:
                for row in f.rows:
                    choice = choice_of(row.form, f.operation, operations, default)
                    if choice:
                        answer.setdefault(operations, []).append(_point(f, row, operations, choice))
    return answer


def _gain(rows: Sequence[Point]) -> float:
    """Mean logarithm of candidate over default; below zero: cheaper."""
    logs = [
        math.log(p.ns.median_ns / p.default_ns.median_ns)
        for p in rows
        if min(p.ns.median_ns, p.default_ns.median_ns) > 0
    ]
    return sum(logs) / len(logs) if logs else 0.0


def supported(rows: Sequence[Point]) -> bool:
    """The rule: shown not worse at every point, one of them contended, and shown better at one."""
    return (
        any(p.contended for p in rows) and all(p.not_worse for p in rows) and any(p.judged.cheaper for p in rows)
    )  # fmt: skip


def choose(operations: str, rows: Sequence[Point], default: str) -> Choice:
    """The supported setting of one class with the largest gain, the simpler one of two that gain as much within 2 %."""
    against = [
        p for p in rows if REACH[operations].get(p.default_form) == default or p.default_form.endswith(" under default")
    ]
    by_choice = grouped(against or rows, lambda p: p.choice)
    ranked = sorted((c for c in by_choice if supported(by_choice[c])), key=lambda c: _gain(by_choice[c]))
    why, choice = _why(by_choice), default
    if not against:
        why = "default_unmeasured"
    elif ranked:
        why = "better"
        alike = [c for c in ranked if _gain(by_choice[c]) < _gain(by_choice[ranked[0]]) + 0.02]
        choice = min(alike, key=lambda c: (c.count(","), ranked.index(c)))
    return Choice(
        operations=operations, default=default, choice=choice, why=why,
        also=[c for c in ranked if c != choice] if why == "better" else [], points=list(rows),
    )  # fmt: skip


def _why(by_choice: Mapping[str, Sequence[Point]]) -> str:
    """Why no candidate is supported."""
    points = [p for rows in by_choice.values() for p in rows]
    if all(p.judged.why == "published" for p in points):
        return "published"
    mixed = [rows for rows in by_choice.values() if any(p.judged.cheaper for p in rows)]
    if any(any(p.judged.slower for p in rows) for rows in mixed):
        return "depends"
    settled = [
        any(p.judged.slower for p in rows) or all(p.judged.answer == "same" for p in rows)
        for rows in by_choice.values()
    ]
    return "default_best" if all(settled) else "measure_more"


def choices(found: Sequence[Finding], default: str) -> list[Choice]:
    """Each class that at least two choices were measured for."""
    return [choose(operations, rows, default) for operations, rows in points_of(found, default).items()]


def setting_of(chosen: Iterable[Choice]) -> str:
    """The value of LINEWRIGHT_ATOMICS that makes these choices; ``default`` where none differs from the default."""
    return ",".join(item for c in chosen for item in _items(c.operations, c.choice, c.default)) or "default"


def value_of(operations: str, choice: str, default: str) -> str:
    """The same for one class alone."""
    return ",".join(_items(operations, choice, default)) or "default"


def _items(operations: str, choice: str, default: str) -> list[str]:
    form, _, prefetch = choice.partition(",")
    items = [f"{operations}={form}"] if form != default else []
    return [*items, f"{operations}=prefetch"] if prefetch else items


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
    """At the worst point where the setting is shown to cost more; 0 where none is."""
    where: str


def core_types(found: Iterable[Finding], contexts: Iterable[Context], default: str) -> list[CoreType]:
    """Timed cores grouped by what the system says of them (only to tell them apart), with each group's own choices.

    They rest on the machine's corrected findings and make no comparison of their own.
    """
    described = {c.cpu: (c.midr, c.capacity) for context in contexts for c in context.cpus}
    groups = grouped((f for f in found if f.cpu in described), lambda f: described[f.cpu])
    answers = []
    for (midr, capacity), members in sorted(groups.items(), key=lambda item: -item[0][1]):
        own = choices(members, default)
        cpus = sorted({f.cpu for f in members})
        answers.append(CoreType(midr=midr, capacity=capacity, cpus=cpus, choices=own, setting=setting_of(own)))
    return answers


def one_setting(types: Sequence[CoreType]) -> list[OneSetting]:
    """For every setting that some type wants, and the default: what it is shown to cost on each type at the worst
    point."""
    wanted: dict[str, dict[str, str]] = {"default": {}}
    for t in types:
        wanted[t.setting] = {c.operations: c.choice for c in t.choices}
    return [
        OneSetting(setting=setting, midr=t.midr, capacity=t.capacity, cost_percent=cost, where=where)
        for setting, chosen in wanted.items()
        for t in types
        for cost, where in [max((_cost(c, chosen.get(c.operations, c.default)) for c in t.choices), default=(0.0, ""))]
    ]


def _cost(own: Choice, taken: str) -> tuple[float, str]:
    """Largest loss shown against the default: of `taken`, or of taking the default where another setting is better."""
    worst = (0.0, "")
    if taken == own.choice:
        return worst
    for p in own.points:
        loss = 0.0
        if p.choice == taken and p.judged.slower:
            loss = 100 * (p.ns.median_ns / p.default_ns.median_ns - 1) if p.default_ns.median_ns > 0 else 0.0
        elif p.choice == own.choice and taken == own.default and p.judged.cheaper:
            loss = 100 * (p.default_ns.median_ns / p.ns.median_ns - 1) if p.ns.median_ns > 0 else 0.0
        worst = max(worst, (loss, f"{p.condition}, {p.work_iters} units of work"))
    return worst

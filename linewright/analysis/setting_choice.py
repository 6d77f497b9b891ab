"""Which setting of the library a machine's measurements support: each class of operations against
what it does by default.

A setting holds for a whole process.  It is recommended only if it is shown not to be worse at every
measured point, of which at least one is contended, and shown to be better at one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from linewright.analysis.findings import Alternative, Finding, Point
from linewright.analysis.hypothesis_tests import SAME_NS, Judgement
from linewright.analysis.summary import grouped
from linewright.errors import UserError
from linewright.families import LIBRARY
from linewright.forms import listed, made_of
from linewright.policy import Policy, read, setting
from linewright.schema import Context, Interval

NOT_WORSE = 0.05
"""A setting may cost this share more, upper end of the interval, before it counts as possibly
worse."""

SETTLED = 11
"""Launches from which a state of three launches in ten stays unseen in one run of fifty
(0.7 ** 11); with fewer, advice says what it can miss."""

OPERATIONS: Mapping[str, tuple[str, str]] = {
    "void": ("add", "library_add"),
    "fetch": ("fetch_add", "library_fetch_add"),
    "xchg": ("xchg", "library_xchg"),
    "cas": ("cmpxchg", "library_cmpxchg"),
}
"""The operation whose forms a class chooses among, and the library's, whose cells name their
setting themselves."""


class SettingPoint(Point, frozen=True, kw_only=True):
    """One candidate against the default at one point."""

    operations: str
    """Class of operations: ``void``, ``fetch``, ``xchg``, ``cas``."""
    choice: Policy
    form: str
    default_form: str
    against_default: bool
    """Whether `default_form` is what the class does without a setting."""
    ns: Interval
    ids: tuple[str, str]
    """Of the default's cell and the candidate's."""
    judgement: Judgement
    not_worse: bool
    """Shown: the upper end of the interval is below `NOT_WORSE` more."""


class Choice(Struct, frozen=True, kw_only=True):
    """What the measurement supports for one class of operations."""

    operations: str
    default: Policy
    """What the class does without a setting on this CPU."""
    choice: Policy
    """What to set; equal to `default` when no setting is supported."""
    why: str
    """``better`` (a setting is supported), ``default_best`` (each candidate is shown to be worse
    somewhere or the same), ``depends`` (better here, worse there), ``measure_more`` (undecided, or
    no contended point), ``published`` (no intervals), ``default_unmeasured`` (the form taken by
    default is not in the records)."""
    also: list[Policy]
    """Other choices that are supported."""
    points: list[SettingPoint]

    @property
    def candidates(self) -> list[SettingPoint]:
        """The points of the choices that are shown to be better at one, or of all where none is."""
        better = {p.choice for p in self.points if p.judgement.cheaper}
        return [p for p in self.points if not better or p.choice in better]

    @property
    def still_open(self) -> list[Judgement]:
        """Of an undecided class, where its candidates are not shown to be as good, with what a
        setting may cost more there as the tolerance."""
        unclear = [p for p in self.candidates if not p.not_worse and self.why == "measure_more"]
        return [msgspec.structs.replace(p.judgement, same=bearable(p)) for p in unclear]

    @property
    def left_open(self) -> bool:
        """Whether it is undecided by what a model's constants and its own error leave open, which
        no further launch decides."""
        contended = any(p.situation.contended for p in self.candidates)
        return contended and {j.why for j in self.still_open} - {""} == {"model"}


def default_choice(features: Iterable[str]) -> Policy:
    """What a compiler's code does at run time: load forms where the CPU has LSE, LL/SC where it has
    not."""
    return Policy("load" if "lse" in features else "llsc")


def choice_of(name: str, operations: str, library: bool, default: Policy) -> Policy | None:
    """What a form, or a setting of a `library` operation, stands for in a class; None where it is
    no choice.

    The library's prefetch is PSTL1STRM, and its conditional operations are loops that read first. A
    setting that only spells the default out is measured twice, and the cell under ``default`` is
    taken."""
    if library:
        try:
            own = read(name, "records")[operations]
        except UserError:  # a record's setting may be any text
            return None
        chosen = Policy(own.form or default.form, own.prefetch)
        return None if chosen == default else chosen
    row, made = listed(name), made_of(name)
    usable = made.prefetch in ("", "prfm_strm") and made.loop != "guess_first"
    if not row or row.order != "relaxed" or not usable:
        return None
    form = ""
    if made.exclusive and made.returns_old == (operations != "void"):
        form = "llsc"
    elif made.reach == "near_or_far":
        form = "load" if made.returns_old else "store"
    return Policy(form, bool(made.prefetch)) if form else None


def _not_worse(row: Alternative, f: Finding) -> bool:
    c = row.judgement.contrast
    # Of a published table one run is known, which settles nothing for other launches.
    if c is None or not c.enough(2) or row.judgement.why == "few_launches":
        return False
    return c.high < c.neutral + bearable(f)


def bearable(at: Point) -> float:
    """What a setting may cost more at a point: a share, or ns of exposed cost."""
    if at.figure == "issue":
        return NOT_WORSE
    return max(SAME_NS, NOT_WORSE * at.default_ns.median_ns)


def _point(
    f: Finding, row: Alternative, operations: str, choice: Policy, default: Policy
) -> SettingPoint:
    library = f.operation in LIBRARY.operations
    unset = f.default if library else choice_of(f.default, operations, False, default)
    name = f"{f.library}_u{f.situation.width_bits} under " if library else ""
    return SettingPoint(
        operations=operations,
        choice=choice,
        form=name + row.form,
        default_form=name + f.default,
        against_default=unset in ("default", default),
        ns=row.ns,
        ids=(f.default_id, row.id),
        judgement=row.judgement,
        not_worse=_not_worse(row, f),
        **{name: getattr(f, name) for name in Point.__struct_fields__},
    )


def points_of(found: Sequence[Finding], default: Policy) -> dict[str, list[SettingPoint]]:
    """Every candidate of every class against the default, from the corrected findings of one
    machine."""
    answer: dict[str, list[SettingPoint]] = {}
    for operations, served in OPERATIONS.items():
        if operations == "void" and not any(f.operation == "add" for f in found):
            # Forms that return a value serve those who do not want it.
            served = ("fetch_add", *served)
        for f in found:
            if f.operation in served:
                for row in f.rows:
                    choice = choice_of(
                        row.form, operations, f.operation in LIBRARY.operations, default
                    )
                    if choice:
                        point = _point(f, row, operations, choice, default)
                        answer.setdefault(operations, []).append(point)
    return answer


def _gain(rows: Sequence[SettingPoint]) -> float:
    """Mean logarithm of candidate over default; below zero: cheaper."""
    ends = [(p.ns.median_ns, p.default_ns.median_ns) for p in rows]
    logs = [math.log(a / b) for a, b in ends if min(a, b) > 0]
    return sum(logs) / len(logs) if logs else 0.0


def supported(rows: Sequence[SettingPoint]) -> bool:
    """The rule: shown not worse at every point, one of them contended, and shown better at one."""
    return (
        any(p.situation.contended for p in rows)
        and all(p.not_worse for p in rows)
        and any(p.judgement.cheaper for p in rows)
    )


def unseen_share(launches: int) -> float:
    """The largest share of launches that a state can have which none of `launches` launches
    showed: the exact one-sided 95 % bound (Clopper and Pearson 1934)."""
    return 1 - 0.05 ** (1 / launches)


def launches_behind(chosen: Iterable[Choice]) -> int:
    """The fewest launches that a supported setting rests on at any point; 0 where none is
    supported."""
    points = [p for c in chosen if c.why == "better" for p in c.points if p.choice == c.choice]
    return min((p.judgement.contrast.launches for p in points), default=0)


def _better(rows: Sequence[SettingPoint], simpler: Sequence[SettingPoint]) -> bool:
    """Whether a choice gains over 2 % more than another, and at one point more than the intervals
    of both against the default explain."""
    others = {(p.situation, p.operation, p.cpu, p.default_form): p for p in simpler}
    return _gain(rows) < _gain(simpler) - 0.02 and any(
        p.judgement.contrast.below(other.judgement.contrast)
        for p in rows
        if (other := others.get((p.situation, p.operation, p.cpu, p.default_form)))
    )


def choose(operations: str, rows: Sequence[SettingPoint], default: Policy) -> Choice:
    """The supported setting of one class with the largest gain, or the simplest over which that is
    not shown to be better."""
    against = [p for p in rows if p.against_default]
    by_choice = grouped(against or rows, lambda p: p.choice)
    ranked = sorted(
        (c for c in by_choice if supported(by_choice[c])), key=lambda c: _gain(by_choice[c])
    )
    why, choice = _why(by_choice), default
    if not against:
        why = "default_unmeasured"
    elif ranked:
        why = "better"
        first = by_choice[ranked[0]]
        alike = [c for c in ranked if not _better(first, by_choice[c])]
        choice = min(alike, key=lambda c: (c.form != default.form) + c.prefetch)
    return Choice(
        operations=operations, default=default, choice=choice, why=why,
        also=[c for c in ranked if c != choice] if why == "better" else [], points=list(rows),
    )  # fmt: skip


def _why(by_choice: Mapping[Policy, Sequence[SettingPoint]]) -> str:
    """Why no candidate is supported."""
    points = [p for rows in by_choice.values() for p in rows]
    if all(p.judgement.why == "published" for p in points):
        return "published"
    mixed = [rows for rows in by_choice.values() if any(p.judgement.cheaper for p in rows)]
    if any(any(p.judgement.slower for p in rows) for rows in mixed):
        return "depends"
    settled = [
        any(p.judgement.slower for p in rows) or all(p.judgement.answer == "same" for p in rows)
        for rows in by_choice.values()
    ]
    return "default_best" if all(settled) else "measure_more"


def choices(found: Sequence[Finding], default: Policy) -> list[Choice]:
    """Each class that at least two choices were measured for."""
    return [
        choose(operations, rows, default) for operations, rows in points_of(found, default).items()
    ]


def setting_of(chosen: Iterable[Choice]) -> str:
    """The value of LINEWRIGHT_ATOMICS that makes these choices; ``default`` where none differs from
    the default."""
    return setting({c.operations: c.choice.beyond(c.default) for c in chosen})


def why_this_setting(chosen: Sequence[Choice]) -> str:
    """Why one setting holds for all classes, as `Choice.why`: where none is supported, the
    weightiest of their reasons."""
    if setting_of(chosen) != "default":
        return "better"
    reasons = {c.why for c in chosen}
    return next(why for why in _WEIGHTIEST if why in reasons)


_WEIGHTIEST = ("depends", "measure_more", "default_unmeasured", "published", "default_best")


def clearest(points: Iterable[SettingPoint], cheaper: bool) -> SettingPoint | None:
    """The point at which a candidate is shown to be cheaper (or slower) by most of the default's
    cost."""

    def size(p: SettingPoint) -> float:
        return abs(p.ns.median_ns - p.default_ns.median_ns) / max(p.default_ns.median_ns, 1e-9)

    shown = [p for p in points if (p.judgement.cheaper if cheaper else p.judgement.slower)]
    return max(shown, key=size, default=None)


class Turn(Struct, frozen=True, kw_only=True):
    """Where one candidate is better than the default, or worse, of a class in which it is both."""

    setting: str
    cheaper: bool
    points: list[SettingPoint]
    clearest: SettingPoint


def turns(c: Choice) -> list[Turn]:
    """Where each candidate with both answers is better and where it is worse, the larger of the two
    first: a gain of a few percent is not to hide a loss of ten times."""
    answers = []
    for name, rows in grouped(c.points, lambda p: p.choice).items():
        value = setting_of([msgspec.structs.replace(c, choice=name)])
        sides = [
            Turn(
                setting=value,
                cheaper=cheaper,
                points=[
                    p for p in rows if (p.judgement.cheaper if cheaper else p.judgement.slower)
                ],
                clearest=most,
            )
            for cheaper in (True, False)
            if (most := clearest(rows, cheaper))
        ]
        if len(sides) == 2:
            answers += sorted(sides, key=lambda turn: _apart(turn.clearest), reverse=True)
    return answers


def _apart(p: SettingPoint) -> float:
    """How many times one of a point's costs is the other, as a logarithm."""
    return abs(math.log(max(p.ns.median_ns, 0.01) / max(p.default_ns.median_ns, 0.01)))


class CoreType(Struct, frozen=True, kw_only=True):
    """Cores that the system describes alike, and what was found on those of them that were
    timed."""

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
    worst: SettingPoint | None
    """That point; None where the setting is not shown to cost more."""


def core_types(
    found: Iterable[Finding], contexts: Iterable[Context], default: Policy
) -> list[CoreType]:
    """Timed cores grouped by what the system says of them (only to tell them apart), with each
    group's own choices.

    They rest on the machine's corrected findings and make no comparison of their own.
    """
    described = {c.cpu: (c.midr, c.capacity) for context in contexts for c in context.cpus}
    groups = grouped((f for f in found if f.cpu in described), lambda f: described[f.cpu])
    answers = []
    for (midr, capacity), members in sorted(groups.items(), key=lambda item: -item[0][1]):
        own = choices(members, default)
        cpus = sorted({f.cpu for f in members})
        answers.append(
            CoreType(midr=midr, capacity=capacity, cpus=cpus, choices=own, setting=setting_of(own))
        )
    return answers


def one_setting(types: Sequence[CoreType]) -> list[OneSetting]:
    """For every setting that some type wants, and the default: what it is shown to cost on each
    type at the worst point."""
    wanted: dict[str, dict[str, Policy]] = {"default": {}}
    for t in types:
        wanted[t.setting] = {c.operations: c.choice for c in t.choices}
    answers = []
    for value, chosen in wanted.items():
        for t in types:
            costs = [_cost(c, chosen.get(c.operations, c.default)) for c in t.choices]
            cost, worst = max(costs, default=(0.0, None), key=lambda found: found[0])
            core = {"midr": t.midr, "capacity": t.capacity}
            answers.append(OneSetting(setting=value, cost_percent=cost, worst=worst, **core))
    return answers


def _cost(own: Choice, taken: Policy) -> tuple[float, SettingPoint | None]:
    """Largest loss shown against the default: of `taken`, or of taking the default where another
    setting is better."""
    losses: list[tuple[float, SettingPoint | None]] = [(0.0, None)]
    for p in own.points if taken != own.choice else ():
        ends = None
        if p.choice == taken and p.judgement.slower:
            ends = p.ns.median_ns, p.default_ns.median_ns
        elif p.choice == own.choice and taken == own.default and p.judgement.cheaper:
            ends = p.default_ns.median_ns, p.ns.median_ns
        if ends and ends[1] > 0:
            losses.append((100 * (ends[0] / ends[1] - 1), p))
    return max(losses, key=lambda loss: loss[0])

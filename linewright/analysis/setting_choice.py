# SPDX-License-Identifier: MIT
"""Which setting of the library a machine's measurements support: each class of operations against
what it does by default.

A setting holds for a whole process.  It is recommended only if it is shown not to be worse at every
measured point, of which at least one is contended, and shown to be better at one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from linewright.analysis.comparison import Answer, Comparison, Side
from linewright.analysis.findings import Finding
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import grouped
from linewright.errors import UserError
from linewright.forms import listed, made_of
from linewright.policy import Policy, read, setting
from linewright.schema import Context

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
    points: list[Comparison]
    """Each candidate over the default, from the corrected comparisons of forms."""

    @property
    def by_policy(self) -> dict[Policy, list[Comparison]]:
        """The points of each candidate."""
        return grouped(self.points, lambda p: stands_for(p.first, self.operations, self.default))

    @property
    def candidates(self) -> dict[Policy, list[Comparison]]:
        """Those that are shown to be better at one point, or all where none is."""
        every = self.by_policy
        return {name: own for name, own in every.items() if _gains(own)} or every

    @property
    def still_open(self) -> list[Comparison]:
        """Of an undecided class, where its candidates are not shown to be as good, with what a
        setting may cost more there as the tolerance, and the interval that says so."""
        points = itertools.chain(*self.candidates.values()) if self.why == "measure_more" else ()
        asked = lambda p: msgspec.structs.replace(p, same=bearable(p), shown=p.contrast)
        return [asked(p) for p in points if not not_worse(p)]

    @property
    def left_open(self) -> bool:
        """Whether it is undecided by what a model's constants and its own error leave open, which
        no further launch decides."""
        contended = any(p.contended for own in self.candidates.values() for p in own)
        return contended and {p.why for p in self.still_open} - {""} == {"model"}


def stands_for(side: Side, operations: str, default: Policy) -> Policy | None:
    """What a form, or a setting of a library operation, stands for in a class; None where no
    setting chooses it.

    The library's prefetch is PSTL1STRM, and its conditional operations are loops that read
    first."""
    if side.library:
        try:
            own = read(side.form, "records")[operations]
        except UserError:  # a record's setting may be any text
            return None
        return Policy(own.form or default.form, own.prefetch)
    row, made = listed(side.form), made_of(side.form)
    usable = made.prefetch in ("", "prfm_strm") and made.loop != "guess_first"
    if not row or row.order != "relaxed" or not usable:
        return None
    form = ""
    if made.exclusive and made.returns_old == (operations != "void"):
        form = "llsc"
    elif made.reach == "near_or_far":
        form = "load" if made.returns_old else "store"
    return Policy(form, bool(made.prefetch)) if form else None


def not_worse(p: Comparison) -> bool:
    """Shown: the upper end of the interval is below what a setting may cost more."""
    c = p.contrast
    # Of a published table one run is known, which settles nothing for other launches.
    if c is None or not c.enough(2) or p.why == "few_launches":
        return False
    return c.high < c.neutral + bearable(p)


def bearable(p: Comparison) -> float:
    """What a setting may cost more at a point: a share, or ns of exposed cost."""
    return QUESTIONS["setting"].same.of(p.figure, ns=p.second.ns.median_ns)


def points_of(found: Sequence[Finding], default: Policy) -> dict[str, list[Comparison]]:
    """Every candidate of every class over the default, from the corrected findings of one machine.
    A setting that only spells the default out is no candidate."""
    answer: dict[str, list[Comparison]] = {}
    for operations, served in OPERATIONS.items():
        if operations == "void" and not any(f.operation == "add" for f in found):
            # Forms that return a value serve those who do not want it.
            served = ("fetch_add", *served)
        for row in (row for f in found if f.operation in served for row in f.rows):
            policy = stands_for(row.first, operations, default)
            if policy and not (row.first.library and policy == default):
                answer.setdefault(operations, []).append(row)
    return answer


def _gain(rows: Sequence[Comparison]) -> float:
    """Mean logarithm of candidate over default; below zero: cheaper."""
    ends = [(p.first.ns.median_ns, p.second.ns.median_ns) for p in rows]
    logs = [math.log(a / b) for a, b in ends if min(a, b) > 0]
    return sum(logs) / len(logs) if logs else 0.0


def _gains(rows: Iterable[Comparison]) -> bool:
    return any(p.cheaper for p in rows)


def _loses(rows: Iterable[Comparison]) -> bool:
    return any(p.slower for p in rows)


def supported(rows: Sequence[Comparison]) -> bool:
    """The rule: shown not worse at every point, one of them contended, and shown better at one."""
    return any(p.contended for p in rows) and all(map(not_worse, rows)) and _gains(rows)


def unseen_share(launches: int) -> float:
    """The largest share of launches that a state can have which none of `launches` launches
    showed: the exact one-sided 95 % bound (Clopper and Pearson 1934)."""
    return 1 - 0.05 ** (1 / launches)


def launches_behind(chosen: Iterable[Choice]) -> int:
    """The fewest launches that a supported setting rests on at any point; 0 where none is
    supported."""
    points = [p for c in chosen if c.why == "better" for p in c.by_policy[c.choice]]
    return min((p.contrast.launches for p in points), default=0)


def _better(rows: Sequence[Comparison], simpler: Sequence[Comparison]) -> bool:
    """Whether a choice gains more than another by what counts, and at one point more than the
    intervals of both against the default explain."""
    others = {p.second.id: p for p in simpler}
    return _gain(rows) < _gain(simpler) - QUESTIONS["simpler"].same.share and any(
        p.contrast.below(other.contrast) for p in rows if (other := others.get(p.second.id))
    )


def choose(operations: str, rows: Sequence[Comparison], default: Policy) -> Choice:
    """The supported setting of one class with the largest gain, or the simplest over which that is
    not shown to be better."""
    unset = [p for p in rows if stands_for(p.second, operations, default) == default]
    by_policy = grouped(unset or rows, lambda p: stands_for(p.first, operations, default))
    ranked = sorted(
        (c for c in by_policy if supported(by_policy[c])), key=lambda c: _gain(by_policy[c])
    )
    why, choice = _why(list(by_policy.values())), default
    if not unset:
        why = "default_unmeasured"
    elif ranked:
        why = "better"
        first = by_policy[ranked[0]]
        alike = [c for c in ranked if not _better(first, by_policy[c])]
        choice = min(alike, key=lambda c: (c.form != default.form) + c.prefetch)
    return Choice(
        operations=operations, default=default, choice=choice, why=why,
        also=[c for c in ranked if c != choice] if why == "better" else [], points=list(rows),
    )  # fmt: skip


def _why(candidates: Sequence[Sequence[Comparison]]) -> str:
    """Why no candidate is supported."""
    if all(p.why == "published" for rows in candidates for p in rows):
        return "published"
    if any(_gains(rows) and _loses(rows) for rows in candidates):
        return "depends"
    settled = (_loses(rows) or all(p.answer == "same" for p in rows) for rows in candidates)
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


def clearest(points: Iterable[Comparison], answer: Answer) -> Comparison | None:
    """The point with this answer, cheaper or slower, at which a candidate differs by most of the
    default's cost."""

    def size(p: Comparison) -> float:
        a, b = p.first.ns.median_ns, p.second.ns.median_ns
        return abs(a - b) / max(b, 1e-9)

    return max((p for p in points if p.answer == answer), key=size, default=None)


class Conflict(Struct, frozen=True, kw_only=True):
    """Where one candidate is better than the default, or worse, of a class in which it is both."""

    setting: str
    answer: Answer
    points: list[Comparison]
    clearest: Comparison

    @property
    def log_times(self) -> float:
        """How many times one of the clearest point's costs is the other, as a logarithm."""
        sides = self.clearest.first, self.clearest.second
        a, b = (max(side.ns.median_ns, 0.01) for side in sides)
        return abs(math.log(a / b))


def setting_conflicts(c: Choice) -> list[Conflict]:
    """Where each candidate with both answers is better and where it is worse, the larger of the two
    first: a gain of a few percent is not to hide a loss of ten times."""
    found = []
    for policy, rows in c.by_policy.items():
        if _gains(rows) and _loses(rows):
            value = setting_of([msgspec.structs.replace(c, choice=policy)])
            sides = [
                Conflict(setting=value, answer=answer, points=own, clearest=clearest(own, answer))
                for answer in ("cheaper", "slower")
                for own in [[p for p in rows if p.answer == answer]]
            ]
            found += sorted(sides, key=lambda side: side.log_times, reverse=True)
    return found


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
    worst: Comparison | None
    """That point; None where the setting is not shown to cost more."""


def core_types(
    found: Iterable[Finding], contexts: Iterable[Context], default: Policy
) -> list[CoreType]:
    """Timed cores grouped by what the system says of them (only to tell them apart), with each
    group's own choices.

    They rest on the machine's corrected findings and make no comparison of their own.
    """
    described = {c.cpu: (c.midr, c.capacity) for context in contexts for c in context.cpus}
    groups = grouped((f for f in found if f.side.cpu in described), lambda f: described[f.side.cpu])
    answers = []
    for (midr, capacity), members in sorted(groups.items(), key=lambda item: -item[0][1]):
        own = choices(members, default)
        cpus = sorted({f.side.cpu for f in members})
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


def _cost(own: Choice, taken: Policy) -> tuple[float, Comparison | None]:
    """Largest loss shown against the default: of `taken`, or of taking the default where another
    setting is better."""
    if taken == own.choice:
        return 0.0, None
    losses: list[tuple[float, Comparison | None]] = [(0.0, None)]
    for p in own.by_policy.get(taken, []):
        losses += [(1 / p.times - 1, p)] if p.slower and p.second.ns.median_ns > 0 else []
    for p in own.by_policy.get(own.choice, []) if taken == own.default else ():
        losses += [(p.times - 1, p)] if p.cheaper and p.first.ns.median_ns > 0 else []
    cost, worst = max(losses, key=lambda loss: loss[0])
    return 100 * cost, worst

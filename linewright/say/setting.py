"""The setting for a process: its value, the sentence that says why, and each class of operations
against the default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from linewright import numbers, policy
from linewright.analysis import setting_choice
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.setting_choice import NOT_WORSE, Choice, SettingPoint
from linewright.analysis.summary import grouped
from linewright.say.document import Decision, Topic
from linewright.say.machine_lines import EMULATED
from linewright.say.phrases import (
    all_within_text,
    arounds,
    condition,
    measure_again,
    more_text,
    time_of,
)

CLASS_WORDS = {
    "void": "operations without a value",
    "fetch": "operations that return the value",
    "xchg": "exchanges",
    "cas": "compare-and-swap",
}
_SILENT = {
    "default_best": "nothing: no form measured is shown to be better than the default",
    "depends": "no one setting: which is best depends on contention and work",
    "published": "nothing: published percentiles have no intervals, so no difference is shown",
    "default_unmeasured": "nothing: the form taken by default is not in the records, so no gain "
    "over it is shown",
    "measure_more": "nothing yet: undecided; measure more: {again}",
    "emulated": f"nothing: {EMULATED}",
    "architecture": "nothing: on {arch} there is no choice for LINEWRIGHT_ATOMICS to make",
    "not_measured": "nothing: fewer than two forms that a setting can choose were measured under "
    "equal conditions",
}
"""Why nothing is to be set."""
_WEIGHTIEST = ("depends", "measure_more", "default_unmeasured", "published", "default_best")
"""Of several classes of operations the reason that is said."""


def setting(machine: MachineAnswers) -> Decision:
    """The value for a process, checked by the same reader as a user's own, and one sentence that
    says why."""
    value, why = "default", ""
    if machine.emulated:
        why = "emulated"
    elif not machine.forms_differ:
        why = "architecture"
    elif not machine.choices:
        why = "not_measured"
    else:
        value = policy.check(setting_choice.setting_of(machine.choices), "advice")
        reasons = {c.why for c in machine.choices}
        why = "better" if value != "default" else next(w for w in _WEIGHTIEST if w in reasons)
    if why == "better":
        sentence = (
            f"LINEWRIGHT_ATOMICS={value}: shown to be better than the default at one measured "
            f"point or more, and to cost no more than {NOT_WORSE:.0%} more at every one"
            f"{_unseen(machine)}"
        )
    else:
        again = measure_again(machine) if why == "measure_more" else ""
        sentence = _SILENT[why].format(again=again, arch=machine.arch.replace("_", "-"))
    return Decision(
        variable="LINEWRIGHT_ATOMICS",
        value=value,
        supported=why == "better",
        why=why,
        sentence=sentence,
    )


def _unseen(machine: MachineAnswers) -> str:
    """What the launches behind a supported setting can miss."""
    launches = machine.unsettled_launches
    if not launches:
        return ""
    share = setting_choice.unseen_share(launches)
    return (
        f"; {launches} launches can miss a state of up to {share:.0%} of launches in which it "
        f"costs more, and {machine.launches_asked} leave less unseen: {measure_again(machine)}"
    )


def at_text(p: SettingPoint, machine: MachineAnswers) -> str:
    """Where a point lies, in words."""
    time = time_of(p.situation.work_iters, machine.context)
    return f"{condition(p)}, {p.situation.around}{time}"


def point_text(p: SettingPoint, machine: MachineAnswers) -> str:
    """A point's figures: the candidate against the default."""
    kind = "exposed by" if p.figure == "exposed" else "of"
    c = p.judgement.contrast
    return (
        f"{p.form} {numbers.figure(p.ns.median_ns)} ns against "
        f"{numbers.figure(p.default_ns.median_ns)} ns {kind} {p.default_form}, "
        f"{numbers.change(c.low, c.high, c.scale)}, {at_text(p, machine)}"
    )


def clearest(points: Iterable[SettingPoint], cheaper: bool) -> SettingPoint | None:
    """The point at which a candidate is shown to be cheaper (or slower) by most of the default's
    cost."""

    def size(p: SettingPoint) -> float:
        return abs(p.ns.median_ns - p.default_ns.median_ns) / max(p.default_ns.median_ns, 1e-9)

    shown = [p for p in points if (p.judgement.cheaper if cheaper else p.judgement.slower)]
    return max(shown, key=size, default=None)


def classes(m: MachineAnswers) -> Topic | None:
    """Each class of operations against the default."""
    lines = [line for c in m.choices for line in _choice_lines(c, m)]
    return (
        Topic(name="classes", title="By class of operations", lines=lines, data=m.choices)
        if lines
        else None
    )


def _words(name: str) -> str:
    return name.replace(",", " with ")


def _choice_lines(c: Choice, machine: MachineAnswers) -> list[str]:
    """One class: what was found against the default, at its clearest point, and what is missing."""
    what = CLASS_WORDS[c.operations]
    own = [p for p in c.points if p.choice == c.choice]
    if c.why == "better":
        same = sum(p.judgement.answer == "same" for p in own)
        lines = [
            f"{what}: {_words(c.choice)}. {point_text(clearest(own, cheaper=True), machine)}; "
            f"{_rest(own, same)}"
        ]
        if c.also:
            lines.append(f"{what}: shown to serve too: {numbers.join([_words(x) for x in c.also])}")
        return lines
    if c.why == "default_best":
        worst = clearest(c.points, cheaper=False)
        shown = (
            f"; clearest: {point_text(worst, machine)}"
            if worst
            else f", all the same within {all_within_text(p.judgement for p in c.points)}"
        )
        return [f"{what}: no form measured is shown to be better than the default{shown}"]
    if c.why == "depends":
        return [f"{what}: no one setting: it depends on the program", *_turns(c, machine)]
    if c.why == "measure_more":
        return [f"{what}: undecided: {_missing(c, machine)}"]
    return [f"{what}: {_SILENT[c.why].removeprefix('nothing: ')}"]


def _rest(own: Sequence[SettingPoint], same: int) -> str:
    return (
        f"the same at {same} of {len(own)} points, not worse at any"
        if same
        else f"not worse at any of {len(own)} points"
    )


def _missing(c: Choice, machine: MachineAnswers) -> str:
    """What the undecided class lacks, and the command that gives it."""
    if not any(p.situation.contended for p in c.candidates):
        return f"no contended point was measured: {measure_again(machine)}"
    few = any(j.why in ("one_launch", "few_launches") for j in c.still_open)
    which = ", ".join(sorted({_words(p.choice) for p in c.candidates}))
    reason = "too few launches" if few else more_text(c.still_open, machine.launches_asked)
    return (
        f"{which} not shown to be as good as the default at {len(c.still_open)} of "
        f"{len(c.candidates)} points ({reason}): {measure_again(machine)}"
    )


def _turns(c: Choice, machine: MachineAnswers) -> list[str]:
    """Where each candidate with both answers is better and where it is worse, the larger of the two
    first: a gain of a few percent is not to hide a loss of ten times."""
    lines = []
    for name in dict.fromkeys(p.choice for p in c.points):
        rows = [p for p in c.points if p.choice == name]
        better, worse = clearest(rows, cheaper=True), clearest(rows, cheaper=False)
        if better and worse:
            value = policy.check(setting_choice.setting_of([replace(c, choice=name)]), "advice")
            both = ((better, "better"), (worse, "worse"))
            for most, word in sorted(both, key=lambda pair: _apart(pair[0]), reverse=True):
                answer = "cheaper" if word == "better" else "slower"
                shown = [p for p in rows if getattr(p.judgement, answer)]
                lines.append(
                    f"  LINEWRIGHT_ATOMICS={value} is {word} than the default {_places(shown)}; "
                    f"most: {point_text(most, machine)}"
                )
    return lines


def _apart(p: SettingPoint) -> float:
    """How many times one of a point's costs is the other, as a logarithm."""
    return abs(math.log(max(p.ns.median_ns, 0.01) / max(p.default_ns.median_ns, 0.01)))


def _places(points: Sequence[SettingPoint]) -> str:
    by_sharers = grouped(points, condition)
    return "; ".join(
        f"{where}, {arounds([p.situation for p in own])}" for where, own in by_sharers.items()
    )

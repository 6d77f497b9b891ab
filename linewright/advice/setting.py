"""The setting for a process: its value, the sentence that says why, and each class of operations against the
default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linewright import policy
from linewright.advice import choice
from linewright.advice.choice import CLASS_WORDS, NOT_WORSE, Choice, Point
from linewright.advice.machine import Machine, Setting, Topic
from linewright.analysis.saying import join, number
from linewright.analysis.words import all_within_text, more_text, open_text, work_text

_SILENT = {
    "default_best": "no setting: nothing measured is shown to be better than what is done by default",
    "depends": "no one setting for every program: it depends on contention or on the work"
    " between operations, see below",
    "published": "no setting: published percentiles have no intervals, so no difference is shown",
    "default_unmeasured": "no setting: the form taken by default is not in the records, so no gain over it is shown",
}


def setting(machine: Machine) -> Setting:
    """The value for a process, checked by the same reader as a user's own, and one sentence that says why."""

    def no(why: str, sentence: str) -> Setting:
        return Setting(variable="LINEWRIGHT_ATOMICS", value="default", supported=False, why=why, sentence=sentence)

    if machine.emulated:
        return no("emulated", "no setting: run by an emulator, times mean nothing")
    if not machine.forms_differ:
        return no(
            "architecture",
            f"no setting: on {machine.arch} each operation has one form and LINEWRIGHT_ATOMICS is without effect;"
            " which form to write in code is below",
        )
    if not machine.choices:
        return no(
            "not_measured",
            "no setting: fewer than two forms that a setting can choose were measured under equal conditions",
        )
    value = policy.check(choice.setting_of(machine.choices), "advice")
    if value == "default":
        reasons = {c.why for c in machine.choices}
        order = ("measure_more", "depends", "default_unmeasured", "published", "default_best")
        why = next(w for w in order if w in reasons)
        return no(
            why,
            f"no setting yet: undecided; measure more: {machine.measure}" if why == "measure_more" else _SILENT[why],
        )
    return Setting(
        variable="LINEWRIGHT_ATOMICS", value=value, supported=True, why="better",
        sentence=f"LINEWRIGHT_ATOMICS={value}: shown to be better than the default at one measured point or more,"
        f" and to cost no more than {NOT_WORSE:.0%} more at every one",
    )  # fmt: skip


def at_text(p: Point, machine: Machine) -> str:
    """Where a point lies, in words."""
    time = machine.time_of(p.work_iters)
    return f"{p.condition}, {work_text(p.work_iters)}{time}"


def point_text(p: Point, machine: Machine) -> str:
    """A point's figures: the candidate against the default."""
    kind = "exposed by" if p.figure == "exposed" else "of"
    return (
        f"{p.form} {number(p.ns.median_ns)} ns against {number(p.default_ns.median_ns)} ns {kind} {p.default_form},"
        f" {open_text(p.judged.contrast)}, {at_text(p, machine)}"
    )


def clearest(points: Iterable[Point], cheaper: bool) -> Point | None:
    """The point at which a candidate is shown to be cheaper (or slower) by most of the default's cost."""

    def size(p: Point) -> float:
        return abs(p.ns.median_ns - p.default_ns.median_ns) / max(p.default_ns.median_ns, 1e-9)

    shown = [p for p in points if (p.judged.cheaper if cheaper else p.judged.slower)]
    return max(shown, key=size, default=None)


def classes(m: Machine) -> Topic | None:
    """Each class of operations against the default."""
    lines = [line for c in m.choices for line in _choice_lines(c, m)]
    return Topic(name="classes", title="By class of operations", lines=lines, data=m.choices) if lines else None


def _words(name: str) -> str:
    return name.replace(",", " with ")


def _choice_lines(c: Choice, machine: Machine) -> list[str]:
    """One class: what was found against the default, at its clearest point, and what is missing."""
    what = CLASS_WORDS[c.operations]
    own = [p for p in c.points if p.choice == c.choice]
    if c.why == "better":
        same = sum(p.judged.answer == "same" for p in own)
        lines = [f"{what}: {_words(c.choice)}. {point_text(clearest(own, cheaper=True), machine)}; {_rest(own, same)}"]
        if c.also:
            lines.append(f"{what}: shown to serve too: {join([_words(x) for x in c.also])}")
        return lines
    if c.why == "default_best":
        worst = clearest(c.points, cheaper=False)
        shown = (
            f"; clearest: {point_text(worst, machine)}"
            if worst
            else f", all the same within {all_within_text(p.judged for p in c.points)}"
        )
        return [f"{what}: no setting: nothing measured is shown to be better than the default{shown}"]
    if c.why == "depends":
        return [f"{what}: no one setting: it depends on the program", *_turns(c, machine)]
    if c.why == "measure_more":
        return [f"{what}: undecided: {_missing(c, machine)}"]
    return [f"{what}: {_SILENT[c.why]}"]


def _rest(own: Sequence[Point], same: int) -> str:
    return (
        f"the same at {same} of {len(own)} points, not worse at any"
        if same
        else f"not worse at any of {len(own)} points"
    )


def _missing(c: Choice, machine: Machine) -> str:
    """What the undecided class lacks, and the command that gives it."""
    candidates = {p.choice for p in c.points if p.judged.cheaper} or {p.choice for p in c.points}
    own = [p for p in c.points if p.choice in candidates]
    if not any(p.contended for p in own):
        return f"no contended point was measured: {machine.measure}"
    open_points = [p for p in own if not p.not_worse]
    few = [p for p in open_points if p.judged.why in ("one_launch", "few_launches")]
    which = ", ".join(sorted(_words(x) for x in candidates))
    reason = "too few launches" if few else more_text([p.judged for p in open_points], NOT_WORSE)
    return (
        f"{which} not shown to be as good as the default at {len(open_points)} of {len(own)} points ({reason}):"
        f" {machine.measure}"
    )


def _turns(c: Choice, machine: Machine) -> list[str]:
    """Where each candidate with both answers is better and where it is worse."""
    lines = []
    for name in dict.fromkeys(p.choice for p in c.points):
        rows = [p for p in c.points if p.choice == name]
        better, worse = clearest(rows, cheaper=True), clearest(rows, cheaper=False)
        if better and worse:
            value = policy.check(choice.value_of(c.operations, name, c.default), "advice")
            for word, most in (("better", better), ("worse", worse)):
                where = _places([p for p in rows if (p.judged.cheaper if word == "better" else p.judged.slower)])
                lines.append(
                    f"  LINEWRIGHT_ATOMICS={value} is {word} than the default {where}; most:"
                    f" {point_text(most, machine)}"
                )
    return lines


def _places(points: Sequence[Point]) -> str:
    works: dict[str, list[int]] = {}
    for p in points:
        works.setdefault(p.condition, []).append(p.work_iters)
    return "; ".join(f"{where} at work {', '.join(map(str, sorted(set(at))))}" for where, at in works.items())

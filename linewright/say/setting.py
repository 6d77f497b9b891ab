# SPDX-License-Identifier: MIT
"""The setting for a process: its value, the sentence that says why, and each class of operations
against the default."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis import setting_choice
from linewright.analysis.comparison import Comparison
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.setting_choice import (
    Choice,
    Conflict,
    clearest,
    setting_conflicts,
)
from linewright.analysis.summary import grouped
from linewright.say.document import Decision, Topic, topic
from linewright.say.machine_lines import EMULATED
from linewright.say.phrases import (
    BETTER,
    all_within_text,
    measure_again,
    measure_on,
    more_text,
    sharers_of,
    time_of,
    work_lengths_text,
)
from linewright.say.sentence import sentence, sentence_as_written
from linewright.say.words import FEW_LAUNCHES, LEFT_OPEN

CLASS_WORDS = {
    "void": "operations without a value",
    "fetch": "operations that return the value",
    "xchg": "exchanges",
    "cas": "compare-and-swap",
}
_SILENT = {
    "default_best": "no form measured is shown to be better than the default",
    "depends": "no one setting: which is best depends on contention and work",
    "published": "published percentiles have no intervals, so no difference is shown",
    "default_unmeasured": "the form taken by default is not in the records, so no gain "
    "over it is shown",
    "measure_more": "nothing yet: undecided; measure more: {again}",
    "left_open": f"undecided, since {LEFT_OPEN}",
    "emulated": EMULATED,
    "architecture": "on {arch} there is no choice for LINEWRIGHT_ATOMICS to make",
    "not_measured": "fewer than two forms that a setting can choose were measured under "
    "equal situations",
}
"""Why nothing is to be set."""
_OTHERWISE = ("depends", "measure_more")
"""Reasons that are said as they are, without ``nothing`` before them."""


def setting(machine: MachineAnswers) -> Decision:
    """The value for a process, and one sentence that says why."""
    value, why = machine.setting
    if why == "better":
        most = QUESTIONS["setting"].same.share
        text = (
            f"LINEWRIGHT_ATOMICS={value}: shown to be better than the default at one measured "
            f"point or more, and to cost no more than {most:.0%} more at every one"
            f"{_unseen(machine)}"
        )
    else:
        again = measure_again(machine) if why == "measure_more" else ""
        unclear = [c for c in machine.choices if c.why == "measure_more"]
        left_open = why == "measure_more" and all(c.left_open for c in unclear)
        reason = "left_open" if left_open else why
        text = _SILENT[reason].format(again=again, arch=machine.arch.replace("_", "-"))
        text = text if reason in _OTHERWISE else f"nothing: {text}"
    ids = [i for c in machine.choices for p in c.points for i in p.ids]
    return Decision(
        variable="LINEWRIGHT_ATOMICS",
        value=value,
        supported=why == "better",
        why=why,
        sentence=sentence(text, cells=ids, basis="cells" if ids else "run"),
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


def at_text(p: Comparison, machine: MachineAnswers) -> str:
    """Where a point lies, in words."""
    time = time_of(p.situation.work_iters, machine.context)
    return f"{sharers_of(p)}, {p.situation.around}{time}"


def point_text(p: Comparison, machine: MachineAnswers) -> str:
    """A point's figures: the candidate against the default."""
    kind = "exposed by" if p.figure == "exposed" else "of"
    return (
        f"{p.first.words()} {numbers.figure(p.first.ns.median_ns)} ns against "
        f"{numbers.figure(p.second.ns.median_ns)} ns {kind} {p.second.words()}, "
        f"{p.words()}, {at_text(p, machine)}"
    )


def classes(m: MachineAnswers) -> Topic | None:
    """Each class of operations against the default."""
    lines = [
        sentence_as_written(text, [i for p in points for i in p.ids])
        for c in m.choices
        for text, points in _choice_lines(c, m)
    ]
    return topic("classes", "By class of operations", lines, m.choices)


def _choice_lines(c: Choice, machine: MachineAnswers) -> list[tuple[str, Sequence[Comparison]]]:
    """One class: what was found against the default, at its clearest point, and what is missing;
    each with the points that it rests on."""
    what = CLASS_WORDS[c.operations]
    own = c.by_policy.get(c.choice, [])
    if c.why == "better":
        same = sum(p.answer == "same" for p in own)
        text = f"{what}: {c.choice.words()}. {point_text(clearest(own, 'cheaper'), machine)}; "
        lines = [(text + _rest(own, same), own)]
        if c.also:
            text = f"{what}: shown to serve too: {numbers.join([x.words() for x in c.also])}"
            lines.append((text, [p for x in c.also for p in c.by_policy[x]]))
        return lines
    if c.why == "default_best":
        worst = clearest(c.points, "slower")
        shown = (
            f"; clearest: {point_text(worst, machine)}"
            if worst
            else f", all the same within {all_within_text(c.points)}"
        )
        text = f"{what}: no form measured is shown to be better than the default{shown}"
    elif c.why == "depends":
        return [
            (f"{what}: no one setting: it depends on the program", c.points),
            *[(_conflict(x, machine), x.points) for x in setting_conflicts(c)],
        ]
    elif c.why == "measure_more":
        text = f"{what}: undecided, {_missing(c, machine)}"
    else:
        text = f"{what}: {_SILENT[c.why]}"
    return [(text, c.points)]


def _rest(own: Sequence[Comparison], same: int) -> str:
    return (
        f"the same at {same} of {len(own)} points, not worse at any"
        if same
        else f"not worse at any of {len(own)} points"
    )


def _missing(c: Choice, machine: MachineAnswers) -> str:
    """What the undecided class lacks, and the command that gives it."""
    points = [p for own in c.candidates.values() for p in own]
    if not any(p.contended for p in points):
        some = f"{measure_on(machine.contexts)} --plan quick measures some"
        return f"since no contended point was measured; {some}"
    which = sorted(policy.words() for policy in c.candidates)
    text = (
        f"since {numbers.join(which)} {'is' if len(which) == 1 else 'are'} not shown to be as good "
        f"as the default at {len(c.still_open)} of {len(points)} points"
    )
    if c.left_open:
        return f"{text}: {LEFT_OPEN}"
    few = any(j.why in ("one_launch", "few_launches") for j in c.still_open)
    reason = FEW_LAUNCHES if few else more_text(c.still_open, machine.launches_asked)
    return f"{text} ({reason}); {measure_again(machine)}"


def _conflict(found: Conflict, machine: MachineAnswers) -> str:
    """Where a candidate is better or worse than the default, and where most."""
    return (
        f"  LINEWRIGHT_ATOMICS={found.setting} is {BETTER[found.answer]} than the default "
        f"{_places(found.points)}; most: {point_text(found.clearest, machine)}"
    )


def _places(points: Sequence[Comparison]) -> str:
    by_sharers = grouped(points, sharers_of)
    return "; ".join(
        f"{where}, {work_lengths_text([p.situation for p in own])}"
        for where, own in by_sharers.items()
    )

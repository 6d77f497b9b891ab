"""What a measurement cannot tell, what of it is not believed, and what it says of its own noise."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis import setting_choice
from linewright.analysis.findings import distrust_of
from linewright.analysis.hypothesis_tests import FEWEST_LAUNCHES
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.summary import Summary
from linewright.forms import made_of
from linewright.say.document import Topic
from linewright.say.flag_words import explain
from linewright.say.name_words import FEW_LAUNCHES, WITHHELD
from linewright.say.phrases import arounds, measure_again, measure_on, modes_text
from linewright.say.sentence import Sentence, render_all, said
from linewright.say.setting import CLASS_WORDS
from linewright.say.verdict import control_sentences
from linewright.units import cpu_text


def limits(m: MachineAnswers) -> list[Sentence]:
    """What is not believed, withheld or holds only here; the most important first."""
    answers = []
    if (
        not m.published
        and any(s.has_figures for s in m.summaries)
        and all(s.launches < FEWEST_LAUNCHES for s in m.summaries)
    ):
        planned = max((c.launches for c in m.contexts), default=0)
        more = (
            f"{measure_on(m.contexts)} --resume FILE measures the rest"
            if planned >= FEWEST_LAUNCHES
            else measure_again(m)
        )
        answers.append(said(f"{FEW_LAUNCHES}: nothing is claimed; {more}"))
    answers += _metastable(m.summaries)
    answers += _unshown(m.summaries)
    withheld = [f.situation for f in m.of_width if f.withheld]
    if withheld:
        answers.append(said(f"{arounds(withheld)}: {WITHHELD}"))
    if m.context and m.context.virtualised == "yes":
        answers.append(
            said("a virtual machine: another host, or another neighbour, may cost differently")
        )
    return answers


def _metastable(summaries: Sequence[Summary]) -> list[Sentence]:
    """One sentence for all metastable cells, with the modes of the first."""
    members = [s for s in summaries if s.metastable]
    return [
        said(
            f"{_cells_are(members)} metastable (~): their launches fall into separate modes, such "
            f"as {first.cell.form}: {modes_text(first.modes)}"
        )
        for first in members[:1]
    ]


def _cells_are(members: Sequence) -> str:
    return f"{len(members)} cells are" if len(members) > 1 else "one cell is"


_UNSHOWN = {"unreliable": "unreliable (?)", "unavailable": "not available"}


def _unshown(summaries: Sequence[Summary]) -> list[Sentence]:
    """How many cells are unreliable, were not available or are not believed, with the first one's
    reason."""
    kinds: dict[str, list[tuple[Summary, str]]] = {}
    for s in summaries:
        if s.status in _UNSHOWN:
            kinds.setdefault(_UNSHOWN[s.status], []).append((s, s.reason or "no reason given"))
        elif s.status == "ok" and (flag := distrust_of(s)):
            why = explain(flag).rstrip(".")
            kinds.setdefault("not believed", []).append((s, f"{why[:1].lower()}{why[1:]}"))
    words = [*_UNSHOWN.values(), "not believed"]
    return [
        said(f"{_cells_are(own)} {kind}, such as {own[0][0].cell.form}: {own[0][1]}")
        for kind, own in sorted(kinds.items(), key=lambda item: words.index(item[0]))
    ]


def control(m: MachineAnswers) -> Topic | None:
    """The run's noise floor and its baseline loop."""
    lines = render_all(control_sentences(m)) if m.summaries and not m.emulated else []
    return (
        Topic(name="control", title="The run's own control", lines=lines, data=lines)
        if lines
        else None
    )


def unknown(m: MachineAnswers) -> Topic:
    """What these records cannot tell."""
    lines = [*_machine(m), *_settings(m), *_contention(m)]
    if not any(s.cell.work_iters for s in m.summaries):
        lines.append("what is hidden by work around the operation: no cell had work")
    lines.append(
        "how your program mixes operations, contention and work: `linewright trial -- PROGRAM` "
        "measures that"
    )
    return Topic(name="unknown", title="What this measurement cannot tell", lines=lines, data=lines)


def _machine(m: MachineAnswers) -> list[str]:
    lines = []
    if m.context is None:
        lines.append("what machine this is: the records' context is missing")
    if m.emulated:
        lines.append("anything about time: an emulator ran this")
    if m.context and m.context.virtualised == "yes":
        lines.append("what the same cores do without the hypervisor: this is a virtual machine")
    if m.simulated:
        lines.append("what silicon does: a model produced these records")
    if any(s.published for s in m.summaries):
        lines.append(
            "how far medians would move: the percentiles of one run are known, so nothing is "
            "claimed of those that overlap"
        )
    if any(s.one_launch for s in m.summaries if s.status == "ok"):
        again = measure_again(m)
        lines.append(f"what another launch would show: some cells ran in one; {again}")
    if any("short_span" in s.flags for s in m.summaries):
        lines.append(
            "what another state of the machine would show: the launches lie close together in time"
        )
    return lines


def _settings(m: MachineAnswers) -> list[str]:
    if not m.forms_differ or m.emulated:
        return []
    lines = []
    unmeasured = [
        c for c in setting_choice.OPERATIONS if not any(x.operations == c for x in m.choices)
    ]
    if unmeasured:
        what = numbers.join([CLASS_WORDS[c] for c in unmeasured])
        lines.append(
            f"a choice for {what}: fewer than two forms were measured under equal conditions"
        )
    valued = [p for x in m.choices if x.operations != "void" for p in x.points]
    if not any(p.exclusive or made_of(p.default_form).exclusive for p in valued):
        lines.append(
            "LL/SC for operations that return a value: these records hold no form of it;"
            " `linewright trial --settings default/llsc` tells for a program"
        )
    kept = sorted(
        {
            s.cell.form
            for s in m.summaries
            if s.status == "ok" and made_of(s.cell.form).prefetch == "prfm_keep"
        }
    )
    return (
        lines + [f"the library's prefetch is PSTL1STRM: {form} has no setting" for form in kept][:1]
    )


def _contention(m: MachineAnswers) -> list[str]:
    contended = [s for s in m.summaries if s.cell.contender == "same_line" and s.status == "ok"]
    if not contended:
        return ["anything under contention: no cell had a contender"]
    lines = [f"contention of more than {max(s.cell.threads for s in contended)} threads"]
    timed = {s.cpus[0] for s in m.summaries if s.cpus}
    allowed = [c for c in (m.context.cpus if m.context else []) if c.allowed]
    if len(timed) < len(allowed):
        lines.append(
            f"other cores and distances: CPU {cpu_text(timed) or 'unknown'} of {len(allowed)} "
            "was timed"
        )
    return lines

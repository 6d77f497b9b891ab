# SPDX-License-Identifier: MIT
"""Evidence of a machine beside its forms: what the measurement cannot tell, what it says of its own
noise, and where no single number or setting is right, since cores, lines or launches differ."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis import setting_choice
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.setting_choice import Choice
from linewright.analysis.summary import Summary
from linewright.forms import SPACING, made_of
from linewright.numbers import cpu_text
from linewright.say.advice import CLASS_WORDS
from linewright.say.document import (
    Sentence,
    Topic,
    render,
    render_all,
    sentence_as_written,
    topic,
)
from linewright.say.machine_lines import errors
from linewright.say.phrases import (
    PLACES,
    measure_again,
    modes_text,
    sharers_of,
)
from linewright.say.verdict import control_sentences


def control(m: MachineAnswers) -> Topic | None:
    """The run's noise floor and its baseline loop."""
    own = control_sentences(m) if m.summaries and not m.emulated else []
    lines = [sentence_as_written(render(s), s.cells, s.basis) for s in own]
    data = {"floors": list(m.floors.values()), "work_loop": m.work_loop}
    return topic("control", "The run's own control", lines, data)


_TRIALS = {
    True: "`linewright trial -- PROGRAM` measures that under each setting",
    False: "`linewright trial -- PROGRAM --versus OTHER` measures that of two builds",
}
"""Which trial can show something: by whether the library has settings on this architecture."""


def unknown(m: MachineAnswers) -> Topic | None:
    """What these records cannot tell."""
    lines = [*_machine(m), *_settings(m), *_contention(m)]
    if not any(s.cell.work_iters for s in m.summaries):
        text = "what is hidden by work around the operation: no cell had work"
        lines.append(_none(text, m.summaries))
    asked = "how your program mixes operations, contention and work: "
    lines.append(sentence_as_written(asked + _TRIALS[m.forms_differ], basis="rule"))
    title = "What this measurement cannot tell"
    return topic("unknown", title, lines, render_all(lines))


def _none(text: str, summaries: Sequence[Summary]) -> Sentence:
    """What none of the cells tells."""
    return sentence_as_written(text, [s.id for s in summaries])


def _machine(m: MachineAnswers) -> list[Sentence]:
    of_run = {
        "what machine this is: the records' context is missing": m.context is None,
        "anything about time: an emulator ran this": m.emulated,
        "what the same cores do without the hypervisor: this is a virtual machine": m.context
        and m.context.virtualised == "yes",
        "what silicon does: a model produced these records": m.simulated and not m.edited,
        "how many of the differences hold at once: the band of each is of 90 % by itself": m.drawn,
        "what silicon does: a model produced these records, and its file was changed after the "
        "calibration: no machine like it was measured": m.edited,
    }
    lines = [sentence_as_written(text, basis="run") for text, holds in of_run.items() if holds]
    one = [s for s in m.summaries if s.one_launch and s.status == "ok" and not s.drawn]
    of_cells = {
        "how far medians would move: the percentiles of one run are known, so nothing is claimed "
        "of those that overlap": [s for s in m.summaries if s.published],
        f"what another launch would show: some cells ran in one; {measure_again(m)}": one,
        "what another state of the machine would show: the launches lie close together in time": [
            s for s in m.summaries if "short_span" in s.flags
        ],
        "how far apart words have to lie whose lines leave the caches: these stayed in use": [
            s for s in m.summaries if s.cell.operation in SPACING.operations and s.usable
        ],
    }
    return lines + errors(m.summaries) + [_none(text, own) for text, own in of_cells.items() if own]


def _settings(m: MachineAnswers) -> list[Sentence]:
    if not m.forms_differ or m.emulated:
        return []
    lines = []
    unmeasured = [
        c for c in setting_choice.OPERATIONS if not any(x.operations == c for x in m.choices)
    ]
    if unmeasured:
        what = numbers.join([CLASS_WORDS[c] for c in unmeasured])
        text = f"a choice for {what}: fewer than two forms were measured in equal situations"
        lines.append(_none(text, m.summaries))
    valued = [x for x in m.choices if x.operations != "void"]
    tried = {policy.form for x in valued for policy in x.by_policy}
    forms = {p.second.form for x in valued for p in x.points}
    if "llsc" not in tried and not any(made_of(form).exclusive for form in forms):
        text = "LL/SC for operations that return a value: these records hold no form of it; "
        text += "`linewright trial --settings default/llsc -- PROGRAM` tells for a program"
        lines.append(_none(text, m.summaries))
    kept = sorted(
        (s.cell.form, s.id)
        for s in m.summaries
        if s.status == "ok" and made_of(s.cell.form).prefetch == "prfm_keep"
    )
    for form, _ in kept[:1]:
        text = f"the library's prefetch is PSTL1STRM: {form} has no setting"
        lines.append(sentence_as_written(text, [i for of, i in kept if of == form]))
    return lines


def _contention(m: MachineAnswers) -> list[Sentence]:
    contended = [s for s in m.summaries if s.cell.contender == "same_line" and s.status == "ok"]
    if not contended:
        return [_none("anything under contention: no cell had a contender", m.summaries)]
    threads = max(s.cell.threads for s in contended)
    lines = [_none(f"contention of more than {threads} threads", contended)]
    timed = {s.cpus[0] for s in m.summaries if s.cpus}
    allowed = [c for c in (m.context.cpus if m.context else []) if c.allowed]
    if len(timed) < len(allowed):
        text = f"CPU {cpu_text(timed) or 'unknown'} of {len(allowed)} was timed"
        lines.append(_none(f"other cores and distances: {text}", m.summaries))
    return lines


MOST_GROUPS = 8
"""Cells with several figures that are listed; `data` has all."""


def nearness(m: MachineAnswers) -> Topic | None:
    """Class of each core and form, with the count of lines; every line's own class is in the
    data."""
    lines = []
    for c in m.classes:
        seen = c.near + c.far + c.undecided
        counts = (
            f"; {c.near} near, {c.far} far, {c.undecided} undecided of {seen} lines"
            if c.near or c.far
            else f"; none of its {seen} lines is decided by itself"
            if seen
            else ""
        )
        form, reference, r = c.comparison.first, c.comparison.second, c.comparison.contrast
        times = numbers.about_times(r.value, r.low, r.high) if r else ""
        ratio = f", and takes {times} what {reference.form} takes" if r else ""
        cpu = f"CPU {form.cpu}: " if form.cpu >= 0 else ""
        text = f"{cpu}{form.form} {PLACES[c.where]}{ratio}{counts}"
        lines.append(sentence_as_written(text, c.comparison.ids))
    return topic("near_far", "Near or far, by core and line", lines, list(m.classes))


def cores(m: MachineAnswers) -> Topic | None:
    """Cores that differ; on mixed chips a setting per type and what one setting for all costs
    each."""
    differing, types = [c for c in m.select("cores") if c.differs], m.core_types
    lines = []
    for c in differing:
        low, high = (c.first, c.second) if c.cheaper else (c.second, c.first)
        text = f"{low.form}: {numbers.figure(low.ns.median_ns)} ns on CPU {low.cpu}, "
        text += f"{numbers.figure(high.ns.median_ns)} ns on CPU {high.cpu}"
        lines.append(sentence_as_written(text, (low.id, high.id)))
    costs: list[setting_choice.OneSetting] = []
    if len(types) > 1:
        costs = setting_choice.one_setting(types)
        lines += [
            sentence_as_written(
                f"{_type(t)}, CPU {cpu_text(t.cpus)}: LINEWRIGHT_ATOMICS={t.setting}",
                _ids(t.choices),
            )
            for t in types
        ]
        for c in costs:
            most = numbers.percent(c.cost_percent / 100, False)
            loss = (
                f"costs up to {most} more ({sharers_of(c.worst)}, "
                f"{c.worst.situation.work_iters} units of work)"
                if c.cost_percent
                else "is not shown to cost more"
            )
            text = f"one setting for the whole process, {c.setting}: on {_type(c)} it {loss}"
            choices = next(t.choices for t in types if _type(t) == _type(c))
            lines.append(sentence_as_written(text, _ids(choices)))
        if len({t.setting for t in types}) > 1:
            text = "a process has one setting: pin it to cores of one type, or take the setting "
            lines.append(sentence_as_written(text + "whose cost you can bear", basis="rule"))
    data = {"differences": differing, "types": types, "one_setting": costs}
    return topic("cores", "Cores that differ", lines, data)


def _ids(choices: Sequence[Choice]) -> list[str]:
    return [i for c in choices for p in c.points for i in p.ids]


def _type(t: setting_choice.CoreType | setting_choice.OneSetting) -> str:
    capacity = f"capacity {t.capacity}" if t.capacity >= 0 else "unknown capacity"
    return f"cores of {capacity} ({t.midr or 'no MIDR'})"


def several(m: MachineAnswers) -> Topic | None:
    """Cells that have several figures: modes of lines, modes of launches."""
    data, lines = [], []
    for s in m.summaries:
        for kind, modes in (("lines", s.line_modes), ("launches", s.modes)):
            if len(modes) > 1 and s.status == "ok" and not s.emulated:
                text = f"{s.cell.form}, {s.cell.situation.words()}: its {kind} fall into separate "
                lines.append(
                    sentence_as_written(f"{text}modes: {modes_text(modes, surely=True)}", [s.id])
                )
                data.append({"id": s.id, "kind": kind, "modes": modes})
    if len(lines) > MOST_GROUPS:
        more = len(lines) - MOST_GROUPS
        text = f"and {more} more cells, in --json: on a machine that others use, measure again "
        rest = [d["id"] for d in data[MOST_GROUPS:]]
        lines[MOST_GROUPS:] = [sentence_as_written(f"{text}when it is quiet", rest)]
    return topic("bimodal", "More than one figure: no single number is right", lines, data)

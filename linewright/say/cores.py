# SPDX-License-Identifier: MIT
"""Cores, lines and launches that differ: where no single number, or no single setting, is right."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.analysis import setting_choice
from linewright.analysis.machine_answers import MachineAnswers
from linewright.analysis.setting_choice import Choice
from linewright.say.document import Topic, topic
from linewright.say.phrases import PLACES, modes_text, sharers_of
from linewright.say.sentence import sentence_as_written
from linewright.units import cpu_text

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

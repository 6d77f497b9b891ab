"""Cores, lines and launches that differ: where no single number, or no single setting, is right."""

from __future__ import annotations

from msgspec import Struct

from linewright.advice import choice
from linewright.advice.machine import Machine, Topic
from linewright.analysis.findings import asked
from linewright.analysis.saying import join, number
from linewright.analysis.summary import grouped
from linewright.analysis.words import PLACES, condition
from linewright.families import BASELINES
from linewright.units import cpu_text

MOST_GROUPS = 8
"""Cells with several figures that are listed; `data` has all."""
ALIKE = 0.05
"""Cores are called different when a form is shown to differ on them by more than this share."""


def nearness(m: Machine) -> Topic | None:
    """Class of each core and form, with the count of lines; every line's own class is in the data."""
    lines = []
    for c in m.classes:
        seen = c.near + c.far + c.undecided
        counts = f"; {c.near} near, {c.far} far, {c.undecided} undecided of {seen} lines" if seen else ""
        ratio = (
            f", {c.ratio.value:.1f} times {c.reference} ({c.ratio.low:.1f} to {c.ratio.high:.1f})" if c.ratio else ""
        )
        cpu = f"; CPU {c.cpu}" if c.cpu >= 0 else ""
        lines.append(f"{c.form} {PLACES[c.where]}{ratio}{counts}{cpu}")
    title = "Near or far, by core and line"
    return Topic(name="near_far", title=title, lines=lines, data=list(m.classes)) if lines else None


class Difference(Struct, frozen=True, kw_only=True):
    """One form, alone and back to back, on two cores."""

    form: str
    width_bits: int
    cheapest_cpu: int
    cheapest_ns: float
    costliest_cpu: int
    costliest_ns: float


def _differences(m: Machine) -> list[Difference]:
    """Forms that are shown to cost differently on the first core timed and on another, corrected over all of these."""
    alone = (
        s for s in m.summaries
        if s.cell.contender == "none" and s.cell.work_iters == 0 and s.cell.operation not in BASELINES
        and s.status == "ok" and s.issue and s.cpus and not s.emulated
    )  # fmt: skip
    by_form = grouped(
        alone, lambda s: (s.cell.form, s.cell.width_bits, s.cell.operation, tuple(sorted(s.cell.params.items())))
    )
    pairs = [(other, own[0]) for own in by_form.values() for other in own[1:] if other.cpus[0] != own[0].cpus[0]]
    answers = []
    for pair, judged in zip(pairs, asked(pairs, "cores", lambda _: ALIKE, lambda _: ALIKE), strict=True):
        if judged.answer == "different":
            low, high = sorted(pair, key=lambda s: s.issue.median_ns)
            answers.append(
                Difference(
                    form=low.cell.form, width_bits=low.cell.width_bits, cheapest_cpu=low.cpus[0],
                    cheapest_ns=low.issue.median_ns, costliest_cpu=high.cpus[0], costliest_ns=high.issue.median_ns,
                )
            )  # fmt: skip
    return answers


def cores(m: Machine) -> Topic | None:
    """Cores that differ; on mixed chips a setting per type and what one setting for all costs each."""
    differing, types = _differences(m), m.core_types
    lines = [
        f"{d.form}: {number(d.cheapest_ns)} ns on CPU {d.cheapest_cpu}, {number(d.costliest_ns)} ns on CPU"
        f" {d.costliest_cpu}"
        for d in differing
    ]
    costs: list[choice.OneSetting] = []
    if len(types) > 1:
        costs = choice.one_setting(types)
        lines += [f"{_type(t)}, CPU {cpu_text(t.cpus)}: LINEWRIGHT_ATOMICS={t.setting}" for t in types]
        for c in costs:
            loss = (
                f"costs up to {c.cost_percent:.0f} % more ({c.where})"
                if c.cost_percent
                else "is not shown to cost more"
            )
            lines.append(f"one setting for the whole process, {c.setting}: on {_type(c)} it {loss}")
        if len({t.setting for t in types}) > 1:
            lines.append(
                "a process has one setting: pin it to cores of one type, or take the setting whose cost you can bear"
            )
    data = {"differences": differing, "types": types, "one_setting": costs}
    return Topic(name="cores", title="Cores that differ", lines=lines, data=data) if lines else None


def _type(t: choice.CoreType | choice.OneSetting) -> str:
    capacity = f"capacity {t.capacity}" if t.capacity >= 0 else "unknown capacity"
    return f"cores of {capacity} ({t.midr or 'no MIDR'})"


def several(m: Machine) -> Topic | None:
    """Cells that have several figures: lines in groups, launches in groups."""
    data, lines = [], []
    for s in m.summaries:
        for kind, modes in (("lines", s.line_modes), ("launches", s.modes)):
            if len(modes) > 1 and s.status == "ok" and not s.emulated:
                groups = join([f"{number(x.median_ns)} ns ({x.share_low:.0%} to {x.share_high:.0%})" for x in modes])
                lines.append(
                    f"{s.cell.form}, {condition(s.cell)}, work {s.cell.work_iters}: {kind} fall into groups: {groups}"
                )
                data.append({"id": s.id, "kind": kind, "modes": modes})
    if len(lines) > MOST_GROUPS:
        more = len(lines) - MOST_GROUPS
        lines[MOST_GROUPS:] = [
            f"and {more} more cells, in --json: on a machine that others use, measure again when it is quiet"
        ]
    title = "More than one figure: no single number is right"
    return Topic(name="bimodal", title=title, lines=lines, data=data) if lines else None

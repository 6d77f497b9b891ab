"""Where an operation is performed, found from the work sweep; and where one form overtakes another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.intervals import contrast, holm, repeat_interval
from linewright.analysis.plausible import FLOORS
from linewright.analysis.summary import Summary, by_id
from linewright.schema import Context, Interval, Record

ALPHA = 0.05


class Crossover(Struct, frozen=True, kw_only=True):
    """Between `below` and `above` on `axis`, the cheaper of two forms changes; at both ends the intervals separate."""

    machine_id: str
    operation: str
    where: str
    """The fixed conditions in words."""
    axis: str
    """``work_iters`` or ``contender_iters``."""
    below: int
    above: int
    cheaper_below: str
    cheaper_above: str
    margin_below_ns: float
    margin_above_ns: float


def _series(summaries: Iterable[Summary], axis: str) -> dict[str, dict[str, list[Summary]]]:
    """Cells that differ in `axis` only, by everything else but the form, then by form."""
    answer: dict[str, dict[str, list[Summary]]] = {}
    for s in summaries:
        usable = s.status == "ok" and s.issue is not None and s.cell.form not in FLOORS and s.cell.operation != "none"
        if not usable or s.emulated or s.cell.contender == "placebo":
            continue
        if axis == "contender_iters" and s.cell.contender != "same_line":
            continue
        operation = "add" if s.cell.operation == "fetch_add" else s.cell.operation
        fixed = msgspec.structs.replace(s.cell, **{axis: 0}, form="any", operation=operation, order="relaxed").id
        answer.setdefault(fixed, {}).setdefault(s.cell.form, []).append(s)
    return answer


def _where(s: Summary, axis: str) -> str:
    parts = []
    if s.cell.contender == "same_line":
        parts.append("contended" if axis == "contender_iters" else f"contended every {s.cell.contender_iters} iterations")
    else:
        parts.append("alone")
    if axis != "work_iters" and s.cell.work_iters:
        parts.append(f"with {s.cell.work_iters} iterations of work")
    return ", ".join(parts)


def _sign(a: Summary, b: Summary, p: float | None) -> int:
    """-1 where `a` is cheaper, 1 where `b` is, 0 where that cannot be told."""
    if not (a.issue.high_ns < b.issue.low_ns or b.issue.high_ns < a.issue.low_ns):
        return 0
    if p is not None and p >= ALPHA or p is None and not (a.published and b.published):
        return 0
    return -1 if a.issue.median_ns < b.issue.median_ns else 1


def _pair(a: list[Summary], b: list[Summary], axis: str) -> list[Crossover]:
    at = {getattr(s.cell, axis): s for s in b}
    shared = [(x, at[x_at]) for x in sorted(a, key=lambda s: getattr(s.cell, axis)) if (x_at := getattr(x.cell, axis)) in at]
    contrasts = [contrast(x.unit_ns, y.unit_ns) for x, y in shared]
    corrected = iter(holm([c.p for c in contrasts if c]))
    signs = [_sign(x, y, next(corrected) if c else None) for (x, y), c in zip(shared, contrasts, strict=True)]
    answers, last = [], None
    for position, sign in enumerate(signs):
        if not sign:
            continue
        if last is not None and signs[last] != sign:
            (x0, y0), (x1, y1) = shared[last], shared[position]
            names = (x0.cell.form, y0.cell.form) if signs[last] < 0 else (y0.cell.form, x0.cell.form)
            answers.append(
                Crossover(
                    machine_id=x0.machine_id,
                    operation="add" if x0.cell.operation == "fetch_add" else x0.cell.operation,
                    where=_where(x0, axis),
                    axis=axis,
                    below=getattr(x0.cell, axis),
                    above=getattr(x1.cell, axis),
                    cheaper_below=names[0],
                    cheaper_above=names[1],
                    margin_below_ns=abs(x0.issue.median_ns - y0.issue.median_ns),
                    margin_above_ns=abs(x1.issue.median_ns - y1.issue.median_ns),
                )
            )
        last = position
    return answers


def crossovers(summaries: Sequence[Summary]) -> list[Crossover]:
    """Every change of the cheaper of two forms along work or the contender's pause, of one machine."""
    answers = []
    for axis in ("work_iters", "contender_iters"):
        for forms in _series(summaries, axis).values():
            names = sorted(forms)
            for i, first in enumerate(names):
                for second in names[i + 1 :]:
                    answers += _pair(forms[first], forms[second], axis)
    return answers


# ------------------------------------------------------------------------------------------- near or far, line by line

NEAR_CYCLES = 30
"""Back to back, an operation on a line that the core holds takes fewer core cycles than this (locked operations on
x86 take about 20, near atomics on arm64 4 to 20); a trip to a home node takes more."""
FAR_TIMES = 2.0
"""A far form costs at least so many times the cheapest form on the same line."""


class LineClass(Struct, frozen=True, kw_only=True):
    """Where one form was performed on one line."""

    context_id: str
    line: int
    where: str
    """``near``, ``far_posted`` (the core goes on meanwhile), ``far_waited`` or ``undecided``."""
    back_to_back: Interval
    exposed: Interval | None
    """At the longest work measured; None without a work sweep."""


class CoreClass(Struct, frozen=True, kw_only=True):
    """Where one core performs one form, over the lines seen."""

    machine_id: str
    cpu: int
    operation: str
    form: str
    width_bits: int
    where: str
    """As for a line, or ``mixed`` where lines differ, each kind with at least a tenth of them."""
    near: int
    far: int
    undecided: int
    lines: list[LineClass]


class _Line(Struct):
    """Windows of one form on one line: back to back, and exposed at the longest work."""

    back_to_back: list[float] = []
    exposed: dict[int, list[float]] = {}


def _collect(records: Iterable[Record]) -> dict[tuple, dict[tuple[str, int], _Line]]:
    """(context's machine is added later) by context, CPU and form; then by context and line."""
    answer: dict[tuple, dict[tuple[str, int], _Line]] = {}
    for r in records:
        usable = r.status == "ok" and r.cell.contender == "none" and r.cell.form not in FLOORS
        if not usable or r.cell.operation in ("none", "read") or len(r.window_line) != len(r.window_ns):
            continue
        key = (r.context_id, r.cpus[0] if r.cpus else -1, r.cell.operation, r.cell.form, r.cell.width_bits)
        lines = answer.setdefault(key, {})
        paired = len(r.empty_ns) == len(r.window_ns)
        for i, (line, value) in enumerate(zip(r.window_line, r.window_ns, strict=True)):
            if not math.isfinite(value):
                continue
            entry = lines.setdefault((r.context_id, line), _Line())
            if r.cell.work_iters == 0:
                entry.back_to_back.append(value)
            elif paired and math.isfinite(r.empty_ns[i]):
                entry.exposed.setdefault(r.cell.work_iters, []).append(value - r.empty_ns[i])
    return answer


def _interval(values: Sequence[float]) -> Interval | None:
    return repeat_interval([np.asarray(values, dtype=float)]) if values else None


def line_class(back_to_back: Interval, exposed: Interval | None, cheapest: Interval, cycle_ns: float) -> str:
    """The rule: cheap back to back is near; dear is far, posted when work around it hides at least half of it.

    `cheapest` is the cheapest form's interval on the same line, `cycle_ns` one core cycle (0: unknown, so that only
    the comparison with the cheapest form counts).  Intervals that straddle a bound leave it undecided.
    """
    bound = max(NEAR_CYCLES * cycle_ns, FAR_TIMES * cheapest.high_ns)
    floor = max(NEAR_CYCLES * cycle_ns, FAR_TIMES * cheapest.low_ns)
    if back_to_back.high_ns <= floor:
        return "near"
    if back_to_back.low_ns <= bound or exposed is None:
        return "undecided"
    if exposed.high_ns < back_to_back.low_ns / 2:
        return "far_posted"
    return "far_waited" if exposed.low_ns > back_to_back.high_ns / 2 else "undecided"


def _core(lines: list[LineClass]) -> tuple[str, dict[str, int]]:
    counts = {kind: sum(x.where.startswith(kind) for x in lines) for kind in ("near", "far", "undecided")}
    decided = counts["near"] + counts["far"]
    if not decided or counts["undecided"] > decided:
        return "undecided", counts
    if min(counts["near"], counts["far"]) * 10 >= decided:
        return "mixed", counts
    if counts["near"] > counts["far"]:
        return "near", counts
    posted = sum(x.where == "far_posted" for x in lines)
    return "far_posted" if 2 * posted >= counts["far"] else "far_waited", counts


def near_far(contexts: Iterable[Context] | Mapping[str, Context], records: Iterable[Record]) -> list[CoreClass]:
    """Near/far class per core and form, with each line's own, from uncontended cells back to back and with work."""
    known = by_id(contexts)
    seen = _collect(records)
    cheapest: dict[tuple, Interval] = {}
    for (context_id, cpu, *_), lines in seen.items():
        for line, entry in lines.items():
            found = _interval(entry.back_to_back)
            best = cheapest.get((context_id, cpu, *line))
            if found and (best is None or found.median_ns < best.median_ns):
                cheapest[(context_id, cpu, *line)] = found
    merged: dict[tuple, list[LineClass]] = {}
    for (context_id, cpu, operation, form, width), lines in seen.items():
        context = known.get(context_id)
        if context is None or context.emulated:
            continue
        classes = merged.setdefault((context.machine_id, cpu, operation, form, width), [])
        for line, entry in sorted(lines.items()):
            back = _interval(entry.back_to_back)
            if back is None:
                continue
            exposed = _interval(entry.exposed[max(entry.exposed)]) if entry.exposed else None
            where = line_class(back, exposed, cheapest[(context_id, cpu, *line)], context.cycle_ns)
            classes.append(LineClass(context_id=context_id, line=line[1], where=where, back_to_back=back, exposed=exposed))
    answers = []
    for (machine, cpu, operation, form, width), classes in merged.items():
        if classes:
            where, counts = _core(classes)
            answers.append(
                CoreClass(
                    machine_id=machine, cpu=cpu, operation=operation, form=form, width_bits=width, where=where,
                    near=counts["near"], far=counts["far"], undecided=counts["undecided"], lines=classes,
                )  # fmt: skip
            )
    return answers


def with_nearness(
    summaries: Sequence[Summary], contexts: Mapping[str, Context], records: Iterable[Record]
) -> list[Summary]:
    """The same summaries; those of uncontended cells back to back say where their form was performed."""
    found = {(c.machine_id, c.cpu, c.operation, c.form, c.width_bits): c for c in near_far(contexts, records)}
    answers = []
    for s in summaries:
        key = (s.machine_id, s.cpus[0] if s.cpus else -1, s.cell.operation, s.cell.form, s.cell.width_bits)
        core = found.get(key) if s.cell.contender == "none" and s.cell.work_iters == 0 and s.status == "ok" else None
        if core:
            s = msgspec.structs.replace(s, nearness=core.where, near_lines=core.near, far_lines=core.far)
        answers.append(s)
    return answers

"""Where an operation is performed, found from the work sweep; and where one form overtakes another."""

from __future__ import annotations

import math
from array import array
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
        parts.append(
            "contended" if axis == "contender_iters" else f"contended every {s.cell.contender_iters} iterations"
        )
    else:
        parts.append("alone")
    if axis != "work_iters" and s.cell.work_iters:
        parts.append(f"with {s.cell.work_iters} iterations of work")
    return ", ".join(parts)


def _sign(a: Summary, b: Summary, p: float | None) -> int:
    """-1 where `a` is cheaper, 1 where `b` is, 0 where that cannot be told."""
    if not (a.issue.high_ns < b.issue.low_ns or b.issue.high_ns < a.issue.low_ns):
        return 0
    if (p is not None and p >= ALPHA) or (p is None and not (a.published and b.published)):
        return 0
    return -1 if a.issue.median_ns < b.issue.median_ns else 1


def _pair(a: list[Summary], b: list[Summary], axis: str) -> list[Crossover]:
    at = {getattr(s.cell, axis): s for s in b}
    shared = [
        (x, at[x_at]) for x in sorted(a, key=lambda s: getattr(s.cell, axis)) if (x_at := getattr(x.cell, axis)) in at
    ]
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
MOST_HELD = 4_000_000
"""Windows of one launch that are held before they are judged."""
MOST_LINES = 100_000
"""Lines whose own class is kept, and cores × forms that are told apart."""
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


class _Line:
    """Windows of one form on one line: back to back, and exposed by work."""

    __slots__ = ("back_to_back", "exposed")

    def __init__(self) -> None:
        self.back_to_back = array("d")
        self.exposed: dict[int, array] = {}


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


def _core(p: _Places) -> str:
    decided = p.near + p.far
    if not decided or p.undecided > decided:
        return "undecided"
    if min(p.near, p.far) * 10 >= decided:
        return "mixed"
    if p.near > p.far:
        return "near"
    return "far_posted" if 2 * p.posted >= p.far else "far_waited"


class _Places(Struct):
    """Lines of one core and form so far."""

    near: int = 0
    far: int = 0
    posted: int = 0
    undecided: int = 0
    lines: list[LineClass] = []


class Nearness:
    """Near/far classes from records one by one, launch after launch as files hold them.

    A launch is judged and let go when the next one's first record comes, or when it alone holds `MOST_HELD` windows: in
    memory is one launch at a time, and at most `told` lines that are told one by one; all are counted.
    """

    def __init__(self, contexts: Mapping[str, Context], told: int = MOST_LINES) -> None:
        self._contexts = contexts
        self._tell = told
        self._context_id = ""
        self._held = 0
        self._seen: dict[tuple, dict[int, _Line]] = {}
        self._places: dict[tuple, _Places] = {}
        self._told = 0

    def feed(self, r: Record) -> None:
        """Take the windows of one record; an uncontended one only says something."""
        usable = r.status == "ok" and r.cell.contender == "none" and r.cell.form not in FLOORS
        if not usable or r.cell.operation in ("none", "read") or len(r.window_line) != len(r.window_ns):
            return
        if r.context_id != self._context_id or self._held > MOST_HELD:
            self._judge()
            self._context_id = r.context_id
        lines = self._seen.setdefault(
            (r.cpus[0] if r.cpus else -1, r.cell.operation, r.cell.form, r.cell.width_bits), {}
        )
        paired = len(r.baseline_ns) == len(r.window_ns)
        self._held += len(r.window_ns)
        for i, (line, value) in enumerate(zip(r.window_line, r.window_ns, strict=True)):
            if not math.isfinite(value):
                continue
            entry = lines.get(line)
            if entry is None:
                entry = lines[line] = _Line()
            if r.cell.work_iters == 0:
                entry.back_to_back.append(value)
            elif paired and math.isfinite(r.baseline_ns[i]):
                entry.exposed.setdefault(r.cell.work_iters, array("d")).append(value - r.baseline_ns[i])

    def _judge(self) -> None:
        """Classes of the launch that is held, which is let go."""
        seen, self._seen, self._held = self._seen, {}, 0
        context = self._contexts.get(self._context_id)
        if context is None or context.emulated:
            return
        back = {
            (key, line): _interval(entry.back_to_back) for key, lines in seen.items() for line, entry in lines.items()
        }
        cheapest: dict[tuple[int, int], Interval] = {}
        for ((cpu, *_), line), found in back.items():
            best = cheapest.get((cpu, line))
            if found and (best is None or found.median_ns < best.median_ns):
                cheapest[(cpu, line)] = found
        for key, lines in seen.items():
            place = (context.machine_id, *key)
            if place not in self._places and len(self._places) >= MOST_LINES:
                continue
            places = self._places.setdefault(place, _Places())
            for line, entry in sorted(lines.items()):
                if (found := back[(key, line)]) is not None:
                    self._add(places, line, found, entry, cheapest[(key[0], line)], context.cycle_ns)

    def _add(
        self, places: _Places, line: int, back: Interval, entry: _Line, cheapest: Interval, cycle_ns: float
    ) -> None:
        exposed = _interval(entry.exposed[max(entry.exposed)]) if entry.exposed else None
        where = line_class(back, exposed, cheapest, cycle_ns)
        places.near += where == "near"
        places.far += where.startswith("far")
        places.posted += where == "far_posted"
        places.undecided += where == "undecided"
        if self._told < self._tell:
            self._told += 1
            places.lines.append(
                LineClass(context_id=self._context_id, line=line, where=where, back_to_back=back, exposed=exposed)
            )

    def classes(self) -> list[CoreClass]:
        """What was found, by machine, core and form, in the order of first appearance."""
        self._judge()
        return [
            CoreClass(
                machine_id=machine,
                cpu=cpu,
                operation=operation,
                form=form,
                width_bits=width,
                where=_core(p),
                near=p.near,
                far=p.far,
                undecided=p.undecided,
                lines=p.lines,
            )
            for (machine, cpu, operation, form, width), p in self._places.items()
            if p.near + p.far + p.undecided
        ]


def near_far(contexts: Iterable[Context] | Mapping[str, Context], records: Iterable[Record]) -> list[CoreClass]:
    """Near/far class per core and form, with each line's own, from uncontended cells back to back and with work."""
    found = Nearness(by_id(contexts))
    launches: dict[str, list[Record]] = {}
    for r in records:
        launches.setdefault(r.context_id, []).append(r)
    for launch in launches.values():
        for r in launch:
            found.feed(r)
    return found.classes()


def with_nearness(summaries: Sequence[Summary], classes: Iterable[CoreClass]) -> list[Summary]:
    """The same summaries; those of uncontended cells back to back say where their form was performed."""
    found = {(c.machine_id, c.cpu, c.operation, c.form, c.width_bits): c for c in classes}
    answers = []
    for s in summaries:
        key = (s.machine_id, s.cpus[0] if s.cpus else -1, s.cell.operation, s.cell.form, s.cell.width_bits)
        core = found.get(key) if s.cell.contender == "none" and s.cell.work_iters == 0 and s.status == "ok" else None
        if core:
            s = msgspec.structs.replace(s, nearness=core.where, near_lines=core.near, far_lines=core.far)
        answers.append(s)
    return answers

"""Whether an arm64 LSE instruction behaves as if performed in the core or at the interconnect, found by its cost alone.

Judged is a single LSE instruction against the same instruction behind PRFM, which asks for the line first: where that
makes it several times cheaper, the instruction alone behaves as if it were performed at the interconnect.  Loops
(LL/SC, compare-and-swap), per-CPU sequences, operations wider than a register and everything on other architectures
are never judged: what makes those expensive is something else.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import FEWEST_LAUNCHES, Contrast, paired
from linewright.analysis.intervals import median
from linewright.analysis.summary import Summary
from linewright.schema import Context, Record

PREFETCHED: Mapping[str, tuple[str, ...]] = {
    "stadd": ("prfm_strm_stadd", "prfm_keep_stadd"),
    "ldadd": ("prfm_strm_ldadd", "prfm_keep_ldadd"),
    "swp": ("prfm_strm_swp",),
}
"""Single LSE instructions, and the same ones behind a prefetch for write, the first measured of which is the reference."""
NEAR_CYCLES = 30
"""Back to back, an operation on a line that the core holds takes fewer core cycles than this (near atomics on arm64 take
4 to 20); a trip to a home node takes more."""
FAR_TIMES = 2.0
"""An instruction that behaves as if performed at the interconnect costs at least so many times the prefetched one."""
FEWEST_WINDOWS = 3
"""Windows on one line, of both forms, before anything is said of that line: one window is no interval."""
MIXED_SHARE = 0.1
"""Of the decided lines, the share of each kind from which a core is said to do both."""
MOST_WINDOWS = 4_000_000
"""Windows of one launch that are held before they are judged."""


class LineClass(Struct, frozen=True, kw_only=True):
    """One form on one line of one launch, in medians of that line's windows."""

    context_id: str
    line: int
    where: str
    """``near``, ``far``, ``all_far`` or ``undecided``."""
    ns: float
    prefetched_ns: float
    windows: int
    """Of the form with fewer windows there."""


class CoreClass(Struct, frozen=True, kw_only=True):
    """Where one core behaves as if it performed one form."""

    machine_id: str
    cpu: int
    operation: str
    form: str
    width_bits: int
    reference: str
    """The same instruction behind a prefetch."""
    where: str
    """``near``, ``far``, ``all_far`` (expensive even behind the prefetch), ``mixed`` (lines differ) or ``undecided``."""
    ratio: Contrast | None
    """The form over the prefetched one, paired within launches."""
    near: int
    far: int
    undecided: int
    """Lines of each kind, of those that were visited `FEWEST_WINDOWS` times."""
    lines: list[LineClass]


def judged(record: Record, context: Context | None) -> bool:
    """Whether a record has anything to say: uncontended, back to back, an LSE instruction or its reference, on arm64."""
    cell = record.cell
    references = {form for forms in PREFETCHED.values() for form in forms}
    return (
        context is not None
        and context.arch == "arm64"
        and not context.emulated
        and record.status == "ok"
        and (cell.contender, cell.work_iters) == ("none", 0)
        and cell.operation in ("add", "fetch_add", "xchg")
        and (cell.form in PREFETCHED or cell.form in references)
    )


def place(low: float, middle: float, high: float, reference: float, cycle_ns: float) -> str:
    """The rule, from an interval of ns, what the prefetched form takes, and the length of a core cycle (0: unknown)."""
    bound = NEAR_CYCLES * cycle_ns
    if cycle_ns > 0 and reference > bound:
        return "all_far" if low > bound and high < FAR_TIMES * reference else "undecided"
    if low > FAR_TIMES * reference and middle > bound:
        return "far"
    return "near" if high < FAR_TIMES * reference and (cycle_ns <= 0 or high < bound) else "undecided"


class Nearness:
    """Classes from records one by one, launch after launch as files hold them; one launch is in memory at a time."""

    def __init__(self, contexts: Mapping[str, Context]) -> None:
        self._contexts = contexts
        self._context_id = ""
        self._held = 0
        self._seen: dict[tuple, dict[int, array]] = {}
        self._lines: dict[tuple, list[LineClass]] = {}
        self._launches: dict[tuple, dict[str, float]] = {}
        self._cycles: dict[str, float] = {}

    def feed(self, r: Record) -> None:
        """Take the windows of one record."""
        context = self._contexts.get(r.context_id)
        if not judged(r, context):
            return
        values = [value for value in r.window_ns if math.isfinite(value)]
        if not values:
            return
        if r.context_id != self._context_id or self._held > MOST_WINDOWS:
            self._judge()
            self._context_id = r.context_id
        cpu = r.cpus[0] if r.cpus else -1
        key = (context.machine_id, cpu, r.cell.width_bits, r.cell.form)
        self._cycles[context.machine_id] = max(context.cycle_ns, self._cycles.get(context.machine_id, 0.0))
        self._launches.setdefault(key, {})[r.context_id] = median(np.asarray(values))
        if len(r.window_line) == len(r.window_ns):
            lines = self._seen.setdefault(key, {})
            for line, value in zip(r.window_line, r.window_ns, strict=True):
                if math.isfinite(value):
                    lines.setdefault(line, array("d")).append(value)
        self._held += len(values)

    def _judge(self) -> None:
        """Classes of the lines of the launch that is held, which is let go."""
        seen, self._seen, self._held = self._seen, {}, 0
        for (machine, cpu, width, form), lines in seen.items():
            for reference in PREFETCHED.get(form, ()):
                beside = seen.get((machine, cpu, width, reference))
                if beside is not None:
                    found = self._lines.setdefault((machine, cpu, width, form, reference), [])
                    found += (
                        self._line(machine, line, lines[line], beside[line]) for line in sorted(lines) if line in beside
                    )
                    break

    def _line(self, machine: str, line: int, values: array, beside: array) -> LineClass:
        own, reference = (np.sort(np.asarray(x)) for x in (values, beside))
        where = "undecided"
        if min(own.size, reference.size) >= FEWEST_WINDOWS:
            where = place(float(own[0]), median(own), float(own[-1]), median(reference), self._cycles[machine])
        return LineClass(
            context_id=self._context_id, line=line, where=where, ns=median(own), prefetched_ns=median(reference),
            windows=min(own.size, reference.size),
        )  # fmt: skip

    def classes(self) -> list[CoreClass]:
        """What was found, by machine, core and form, in the order of first appearance."""
        self._judge()
        answers = []
        for (machine, cpu, width, form), launches in self._launches.items():
            reference = next((f for f in PREFETCHED.get(form, ()) if (machine, cpu, width, f) in self._launches), "")
            if reference:
                answers.append(self._core(machine, cpu, width, form, reference, launches))
        return answers

    def _core(
        self, machine: str, cpu: int, width: int, form: str, reference: str, launches: dict[str, float]
    ) -> CoreClass:
        beside = self._launches[(machine, cpu, width, reference)]
        ratio = paired(launches, beside)
        lines = [
            c for c in self._lines.get((machine, cpu, width, form, reference), []) if c.windows >= FEWEST_WINDOWS
        ]  # fmt: skip
        counts = {name: sum(c.where == name for c in lines) for name in ("near", "far", "all_far", "undecided")}
        where = "undecided"
        if ratio is not None and ratio.launches >= FEWEST_LAUNCHES:
            usual = float(np.median([beside[launch] for launch in launches if launch in beside]))
            where = place(
                ratio.low * usual, ratio.value * usual, ratio.high * usual, usual, self._cycles.get(machine, 0.0)
            )
        decided = counts["near"] + counts["far"]
        if decided >= 1 / MIXED_SHARE and min(counts["near"], counts["far"]) >= MIXED_SHARE * decided:
            where = "mixed"
        operation = {"stadd": "add", "ldadd": "fetch_add", "swp": "xchg"}[form]
        return CoreClass(
            machine_id=machine, cpu=cpu, operation=operation, form=form, width_bits=width, reference=reference,
            where=where, ratio=ratio, near=counts["near"], far=counts["far"] + counts["all_far"],
            undecided=counts["undecided"], lines=lines,
        )  # fmt: skip


def near_far(contexts: Mapping[str, Context], records: Iterable[Record]) -> list[CoreClass]:
    """The class per core and form, from uncontended cells back to back; contexts by their id."""
    found = Nearness(contexts)
    launches: dict[str, list[Record]] = {}
    for r in records:
        launches.setdefault(r.context_id, []).append(r)
    for launch in launches.values():
        for r in launch:
            found.feed(r)
    return found.classes()


def with_nearness(summaries: Sequence[Summary], classes: Iterable[CoreClass]) -> list[Summary]:
    """The same summaries; those of uncontended cells back to back say where their form seems to be performed."""
    found = {(c.machine_id, c.cpu, c.operation, c.form, c.width_bits): c for c in classes}
    answers = []
    for s in summaries:
        key = (s.machine_id, s.cpus[0] if s.cpus else -1, s.cell.operation, s.cell.form, s.cell.width_bits)
        core = found.get(key) if s.cell.contender == "none" and s.cell.work_iters == 0 and s.status == "ok" else None
        if core:
            s = msgspec.structs.replace(s, nearness=core.where, near_lines=core.near, far_lines=core.far)
        answers.append(s)
    return answers

# SPDX-License-Identifier: MIT
"""Summaries of whole files, read in bounded memory: every cell merged, then what only its
neighbours can tell: near or far, modes, controls, and what makes a figure implausible.

Near or far is whether an arm64 LSE instruction behaves as if performed in the core or at the
interconnect, found by its cost alone.  Judged is a single LSE instruction against the same
instruction behind PRFM, which asks for the line first: where that makes it several times cheaper,
the instruction alone behaves as if it were performed at the interconnect.  Loops (LL/SC,
compare-and-swap), per-CPU sequences, operations wider than a register and everything on other
architectures are never judged: what makes those expensive is something else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.comparison import (
    FEWEST_LAUNCHES,
    Comparison,
    Judgement,
    compared,
    holm,
    side_of,
)
from linewright.analysis.contrast import Contrast, cost_ratio, paired_t
from linewright.analysis.control import with_withheld
from linewright.analysis.intervals import FALSE_ALARM, FEWEST_MODES, median_of, modes
from linewright.analysis.merge import merge
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary, grouped, judged_near_or_far, machines_of
from linewright.forms import BASELINE_LOOPS, FLOORS, ONE_LINE, made_of
from linewright.records.store import Store
from linewright.schema import Cell, Context, Record, architecture_of

NEAR_CYCLES = 30
"""Back to back, an operation on a line that the core holds takes fewer core cycles than this (near
atomics on arm64 take 4 to 20); a trip to a home node takes more."""
FAR_TIMES = 2.0
"""An instruction that behaves as if performed at the interconnect costs at least this many times as
much as the prefetched one."""
REFERENCE_PREFETCHES = ("prfm_strm", "prfm_keep")
"""What asks for the line in the reference, the first of them that was measured."""
FEWEST_WINDOWS = 3
"""Windows on one line, of both forms, before anything is said of that line: one window is no
interval."""
MIXED_SHARE = 0.1
"""Of a launch's decided lines, the share of each kind from which it has both; a core is said to do
both where more than half of its launches have: lines that are all slow in one launch and all fast
in the next tell of the launch, not of the lines."""


class LineClass(Struct, frozen=True):
    """One form on one line of one launch, in medians of that line's windows."""

    context_id: str
    line: int
    where: str
    """``near``, ``far``, ``all_far`` or ``undecided``."""
    ns: float


class CoreClass(Struct, frozen=True, kw_only=True):
    """Where one core behaves as if it performed one form."""

    machine_id: str
    comparison: Comparison
    """The form over the same instruction behind a prefetch."""
    where: str
    """``near``, ``far``, ``all_far`` (expensive even behind the prefetch), ``mixed`` (lines differ)
    or ``undecided``."""
    near: int
    far: int
    undecided: int
    """Lines of each kind, of those that were visited `FEWEST_WINDOWS` times."""
    lines: list[LineClass]


def place(low: float, middle: float, high: float, reference: float, cycle_ns: float) -> str:
    """The rule, from an interval of ns, what the prefetched form takes, and the length of a core
    cycle (0: unknown)."""
    bound = NEAR_CYCLES * cycle_ns
    if cycle_ns > 0 and reference > bound:
        return "all_far" if low > bound and high < FAR_TIMES * reference else "undecided"
    if low > FAR_TIMES * reference and middle > bound:
        return "far"
    near = high < FAR_TIMES * reference and (cycle_ns <= 0 or high < bound)
    return "near" if near else "undecided"


def near_far(contexts: Mapping[str, Context], summaries: Iterable[Summary]) -> list[CoreClass]:
    """The class per core and form of one machine, from uncontended cells back to back, in the order
    of first appearance."""
    cells: dict[tuple, Summary] = {}
    behind: dict[tuple, list[Summary]] = {}
    for s in summaries:
        told = judged_near_or_far(s.cell) and architecture_of(s.arch).far_atomics
        if told and s.usable and s.of_launches("issue_ns"):
            made, where = made_of(s.cell.form), (_cpu(s), s.cell.width_bits)
            if made.prefetch in REFERENCE_PREFETCHES:
                behind.setdefault((*where, made.base), []).append(s)
            elif not made.prefetch:
                cells.setdefault((*where, made.base), s)
    answers = []
    for key, s in cells.items():
        if key in behind:
            rank = lambda b: REFERENCE_PREFETCHES.index(made_of(b.cell.form).prefetch)
            cycle_ns = _most(s, contexts, "cycle_ns")
            answers.append(_core(s, min(behind[key], key=rank), cycle_ns))
    return answers


def _cpu(s: Summary) -> int:
    return s.cpus[0] if s.cpus else -1


def _core(s: Summary, beside: Summary, cycle_ns: float) -> CoreClass:
    references = beside.of_lines()
    lines = [
        LineClass(*key, place(*own[:3], reference[1], cycle_ns), own[1])
        for key, own in s.of_lines().items()
        if (reference := references.get(key)) and min(own[3], reference[3]) >= FEWEST_WINDOWS
    ]
    counts = Counter(c.where for c in lines)
    where, ratio = "undecided", cost_ratio(s, beside)
    judgement = QUESTIONS["near"].judge(ratio, ratio and ratio.p)
    if ratio is not None and ratio.enough(FEWEST_LAUNCHES):
        own = s.of_launches("issue_ns")
        shared = [ns for launch, ns in beside.of_launches("issue_ns").items() if launch in own]
        usual = float(np.median(shared))
        where = place(ratio.low * usual, ratio.value * usual, ratio.high * usual, usual, cycle_ns)
    decided = (c for c in lines if c.where in ("near", "far"))
    launches = grouped(decided, lambda c: c.context_id).values()
    both = [_both_kinds([c.where for c in own]) for own in launches]
    if counts["near"] + counts["far"] >= 1 / MIXED_SHARE and any(both):
        where = "mixed" if sum(both) > len(both) / 2 else "undecided"
    elif counts["near"] and counts["far"]:
        where = "undecided"  # whole launches differ, which no line explains
    return CoreClass(
        machine_id=s.machine_id,
        comparison=compared(judgement, "near", side_of(s), side_of(beside)),
        where=where,
        near=counts["near"],
        far=counts["far"] + counts["all_far"],
        undecided=counts["undecided"],
        lines=lines,
    )


def _both_kinds(kinds: Sequence[str]) -> bool:
    """Whether the decided lines of one launch are of both kinds, neither being a rare exception."""
    fewer = min(kinds.count("near"), kinds.count("far"))
    return fewer > 0 and fewer >= MIXED_SHARE * len(kinds)


def with_nearness(summaries: Sequence[Summary], contexts: Mapping[str, Context]) -> list[Summary]:
    """The same summaries of one machine; those of uncontended cells back to back say where their
    form seems to be performed."""
    found = {
        (side.cpu, side.form, side.situation.width_bits): c
        for c in near_far(contexts, summaries)
        for side in [c.comparison.first]
    }
    answers = []
    for s in summaries:
        core = found.get((_cpu(s), s.cell.form, s.cell.width_bits))
        if core and judged_near_or_far(s.cell) and s.status == "ok":
            lines = {"near_lines": core.near, "far_lines": core.far}
            s = msgspec.structs.replace(s, nearness=core.where, **lines)
        answers.append(s)
    return answers


DOUBLED = 0.005
"""Relative distance from 2 within which a ratio is 'exactly 2.00'."""
ZERO_CYCLES = 0.1
"""An operation that loads, adds and stores costs at least this many cycles back to back; less was
optimised away."""
TICKS = 100
"""Fewest clock ticks in a batch for its percentiles to show under 1 % of the clock's step."""

Neighbours = Mapping[tuple, list[Summary]]
"""The measured cells of one machine by `_key`."""


def _key(cell: Cell, contender: str = "", form: str = "") -> tuple:
    """What a cell shares with the same one under another contender: all but threads, lines,
    placement and spacing. `contender` and `form`, that of an add, replace the cell's own."""
    of_form = ("add", form, "relaxed") if form else (cell.operation, cell.form, cell.order)
    shared = cell.situation.without("threads", "lines", "placement", "contender_iters")
    shared = msgspec.structs.replace(shared, contender=contender or shared.contender)
    return *of_form, shared, cell.params.get("policy")


def _most(summary: Summary, contexts: Mapping[str, Context], field: str) -> float:
    """The most of a cell's launches, 0 where none is known."""
    known = (getattr(contexts[i], field) for i in summary.context_ids if i in contexts)
    return max(known, default=0.0)


READ_MODIFY_WRITE = frozenset(ONE_LINE.operations) - {"read"}


def _below_floor(summary: Summary, neighbours: Neighbours, cycle: float) -> bool:
    cell = summary.cell
    if cell.operation not in READ_MODIFY_WRITE or cell.form in FLOORS or summary.issue is None:
        return False
    if cell.contender == "same_line" or cell.work_iters:
        return False
    floors = neighbours.get(_key(cell, "none", "plain_add"), [])
    return summary.issue.high_ns < cycle or any(
        summary.issue.high_ns < floor.issue.low_ns for floor in floors
    )


def _may_share(summary: Summary, contexts: Mapping[str, Context]) -> bool:
    """Could two of the cell's threads have shared a CPU or a core?  Only recorded CPUs on different
    cores exclude it."""
    if len(summary.cpus) < 2 or len(set(summary.cpus)) < len(summary.cpus):
        return True
    known = next((contexts[i].cpus for i in summary.context_ids if i in contexts), [])
    cores = [(c.socket, c.core) for c in known if c.cpu in summary.cpus and c.core >= 0]
    return len(set(cores)) < len(cores)


def _doubled(summary: Summary, neighbours: Neighbours, contexts: Mapping[str, Context]) -> bool:
    cell = summary.cell
    if cell.contender == "none" or summary.issue is None or not _may_share(summary, contexts):
        return False
    kinds = ("none", "placebo") if cell.contender == "same_line" else ("none",)
    return any(
        other.issue.median_ns > 0
        and abs(summary.issue.median_ns / other.issue.median_ns - 2) <= 2 * DOUBLED
        for kind in kinds
        for other in neighbours.get(_key(cell, kind), [])
    )


def _zero(summary: Summary, cycle: float) -> bool:
    """Back to back, a loop around an operation cannot run faster than a tenth of a cycle per
    turn."""
    cell = summary.cell
    if summary.issue is None or cell.operation in BASELINE_LOOPS or cell.work_iters:
        return False
    return summary.issue.median_ns <= (ZERO_CYCLES * cycle if cycle > 0 else 0.0)


def _negative(members: Iterable[Summary]) -> set[str]:
    """Ids of cells whose exposed cost is shown to be below zero, corrected over all cells of a
    machine that have one."""
    costs = [
        (s.id, paired_t(own := s.of_launches("exposed_ns"), dict.fromkeys(own, 0.0), "ns"))
        for s in members
    ]
    return {i for i, judgement in _judgements(costs, "loop") if judgement.cheaper}


def _placebo_differs(members: Iterable[Summary], neighbours: Neighbours) -> set[str]:
    """Ids of placebos that are shown to differ from no contender by more than is worth a warning,
    corrected likewise."""
    pairs = [
        (s.id, cost_ratio(s, other))
        for s in members
        if s.cell.contender == "placebo"
        for other in neighbours.get(_key(s.cell, "none"), [])
    ]
    different = ((i, j) for i, j in _judgements(pairs, "placebo") if j.differs)
    return {i for i, judgement in different if judgement.contrast.nearest > judgement.same}


def _judgements(
    pairs: Iterable[tuple[str, Contrast | None]], question: str
) -> Iterator[tuple[str, Judgement]]:
    """The answers of one question, by the ids that were given with the contrasts."""
    rows = [(i, c) for i, c in pairs if c and c.enough(FEWEST_LAUNCHES)]
    for (i, c), p in zip(rows, holm(c for _, c in rows), strict=True):
        yield i, QUESTIONS[question].judge(c, p)


def _coarse(summary: Summary, contexts: Mapping[str, Context]) -> bool:
    if summary.batch is None or summary.published:
        return False
    tick = _most(summary, contexts, "tick_ns")
    return tick > 0 and summary.batch.p50_ns * summary.batch.ops_per_sample < TICKS * tick


def _flags_of(
    summary: Summary, neighbours: Neighbours, contexts: Mapping[str, Context]
) -> dict[str, bool]:
    """Whether each flag is raised by one cell itself or beside its machine's others."""
    cycle = _most(summary, contexts, "cycle_ns")
    shared = len(set(summary.cpus)) < len(summary.cpus)
    return {
        "same_cpu": summary.cell.contender != "none" and shared,
        "no_context": not any(i in contexts for i in summary.context_ids),
        "emulated": summary.emulated,
        "faster_than_floor": _below_floor(summary, neighbours, cycle),
        "doubled": _doubled(summary, neighbours, contexts),
        "zero_cost": _zero(summary, cycle),
        "coarse_clock": _coarse(summary, contexts),
    }


def with_flags(summaries: list[Summary], contexts: Mapping[str, Context]) -> list[Summary]:
    """The same summaries of one machine, each with the flags that its neighbours give it."""
    neighbours = grouped((s for s in summaries if s.issue), lambda s: _key(s.cell))
    negative, differing = _negative(summaries), _placebo_differs(summaries, neighbours)
    answers = []
    for s in summaries:
        found = {"negative_cost": s.id in negative, "placebo_differs": s.id in differing}
        found |= _flags_of(s, neighbours, contexts)
        flags = {*s.flags, *(name for name, raised in found.items() if raised)}
        answers.append(msgspec.structs.replace(s, flags=sorted(flags)))
    return answers


def by_id(contexts: Iterable[Context] | Mapping[str, Context]) -> dict[str, Context]:
    """Contexts by their id, whichever way they come."""
    return dict(contexts) if isinstance(contexts, Mapping) else {c.context_id: c for c in contexts}


def summarise(
    contexts: Iterable[Context] | Mapping[str, Context], records: Iterable[Record]
) -> list[Summary]:
    """One summary per machine and cell, in the order of first appearance.

    Records whose context is missing are kept apart under their context id, since their machine is
    unknown."""
    known = by_id(contexts)

    def machine_of(record: Record) -> str:
        context = known.get(record.context_id)
        return context.machine_id if context else record.context_id

    groups = grouped(records, lambda r: (machine_of(r), r.cell.id))
    return summarise_groups(known, ((machine, members) for (machine, _), members in groups.items()))


def summarise_groups(
    contexts: Mapping[str, Context], groups: Iterable[tuple[str, list[Record]]]
) -> list[Summary]:
    """The same from one cell's records after the other: a machine's id with all records of a cell
    there.

    Only the summaries stay in memory.
    """
    merged = [merge(machine, members, contexts) for machine, members in groups]
    finished: dict[tuple[str, str], Summary] = {}
    for members in machines_of(merged).values():
        placed = with_nearness(members, contexts)
        whole = with_flags(with_modes(with_withheld(placed, contexts)), contexts)
        finished |= {(s.machine_id, s.id): s for s in whole}
    return [finished[s.machine_id, s.id] for s in merged]


def with_modes(summaries: Iterable[Summary]) -> list[Summary]:
    """The same summaries of one machine, each with the groups that its launches fall into: more
    than one, and the cell is metastable.

    The chance that one of a machine's cells is called metastable although its launches vary in one
    way is at most `FALSE_ALARM`: it is shared by the cells that are judged."""
    members = list(summaries)
    values = [_launches(s) for s in members]
    alarm = FALSE_ALARM / max(1, sum(len(v) >= FEWEST_MODES for v in values))
    answers = []
    for s, v in zip(members, values, strict=True):
        found = modes(v, alarm=alarm)
        flags = sorted({*s.flags, "metastable"}) if len(found) > 1 else s.flags
        answers.append(msgspec.structs.replace(s, modes=found, flags=flags))
    return answers


def _launches(s: Summary) -> list[float]:
    """What the launches of a cell took: with work, the exposed cost on top of the usual
    baseline loop: one with two modes is then no property of the operation."""
    if s.status != "ok" or s.unit != "launch" or len(s.unit_ns) < FEWEST_MODES:
        return []
    if not s.cell.work_iters:
        return s.unit_ns
    usual = median_of(s.of_launches("baseline_ns").values(), 0.0)
    return [usual + ns for ns in s.of_launches("exposed_ns").values()]


class Measurements(NamedTuple):
    """Record files as analysis wants them."""

    contexts: dict[str, Context]
    summaries: list[Summary]


def load(
    paths: Sequence[str], warn: Callable[[str], None], only: Sequence[str] = ()
) -> Measurements:
    """Summaries of record files in bounded memory; files without a record give none."""
    with Store(paths, warn, only) as store:
        store.read()
        return summarised(store)


def summarised(store: Store) -> Measurements:
    """The same from a store that was read."""
    return Measurements(store.contexts, summarise_groups(store.contexts, store.groups()))

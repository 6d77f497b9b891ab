# SPDX-License-Identifier: MIT
"""Results that doubt themselves: what makes a figure implausible, and the likely cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from linewright.analysis.contrast import Contrast, paired_t
from linewright.analysis.drawn_ratios import cost_ratio
from linewright.analysis.hypothesis_tests import FEWEST_LAUNCHES, Judgement, holm, judge
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary, grouped, machines_of
from linewright.families import BASELINES, FLOORS, ONE_LINE
from linewright.schema import Cell, Context

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


def _cycle(summary: Summary, contexts: Mapping[str, Context]) -> float:
    lengths = [contexts[i].cycle_ns for i in summary.context_ids if i in contexts]
    return max(lengths, default=0.0)


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


def _same_cpu(summary: Summary) -> bool:
    """Whether threads that should run beside each other are recorded on one CPU."""
    return summary.cell.contender != "none" and len(set(summary.cpus)) < len(summary.cpus)


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
    if summary.issue is None or cell.operation in BASELINES or cell.work_iters:
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
    asked = QUESTIONS[question]
    rows = [(i, c) for i, c in pairs if c and c.enough(FEWEST_LAUNCHES)]
    for (i, c), p in zip(rows, holm(c for _, c in rows), strict=True):
        yield i, judge(c, p, alpha=asked.alpha, same=asked.same.share)


def _coarse(summary: Summary, contexts: Mapping[str, Context]) -> bool:
    if summary.batch is None or summary.published:
        return False
    tick = max((contexts[i].tick_ns for i in summary.context_ids if i in contexts), default=0.0)
    return tick > 0 and summary.batch.p50_ns * summary.batch.ops_per_sample < TICKS * tick


def _flags_of(
    summary: Summary, neighbours: Neighbours, contexts: Mapping[str, Context]
) -> list[str]:
    """What is implausible about one cell by itself or beside its machine's others."""
    cycle = _cycle(summary, contexts)
    checks = {
        "same_cpu": _same_cpu(summary),
        "no_context": not any(i in contexts for i in summary.context_ids),
        "emulated": summary.emulated,
        "faster_than_floor": _below_floor(summary, neighbours, cycle),
        "doubled": _doubled(summary, neighbours, contexts),
        "zero_cost": _zero(summary, cycle),
        "coarse_clock": _coarse(summary, contexts),
    }
    return [name for name, found in checks.items() if found]


def with_flags(summaries: list[Summary], contexts: Mapping[str, Context]) -> list[Summary]:
    """The same summaries, each with the flags that its neighbours on the same machine give it."""
    flagged: dict[tuple[str, str], set[str]] = {}
    for machine, members in machines_of(summaries).items():
        neighbours = grouped((s for s in members if s.issue), lambda s: _key(s.cell))
        over_all = {
            "negative_cost": _negative(members),
            "placebo_differs": _placebo_differs(members, neighbours),
        }
        for s in members:
            flagged[machine, s.id] = {*s.flags, *_flags_of(s, neighbours, contexts)}
            flagged[machine, s.id] |= {name for name, ids in over_all.items() if s.id in ids}
    return [
        msgspec.structs.replace(s, flags=sorted(flagged[s.machine_id, s.id])) for s in summaries
    ]

"""Results that doubt themselves: what makes a figure implausible, and the likely cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from linewright.analysis.contrast import FEWEST_LAUNCHES, Contrast, corrected, paired
from linewright.analysis.summary import Summary, grouped, machines_of
from linewright.families import BASELINES, FLOORS, ONE_LINE
from linewright.schema import Cell, Context

MEANING: dict[str, str] = {
    "metastable": "The launches fall into separate groups: read the modes and their shares, not one number.",
    "bimodal_lines": "Lines fall into separate groups: their home nodes, or their positions in a cache, differ.",
    "one_launch": "Only one launch: its luck is not in the interval, and nothing is claimed; measure with"
    " at least 5 launches.",
    "short_span": "All launches lie close together in time: another run may meet the machine in another state. Join"
    " runs made at other times.",
    "baseline_not_proportional": "The loop around the operation does not take time in proportion to its work, so"
    " exposed costs are withheld.",
    "baseline_not_steady": "The loop around the operation does not repeat within 10 %, so exposed costs are withheld.",
    "same_cpu": "The contender ran on the timed thread's CPU: the figure is of two threads sharing one"
    " CPU, not of contention.",
    "emulated": "Run by an emulator: the times mean nothing, only the sums do.",
    "faster_than_floor": "Cheaper than a plain add or than one core cycle: most likely the loop does"
    " not hold the operation.",
    "doubled": "Exactly 2.00 times the uncontended figure: most likely two threads share one CPU or one core.",
    "negative_cost": "Below its baseline loop by more than noise: most likely the two loops are"
    " placed or clocked differently.",
    "zero_cost": "No cost at all where the operation cannot be free: most likely it was optimised away.",
    "placebo_differs": "The placebo differs from no contender: SMT, frequency or power effects are"
    " in the contended figures too.",
    "coarse_clock": "A batch lasts fewer than 100 ticks of the clock: percentiles are quantised.",
    "simulated": "Simulated on a described machine: what the model says, and no measurement.",
    "starved": "Simulated, and a thread got no operation done while the window waited for it.",
    "bounds_only": "Simulated on a machine that is not calibrated: two bounds, and no time.",
    "no_context": "The file has no context line for this cell: machine and clock are unknown.",
}
"""Every flag that analysis adds, with its sentence; records bring the probe's own beside these."""

DOUBLED = 0.005
"""Relative distance from 2 within which a ratio is 'exactly 2.00'."""
FALSE_ALARM = 0.01
"""Chance that one cell of a run is said to be below its baseline, or one placebo to differ, though none is or does."""
PLACEBO_MARGIN = 0.02
"""Relative difference below which a placebo is not worth a warning, however certain."""
ZERO_CYCLES = 0.1
"""An operation that loads, adds and stores costs at least this many cycles back to back; less was optimised away."""
TICKS = 100
"""Fewest clock ticks in a batch for its percentiles to show under 1 % of the clock's step."""


Neighbours = Mapping[tuple, list[Summary]]
"""The measured cells of one machine by `_key`."""


def _key(cell: Cell, contender: str, **changes: object) -> tuple:
    """What a cell shares with the same one under another contender: all but threads, lines, placement and spacing."""
    cell = msgspec.structs.replace(cell, **changes) if changes else cell
    params = tuple(sorted(cell.params.items()))
    return (cell.operation, cell.form, cell.width_bits, cell.order, cell.work_iters, params, contender)


def _neighbours(summaries: list[Summary]) -> dict[tuple, list[Summary]]:
    """The measured cells of one machine by `_key`."""
    return grouped((s for s in summaries if s.issue is not None), lambda s: _key(s.cell, s.cell.contender))


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
    floors = neighbours.get(_key(cell, "none", operation="add", form="plain_add", order="relaxed"), [])
    return summary.issue.high_ns < cycle or any(summary.issue.high_ns < floor.issue.low_ns for floor in floors)


def _may_share(summary: Summary, contexts: Mapping[str, Context]) -> bool:
    """Could two of the cell's threads have shared a CPU or a core?  Only recorded CPUs on different cores exclude
    it."""
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
        other.issue.median_ns > 0 and abs(summary.issue.median_ns / other.issue.median_ns - 2) <= 2 * DOUBLED
        for kind in kinds
        for other in neighbours.get(_key(cell, kind), [])
    )


def _zero(summary: Summary, cycle: float) -> bool:
    """Back to back, a loop around an operation cannot run faster than a tenth of a cycle per turn."""
    cell = summary.cell
    if summary.issue is None or cell.operation in BASELINES or cell.work_iters:
        return False
    return summary.issue.median_ns <= (ZERO_CYCLES * cycle if cycle > 0 else 0.0)


def _negative(members: Iterable[Summary]) -> set[str]:
    """Ids of cells whose exposed cost is shown to be below zero, corrected over all cells of a machine that have
    one."""
    costs = {s.id: paired(s.exposed_by_launch, dict.fromkeys(s.exposed_by_launch, 0.0), "ns") for s in members}
    return {i for i, c in _shown(costs.items()) if c.high < 0}


def _placebo_differs(members: Iterable[Summary], neighbours: Neighbours) -> set[str]:
    """Ids of placebos that are shown to differ from no contender by more than is worth a warning, corrected
    likewise."""
    pairs = [(s, o) for s in members if s.cell.contender == "placebo" for o in neighbours.get(_key(s.cell, "none"), [])]
    found = _shown([(s.id, paired(s.by_launch, other.by_launch)) for s, other in pairs])
    return {i for i, c in found if c.nearest > PLACEBO_MARGIN}


def _shown(found: Iterable[tuple[str, Contrast | None]]) -> list[tuple[str, Contrast]]:
    """The contrasts with launches enough that are different from nothing, by Holm's correction over all given."""
    rows = [(i, c) for i, c in found if c and c.launches >= FEWEST_LAUNCHES]
    return [row for row, p in zip(rows, corrected(c for _, c in rows), strict=True) if p < FALSE_ALARM]


def _coarse(summary: Summary, contexts: Mapping[str, Context]) -> bool:
    if summary.batch is None or summary.published:
        return False
    tick = max((contexts[i].tick_ns for i in summary.context_ids if i in contexts), default=0.0)
    return tick > 0 and summary.batch.p50_ns * summary.batch.ops_per_sample < TICKS * tick


def _flags_of(summary: Summary, neighbours: Neighbours, contexts: Mapping[str, Context]) -> list[str]:
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
        neighbours = _neighbours(members)
        over_all = {"negative_cost": _negative(members), "placebo_differs": _placebo_differs(members, neighbours)}
        for s in members:
            flagged[machine, s.id] = {*s.flags, *_flags_of(s, neighbours, contexts)}
            flagged[machine, s.id] |= {name for name, ids in over_all.items() if s.id in ids}
    return [msgspec.structs.replace(s, flags=sorted(flagged[s.machine_id, s.id])) for s in summaries]


def explain(flag: str) -> str:
    """The sentence for a flag; the probe's own flags are explained in docs/reference/records.md."""
    return MEANING.get(flag, f"{flag.replace('_', ' ')}: see docs/reference/records.md.")

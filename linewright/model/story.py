# SPDX-License-Identifier: MIT
"""One simulated cell's story: what its time goes to, in sentences, how far it lies from what was
calibrated, and what the answer hangs on; of a machine that is not calibrated, its bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from linewright import numbers
from linewright.analysis.summary import grouped
from linewright.errors import UserError
from linewright.model import machine_file
from linewright.model.drawn_figures import PHASES, modes_text
from linewright.model.ensemble import BOUND_DRAWS, bands, error_kind, misses_of, simulate
from linewright.model.machine_file import Machine
from linewright.model.simulator import Simulator
from linewright.say.machine_lines import error_text
from linewright.schema import Cell, Plan, Record

SMALL_SHARE = 0.01
"""Share of the time below which a phase is not mentioned, and of the answer below which a constant
is not."""
_NUMBERED = {"u": "width_bits", "ci": "contender_iters", "l": "lines", "t": "threads"}


def cell_of(text: str) -> Cell:
    """The cell of a canonical id; UserError shows what one looks like."""
    example = "for example add/stadd/u64/relaxed/same_line/ci10/nop0/auto/l1/t2"
    try:
        operation, form, width, order, contender, spacing, work, placement, *rest = text.split("/")
        fields = {part.rstrip("0123456789"): part for part in (width, spacing, *rest[:2])}
        values = {name: fields[sign][len(sign) :] for sign, name in _NUMBERED.items()}
        values |= {"work": "nop_loop" if work.startswith("nop") else "chain"}
        pairs = (pair.split("=", 1) for pair in rest[2:])
        cell = msgspec.convert(
            values
            | {"operation": operation, "form": form, "order": order, "contender": contender}
            | {"work_iters": work.lstrip("wnop"), "placement": placement}
            | {"params": {k: int(v) if v.isdigit() else v for k, v in pairs}},
            Cell,
            strict=False,
        )
    except (ValueError, KeyError, msgspec.ValidationError):
        raise UserError(f"{text[:200]!r} is no cell's id", "explain", example) from None
    if cell.id != text:
        raise UserError(f"{text[:200]!r} is no cell's id", "explain", example)
    return cell


def distance(a: Cell, b: Cell) -> float:
    """How far two cells lie apart: doublings of work and spacing, 2 for one of the threads, 4 for
    another form or contention; what else differs is not counted."""
    apart = 4.0 * (a.form != b.form) + 4.0 * (a.contender != b.contender)
    apart += 2.0 * abs(math.log2(a.threads / b.threads))
    apart += abs(math.log2((a.work_iters + 10) / (b.work_iters + 10)))
    return apart + abs(math.log2((a.contender_iters + 10) / (b.contender_iters + 10)))


def nearest(machine: Machine, cell: Cell) -> tuple[Cell, float] | None:
    """The calibrated cell nearest to a cell, and its distance; None where nothing was
    calibrated."""
    known = [cell_of(text) for text in machine.calibrated_on]
    if not known:
        return None
    found = min(known, key=lambda other: (distance(cell, other), other.id != cell.id))
    return found, distance(cell, found)


WITH_ERROR = ", and with the model's own error"


def sentences(machine: Machine, record: Record) -> list[str]:
    """What happens in a cell, as far as its record says."""
    cell = record.cell
    text = [f"{cell.id} on {machine.name}, simulated."]
    if record.status != "ok":
        return [*text, f"{record.reason[0].upper()}{record.reason[1:]}."]
    metrics = record.metrics
    if "metastable" not in record.flags:
        text.append(
            f"An operation takes {_ns(record.issue.median_ns)} with the work around it; over draws "
            f"of the constants{WITH_ERROR * bool(misses_of(machine, cell))}, "
            f"{numbers.span(metrics['p05_ns'], metrics['p95_ns'], 'ns')} (5th to 95th percentile)."
        )
    if any(f"{phase}_ns" in metrics for phase in PHASES):  # a pass over a list has no phases
        text.append(_breakdown(metrics))
    text += [_others(record)] if len(record.thread_ops) > 1 else []
    text += [modes_text(metrics)] if "metastable" in record.flags else []
    near = [] if machine_file.edited(machine) else [_nearness(machine, cell)]
    return [*text, *limits(machine, [cell]), *near]


def limits(machine: Machine, cells: Sequence[Cell], least: float = 0.0) -> list[str]:
    """What was edited since the calibration, how far the model was off for cells like these that
    no fit had seen (each kind that it missed by at least a share), and of which kinds that is not
    known."""
    kinds = {error_kind(cell): misses_of(machine, cell) for cell in cells if cell.form != "empty"}
    said = [changed(machine)] + [
        f"Of {_kind_text(kind)} that no fit had seen, "
        f"{error_text(math.exp(min(found)), math.exp(max(found)))} "
        f"({numbers.count(len(found), 'figure')})."
        for kind, found in kinds.items()
        if found and max(map(abs, found)) >= least
    ]
    unknown = [_kind_text(kind) for kind, found in kinds.items() if not found]
    if unknown:
        more = len(unknown) - MOST_KINDS
        some = [*unknown[:MOST_KINDS], f"{more} more kinds"] if more > 1 else unknown
        said.append(
            f"The machine's file has no error of the model for {numbers.join(some)}: bands there "
            "hold what is not known of the constants, and nothing else."
        )
    return list(filter(None, said))


MOST_KINDS = 3
"""Kinds of cells that are named where nothing is known of the model's error."""


def _kind_text(kind: str) -> str:
    form, contention = kind.split("/")
    return f"{'uncontended' if contention == 'none' else 'contended'} {form}"


def changed(machine: Machine) -> str:
    """What was edited since the calibration, and what that makes of the answer; empty where
    nothing was."""
    names = machine_file.edited(machine)
    said = (
        f"{numbers.join(names)} {'was' if len(names) == 1 else 'were'} changed after the "
        "calibration: what is said of this machine is a prediction, and was never measured. Bands "
        "take what was changed from the file, and all else as it was fitted."
    )
    return said if names else ""


def tornado(machine: Machine, cell: Cell, simulator: Simulator) -> list[str]:
    """What the answer hangs on: the change when one constant goes from its value to either end of
    its interval, the greatest first."""
    plan = Plan(linewright_plan=2, name="explain", cells=[cell])

    def ns(draw: dict[str, float]) -> float:
        return simulator.ask(machine_file.resolve(machine, draw), plan)[0].p50

    middle = ns({})
    moved = []
    for name, c in machine.constants.items():
        ends = [ns({name: end}) / middle for end in (c.low, c.high)] if middle else [1.0]
        moved.append((max(abs(end - 1) for end in ends), name, min(*ends, 1.0), max(*ends, 1.0)))
    shown = [row for row in sorted(moved, reverse=True) if row[0] >= SMALL_SHARE][:MOST_NAMED]
    if not shown:
        return ["No constant's interval moves the answer by 1 %."]
    wide = max(len(name) for _, name, _, _ in shown)
    constants = machine.constants
    return [
        "What the answer hangs on, one constant over its interval and the others as they are:",
        *(
            f"  {name:{wide}}  {numbers.change(low, high, 'ratio'):>16}   over "
            f"{numbers.span(constants[name].low, constants[name].high, constants[name].unit)}"
            f" ({constants[name].provenance})"
            for _, name, low, high in shown
        ),
    ]


def bounds(machine: Machine, cell: Cell, simulator: Simulator) -> list[str]:
    """What may be said of a cell on a machine that no measurement pins: the least and the greatest
    figure over draws of its constants, what one wait for a list saves, and what of it was given."""
    cells, one_wait = [cell], cell.params.get("wait") == "once"
    if one_wait:
        each = msgspec.structs.replace(cell, params=cell.params | {"wait": "each"})
        cells = [each, cell]
    plan = Plan(linewright_plan=2, name="explain", cells=cells)
    rows = simulate(machine, plan, BOUND_DRAWS, simulator)
    text, ran = [f"{cell.id} on {machine.name}, simulated."], [r for r in rows if r[-1].modes]
    if ran:
        band = bands(ran)[-1]
        text.append(
            f"Bounds only: {numbers.span(band.low, band.high, 'ns')}; machine {machine.name} is "
            "not calibrated, and where between the two the time lies is not known."
        )
    if len(ran) < len(rows):
        text.append(
            f"In {len(rows) - len(ran)} of {len(rows)} draws of the constants the timed thread "
            "starves: nothing bounds its time from above."
        )
    if one_wait:
        saved = [100 * (1 - one.p50 / many.p50) for many, one in rows]
        text.append(
            "One wait for the list takes "
            f"{min(saved):.1f} to {max(saved):.1f} % less than one behind each entry."
        )
    return [*text, *given(machine, cell)]


def given(machine: Machine, cell: Cell) -> list[str]:
    """Which constants of a machine that is not calibrated, of those that the cell needs, were set
    so that it says what was published: that it says so is no prediction."""
    of_list = "entries" in dict(cell.params)
    fitted = (machine.posterior or [{}])[0]
    names = [name for name in fitted if name.startswith("maintain_") == of_list]
    of = grouped(names, lambda name: machine.sources[machine.constants[name].source])
    return [
        f"Given to the machine, and no prediction: {numbers.join(own)}. {text.rstrip('.')}."
        for text, own in of.items()
    ]


MOST_NAMED = 6
"""Constants that are named, of some forty."""


def _breakdown(metrics: dict[str, float]) -> str:
    spent = {name: metrics.get(f"{name}_ns", 0.0) for name in PHASES}
    total = sum(spent.values()) or 1.0
    parts = [
        f"{100 * ns / total:.0f} % ({_ns(ns)}) {PHASES[name]}"
        for name, ns in sorted(spent.items(), key=lambda item: -item[1])
        if ns >= SMALL_SHARE * total
    ]
    return f"The timed core spends {'; '.join(parts)}."


def _others(record: Record) -> str:
    mine, *others = record.thread_ops
    done = f"{mine} operations against {', '.join(map(str, others))}"
    fair = f"Fairness (Jain's index) is {record.fairness:.2f}"
    text = f"{fair}: {done}."
    if "starved" in record.flags:
        text = (
            "In at least one window a thread starves: it got hardly any operation done while the "
            f"window waited for it. {fair} in the least fair of these; in all windows {done}."
        )
    held = {n: times for n, times in record.metrics.items() if n.startswith("tenures_below_")}
    if held:
        below = int(max(held, key=held.get).split("_")[2])
        text += (
            f" The timed core mostly keeps the line for {below // 2} to {below - 1} operations at "
            "a time."
        )
    return text


def _nearness(machine: Machine, cell: Cell) -> str:
    found = nearest(machine, cell)
    if found is None:
        return "The machine's file names no cell that its constants were fitted to."
    other, apart = found
    if other.id == cell.id:
        return "The constants were fitted to this very point."
    return (
        f"The nearest cell that the constants were fitted to is {other.id}, {apart:.1f} away "
        "(doublings of work and of contender spacing; 2 for a doubling of the threads, 4 for "
        "another form or contention; what else differs is not counted)."
    )


def _ns(ns: float) -> str:
    return f"{numbers.figure(ns)} ns"

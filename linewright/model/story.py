"""One simulated cell's story: what its time goes to, in sentences, and how far it lies from what was calibrated."""

from __future__ import annotations

import math
import re

import msgspec

from linewright.errors import UserError
from linewright.model.machine_file import Machine
from linewright.schema import Cell, Record

PHASES = {
    "work": "in the work and the loop around the operation",
    "wait_for_home": "waiting for the line's home to take up its request",
    "wait_for_snoop": "waiting for the line: look-up, snoop and data",
    "execute": "executing the operation",
    "retry": "in attempts that failed",
}
SMALL_SHARE = 0.01
"""Share of the time below which a phase is not mentioned."""

_ID = re.compile(
    r"(?P<operation>[a-z0-9_]+)/(?P<form>[a-z0-9_]+)/u(?P<width_bits>\d+)/(?P<order>[a-z_]+)/(?P<contender>[a-z_]+)"
    r"/ci(?P<contender_iters>\d{1,9})/(?P<work>w|nop)(?P<work_iters>\d{1,9})/(?P<placement>[a-z0-9_:,]+)"
    r"/l(?P<lines>\d{1,4})/t(?P<threads>\d{1,4})(?P<params>(/[a-z0-9_]+=[a-z0-9_.+-]+)*)"
)


def cell_of(text: str) -> Cell:
    """The cell of a canonical id; UserError shows what one looks like."""
    match = _ID.fullmatch(text)
    example = "add/stadd/u64/relaxed/same_line/ci10/nop0/auto/l1/t2"
    if match is None:
        raise UserError(f"{text[:200]!r} is no cell's id", "explain", f"for example {example}")
    fields = match.groupdict()
    values = {key: _number(value) for key, value in fields.items() if key != "params"}
    pairs = (pair.split("=", 1) for pair in fields["params"].split("/")[1:])
    values["params"] = {key: _number(value) for key, value in pairs}
    values["work"] = "chain" if fields["work"] == "w" else "nop_loop"
    try:
        return msgspec.convert(values, Cell)
    except msgspec.ValidationError as error:
        raise UserError(str(error), text[:200], f"for example {example}") from None


def _number(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def distance(a: Cell, b: Cell) -> float:
    """How far two cells lie apart: doublings of work, spacing and threads, 4 for another form or contention."""
    apart = 4.0 * (a.form != b.form) + 4.0 * (a.contender != b.contender)
    apart += 2.0 * abs(math.log2(a.threads / b.threads))
    apart += abs(math.log2((a.work_iters + 10) / (b.work_iters + 10)))
    return apart + abs(math.log2((a.contender_iters + 10) / (b.contender_iters + 10)))


def nearest(machine: Machine, cell: Cell) -> tuple[Cell, float] | None:
    """The calibrated cell nearest to a cell, and its distance; None where nothing was calibrated."""
    known = [cell_of(text) for text in machine.calibrated_on]
    if not known:
        return None
    found = min(known, key=lambda other: distance(cell, other))
    return found, distance(cell, found)


def sentences(machine: Machine, record: Record) -> list[str]:
    """What happens in a cell, as far as its record says."""
    cell = record.cell
    text = [f"{cell.id} on {machine.name}, simulated."]
    if record.status != "ok":
        return [*text, f"{record.reason[0].upper()}{record.reason[1:]}."]
    metrics = record.metrics
    if "metastable" not in record.flags:
        text.append(_interval(record))
    text.append(_breakdown(metrics))
    if len(record.thread_ops) > 1:
        text.append(_others(record))
    if "metastable" in record.flags:
        text.append(_modes(metrics))
    text.append(_nearness(machine, cell))
    return text


def _interval(record: Record) -> str:
    low, high = record.metrics["p05_ns"], record.metrics["p95_ns"]
    return (
        f"An operation takes {_ns(record.issue.median_ns)} with the work around it; over the constants' uncertainty "
        f"{_ns(low)} to {_ns(high)} (5th to 95th percentile of 20 draws)."
    )


def _breakdown(metrics: dict[str, float]) -> str:
    spent = {name: metrics.get(f"{name}_ns", 0.0) for name in PHASES}
    total = sum(spent.values()) or 1.0
    shares = [(name, ns) for name, ns in sorted(spent.items(), key=lambda item: -item[1]) if ns >= SMALL_SHARE * total]
    parts = [f"{100 * ns / total:.0f} % ({_ns(ns)}) {PHASES[name]}" for name, ns in shares]
    return f"The timed core spends {'; '.join(parts)}."


def _others(record: Record) -> str:
    mine, others = record.thread_ops[0], record.thread_ops[1:]
    held = [(name, count) for name, count in record.metrics.items() if name.startswith("tenures_below_")]
    text = f"Fairness (Jain's index) is {record.fairness:.2f}: {mine} operations against {', '.join(map(str, others))}."
    if "starved" in record.flags:
        text += " A thread starves: it got no operation done while the window waited for it."
    if held:
        name, _ = max(held, key=lambda item: item[1])
        below = int(name.split("_")[2])
        text += f" The timed core mostly keeps the line for {max(below // 2, 0)} to {below - 1} operations at a time."
    return text


def _modes(metrics: dict[str, float]) -> str:
    modes = []
    for number in range(1, 20):
        if f"mode_{number}_ns" not in metrics:
            break
        modes.append(f"{_ns(metrics[f'mode_{number}_ns'])} ({100 * metrics[f'mode_{number}_share']:.0f} % of the time)")
    return (
        f"The cell is metastable: it sustains itself at {' and at '.join(modes)}. No one figure stands for it; the "
        "shares depend on how often something disturbs it."
    )


def _nearness(machine: Machine, cell: Cell) -> str:
    found = nearest(machine, cell)
    if found is None:
        return "The machine's file names no cell that its constants were fitted to."
    other, apart = found
    if other == cell or apart == 0:
        return "The constants were fitted to this very point."
    return (
        f"The nearest cell that the constants were fitted to is {other.id}, {apart:.1f} away (doublings of work and of "
        "contender spacing; 2 for a doubling of the threads, 4 for another form or contention)."
    )


def _ns(value: float) -> str:
    return f"{value:.3g} ns"

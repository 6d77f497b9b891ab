"""What a machine is calibrated with: a published table or a record file, as cells with one figure each."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from linewright.errors import UserError
from linewright.records import files as records
from linewright.schema import Cell, Record
from linewright.target.probe import Form

COLUMNS = ("form", "contender", "contender_iters", "work_iters", "p50_ns", "p95_ns", "p99_ns")
MOST_BYTES = 1 << 22
UNSTEADY = 1.4
"""Ratio of the 95th percentile of a cell's means (or of its launches) to their median, from which it has no one
figure."""


class Observation(Struct, frozen=True, kw_only=True):
    """One cell's interval between operations, in ns."""

    cell: Cell
    ns: float
    p95_ns: float

    @property
    def unsteady(self) -> bool:
        """Whether the cell varies so much that its median is no property of the machine."""
        return self.p95_ns > UNSTEADY * self.ns


STATE_GAP = 1.35
"""Neighbouring windows of a handoff further apart than this belong to different placements of its CPUs."""
LEAST_OF_STATE = 4
"""Windows that a placement needs before it counts as one."""


def read(path: str, forms: list[Form], moved: bool = False) -> list[Observation]:
    """The observations of a table (``.csv``) or of a record file; UserError says which line cannot be.

    `moved`: a hypervisor moved the CPUs during the run, see `placements`.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UserError(error.strerror or str(error), path, "expected a table or a record file") from None
    if path.endswith(".csv"):
        return read_table(data, path, forms)
    return from_records((line.value for line in records.Reader(path)), path, moved)


def read_table(data: bytes, where: str, forms: list[Form]) -> list[Observation]:
    """Rows in the columns of the published table, behind lines that begin with ``#``; the work and the contender's
    spacing are NOP-loop iterations."""
    if len(data) > MOST_BYTES:
        raise UserError(f"larger than {MOST_BYTES} bytes", where, "expected a table")
    try:
        rows = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"not a table: {error}", where, f"columns {', '.join(COLUMNS)}") from None
    numbered = [(number, row) for number, row in enumerate(rows, start=1) if row and not row[0].startswith("#")]
    if not numbered or tuple(numbered[0][1]) != COLUMNS:
        raise UserError("the first line does not name the columns", where, ", ".join(COLUMNS))
    known = {form.name: form for form in forms}
    found = [_row(row, f"{where}:{number}", known) for number, row in numbered[1:]]
    if not found:
        raise UserError("the table has no rows", where)
    ids = [observation.cell.id for observation in found]
    for index, cell_id in enumerate(ids):
        if cell_id in ids[:index]:
            raise UserError(f"{cell_id} stands in the table twice", where)
    return found


def _row(row: list[str], where: str, forms: dict[str, Form]) -> Observation:
    if len(row) != len(COLUMNS):
        raise UserError(f"{len(row)} fields", where, f"expected {len(COLUMNS)}")
    name, contender, spacing, work, p50, p95, _ = row
    if name not in forms:
        raise UserError(f"the machine has no form {name!r}", where, f"allowed: {', '.join(sorted(forms))}")
    if contender not in ("none", "same_line"):
        raise UserError(f"contender {contender!r}", where, "allowed: none, same_line")
    form = forms[name]
    shared = {}
    if contender == "same_line":
        shared = {"contender": contender, "contender_iters": _count(spacing, where), "threads": 2}
    cell = Cell(
        operation=form.operation,
        form=name,
        width_bits=form.width_bits,
        order=form.order,
        work="nop_loop",
        work_iters=_count(work, where),
        lines=1,
        **shared,
    )
    return Observation(cell=cell, ns=_time(p50, where), p95_ns=_time(p95, where))


def _count(text: str, where: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) > 100_000_000:
        raise UserError(f"{text[:20]!r} is not a count", where, "a whole number from 0 to 100000000")
    return int(text)


def _time(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1e9:
        raise UserError(f"{text[:20]!r} is not a time", where, "nanoseconds above 0 and up to 1e9")
    return value


Launches = dict[int, list[float]]
"""A cell's windows by launch."""


def from_records(values: Iterable[object], where: str, moved: bool = False) -> list[Observation]:
    """Cells of measured records: the median over launches of each launch's median window. Simulated ones are
    refused."""
    windows: dict[str, Launches] = defaultdict(lambda: defaultdict(list))
    cells: dict[str, Cell] = {}
    for value in values:
        if not isinstance(value, Record) or value.status != "ok" or not value.window_ns:
            continue
        if "simulated" in value.flags:
            raise UserError("the records are simulated", where, "a machine is calibrated with measurements")
        if value.cell.contender == "placebo" or value.cell.form == "empty" or value.cell.params:
            continue
        cells[value.id] = value.cell
        windows[value.id][value.launch] += value.window_ns
    if not cells:
        raise UserError("no measured cell that the model knows", where)
    placed = [(cells[cell_id], launches) for cell_id, launches in windows.items()]
    return [_observed(cell, launches) for cell, launches in (placements(placed) if moved else placed)]


def _observed(cell: Cell, launches: Launches) -> Observation:
    medians = [float(np.median(windows)) for windows in launches.values()]
    return Observation(cell=cell, ns=float(np.median(medians)), p95_ns=float(np.percentile(medians, 95)))


def placements(cells: list[tuple[Cell, Launches]]) -> list[tuple[Cell, Launches]]:
    """Handoffs by where their two CPUs really were: one cell for each placement; other cells stay as they are.

    Virtual CPUs are moved between cores, and the guest does not see it. The windows of a handoff then fall into two
    groups:
    the faster one is a pair under one last-level cache, the slower one a pair under two. A handoff with one group has
    the placement that others show for its launches, if they show one.
    """
    parts = {cell.id: _split(launches) for cell, launches in cells if cell.operation == "handoff"}
    shown: dict[int, set[str]] = defaultdict(set)
    for part in parts.values():
        for placement, launches in part.items():
            for launch in launches:
                shown[launch].add(placement)
    found = []
    for cell, launches in cells:
        part = parts.get(cell.id)
        if part:
            found += [(msgspec.structs.replace(cell, placement=name), group) for name, group in part.items()]
            continue
        known = set().union(*(shown[launch] for launch in launches)) if part is not None else set()
        found.append((msgspec.structs.replace(cell, placement=known.pop()) if len(known) == 1 else cell, launches))
    return found


def _split(launches: Launches) -> dict[str, Launches]:
    """A handoff's windows in two groups, or nothing where they are one."""
    pooled = sorted(ns for windows in launches.values() for ns in windows)
    inner = range(LEAST_OF_STATE, len(pooled) - LEAST_OF_STATE + 1)
    cut = max(inner, key=lambda index: pooled[index] / pooled[index - 1], default=None)
    if cut is None or pooled[cut] < STATE_GAP * pooled[cut - 1]:
        return {}
    groups: dict[str, Launches] = {"same_l3": {}, "other_l3": {}}
    for launch, windows in launches.items():
        for ns in windows:
            name = "same_l3" if ns < pooled[cut] else "other_l3"
            groups[name].setdefault(launch, []).append(ns)
    return groups

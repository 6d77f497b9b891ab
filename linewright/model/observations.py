# SPDX-License-Identifier: MIT
"""What a machine is calibrated with: a record file, measured or published, as cells with one figure
each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec
import numpy as np
from msgspec import Struct

from linewright.errors import UserError
from linewright.forms import Form
from linewright.model.machine_file import need
from linewright.records import files as records
from linewright.schema import Cell, Record

UNSTEADY = 1.4
"""Ratio of the 95th percentile of a cell's means (or of its launches) to their median, from which
it has no one figure."""


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
"""Neighbouring windows of a handoff further apart than this belong to different placements of its
CPUs."""
LEAST_OF_STATE = 4
"""Windows that a placement needs before it counts as one."""


def read(path: str, forms: Iterable[Form], moved: bool = False) -> list[Observation]:
    """The observations of a record file, of published records those with the machine's `forms`;
    UserError says which line cannot be.

    `moved`: a hypervisor moved the CPUs during the run, see `placements`.
    """
    return from_records((line.value for line in records.Reader(path)), path, moved, forms)


def _published(record: Record, forms: dict[str, Form], where: str) -> Observation:
    """A cell of which only percentiles were published; its work and its contender's spacing are
    NOP-loop iterations."""
    cell, times = record.cell, record.batch
    allowed = f"allowed: {', '.join(sorted(forms))}"
    need(cell.form in forms, f"the machine has no form {cell.form!r}", where, allowed)
    need(times.p50_ns > 0, f"{cell.id} takes no time", where, "nanoseconds above 0")
    form = forms[cell.form]
    changes = {"operation": form.operation, "width_bits": form.width_bits, "order": form.order}
    cell = msgspec.structs.replace(cell, work="nop_loop", **changes)
    return Observation(cell=cell, ns=times.p50_ns, p95_ns=times.p95_ns)


Launches = dict[int, list[float]]
"""A cell's windows by launch."""


def from_records(
    values: Iterable[object], where: str, moved: bool = False, forms: Iterable[Form] = ()
) -> list[Observation]:
    """Cells of measured records: the median over launches of each launch's median window; of
    published ones the percentiles. Simulated ones are refused."""
    windows: dict[str, Launches] = defaultdict(lambda: defaultdict(list))
    cells: dict[str, Cell] = {}
    published, known = [], {form.name: form for form in forms}
    for value in values:
        if not isinstance(value, Record) or value.status != "ok":
            continue
        if value.plan == "published" and value.batch and not value.window_ns:
            published.append(_published(value, known, where))
        if not value.window_ns:
            continue
        if "simulated" in value.flags:
            allowed = "a machine is calibrated with measurements"
            raise UserError("the records are simulated", where, allowed)
        if value.cell.contender == "placebo" or value.cell.form == "empty" or value.cell.params:
            continue
        cells[value.id] = value.cell
        windows[value.id][value.launch] += value.window_ns
    if not cells and not published:
        raise UserError("no measured cell that the model knows", where)
    placed = [(cells[cell_id], launches) for cell_id, launches in windows.items()]
    measured = placements(placed) if moved else placed
    return published + [_observed(cell, launches) for cell, launches in measured]


def _observed(cell: Cell, launches: Launches) -> Observation:
    medians = [float(np.median(windows)) for windows in launches.values()]
    middle, p95 = np.percentile(medians, [50, 95]).tolist()
    return Observation(cell=cell, ns=middle, p95_ns=p95)


def placements(cells: list[tuple[Cell, Launches]]) -> list[tuple[Cell, Launches]]:
    """Handoffs by where their two CPUs really were: one cell for each placement; other cells stay
    as they are.

    Virtual CPUs are moved between cores, and the guest does not see it. The windows of a handoff
    then fall into two groups: the faster one is a pair under one last-level cache, the slower one a
    pair under two. A handoff with one group has the placement that others show for its launches, if
    they show one."""
    parts = {cell.id: _split(launches) for cell, launches in cells if cell.operation == "handoff"}
    shown: dict[int, set[str]] = defaultdict(set)
    for part in parts.values():
        for placement, launches in part.items():
            for launch in launches:
                shown[launch].add(placement)
    found = []
    for cell, launches in cells:
        part = parts.get(cell.id)
        if part == {}:
            known = set().union(*(shown[launch] for launch in launches))
            part = {known.pop(): launches} if len(known) == 1 else {}
        part = part or {cell.placement: launches}
        place = msgspec.structs.replace
        found += [(place(cell, placement=name), group) for name, group in part.items()]
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

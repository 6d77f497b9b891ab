# SPDX-License-Identifier: MIT
"""Groups of machines that behave alike: within a group no kind of cell differs by more than a bound
beyond its intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from linewright.analysis.loading import load
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary
from linewright.fleet.hosts import Host, distinct
from linewright.say.words import in_words
from linewright.schema import Cell, Context

ALIKE = QUESTIONS["fleet"].same.share
"""Machines of one group differ by at most this share in every kind of cell."""
NOTHING_SHARED = 1e3
"""Distance, in logarithms, of machines that have no cell in common: never one group."""

CellKind = tuple[str, str, int, str, bool]
"""Operation, form, width, contender, and whether there is work around the operation."""


class FleetMachine(Struct, frozen=True):
    """One machine of a fleet, its context and its cells."""

    host: Host
    context: Context
    summaries: list[Summary]


class GroupCost(Struct, frozen=True):
    """What a kind of cell costs in one group: the median over machines and cells, in ns, and its
    ratio to the first group."""

    kind: CellKind
    words: str
    values: list[float | None]
    """By group; None where no machine of the group has the kind."""

    @property
    def spread(self) -> float:
        """Logarithm of the largest ratio between groups."""
        known = [math.log(value) for value in self.values if value]
        return max(known) - min(known) if len(known) > 1 else 0.0


class Groups(Struct, frozen=True):
    """Machines by behaviour: the largest group first, and what each kind costs in each, the most
    different first."""

    groups: list[list[FleetMachine]]
    figures: list[GroupCost]


def machines(files: Mapping[Host, Path], note: Callable[[str], None]) -> list[FleetMachine]:
    """The machines that have records, each once."""
    found = {}
    for host, file in files.items():
        contexts, summaries = load([str(file)], note)
        if summaries:
            found[host] = FleetMachine(host, next(iter(contexts.values())), summaries)
    ids = {host: machine.context.machine_id for host, machine in found.items()}
    return [found[host] for host in distinct(ids, note)]


def kind_of(cell: Cell) -> CellKind:
    return cell.operation, cell.form, cell.width_bits, cell.contender, cell.work_iters > 0


def group(machines: Sequence[FleetMachine]) -> Groups:
    """Complete linkage over the distance of `distances`: any two machines of a group are within the
    bound."""
    ids, middle, half = _tables(machines)
    kinds = {cell_id: kind_of(cell) for cell_id, cell in ids.items()}
    if len(machines) > 1:
        tree = linkage(squareform(distances(middle, half, list(kinds.values()))), "complete")
        numbers = fcluster(tree, t=math.log1p(ALIKE), criterion="distance")
    else:
        numbers = np.ones(len(machines), dtype=int)
    members = [np.flatnonzero(numbers == number) for number in dict.fromkeys(numbers)]
    members.sort(key=lambda found: (-len(found), found[0]))
    return Groups(
        [[machines[i] for i in found] for found in members],
        _figures(ids, kinds, middle, members),
    )


def distances(middle: np.ndarray, half: np.ndarray, kinds: Sequence[CellKind]) -> np.ndarray:
    """Distance of every two machines: the largest over kinds of the median excess over the kind's
    cells.

    The excess of a cell is by how much the logarithms of two medians differ beyond both
    half-widths, at least 0: what the intervals explain is no difference. One odd cell of many does
    not make a kind odd. `middle` and `half` have a row for each machine and a column for each cell,
    NaN where it was not measured."""
    count = len(middle)
    answer = np.full((count, count), NOTHING_SHARED)
    columns = [np.array([at == kind for at in kinds]) for kind in dict.fromkeys(kinds)]
    for i in range(count):
        excess = np.maximum(0.0, np.abs(middle[i] - middle[i:]) - half[i] - half[i:])
        largest = np.full(count - i, -1.0)
        for chosen in columns:
            part = excess[:, chosen]
            known = ~np.isnan(part).all(axis=1)
            if known.any():
                largest[known] = np.maximum(largest[known], np.nanmedian(part[known], axis=1))
        shared = largest >= 0
        answer[i, i:][shared] = largest[shared]
        answer[i:, i] = answer[i, i:]
    np.fill_diagonal(answer, 0.0)
    return answer


def _tables(machines: Sequence[FleetMachine]) -> tuple[dict[str, Cell], np.ndarray, np.ndarray]:
    """Every cell by its id; logarithms of medians, and half-widths of their intervals, machine by
    cell."""
    ids: dict[str, Cell] = {}
    for machine in machines:
        for summary in machine.summaries:
            ids.setdefault(summary.id, summary.cell)
    at = {cell_id: column for column, cell_id in enumerate(ids)}
    middle = np.full((len(machines), len(ids)), np.nan)
    half = np.zeros_like(middle)
    for row, machine in enumerate(machines):
        for summary in machine.summaries:
            issue = summary.issue
            if (
                summary.status == "ok"
                and issue is not None
                and 0 < issue.low_ns <= issue.high_ns < math.inf
            ):
                middle[row, at[summary.id]] = math.log(issue.median_ns)
                half[row, at[summary.id]] = math.log(issue.high_ns / issue.low_ns) / 2
    return ids, middle, half


def _figures(
    ids: dict[str, Cell],
    kinds: dict[str, CellKind],
    middle: np.ndarray,
    members: Sequence[np.ndarray],
) -> list[GroupCost]:
    """Kinds with their cost in each group, the most different first; among equals the plan's
    order."""
    columns: dict[CellKind, list[int]] = {}
    for column, cell_id in enumerate(ids):
        columns.setdefault(kinds[cell_id], []).append(column)
    first = {kind: next(iter(found)) for kind, found in columns.items()}
    cells = list(ids.values())
    figures = [
        GroupCost(
            kind,
            _words(cells[first[kind]]),
            [_median(middle[np.ix_(found, columns[kind])]) for found in members],
        )
        for kind in columns
    ]
    return sorted(figures, key=lambda figure: -figure.spread)


def _words(cell: Cell) -> str:
    """The kind in words: a cell of it without the amount of work."""
    words = in_words(msgspec.structs.replace(cell, work_iters=0))
    width = "" if cell.width_bits == 64 else f", {cell.width_bits} bits"
    return words + width + (", with work" if cell.work_iters else "")


def _median(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(math.exp(np.median(known))) if known.size else None

# SPDX-License-Identifier: MIT
"""Groups of machines that behave alike: within a group no kind of cell differs by more than a bound
beyond its intervals; and in words how many groups there are, who is in them, and what sets them
apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from linewright import numbers
from linewright.analysis.loading import load
from linewright.analysis.questions import QUESTIONS
from linewright.analysis.summary import Summary, grouped
from linewright.errors import one_line
from linewright.fleet.fleet_run import MeasureOutcome
from linewright.fleet.hosts import Host, distinct
from linewright.say.document import (
    Document,
    Sentence,
    TextTable,
    document_of,
    sentence,
    sentence_as_written,
)
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
    cells, middle, half = _tables(machines)
    if len(machines) > 1:
        apart = distances(middle, half, list(map(kind_of, cells)))
        tree = linkage(squareform(apart), "complete")
        numbers = fcluster(tree, t=math.log1p(ALIKE), criterion="distance")
    else:
        numbers = np.ones(len(machines), dtype=int)
    members = [np.flatnonzero(numbers == number) for number in dict.fromkeys(numbers)]
    members.sort(key=lambda found: (-len(found), found[0]))
    return Groups(
        [[machines[i] for i in found] for found in members],
        _figures(cells, middle, members),
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


def _tables(machines: Sequence[FleetMachine]) -> tuple[list[Cell], np.ndarray, np.ndarray]:
    """Every cell once; logarithms of medians, and half-widths of their intervals, machine by
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
            issue = summary.issue if summary.status == "ok" else None
            if issue and 0 < issue.low_ns <= issue.high_ns < math.inf:
                middle[row, at[summary.id]] = math.log(issue.median_ns)
                half[row, at[summary.id]] = math.log(issue.high_ns / issue.low_ns) / 2
    return list(ids.values()), middle, half


def _figures(
    cells: Sequence[Cell], middle: np.ndarray, members: Sequence[np.ndarray]
) -> list[GroupCost]:
    """Kinds with their cost in each group, the most different first; among equals the plan's
    order."""
    columns = grouped(range(len(cells)), lambda at: kind_of(cells[at]))
    figures = [
        GroupCost(_words(cells[own[0]]), [_median(middle[np.ix_(found, own)]) for found in members])
        for own in columns.values()
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


MOST_NAMES = 6
"""Machines of a group that its line names; the page's table names all."""
MOST_FIGURES = 4
"""Differences of a group that are named before the table."""
MOST_OPEN = 12
"""Machines that the page lists without being asked."""


def document(found: Groups, failed: dict[str, MeasureOutcome], plan: str) -> Document:
    """The groups, what each pays, every machine, and last those that were not measured."""
    letters = [letter(number) for number in range(len(found.groups))]
    members = list(zip(letters, found.groups, strict=True))
    machines = [
        [name, m.host.target, f"{m.host.name}.jsonl", _model(m), m.context.kernel]
        for name, group in members
        for m in group
    ]
    counts = numbers.count(len(machines), "machine"), numbers.count(len(letters), "group")
    return document_of(
        title=f"{' in '.join(counts)}, plan {plan}",
        headline=[
            sentence(
                f"{', '.join(counts)}: within a group no kind of operation differs by more than "
                f"{100 * ALIKE:.0f} % beyond its intervals",
                cells=[figure.words for figure in found.figures],
                basis="costs" if found.figures else "run",
            )
        ],
        facts=[
            line
            for number, (name, group) in enumerate(members)
            for line in (
                sentence_as_written(_group(name, group), basis="run"),
                *_apart(found, number),
            )
        ],
        tables=[
            TextTable(
                title="What each group pays: ns per operation, median of the group's machines; the "
                "ratio is to group A. The most different first.",
                headings=["what", *letters],
                left=[True, *[False for _ in letters]],
                rows=[_row(figure) for figure in found.figures],
                styles=[_style(figure) for figure in found.figures],
            ),
            TextTable(
                title="Machines",
                headings=["group", "machine", "records", "processor", "kernel"],
                left=[True] * 5,
                rows=machines,
                closed=len(machines) > MOST_OPEN,
            ),
            TextTable(
                title="Not measured: --resume continues with these machines",
                headings=["machine", "why"],
                left=[True, True],
                rows=[[target, outcome.reason] for target, outcome in failed.items()],
                folds=(0, 1),
            ),
        ],
    )


def letter(number: int) -> str:
    """A, B … Z, A2, B2 …"""
    again, place = divmod(number, 26)
    return chr(ord("A") + place) + (str(again + 1) if again else "")


def _group(name: str, members: Sequence[FleetMachine]) -> str:
    """Who is in a group, and what they are: the most frequent first."""
    names = [one_line(machine.host.name) for machine in members]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    often = Counter(map(_model, members))
    models = "; ".join(
        f"{model} ({count})" if len(often) > 1 else model for model, count in often.most_common()
    )
    count = numbers.count(len(names), "machine")
    return f"{name}, {count}: {', '.join(names[:MOST_NAMES])}{more} ({models})"


def _model(machine: FleetMachine) -> str:
    return one_line(f"{machine.context.cpu_model}, {len(machine.context.cpus)} CPUs")


def _row(figure: GroupCost) -> list[str]:
    first = figure.values[0]
    ratios = [
        f" ({numbers.multiple(here / first)})" if here and first else "" for here in figure.values
    ]
    values = map(numbers.figure, figure.values)
    return [figure.words, *map("".join, zip(values, ["", *ratios[1:]], strict=True))]


def _ratio(figure: GroupCost, number: int) -> float:
    """By how much a group differs from the first, as a ratio of at least 1; 1 where either has no
    figure."""
    first, here = figure.values[0], figure.values[number]
    return max(first / here, here / first) if first and here else 1.0


def _style(figure: GroupCost) -> str:
    """By the group that differs most from the first."""
    number = max(range(len(figure.values)), key=lambda n: _ratio(figure, n))
    if _ratio(figure, number) < 1 + ALIKE:
        return ""
    return "bad" if figure.values[number] > figure.values[0] else "good"


def _apart(found: Groups, number: int) -> list[Sentence]:
    """What sets a group apart from the first one, the largest ratio first."""
    figures = sorted(found.figures, key=lambda figure: -_ratio(figure, number))[:MOST_FIGURES]
    lines = []
    for figure in figures:
        first, here, ratio = figure.values[0], figure.values[number], _ratio(figure, number)
        if ratio >= 1 + ALIKE:
            text = (
                f"  {numbers.multiple(ratio)} {'slower' if here > first else 'faster'} "
                f"than A: {figure.words}, {numbers.figure(here)} against {numbers.figure(first)} ns"
            )
            lines.append(sentence_as_written(text, [figure.words], "costs"))
    return lines

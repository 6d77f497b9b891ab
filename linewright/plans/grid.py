# SPDX-License-Identifier: MIT
"""Building blocks of plans over single-line forms: cells of a form, the published grid and how it
is thinned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from linewright.errors import UserError
from linewright.forms import Form
from linewright.plans.definition import Inputs
from linewright.plans.estimate import estimate_s, point_of
from linewright.schema import Cell, Plan, architecture_of
from linewright.target import Topology

CellsOf = Callable[[tuple[int, ...], tuple[int, ...]], Iterable[Cell]]
"""Makes the cells of some contender spacings and works."""

OPERATIONS = ("add", "fetch_add", "cmpxchg", "xchg", "read")
"""Operations on one line; forms of other operations belong to plans of their own."""

SPACINGS = (0, 1, 10, 100, 1000, 10_000, 1_000_000)
"""Iterations between a contender's operations: the published grid."""

WORKS = (0, 10, 20, 100, 200, 300)
"""Work iterations between the timed thread's operations: the published grid."""


class Step(NamedTuple):
    """One step of a ladder of plans, from rich to poor."""

    spacings: Sequence[int]
    works: Sequence[int]
    windows: int
    """Fewest windows of a cell in one launch."""
    launches: int


THINNED: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...] = (
    (SPACINGS, WORKS, 6),
    (SPACINGS, WORKS, 4),
    (SPACINGS, (0, 20, 100, 300), 4),
    ((0, 10, 100, 1000, 1_000_000), (0, 20, 100, 300), 4),
    ((0, 10, 1000, 1_000_000), (0, 20, 100, 300), 4),
    ((0, 10, 1000, 1_000_000), (0, 20, 300), 4),
    ((0, 10, 1000), (0, 20, 300), 4),
    ((0, 10, 1000), (0, 100), 3),
    ((0, 1000), (0, 100), 3),
    ((0,), (0, 100), 3),
)
"""Spacings, works and fewest windows, richest first. Thinning drops values of an axis for every
form alike, so that forms stay comparable cell by cell; the poorest steps drop its far end, too."""


CONTENDED = {"contender": "same_line", "threads": 2}
"""The fields of a cell with a second CPU on the line."""


def by_point(cells: Iterable[Cell]) -> list[Cell]:
    """The same cells with the forms of each point together: they share a block, so drift, and their
    baseline loops."""
    points: dict[tuple, list[Cell]] = {}
    for cell in cells:
        points.setdefault(point_of(cell), []).append(cell)
    return [cell for members in points.values() for cell in members]


def common(form: Form) -> dict:
    """The fields of a cell that a form decides."""
    fields = {"operation": form.operation, "form": form.name}
    return fields | {"width_bits": form.width_bits, "order": form.order}


def matrix(
    forms: Sequence[Form],
    works: Sequence[int],
    spacings: Sequence[int],
    values: Mapping[str, Any],
    single: str = "auto",
    double: str = "auto",
) -> Iterator[Cell]:
    """Every form alone, beside a placebo and contended on its line, at the same works and spacings.

    `values` holds ``lines``, ``contended_lines`` and ``threads``; `single` and `double` place one
    thread and several. Cells that differ in nothing but the form stand together: they share blocks,
    so drift, and their baseline loops. The empty loop is only run alone, and a form that loses
    counts when two threads share a line is not contended."""
    shared = [form for form in forms if form.operation != "none"]
    atomic = [form for form in shared if form.atomic]
    apart = {"lines": values["lines"], "placement": single}
    beside = apart | {"placement": double, "contender": "placebo", "threads": values["threads"]}
    against = beside | {"lines": values["contended_lines"], "contender": "same_line"}
    for work in works:
        yield from (Cell(**common(form), work_iters=work, **apart) for form in forms)
    for work in works:
        yield from (Cell(**common(form), work_iters=work, **beside) for form in shared)
    for spacing in spacings:
        for work in works:
            yield from (
                Cell(**common(form), work_iters=work, contender_iters=spacing, **against)
                for form in atomic
            )


def partner(topology: Topology, cpu: int) -> int | None:
    """The usable CPU nearest to one, its SMT sibling last; None where it is alone."""
    nearness = {"same_l3": 0, "other_l3": 1, "other_socket": 2, "smt_sibling": 3}
    pairs = (
        (nearness.get(kind, 4), list(map(int, pair.split(","))))
        for kind, of_kind in topology.pairs.items()
        for pair in of_kind
    )
    found = [(near, sum(pair) - cpu) for near, pair in pairs if cpu in pair]
    return min(found)[1] if found else None


FILL = 0.9
"""Share of the budget that the fewest windows may take; the rest goes to cells whose intervals are
still wide."""


def richest(inputs: Inputs, name: str, ladder: Iterable[Step], cells_of: CellsOf) -> Plan:
    """The first step of a ladder, richest first, that fits the budget, else the poorest.

    Spacings and works that the user set take the ladder's place. `cells_of` makes the cells of a
    step. UserError when nothing that was asked for exists."""
    values, chosen = inputs.values, None
    usual = 3 if architecture_of(inputs.topology.arch).far_atomics else 2
    line_windows = values["line_windows"] or usual
    for spacings, works, windows, launches in ladder:
        spacings = spacings if values["contender_iters"] is None else values["contender_iters"]
        works = works if values["work"] is None else values["work"]
        try:
            cells = inputs.keep(list(cells_of(tuple(spacings), tuple(works))))
        except UserError:
            if chosen:  # what is wanted occurs in richer steps alone
                break
            raise
        if not cells:
            asked, arch = ", ".join(values["operations"]), inputs.topology.arch
            raise UserError(f"the probe for {arch} has no form of {asked}", "--set operations")
        chosen = inputs.plan(
            name, cells, launches=launches, line_windows=line_windows, min_windows=windows
        )
        if estimate_s(chosen) <= FILL * inputs.budget_s:
            break
    assert chosen is not None  # no ladder is empty
    return chosen

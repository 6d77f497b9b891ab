# SPDX-License-Identifier: MIT
"""How long a plan takes: the windows it cannot do without, times their lengths, as the probe runs
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from linewright.schema import Cell, Plan, Situation

LAUNCH_S = 0.3
"""Starting a probe once: process, clock calibration, description of the machine."""
WINDOW_MS = 0.2
"""Around each window: threads started, pinned and collected."""
MOST_OF_A_BLOCK = 256
"""Cells whose memory the probe holds at a time."""


def least_windows(plan: Plan, cell: Cell) -> int:
    """Fewest windows of a cell in one launch: uncontended ones visit every line `line_windows`
    times."""
    lines = 1 if cell.situation.contended else cell.lines * plan.line_windows
    return min(plan.max_windows, max(plan.min_windows, lines))


def cell_s(plan: Plan, cell: Cell) -> float:
    """Shortest time of one cell in one launch, its share of the baseline loops left out.

    Beside each of its first windows run short ones for single operations and, back to back, for
    completion."""
    length_ms = plan.contended_window_ms if cell.situation.contended else plan.window_ms
    windows = least_windows(plan, cell)
    beside = min(plan.extra_windows, plan.min_windows, windows) * (1 if cell.work_iters else 3)
    return (windows * (length_ms + WINDOW_MS) + beside * (plan.window_ms + WINDOW_MS)) / 1e3


def baseline_loops_s(plan: Plan, block: Sequence[Cell]) -> float:
    """Time of a block's baseline loops: one window a round for each distinct loop around the
    operation."""
    rounds: dict[Situation, int] = {}
    for cell in block:
        loop = cell.situation.without("contender", "lines", "params")
        rounds[loop] = max(rounds.get(loop, 0), least_windows(plan, cell))
    return sum(rounds.values()) * (plan.window_ms + WINDOW_MS) / 1e3


def cells_s(plan: Plan, cells: Sequence[Cell]) -> float:
    """Shortest time of one launch of some cells, without starting it."""
    return sum(cell_s(plan, cell) for cell in cells) + sum(
        baseline_loops_s(plan, block) for block in blocks(plan, cells)
    )


def blocks(plan: Plan, cells: Sequence[Cell]) -> Iterator[Sequence[Cell]]:
    """Cells that the probe interleaves: about `block_cells`, and the forms of one point together,
    up to `MOST_OF_A_BLOCK`."""
    block: list[Cell] = []
    for _, members in groupby(cells, point_of):
        point = list(members)
        while point:
            if block and len(block) + len(point) > plan.block_cells:
                yield block
                block = []
            room = MOST_OF_A_BLOCK - len(block)
            block, point = block + point[:room], point[room:]
    if block:
        yield block


def point_of(cell: Cell) -> tuple:
    """What two forms of one point have in common: their situation but for the width, and the
    library's setting."""
    return cell.situation.without("width_bits"), cell.params.get("policy")


def estimate_s(plan: Plan) -> float:
    """Shortest time of the whole plan. A run lasts from this up to its budget, by how soon
    intervals are narrow."""
    return plan.launches * (LAUNCH_S + cells_s(plan, plan.cells))

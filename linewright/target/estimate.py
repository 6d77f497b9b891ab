"""How long a plan takes: the windows it cannot do without, times their lengths, as the probe runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linewright.schema import Cell, Plan

LAUNCH_S = 0.3
"""Starting a probe once: process, clock calibration, description of the machine."""
WINDOW_MS = 0.2
"""Around each window: threads started, pinned and collected."""


def is_contended(cell: Cell) -> bool:
    """Whether launches differ by luck of pages and placement, so that the cell is relaunched."""
    return cell.contender == "same_line"


def least_windows(plan: Plan, cell: Cell) -> int:
    """Fewest windows of a cell in one launch: uncontended ones visit every line `line_windows` times."""
    return min(plan.max_windows, max(plan.min_windows, 1 if is_contended(cell) else cell.lines * plan.line_windows))


def cell_s(plan: Plan, cell: Cell) -> float:
    """Shortest time of one cell in one launch, its share of the baseline loops left out.

    Beside each of its first windows run short ones for single operations and, back to back, for completion.
    """
    length_ms = plan.contended_window_ms if is_contended(cell) else plan.window_ms
    windows = least_windows(plan, cell)
    beside = min(plan.min_windows, windows) * (1 if cell.work_iters else 3)
    return (windows * (length_ms + WINDOW_MS) + beside * (plan.window_ms + WINDOW_MS)) / 1e3


def baselines_s(plan: Plan, block: Sequence[Cell]) -> float:
    """Time of a block's baseline loops: one window a round for each distinct loop around the operation."""
    rounds: dict[tuple, int] = {}
    for cell in block:
        loop = (cell.work_iters, cell.threads, cell.contender_iters, cell.placement, cell.width_bits)
        rounds[loop] = max(rounds.get(loop, 0), least_windows(plan, cell))
    return sum(rounds.values()) * (plan.window_ms + WINDOW_MS) / 1e3


def cells_s(plan: Plan, cells: Sequence[Cell]) -> float:
    """Shortest time of one launch of some cells, without starting it."""
    return sum(cell_s(plan, cell) for cell in cells) + sum(baselines_s(plan, block) for block in _blocks(plan, cells))


def _blocks(plan: Plan, cells: Sequence[Cell]) -> Iterator[Sequence[Cell]]:
    for start in range(0, len(cells), plan.block_cells):
        yield cells[start : start + plan.block_cells]


def launch_cells(plan: Plan, launch: int) -> list[Cell]:
    """What one launch runs: the first everything, later ones what differs from launch to launch."""
    return plan.cells if launch == 0 else [cell for cell in plan.cells if is_contended(cell)]


def launches_of(plan: Plan) -> int:
    """Launches that run anything."""
    return plan.launches if any(map(is_contended, plan.cells)) else 1


def estimate_s(plan: Plan) -> float:
    """Shortest time of the whole plan. A run lasts from this up to its budget, by how soon intervals are narrow."""
    launches = range(launches_of(plan))
    return sum(LAUNCH_S + cells_s(plan, launch_cells(plan, launch)) for launch in launches)

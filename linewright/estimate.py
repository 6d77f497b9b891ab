"""How long a plan takes: the windows it cannot do without, times their lengths."""

from __future__ import annotations

from collections.abc import Iterable

from linewright.schema import Cell, Plan

LAUNCH_S = 0.5
"""Starting a probe once: process, clock calibration, lines touched."""


def is_contended(cell: Cell) -> bool:
    """Whether launches differ by luck of pages and placement, so that the cell is relaunched."""
    return cell.contender == "same_line"


def cell_s(plan: Plan, cell: Cell) -> float:
    """Shortest time of one cell in one launch: its fewest windows, each with its empty twin."""
    if is_contended(cell):
        return plan.min_windows * (plan.contended_window_ms + plan.window_ms) / 1e3
    return max(plan.min_windows, cell.lines) * 2 * plan.window_ms / 1e3


def launch_cells(plan: Plan, launch: int) -> list[Cell]:
    """What one launch runs: the first everything, later ones what differs from launch to launch."""
    return plan.cells if launch == 0 else [cell for cell in plan.cells if is_contended(cell)]


def cells_s(plan: Plan, cells: Iterable[Cell]) -> float:
    """Shortest time of one launch of some cells, without starting it."""
    return sum(cell_s(plan, cell) for cell in cells)


def launches_of(plan: Plan) -> int:
    """Launches that run anything."""
    return plan.launches if any(map(is_contended, plan.cells)) else 1


def estimate_s(plan: Plan) -> float:
    """Shortest time of the whole plan. A run lasts from this up to its budget, by how soon intervals are narrow."""
    launches = range(launches_of(plan))
    return sum(LAUNCH_S + cells_s(plan, launch_cells(plan, launch)) for launch in launches)

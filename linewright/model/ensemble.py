"""A plan over the constants' uncertainty: draws of a machine, quantiles of each cell, and an ordering of its forms."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import groupby
from math import exp, log

import numpy as np
from msgspec import Struct

from linewright.model.machine_file import Constant, Machine, resolve
from linewright.model.simulator import Figures, Simulator
from linewright.schema import Cell, Plan
from linewright.target.programs import find_model

DRAWS = 20
"""Draws of a calibrated machine: enough for a 5th and a 95th percentile that mean something."""
BOUND_DRAWS = 60
"""Draws of a machine that is not calibrated: its bounds are the least and the greatest of them."""
AGREEMENT = 0.95
"""Share of the draws in which one form must be faster than another before the order of the two is stated."""


class Band(Struct, frozen=True):
    """One cell over the draws, in ns per operation."""

    low: float
    p05: float
    p50: float
    p95: float
    high: float
    modes: tuple[float, float] | None
    """Fastest and slowest mode over the draws in which the cell is metastable."""
    metastable_share: float


def draws(machine: Machine, count: int, seed: int = 1) -> list[dict[str, float]]:
    """Constants drawn from the machine's uncertainty.

    Those that a calibration fitted come together, as one draw of its posterior: often only their sum is known. Each
    other one is drawn log-uniformly from its own interval (uniformly where the interval reaches 0).
    """
    chance = random.Random(f"{machine.name}/{seed}")
    found = []
    for _ in range(count):
        draw = {name: _draw(constant, chance) for name, constant in machine.constants.items()}
        if machine.posterior:
            draw.update(chance.choice(machine.posterior))
        found.append(draw)
    return found


def _draw(constant: Constant, chance: random.Random) -> float:
    if constant.low <= 0:
        return chance.uniform(constant.low, constant.high)
    return exp(chance.uniform(log(constant.low), log(constant.high)))


def simulate(machine: Machine, plan: Plan, count: int, simulator: Simulator) -> list[list[Figures]]:
    """The plan's figures under each draw: one row a draw, one column a cell."""
    return [simulator.ask(resolve(machine, draw), plan) for draw in draws(machine, count, plan.seed)]


class Sweep(Struct, frozen=True):
    """A plan under many draws of a machine, wherever it is run; `published_harness` as for Simulator."""

    machine: Machine
    plan: Plan
    count: int
    published_harness: bool = False


SWEEP_WINDOWS, SWEEP_OPS = 4, 600
"""Windows of a contended cell and operations of a window under each draw: the spread over draws is wider than
theirs."""


def share(sweep: Sweep, first: int, step: int) -> list[list[Figures]]:
    """The rows of every `step`-th draw, by this machine's own linewright-model: what one process of a cluster does."""
    chosen = draws(sweep.machine, sweep.count, sweep.plan.seed)[first::step]
    options = {"windows": SWEEP_WINDOWS, "ops": SWEEP_OPS, "published_harness": sweep.published_harness}
    with Simulator(find_model(), **options) as simulator:
        return [simulator.ask(resolve(sweep.machine, draw), sweep.plan) for draw in chosen]


def run_sweep(sweep: Sweep, executor: Executor, parts: int) -> list[list[Figures]]:
    """All rows in the order of the draws, the same however many parts they are run in."""
    parts = min(parts, sweep.count)
    waiting = [executor.submit(share, sweep, first, parts) for first in range(parts)]
    rows: list[list[Figures]] = [[]] * sweep.count
    for first, future in enumerate(waiting):
        rows[first::parts] = future.result()
    return rows


def bands(rows: Sequence[Sequence[Figures]]) -> list[Band]:
    """The band of each cell."""
    return [_band([row[index] for row in rows]) for index in range(len(rows[0]))]


def _band(cells: Sequence[Figures]) -> Band:
    values = np.array([cell.p50 for cell in cells])
    metastable = [cell for cell in cells if cell.metastable]
    p05, p50, p95 = np.percentile(values, [5, 50, 95])
    modes = None
    if metastable:
        modes = (min(cell.modes[0][0] for cell in metastable), max(cell.modes[-1][0] for cell in metastable))
    return Band(
        low=float(min(cell.low for cell in cells)),
        p05=float(p05),
        p50=float(p50),
        p95=float(p95),
        high=float(max(cell.high for cell in cells)),
        modes=modes,
        metastable_share=len(metastable) / len(cells),
    )


def _point(cell: Cell) -> tuple:
    """What must agree for the forms of two cells to be compared."""
    return (cell.contender, cell.contender_iters, cell.work, cell.work_iters, cell.placement, cell.threads, cell.lines)


def orderings(plan: Plan, rows: Sequence[Sequence[Figures]]) -> list[tuple[Cell, list[list[str]]]]:
    """For each point of the plan, its forms in groups from fast to slow.

    Between two groups every form of the first is faster than every form of the second in `AGREEMENT` of the draws;
    within a group the constants do not decide.
    """
    indices = sorted(range(len(plan.cells)), key=lambda index: _point(plan.cells[index]))
    found = []
    for _, group in groupby(indices, key=lambda index: _point(plan.cells[index])):
        members = list(group)
        if len(members) > 1:
            found.append((plan.cells[members[0]], _ordered(plan, rows, members)))
    return found


def _ordered(plan: Plan, rows: Sequence[Sequence[Figures]], members: list[int]) -> list[list[str]]:
    values = {index: np.array([row[index].p50 for row in rows]) for index in members}
    ranked = sorted(members, key=lambda index: float(np.median(values[index])))
    groups = [[ranked[0]]]
    for position, index in enumerate(ranked[1:], start=1):
        faster = ranked[:position]
        slower = ranked[position:]
        if all((values[a] < values[b]).mean() >= AGREEMENT for a in faster for b in slower):
            groups.append([index])
        else:
            groups[-1].append(index)
    return [[plan.cells[index].form for index in group] for group in groups]

# SPDX-License-Identifier: MIT
"""A plan over the constants' uncertainty: draws of a machine, and quantiles of each cell."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import Executor
from math import exp, log

import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import with_model_error
from linewright.model import machine_file
from linewright.model.constants import DISTANCES, KINDS
from linewright.model.machine_file import Constant, Machine, resolve
from linewright.model.simulator import Figures, Simulator, find_model
from linewright.schema import Cell, Plan

DRAWS = 20
"""Draws of a calibrated machine: enough for a 5th and a 95th percentile that mean something."""
BOUND_DRAWS = 60
"""Draws of a machine that is not calibrated: its bounds are the least and the greatest of them."""


class Band(Struct, frozen=True):
    """One cell over the draws, in ns per operation."""

    low: float
    p05: float
    p50: float
    p95: float
    high: float


def draws(machine: Machine, count: int, seed: int = 1) -> list[dict[str, float]]:
    """Constants drawn from the machine's uncertainty.

    Those that a calibration fitted come together, as one draw of its posterior: often only their
    sum is known. Each other one is drawn log-uniformly from its own interval (uniformly where the
    interval reaches 0), and so is one that was edited since: the others keep what is believed of
    them, as in a machine that is rebuilt in that one respect."""
    chance = random.Random(f"{machine.name}/{seed}")
    own = set(machine_file.edited(machine))
    found = []
    for _ in range(count):
        # Not in the file's order, which an edited copy may not have kept.
        draw = {name: _draw(machine.constants[name], chance) for name in (*KINDS, *DISTANCES)}
        together = chance.choice(machine.posterior) if machine.posterior else {}
        found.append(draw | {k: value for k, value in together.items() if k not in own})
    return found


def _draw(constant: Constant, chance: random.Random) -> float:
    if constant.low <= 0:
        return chance.uniform(constant.low, constant.high)
    return exp(chance.uniform(log(constant.low), log(constant.high)))


def simulate(
    machine: Machine, plan: Plan, count: int, simulator: Simulator, first: int = 0, step: int = 1
) -> list[list[Figures]]:
    """The plan's figures under every `step`-th draw: one row a draw, one column a cell."""
    chosen = draws(machine, count, plan.seed)[first::step]
    return [simulator.ask(resolve(machine, draw), plan) for draw in chosen]


class Sweep(Struct, frozen=True):
    """A plan under many draws of a machine, wherever it is run; `published_harness` as for
    Simulator."""

    machine: Machine
    plan: Plan
    count: int
    published_harness: bool = False


SWEEP_WINDOWS, SWEEP_OPS = 4, 600
"""Windows of a contended cell and operations of a window under each draw: the spread over draws is
wider than theirs."""


def share(sweep: Sweep, first: int, step: int) -> list[list[Figures]]:
    """The rows of every `step`-th draw, by this machine's own linewright-model: what one process of
    a cluster does."""
    effort = {"windows": SWEEP_WINDOWS, "ops": SWEEP_OPS}
    with Simulator(find_model(), **effort, published_harness=sweep.published_harness) as simulator:
        return simulate(sweep.machine, sweep.plan, sweep.count, simulator, first, step)


def run_sweep(sweep: Sweep, executor: Executor, parts: int) -> list[list[Figures]]:
    """All rows in the order of the draws, the same however many parts they are run in."""
    parts = min(parts, sweep.count)
    waiting = [executor.submit(share, sweep, first, parts) for first in range(parts)]
    rows: list[list[Figures]] = [[]] * sweep.count
    for first, future in enumerate(waiting):
        rows[first::parts] = future.result()
    return rows


def error_kind(cell: Cell) -> str:
    """The form and the contention of a cell: what the model's own error is kept by."""
    return f"{cell.form}/{'same_line' if cell.situation.contended else 'none'}"


def misses_of(machine: Machine, cell: Cell) -> list[float]:
    """How far the model missed cells of this form and contention that no fit had seen. Empty where
    none was measured: another form's misses say nothing of this one."""
    return machine.misses.get(error_kind(cell), [])


def bands(
    rows: Sequence[Sequence[Figures]], misses: Sequence[Sequence[float]] | None = None
) -> list[Band]:
    """The band of each cell: over the draws, and as wide as the model's own misses make it."""
    misses = misses or [()] * len(rows[0])
    return [_band([row[index] for row in rows], own) for index, own in enumerate(misses)]


def _band(cells: Sequence[Figures], misses: Sequence[float]) -> Band:
    p05, p50, p95 = np.percentile(
        with_model_error([cell.p50 for cell in cells], misses), [5, 50, 95]
    )
    low, high = min(cell.low for cell in cells), max(cell.high for cell in cells)
    return Band(*map(float, (low, p05, p50, p95, high)))

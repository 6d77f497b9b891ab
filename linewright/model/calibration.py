# SPDX-License-Identifier: MIT
"""Calibration: constants fitted to observations on logarithmic error, what the data pin of them,
and cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from linewright.analysis.contrast import ENDS, ratios_of, with_model_error
from linewright.errors import UserError
from linewright.model import ensemble
from linewright.model.machine_file import Machine, parts, resolve
from linewright.model.observations import Observation
from linewright.model.simulator import Simulator
from linewright.schema import Cell, Plan

SIGMA = 0.015
"""Error of one cell, as a share: medians of a steady cell measured twice differ by about that
much."""
INTERVAL_SIGMAS = 3.29
"""Standard deviations from the middle to an end of a machine file's interval, which holds 90 % of
what is believed."""
PINNED = 0.5
"""A constant is pinned when the data make its standard deviation at most this share of what it was
before."""
TOGETHER = 0.8
"""Correlation from which two constants are said to be known together only."""
STEP = 0.03
"""Relative step of the derivatives: above the simulation's own noise, below the width of what
matters."""
POSTERIOR_DRAWS = 40
RESIDUAL_CUT = 2.0
"""In units of `SIGMA`: larger errors count less than their square (soft L1): one mechanism that is
missing moves no constant."""

Note = Callable[[str], None]


ENOUGH_EFFECTIVE = 100
"""Independent draws of every constant from which a 5th and a 95th percentile mean something."""

MOST_DRIFT = 0.35
"""Standard deviations between the means of a chain's halves from which it is still under way."""


class Chain(Struct, frozen=True, kw_only=True):
    """What a chain that ran over the posterior says; constants as in `Fit.names`."""

    walkers: int
    steps: int
    """Of each walker, its beginning left out."""
    accepted: float
    effective: list[float]
    """Of how many independent draws the chain is worth, by constant (its length over the
    autocorrelation time)."""
    drift: list[float]
    """By how many standard deviations the means of the chain's two halves differ, by constant."""
    low: list[float]
    """5th percentiles of the constants."""
    high: list[float]
    """95th percentiles."""
    draws: list[list[float]]
    """Logarithms of the constants taken together, evenly from the chain."""

    @property
    def settled(self) -> bool:
        """Whether the chain is long enough for its percentiles."""
        return min(self.effective) >= ENOUGH_EFFECTIVE and max(self.drift) <= MOST_DRIFT


class ConstantsFit(Struct, frozen=True, kw_only=True):
    """A fit's outcome; constants are handled as logarithms."""

    names: list[str]
    values: list[float]
    sigma_before: list[float]
    sigma_after: list[float]
    covariance: list[list[float]]
    evaluations: int
    scale: float = 1.0
    """How many times `SIGMA` the errors are taken to be: where the model misses by more, the
    posterior is as much wider."""
    sampled: Chain | None = None
    """The posterior as a chain found it; without one it is taken to be the Gaussian of `covariance`
    around the values."""

    @property
    def settled(self) -> Chain | None:
        """The chain, where it is long enough to stand for the posterior."""
        return self.sampled if self.sampled and self.sampled.settled else None

    def pinned(self) -> list[str]:
        """Names of the constants that the data pin each by itself."""
        pairs = zip(self.names, self.sigma_before, self.sigma_after, strict=True)
        return [name for name, before, after in pairs if after <= PINNED * before]


class HeldOut(Struct, frozen=True, kw_only=True):
    """What a machine says of steady cells that its constants were not fitted to."""

    left_out: str
    cells: list[Cell]
    misses: list[float]
    """Logarithms of simulated over measured, by cell."""
    draws: list[list[float]]
    """The same under draws of the constants."""

    @property
    def errors(self) -> list[float]:
        """Signed relative errors."""
        return np.expm1(self.misses).tolist()


def plan_of(observations: Sequence[Observation]) -> Plan:
    """The plan that simulates every observation's cell."""
    cells = [observation.cell for observation in observations]
    return Plan(linewright_plan=2, name="calibration", cells=cells)


def obstacles(
    machine: Machine, observations: Sequence[Observation], simulator: Simulator
) -> list[str]:
    """Why an observation has no one figure to fit: ``unsteady`` when measured, ``metastable`` or
    ``starved`` in the model; empty where it has."""
    answers = []
    figures = simulator.ask(resolve(machine), plan_of(observations))
    for observation, figure in zip(observations, figures, strict=True):
        in_model = "metastable" if figure.metastable else "starved" * figure.starved
        answers.append("unsteady" if observation.unsteady else in_model)
    return answers


class Problem:
    """Residuals of a machine against observations, as functions of the logarithms of some
    constants."""

    def __init__(
        self, machine: Machine, observations: Sequence[Observation], simulator: Simulator
    ) -> None:
        self.machine, self.simulator = machine, simulator
        self.plan = plan_of(observations)
        self.target = np.log([observation.ns for observation in observations])
        self.evaluations = 0
        free = {
            name: c
            for name, c in machine.constants.items()
            if 0 < c.low * (1 + STEP) < c.high and c.provenance != "measured"
        }
        self.names, constants = list(free), list(free.values())
        self.low = np.log([constant.low for constant in constants])
        self.high = np.log([constant.high for constant in constants])
        self.start = np.log([constant.value for constant in constants])
        self.sigma = (self.high - self.low) / INTERVAL_SIGMAS

    def keep(self, chosen: np.ndarray) -> None:
        """Go on with some of the constants only."""
        self.names = [name for name, wanted in zip(self.names, chosen, strict=True) if wanted]
        for field in ("low", "high", "start", "sigma"):
            setattr(self, field, getattr(self, field)[chosen])

    def errors(self, theta: np.ndarray) -> np.ndarray:
        """Logarithm of simulated over observed, by cell."""
        self.evaluations += 1
        values = dict(zip(self.names, np.exp(theta).tolist(), strict=True))
        figures = self.simulator.ask(resolve(self.machine, values), self.plan)
        return np.log([figure.p50 for figure in figures]) - self.target

    def jacobian(self, theta: np.ndarray) -> np.ndarray:
        """Derivatives of the errors, one column a constant, by steps away from the nearer bound."""
        base = self.errors(theta)
        columns = []
        for index in range(len(theta)):
            step = STEP if theta[index] + STEP <= self.high[index] else -STEP
            moved = theta.copy()
            moved[index] += step
            columns.append((self.errors(moved) - base) / step)
        return np.array(columns).T


def fit(
    machine: Machine,
    observations: Sequence[Observation],
    simulator: Simulator,
    note: Note,
    most: int = 16,
) -> ConstantsFit:
    """Least squares on logarithmic error, the machine file's intervals as what is believed before.

    UserError when there are fewer observations than a fit needs.
    """
    from scipy.optimize import least_squares  # heavy: `linewright --help` must stay quick

    if len(observations) < 4:
        found = f"{len(observations)} steady cells"
        raise UserError(found, "model calibrate", "at least 4 are needed")
    problem = Problem(machine, observations, simulator)
    influence = np.abs(problem.jacobian(problem.start) * problem.sigma)
    problem.keep(influence.max(axis=0) > SIGMA / 2)
    moving = f"{len(problem.names)} constants move these {len(observations)} cells"
    note(f"{moving}: {', '.join(problem.names)}")

    def residuals(theta: np.ndarray) -> np.ndarray:
        prior = (theta - problem.start) / problem.sigma
        return np.concatenate([problem.errors(theta) / SIGMA, prior])

    def derivatives(theta: np.ndarray) -> np.ndarray:
        median = 100 * float(np.median(np.abs(np.expm1(problem.errors(theta)))))
        note(f"{problem.evaluations} simulations, median error {median:.1f} %")
        return np.vstack([problem.jacobian(theta) / SIGMA, np.diag(1 / problem.sigma)])

    found = least_squares(
        residuals,
        np.clip(problem.start, problem.low + 1e-9, problem.high - 1e-9),
        jac=derivatives,
        bounds=(problem.low, problem.high),
        loss="soft_l1",
        f_scale=RESIDUAL_CUT,
        x_scale=problem.sigma,
        max_nfev=most,
        ftol=1e-3,
        xtol=1e-3,
    )
    return _outcome(problem, found.x)


def _outcome(problem: Problem, theta: np.ndarray) -> ConstantsFit:
    errors = problem.errors(theta)
    jacobian = problem.jacobian(theta)
    # Where the model misses by more than SIGMA, the posterior is as much wider.
    scale = max(1.0, float(np.median(np.abs(errors))) / (0.6745 * SIGMA))
    precision = jacobian.T @ jacobian / (SIGMA * scale) ** 2 + np.diag(1 / problem.sigma**2)
    covariance = np.linalg.inv(precision)
    return ConstantsFit(
        names=problem.names,
        values=np.exp(theta).tolist(),
        sigma_before=problem.sigma.tolist(),
        sigma_after=np.sqrt(np.diag(covariance)).tolist(),
        covariance=covariance.tolist(),
        evaluations=problem.evaluations,
        scale=scale,
    )


def soft_l1(residuals: np.ndarray) -> float:
    """The sum that the fit makes least: squares, and beyond RESIDUAL_CUT less than squares (SciPy's
    soft_l1)."""
    return float(2 * RESIDUAL_CUT**2 * (np.sqrt(1 + (residuals / RESIDUAL_CUT) ** 2) - 1).sum())


def correlated(fit: ConstantsFit) -> list[tuple[str, str, float]]:
    """Pairs of constants that the data know together rather than each: their names, and their
    correlation in the posterior."""
    correlation = np.array(fit.covariance) / np.outer(fit.sigma_after, fit.sigma_after)
    above = np.argwhere(np.abs(np.triu(correlation, 1)) >= TOGETHER)
    return [(fit.names[a], fit.names[b], float(correlation[a, b])) for a, b in above]


def posterior(fit: ConstantsFit, machine: Machine) -> list[dict[str, float]]:
    """Draws of the fitted constants together, kept within the machine file's intervals: the
    chain's, or of the Gaussian."""
    if chain := fit.settled:
        thetas = np.array(chain.draws)
    else:
        chance = np.random.default_rng(1)
        middle = np.log(fit.values)
        thetas = chance.multivariate_normal(middle, fit.covariance, size=POSTERIOR_DRAWS)
    bounds = [(machine.constants[name].low, machine.constants[name].high) for name in fit.names]
    values = np.clip(np.exp(thetas), *np.transpose(bounds)).tolist()
    return [dict(zip(fit.names, row, strict=True)) for row in values]


def intervals(fit: ConstantsFit) -> tuple[list[float], list[float]]:
    """Lower and upper ends of the constants' 90 % intervals; the fit's own values lie within
    them."""
    if chain := fit.settled:
        low, high = np.array(chain.low), np.array(chain.high)
    else:
        half = np.exp(INTERVAL_SIGMAS / 2 * np.array(fit.sigma_after))
        low, high = np.array(fit.values) / half, np.array(fit.values) * half
    return np.minimum(low, fit.values).tolist(), np.maximum(high, fit.values).tolist()


def fitted(
    machine: Machine, fit: ConstantsFit, used: Sequence[Observation], source: str, calibration: str
) -> Machine:
    """The machine with the fit's values. A constant that the data do not pin keeps its provenance
    and its interval."""
    pinned = set(fit.pinned())
    constants = dict(machine.constants)
    for name, value, low, high in zip(fit.names, fit.values, *intervals(fit), strict=True):
        before = constants[name]
        value, low, high = np.clip([value, low, high], before.low, before.high).tolist()
        changes = {"value": value}
        if name in pinned:
            changes |= {"low": low, "high": high}
            changes |= {"provenance": "fitted", "source": "calibration"}
        constants[name] = msgspec.structs.replace(before, **changes)
    result = msgspec.structs.replace(
        machine,
        calibrated=True,
        calibration=calibration,
        calibrated_on=[observation.cell.id for observation in used],
        sources=machine.sources | {"calibration": source},
        constants=constants,
        posterior=posterior(fit, machine),
    )
    return msgspec.structs.replace(result, fitted_to=parts(result))


def fold(
    machine: Machine,
    observations: Sequence[Observation],
    steady: Sequence[bool],
    key: str,
    value: object,
    program: Path,
) -> HeldOut:
    """Fit without the cells whose `key` is `value`, and say what that fit makes of them."""
    good = [o for o, usable in zip(observations, steady, strict=True) if usable]
    kept = [o for o in good if getattr(o.cell, key) != value]
    with Simulator(program, windows=2, ops=400) as simulator:
        found = fit(machine, kept, simulator, lambda text: None, most=8)
        machine = fitted(machine, found, kept, "", "")
        return unseen(machine, [o for o in good if o not in kept], f"{key}={value}", simulator)


def unseen(
    machine: Machine, observations: Sequence[Observation], left_out: str, simulator: Simulator
) -> HeldOut:
    """What a machine says of cells that its constants were not fitted to."""
    plan = plan_of(observations)
    drawn = ensemble.simulate(machine, plan, ensemble.DRAWS, simulator)
    rows = [simulator.ask(resolve(machine), plan), *drawn]
    logs = np.log([[figure.p50 for figure in row] for row in rows])
    logs -= np.log([o.ns for o in observations])
    misses, draws = logs[0].tolist(), logs[1:].T.tolist()
    return HeldOut(left_out=left_out, cells=plan.cells, misses=misses, draws=draws)


def misses(folds: Sequence[HeldOut], but: Sequence[Cell] = ()) -> dict[str, list[float]]:
    """Every miss of the folds by form and contention, those of some cells left out."""
    found: dict[str, list[float]] = {}
    for cell, miss in ((c, m) for f in folds for c, m in zip(f.cells, f.misses, strict=True)):
        if cell not in but:
            found.setdefault(ensemble.error_kind(cell), []).append(miss)
    return found


class Coverage(NamedTuple):
    """How many measurements of unseen cells their bands hold."""

    alone: int
    """Bands over draws of the constants alone."""
    wide: int
    """Bands that are as wide as the misses of all other cells make them."""
    of: int


def coverage(machine: Machine, folds: Sequence[HeldOut]) -> Coverage:
    """That of the figures: issue intervals."""
    figures = [(cell, draws) for f in folds for cell, draws in zip(f.cells, f.draws, strict=True)]
    return _covered([_held(machine, folds, [figure]) for figure in figures])


def ratio_coverage(machine: Machine, folds: Sequence[HeldOut]) -> Coverage:
    """That of the ratios of every two cells of one situation that one fit had not seen."""
    pairs = [
        pair
        for fold in folds
        for pair in combinations(zip(fold.cells, fold.draws, strict=True), 2)
        if pair[0][0].situation == pair[1][0].situation
    ]
    return _covered([_held(machine, folds, pair) for pair in pairs])


def _covered(held: Sequence[tuple[bool, bool]]) -> Coverage:
    alone, wide = (sum(column) for column in zip(*held, strict=True)) if held else (0, 0)
    return Coverage(alone, wide, len(held))


def _held(
    machine: Machine, folds: Sequence[HeldOut], figures: Sequence[tuple[Cell, list[float]]]
) -> tuple[bool, bool]:
    """Whether the band of one figure over its measurement, or of two figures' ratio over the
    measured one, holds 1: of the constants alone, and with the misses of all other cells."""
    others = msgspec.structs.replace(machine, misses=misses(folds, [cell for cell, _ in figures]))
    answers = []
    for widened in (False, True):
        sides = [
            with_model_error(np.exp(draws), ensemble.misses_of(others, cell) if widened else [])
            for cell, draws in figures
        ]
        values = ratios_of(*sides) if len(sides) == 2 else sides[0]
        low, high = np.percentile(values, ENDS)
        answers.append(bool(low <= 1 <= high))
    return answers[0], answers[1]


def fold_keys(
    observations: Sequence[Observation], steady: Sequence[bool]
) -> list[tuple[str, object]]:
    """What is left out in turn: every work length and every form that leaves enough cells for a
    fit."""
    good = [o for o, usable in zip(observations, steady, strict=True) if usable]
    return [
        (key, value)
        for key in ("work_iters", "form")
        for value in sorted({getattr(o.cell, key) for o in good})
        if sum(getattr(o.cell, key) != value for o in good) >= 8
    ]

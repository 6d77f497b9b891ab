"""Calibration: constants fitted to observations on logarithmic error, what the data pin of them, and
cross-validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from linewright.errors import UserError
from linewright.model.constants import DISTANCES, KINDS
from linewright.model.machine_file import Constant, Machine, resolve
from linewright.model.observations import Observation
from linewright.model.simulator import Figures, Simulator
from linewright.schema import Plan

SIGMA = 0.015
"""Error of one cell, as a share: medians of a steady cell measured twice differ by about that much."""
INTERVAL_SIGMAS = 3.29
"""Standard deviations from the middle to an end of a machine file's interval, which holds 90 % of what is believed."""
PINNED = 0.5
"""A constant is pinned when the data make its standard deviation at most this share of what it was before."""
STEP = 0.03
"""Relative step of the derivatives: above the simulation's own noise, below the width of what matters."""
POSTERIOR_DRAWS = 40
RESIDUAL_CUT = 2.0
"""In units of `SIGMA`: larger errors count less than their square (soft L1): one mechanism that is missing moves no
constant."""

Note = Callable[[str], None]


ENOUGH_EFFECTIVE = 100
"""Independent draws of every constant from which a 5th and a 95th percentile mean something."""

MOST_DRIFT = 0.35
"""Standard deviations between the means of a chain's halves from which it is still under way."""


class Sampled(Struct, frozen=True, kw_only=True):
    """What a chain that ran over the posterior says; constants as in `Fit.names`."""

    walkers: int
    steps: int
    """Of each walker, its beginning left out."""
    accepted: float
    effective: list[float]
    """Of how many independent draws the chain is worth, by constant (its length over the autocorrelation time)."""
    drift: list[float]
    """By how many standard deviations the means of the chain's two halves differ, by constant."""
    low: list[float]
    """5th percentiles of the constants."""
    high: list[float]
    """95th percentiles."""
    mean: list[float]
    """Means of the logarithms."""
    draws: list[list[float]]
    """Logarithms of the constants taken together, evenly from the chain."""

    @property
    def settled(self) -> bool:
        """Whether the chain is long enough for its percentiles."""
        return min(self.effective) >= ENOUGH_EFFECTIVE and max(self.drift) <= MOST_DRIFT


class Fit(Struct, frozen=True, kw_only=True):
    """A fit's outcome; constants are handled as logarithms."""

    names: list[str]
    values: list[float]
    sigma_before: list[float]
    sigma_after: list[float]
    covariance: list[list[float]]
    evaluations: int
    scale: float = 1.0
    """How many times `SIGMA` the errors are taken to be: where the model misses by more, the posterior is as much
    wider."""
    sampled: Sampled | None = None
    """The posterior as a chain found it; without one it is taken to be the Gaussian of `covariance` around the
    values."""

    def draw(self) -> dict[str, float]:
        """The fitted constants by name."""
        return dict(zip(self.names, self.values, strict=True))

    def pinned(self) -> list[str]:
        """Names of the constants that the data pin each by itself."""
        pairs = zip(self.names, self.sigma_before, self.sigma_after, strict=True)
        return [name for name, before, after in pairs if after <= PINNED * before]


class Fold(Struct, frozen=True, kw_only=True):
    """What a fit without some cells says of these cells."""

    left_out: str
    errors: list[float]
    """Signed relative errors of the steady cells that were left out."""


def plan_of(observations: Sequence[Observation]) -> Plan:
    """The plan that simulates every observation's cell."""
    return Plan(linewright_plan=2, name="calibration", cells=[observation.cell for observation in observations])


def obstacles(machine: Machine, observations: Sequence[Observation], simulator: Simulator) -> list[str]:
    """Why an observation has no one figure to fit; empty where it has: measured steady, one mode in the model, no
    starving."""
    figures = simulator.ask(resolve(machine), plan_of(observations))
    return [_obstacle(observation, figure) for observation, figure in zip(observations, figures, strict=True)]


def _obstacle(observation: Observation, figure: Figures) -> str:
    if observation.unsteady:
        return "varies when measured"
    if figure.metastable:
        return "metastable in the model"
    return "a thread starves in the model" if figure.starved else ""


class Problem:
    """Residuals of a machine against observations, as functions of the logarithms of some constants."""

    def __init__(self, machine: Machine, observations: Sequence[Observation], simulator: Simulator) -> None:
        self.machine, self.simulator = machine, simulator
        self.plan = plan_of(observations)
        self.target = np.log([observation.ns for observation in observations])
        self.evaluations = 0
        self.names = [name for name, constant in machine.constants.items() if _free(constant)]
        constants = [machine.constants[name] for name in self.names]
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


def _free(constant: Constant) -> bool:
    return constant.low > 0 and constant.high > constant.low * (1 + STEP) and constant.provenance != "measured"


def fit(machine: Machine, observations: Sequence[Observation], simulator: Simulator, note: Note, most: int = 16) -> Fit:
    """Least squares on logarithmic error, the machine file's intervals as what is believed before.

    UserError when there are fewer observations than a fit needs.
    """
    from scipy.optimize import least_squares  # heavy: `linewright --help` must stay quick

    if len(observations) < 4:
        raise UserError(f"{len(observations)} steady cells", "calibrate", "at least 4 are needed")
    problem = Problem(machine, observations, simulator)
    influence = np.abs(problem.jacobian(problem.start) * problem.sigma)
    problem.keep(influence.max(axis=0) > SIGMA / 2)
    note(f"{len(problem.names)} constants move these {len(observations)} cells: {', '.join(problem.names)}")

    def residuals(theta: np.ndarray) -> np.ndarray:
        return np.concatenate([problem.errors(theta) / SIGMA, (theta - problem.start) / problem.sigma])

    def derivatives(theta: np.ndarray) -> np.ndarray:
        note(f"{problem.evaluations} simulations, median error {_median_percent(problem.errors(theta)):.1f} %")
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


def _median_percent(errors: np.ndarray) -> float:
    return 100 * float(np.median(np.abs(np.expm1(errors))))


def _outcome(problem: Problem, theta: np.ndarray) -> Fit:
    errors = problem.errors(theta)
    jacobian = problem.jacobian(theta)
    # Where the model misses by more than SIGMA, the posterior is as much wider.
    scale = max(1.0, float(np.median(np.abs(errors))) / (0.6745 * SIGMA))
    precision = jacobian.T @ jacobian / (SIGMA * scale) ** 2 + np.diag(1 / problem.sigma**2)
    covariance = np.linalg.inv(precision)
    return Fit(
        names=problem.names,
        values=np.exp(theta).tolist(),
        sigma_before=problem.sigma.tolist(),
        sigma_after=np.sqrt(np.diag(covariance)).tolist(),
        covariance=covariance.tolist(),
        evaluations=problem.evaluations,
        scale=scale,
    )


def soft(residuals: np.ndarray) -> float:
    """The sum that the fit makes least: squares, and beyond RESIDUAL_CUT less than squares (SciPy's soft_l1)."""
    return float(2 * RESIDUAL_CUT**2 * (np.sqrt(1 + (residuals / RESIDUAL_CUT) ** 2) - 1).sum())


def known_sums(fit: Fit) -> list[tuple[list[str], float, float]]:
    """Groups of constants of which only the sum is known: names, the sum in ns, its standard deviation.

    Begins with each constant that is not pinned and adds, as long as that helps, the constant that narrows the sum most
    compared with what independent members would have. Stated when the sum is known at least twice as well as that.
    """
    covariance, values = np.array(fit.covariance), np.array(fit.values)
    absolute = covariance * np.outer(values, values)
    pinned = set(fit.pinned())
    times = [index for index, name in enumerate(fit.names) if KINDS.get(name, DISTANCES.get(name)).unit == "ns"]

    def narrowing(members: list[int]) -> float:
        together = float(absolute[np.ix_(members, members)].sum())
        return math.sqrt(max(together, 0.0) / float(np.diag(absolute)[members].sum()))

    found: dict[frozenset[int], None] = {}
    for first in (index for index in times if fit.names[index] not in pinned):
        members = [first]
        while len(members) < len(times):
            best = min((narrowing([*members, index]), index) for index in times if index not in members)
            if best[0] >= 0.9 * narrowing(members):
                break
            members.append(best[1])
        if len(members) > 1 and narrowing(members) <= 0.5:
            found[frozenset(members)] = None
    sums = []
    for group in found:
        members = sorted(group)
        spread = math.sqrt(max(0.0, float(absolute[np.ix_(members, members)].sum())))
        sums.append(([fit.names[index] for index in members], float(values[members].sum()), spread))
    return sorted(sums)


def posterior(fit: Fit, machine: Machine, count: int = POSTERIOR_DRAWS) -> list[dict[str, float]]:
    """Draws of the fitted constants together, kept within the machine file's intervals: the chain's, or of the
    Gaussian."""
    if fit.sampled is not None and fit.sampled.settled:
        thetas = np.array(fit.sampled.draws)
    else:
        chance = np.random.default_rng(1)
        thetas = chance.multivariate_normal(np.log(fit.values), np.array(fit.covariance), size=count)
    draws = []
    for theta in thetas:
        draw = dict(zip(fit.names, np.exp(theta).tolist(), strict=True))
        draws.append({name: _within(value, machine.constants[name]) for name, value in draw.items()})
    return draws


def intervals(fit: Fit) -> tuple[list[float], list[float]]:
    """Lower and upper ends of the constants' 90 % intervals; the fit's own values lie within them."""
    if fit.sampled is not None and fit.sampled.settled:
        low, high = np.array(fit.sampled.low), np.array(fit.sampled.high)
    else:
        half = np.exp(INTERVAL_SIGMAS / 2 * np.array(fit.sigma_after))
        low, high = np.array(fit.values) / half, np.array(fit.values) * half
    return np.minimum(low, fit.values).tolist(), np.maximum(high, fit.values).tolist()


def _within(value: float, constant: Constant) -> float:
    return min(max(value, constant.low), constant.high)


def fitted(machine: Machine, fit: Fit, used: Sequence[Observation], source: str, calibration: str) -> Machine:
    """The machine with the fit's values. A constant that the data do not pin keeps its provenance and its interval."""
    pinned = set(fit.pinned())
    constants = dict(machine.constants)
    for name, value, low, high in zip(fit.names, fit.values, *intervals(fit), strict=True):
        before = constants[name]
        value = _within(value, before)
        if name not in pinned:
            constants[name] = msgspec.structs.replace(before, value=value)
            continue
        constants[name] = Constant(
            value=value,
            low=_within(low, before),
            high=_within(high, before),
            unit=before.unit,
            provenance="fitted",
            source="calibration",
        )
    return msgspec.structs.replace(
        machine,
        calibrated=True,
        calibration=calibration,
        calibrated_on=[observation.cell.id for observation in used],
        sources=machine.sources | {"calibration": source},
        constants=constants,
        posterior=posterior(fit, machine),
    )


def fold(
    machine: Machine,
    observations: Sequence[Observation],
    steady: Sequence[bool],
    key: str,
    value: object,
    program: Path,
) -> Fold:
    """Fit without the cells whose `key` is `value`, and say what that fit makes of them."""

    def left_out(observation: Observation) -> bool:
        return getattr(observation.cell, key) == value

    pairs = list(zip(observations, steady, strict=True))
    kept = [o for o, good in pairs if good and not left_out(o)]
    asked = [o for o, good in pairs if good and left_out(o)]
    with Simulator(program, windows=2, ops=400) as simulator:
        found = fit(machine, kept, simulator, lambda text: None, most=8)
        figures = simulator.ask(resolve(machine, found.draw()), plan_of(asked))
    errors = [figure.p50 / o.ns - 1 for figure, o in zip(figures, asked, strict=True)]
    return Fold(left_out=f"{key}={value}", errors=errors)


def fold_keys(observations: Sequence[Observation], steady: Sequence[bool]) -> list[tuple[str, object]]:
    """What is left out in turn: every work length and every form that leaves enough cells for a fit."""
    good = [o for o, usable in zip(observations, steady, strict=True) if usable]
    keys = []
    for key in ("work_iters", "form"):
        for value in sorted({getattr(o.cell, key) for o in good}):
            if sum(getattr(o.cell, key) != value for o in good) >= 8:
                keys.append((key, value))
    return keys


def compare(machine: Machine, observations: Sequence[Observation], simulator: Simulator) -> list[Figures]:
    """What the machine's values make of every observation."""
    return simulator.ask(resolve(machine), plan_of(observations))

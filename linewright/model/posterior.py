# SPDX-License-Identifier: MIT
"""The posterior of a fit's constants, sampled with the model itself: their intervals, and draws of
them taken together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor

import msgspec
import numpy as np

from linewright.model.calibration import (
    POSTERIOR_DRAWS,
    SIGMA,
    Chain,
    ConstantsFit,
    Note,
    Problem,
    soft_l1,
)
from linewright.model.machine_file import Machine
from linewright.model.observations import Observation
from linewright.model.simulator import Simulator, find_model

DROPPED = 0.4
"""Share of a walker's steps that are its beginning, and forgotten."""
WALKERS = 2.5
"""Walkers for each constant: differential evolution needs more than two."""
START_WIDTH = 0.3
"""Walkers begin around the fit, this share of the Gaussian's width away: outwards is quicker found
than inwards."""
WINDOWS, OPS = 1, 400
"""Windows of a contended cell and operations of a window in each evaluation: there are thousands of
them, and what a short window adds is less than `SIGMA`."""


def densities(
    fit: ConstantsFit, machine: Machine, used: Sequence[Observation], thetas: np.ndarray
) -> list[float]:
    """Logarithm of the posterior for rows of logarithms of the constants, by this machine's own
    linewright-model.

    The posterior is that of `fit`: errors of SIGMA * scale with its soft loss, the machine file's
    intervals as what is believed before and as bounds."""
    with Simulator(find_model(), windows=WINDOWS, ops=OPS) as simulator:
        problem = Problem(machine, used, simulator)
        problem.keep(np.isin(problem.names, fit.names))
        return [_density(problem, SIGMA * fit.scale, theta) for theta in thetas]


def _density(problem: Problem, scale: float, theta: np.ndarray) -> float:
    if (theta < problem.low).any() or (theta > problem.high).any():
        return -math.inf
    prior = (theta - problem.start) / problem.sigma
    return -0.5 * soft_l1(np.concatenate([problem.errors(theta) / scale, prior]))


def sample(
    fit: ConstantsFit,
    machine: Machine,
    used: Sequence[Observation],
    executor: Executor,
    parts: int,
    note: Note,
    steps: int,
) -> ConstantsFit:
    """The fit with the posterior's draws in place of the Gaussian's covariance.

    Differential evolution over an ensemble of walkers (emcee), with errors that are simulated and
    not linearised. Half of the walkers move at a time; they are simulated in `parts` parts at once.
    """
    bare = msgspec.structs.replace(fit, covariance=[])

    def density(thetas: np.ndarray) -> np.ndarray:
        waiting = [
            executor.submit(densities, bare, machine, used, thetas[first::parts])
            for first in range(parts)
        ]
        values = np.empty(len(thetas))
        for first, future in enumerate(waiting):
            values[first::parts] = future.result()
        return values

    free = [machine.constants[name] for name in fit.names]
    bounds = np.log([c.low for c in free]), np.log([c.high for c in free])
    centre, covariance = np.log(fit.values), np.array(fit.covariance)
    return with_chain(fit, *walk(density, centre, covariance, bounds, steps, note))


def walk(
    density,
    centre: np.ndarray,
    covariance: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    steps: int,
    note: Note,
) -> tuple[np.ndarray, float]:
    """The walkers' ways without their beginnings (steps, walkers, constants), and the share of
    accepted steps."""
    import emcee  # heavy: only a calibration needs it

    walkers = 2 * math.ceil(WALKERS / 2 * len(centre) + 1)
    chance = np.random.RandomState(2)
    away = chance.multivariate_normal(np.zeros(len(centre)), covariance, walkers) * START_WIDTH
    margin = 1e-6
    inside = margin * chance.rand(2, walkers, 1)
    begin = np.clip(centre + away, bounds[0] + inside[0], bounds[1] - inside[1])
    kinds = emcee.moves.DEMove(), emcee.moves.DESnookerMove(), emcee.moves.StretchMove()
    moves = list(zip(kinds, (0.8, 0.1, 0.1), strict=True))
    sampler = emcee.EnsembleSampler(walkers, len(centre), density, vectorize=True, moves=moves)
    state = emcee.State(begin, random_state=chance.get_state())
    walking = sampler.sample(state, iterations=steps, skip_initial_state_check=True)
    for step, _ in enumerate(walking, start=1):
        if step % max(steps // 10, 1) == 0:
            note(f"posterior: {step} of {steps} steps of {walkers} walkers")
    accepted = float(np.mean(sampler.acceptance_fraction))
    return sampler.get_chain(discard=int(DROPPED * steps)), accepted


def with_chain(fit: ConstantsFit, chain: np.ndarray, accepted: float) -> ConstantsFit:
    """The fit with what a chain says of its constants; nothing that a chain too short says makes
    them better known."""
    import emcee

    steps, walkers, _ = chain.shape
    with np.errstate(invalid="ignore"):  # a constant that never moved is worth no draw
        times = emcee.autocorr.integrated_time(chain, quiet=True)
    effective = steps * walkers / np.maximum(np.nan_to_num(times, nan=np.inf), 1)
    flat = chain.reshape(steps * walkers, -1)
    low, high = np.percentile(flat, [5, 95], axis=0)
    covariance = np.atleast_2d(np.cov(flat.T))
    sigma = np.sqrt(np.diag(covariance))
    halves = chain[: steps // 2].mean(axis=(0, 1)), chain[steps // 2 :].mean(axis=(0, 1))
    sampled = Chain(
        walkers=walkers,
        steps=steps,
        accepted=accepted,
        effective=effective.tolist(),
        drift=(np.abs(halves[1] - halves[0]) / np.maximum(sigma, 1e-12)).tolist(),
        low=np.exp(low).tolist(),
        high=np.exp(high).tolist(),
        draws=flat[np.linspace(0, len(flat) - 1, POSTERIOR_DRAWS).round().astype(int)].tolist(),
    )
    if not sampled.settled:
        return msgspec.structs.replace(fit, sampled=sampled)
    return msgspec.structs.replace(
        fit, covariance=covariance.tolist(), sigma_after=sigma.tolist(), sampled=sampled
    )

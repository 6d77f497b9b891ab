# SPDX-License-Identifier: MIT
"""What a calibration came to, in sentences and one table: errors by kind of cell, constants pinned,
cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from linewright.model.calibration import (
    ConstantsFit,
    HeldOut,
    correlated,
    coverage,
    ratio_coverage,
)
from linewright.model.machine_file import Machine
from linewright.model.observations import Observation
from linewright.model.simulator import Figures


def _verdict(observation: Observation, figure: Figures, reason: str) -> str:
    said = _NOT_FITTED.get(reason, "")
    if reason in ("", "not_asked"):
        return said
    modes = [ns for ns, _ in figure.modes]
    if modes and modes[0] <= observation.ns <= modes[-1]:
        return f"{said}; bracketed by its modes, {modes[0]:.3g} and {modes[-1]:.3g} ns"
    several = f"; modes {modes[0]:.3g} and {modes[-1]:.3g} ns" if figure.metastable else ""
    return f"{said}{several}: not explained"


def lines(
    machine: Machine,
    observations: Sequence[Observation],
    reasons: Sequence[str],
    figures: Sequence[Figures],
    fit: ConstantsFit,
    folds: Sequence[HeldOut],
) -> list[str]:
    """The whole report. `reasons` says why a cell is not fitted, and is empty for those that
    are."""
    text = [f"{'cell':64} {'measured':>9} {'model':>9} {'error':>8}  "]
    for observation, reason, figure in zip(observations, reasons, figures, strict=True):
        error = f"{100 * (figure.p50 / observation.ns - 1):+.1f} %"
        text.append(
            f"{_short(observation):64} {observation.ns:9.2f} {figure.p50:9.2f} {error:>8}  "
            + _verdict(observation, figure, reason)
        )
    text += ["", *error_lines(observations, [not reason for reason in reasons], figures), ""]
    text += [*identifiability(fit, machine), "", *posterior_lines(fit)]
    if folds:
        text += ["", *fold_lines(folds), coverage_line(machine, folds)]
    return text


def _short(observation: Observation) -> str:
    cell = observation.cell
    return f"{cell.form}, {cell.situation.short()}"


def error_lines(
    observations: Sequence[Observation], fitting: Sequence[bool], figures: Sequence[Figures]
) -> list[str]:
    """Median and worst error of the fitted cells, by kind."""
    errors: dict[str, list[float]] = {}
    for o, fitted, figure in zip(observations, fitting, figures, strict=True):
        kind = "uncontended" if o.cell.contender == "none" else "contended"
        if fitted:
            errors.setdefault(kind, []).append(abs(figure.p50 / o.ns - 1))
    return [f"{kind}: {_errors(values)}" for kind, values in errors.items()]


def _errors(errors: Sequence[float]) -> str:
    median, worst = 100 * np.median(errors), 100 * max(errors)
    return f"{len(errors)} cells, error {median:.1f} % median, {worst:.1f} % worst"


def identifiability(fit: ConstantsFit, machine: Machine) -> list[str]:
    """Which constants the data pin, as the fitted machine's file has them, which sums, and which
    nothing."""
    pinned = fit.pinned()
    text = ["Constants that the data pin:"]
    for name, c in ((name, machine.constants[name]) for name in pinned):
        text.append(f"  {name} = {c.value:.3g} ({c.low:.3g} to {c.high:.3g}, 90 %)")
    for one, other, correlation in correlated(fit):
        text.append(f"Known together: {one} and {other}, correlation {correlation:+.2f}")
    loose = [name for name in fit.names if name not in pinned]
    if loose:
        text.append(f"Not pinned, provenance kept: {', '.join(loose)}")
    return text


def posterior_lines(fit: ConstantsFit) -> list[str]:
    """What intervals and [[posterior]] come from, and whether they can be relied on."""
    chain = fit.sampled
    if chain is None:
        return ["The posterior is taken to be Gaussian; the model itself was not asked."]
    slowest = min(zip(chain.effective, fit.names, strict=True))
    farthest = max(zip(chain.drift, fit.names, strict=True))
    text = [
        f"The posterior was sampled with the model itself: {chain.walkers} walkers, {chain.steps} "
        f"steps each behind their beginnings, {100 * chain.accepted:.0f} % of the steps accepted. "
        f"As independent draws that is at least {slowest[0]:.0f} ({slowest[1]}); the means of its "
        f"halves differ by at most {farthest[0]:.2f} standard deviations ({farthest[1]})."
    ]
    unsettled = "That is not settled: a Gaussian around the fit stands in, unconfirmed."
    return text if chain.settled else [*text, unsettled]


def fold_lines(folds: Sequence[HeldOut]) -> list[str]:
    """Errors of cells that the fit had not seen."""
    text = ["Cross-validation, cells that the fit had not seen:"]
    for key, words in LEFT_OUT.items():
        chosen = [fold for fold in folds if fold.left_out.partition("=")[0] == key]
        errors = [abs(error) for fold in chosen for error in fold.errors]
        text += [f"  {words}: {_errors(errors)}"] if errors else []
        for fold in chosen:
            rounded = ", ".join(f"{100 * error:+.0f}" for error in fold.errors)
            text.append(f"    {'without ' * ('=' in fold.left_out)}{fold.left_out}: {rounded} %")
    return text


NEVER = "in no fit"
LEFT_OUT = {
    "work_iters": "one work length left out",
    "form": "one form left out",
    NEVER: "left out of every fit",
}


def coverage_line(machine: Machine, folds: Sequence[HeldOut]) -> str:
    """How far the bands can be relied on."""
    figures, ratios = coverage(machine, folds), ratio_coverage(machine, folds)
    text = (
        f"Of {figures.of} figures of cells that a fit had not seen, 5 to 95 % of the constants' "
        f"draws hold {figures.alone}, and {figures.wide} with the model's own misses of all other "
        "cells"
    )
    if ratios.of:
        text += f"; of {ratios.of} ratios of two such cells in one situation {ratios.alone}, and "
        text += f"{ratios.wide} with the misses"
    return f"{text}."


def with_summary(
    machine: Machine,
    observations: Sequence[Observation],
    reasons: Sequence[str],
    figures: Sequence[Figures],
    folds: Sequence[HeldOut],
) -> Machine:
    """The machine with one paragraph on how well it fits."""
    fitting = [not reason for reason in reasons]
    said = "; ".join(error_lines(observations, fitting, figures))
    text = f"Fitted to {sum(fitting)} cells ({said})."
    for which, words in _LEFT.items():
        count = sum(reason in which for reason in reasons)
        text += f" {count} more {words}." if count else ""
    summaries = [line.strip() for line in fold_lines(folds)[1:] if "left out" in line]
    if summaries:
        text += f" Cells that a fit had not seen: {'; '.join(summaries)}."
        text += f" {coverage_line(machine, folds)}"
    return msgspec.structs.replace(machine, calibration=text)


_NOT_FITTED = {
    "metastable": "metastable in the model",
    "starved": "a thread starves in the model",
    "unsteady": "varies when measured",
    "not_asked": "not among the cells to fit",
}
"""Why a cell takes no part in a fit; `calibration.obstacles` finds all but the last."""
_MODELS = ("metastable", "starved")
_LEFT = {
    _MODELS: "are steady when measured and missed: metastable or starving in the model",
    ("unsteady",): "vary when measured: they have no one figure",
    ("not_asked",): "are kept as a test",
}
"""The same of all such cells together."""

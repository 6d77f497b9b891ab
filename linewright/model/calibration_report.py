"""What a calibration came to, in sentences and one table: errors by kind of cell, constants pinned,
cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from linewright.model.calibration import Fit, Fold, intervals, known_sums
from linewright.model.machine_file import Machine
from linewright.model.observations import Observation
from linewright.model.simulator import Figures


def kind_of(observation: Observation) -> str:
    """``uncontended``, ``saturated`` (the contender always waits for the line: the whole interval is transfers), or
    ``intermediate``."""
    cell = observation.cell
    if cell.contender == "none":
        return "uncontended"
    # Far atomics that meet a contender at once: the home is the bottleneck, whatever the work.
    return "saturated" if "stadd" in cell.form and cell.contender_iters <= 100 else "intermediate"


def _verdict(observation: Observation, figure: Figures, reason: str) -> str:
    if not reason:
        return ""
    low, high = figure.modes[0][0], figure.modes[-1][0]
    if low <= observation.ns <= high:
        return f"{reason}; bracketed by its modes, {low:.3g} and {high:.3g} ns"
    if figure.metastable:
        return f"{reason}; modes {low:.3g} and {high:.3g} ns: not explained"
    return reason if reason.startswith("not among") else f"{reason}: not explained"


def lines(
    observations: Sequence[Observation],
    reasons: Sequence[str],
    figures: Sequence[Figures],
    fit: Fit,
    folds: Sequence[Fold],
) -> list[str]:
    """The whole report. `reasons` says why a cell is not fitted, and is empty for those that are."""
    text = [f"{'cell':64} {'measured':>9} {'model':>9} {'error':>8}  "]
    for observation, reason, figure in zip(observations, reasons, figures, strict=True):
        error = f"{100 * (figure.p50 / observation.ns - 1):+.1f} %"
        text.append(
            f"{_short(observation):64} {observation.ns:9.2f} {figure.p50:9.2f} {error:>8}  "
            + _verdict(observation, figure, reason)
        )
    text += ["", *error_lines(observations, [not reason for reason in reasons], figures), ""]
    text += [*identifiability(fit), "", *posterior_lines(fit)]
    if folds:
        text += ["", *fold_lines(folds)]
    return text


def _short(observation: Observation) -> str:
    cell = observation.cell
    beside = "alone" if cell.contender == "none" else f"contender spacing {cell.contender_iters}"
    return f"{cell.form}, {beside}, work {cell.work_iters}"


def error_lines(observations: Sequence[Observation], fitting: Sequence[bool], figures: Sequence[Figures]) -> list[str]:
    """Median and worst error of the fitted cells, by kind."""
    errors: dict[str, list[float]] = {}
    for observation, fitted, figure in zip(observations, fitting, figures, strict=True):
        if fitted:
            errors.setdefault(kind_of(observation), []).append(abs(figure.p50 / observation.ns - 1))
    return [
        f"{kind}: {len(values)} cells, error {100 * np.median(values):.1f} % median, {100 * max(values):.1f} % worst"
        for kind, values in errors.items()
    ]


def identifiability(fit: Fit) -> list[str]:
    """Which constants the data pin, which sums, and which nothing."""
    pinned = fit.pinned()
    text = ["Constants that the data pin:"]
    for name, value, low, high in zip(fit.names, fit.values, *intervals(fit), strict=True):
        if name in pinned:
            text.append(f"  {name} = {value:.3g} ({low:.3g} to {high:.3g}, 90 %)")
    for names, total, spread in known_sums(fit):
        text.append(f"Only the sum is known: {' + '.join(names)} = {total:.3g} (± {1.645 * spread:.2g}, 90 %)")
    loose = [name for name in fit.names if name not in pinned]
    if loose:
        text.append(f"Not pinned, provenance kept: {', '.join(loose)}")
    return text


MOVED = 0.5
"""Standard deviations between the fit and the posterior's mean from which that is reported."""


def posterior_lines(fit: Fit) -> list[str]:
    """What intervals and [[posterior]] come from, and whether they can be relied on."""
    chain = fit.sampled
    if chain is None:
        return ["The posterior is taken to be Gaussian; that was not checked with the model itself."]
    slowest = min(zip(chain.effective, fit.names, strict=True))
    farthest = max(zip(chain.drift, fit.names, strict=True))
    text = [
        f"The posterior was sampled with the model itself: {chain.walkers} walkers, {chain.steps}"
        " steps each behind their "
        f"beginnings, {100 * chain.accepted:.0f} % of the steps accepted. As independent draws that is at least "
        f"{slowest[0]:.0f} ({slowest[1]}); the means of its halves differ by at most {farthest[0]:.2f} standard"
        " deviations "
        f"({farthest[1]})."
    ]
    if not chain.settled:
        text.append(
            "That is not settled: the intervals are those of a Gaussian around the fit, which was not confirmed."
        )
        return text
    shifts = (np.array(chain.mean) - np.log(fit.values)) / np.array(fit.sigma_after)
    moved = [f"{name} by {shift:+.1f}" for name, shift in zip(fit.names, shifts, strict=True) if abs(shift) > MOVED]
    if moved:
        text.append(f"Its mean lies beside the best fit, in standard deviations: {', '.join(moved)}.")
    return text


def fold_lines(folds: Sequence[Fold]) -> list[str]:
    """Errors of cells that the fit had not seen."""
    text = ["Cross-validation, cells that the fit had not seen:"]
    for key in ("work_iters", "form"):
        chosen = [fold for fold in folds if fold.left_out.startswith(f"{key}=")]
        errors = [abs(error) for fold in chosen for error in fold.errors]
        if errors:
            text.append(
                f"  one {'work length' if key == 'work_iters' else 'form'} left out: {len(errors)} cells, "
                f"error {100 * np.median(errors):.1f} % median, {100 * max(errors):.1f} % worst"
            )
        for fold in chosen:
            rounded = ", ".join(f"{100 * error:+.0f}" for error in fold.errors)
            text.append(f"    without {fold.left_out}: {rounded} %")
    return text


def with_summary(
    machine: Machine,
    observations: Sequence[Observation],
    fitting: Sequence[bool],
    figures: Sequence[Figures],
    folds: Sequence[Fold],
) -> Machine:
    """The machine with one paragraph on how well it fits."""
    said = "; ".join(error_lines(observations, fitting, figures))
    summaries = [line.strip() for line in fold_lines(folds)[1:] if "left out" in line]
    left = sum(not fitted for fitted in fitting)
    text = (
        f"Fitted to {sum(fitting)} cells ({said}); {left} cells are left out: they have no one figure,"
        " or are kept as a test."
    )
    if summaries:
        text += f" Cells that a fit had not seen: {'; '.join(summaries)}."
    return msgspec.structs.replace(machine, calibration=text)

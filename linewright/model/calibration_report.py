"""What a calibration came to, in sentences and one table: errors by kind of cell, constants pinned, cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from linewright.model.calibration import Fit, Fold, GaussCheck, known_sums
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
    check: GaussCheck | None = None,
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
    text += identifiability(fit)
    if check is not None:
        text += ["", *check_lines(check)]
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
    for name, value, sigma in zip(fit.names, fit.values, fit.sigma_after, strict=True):
        if name in pinned:
            text.append(f"  {name} = {value:.3g} (± {100 * 1.645 * sigma:.0f} %, 90 %)")
    for names, total, spread in known_sums(fit):
        text.append(f"Only the sum is known: {' + '.join(names)} = {total:.3g} (± {1.645 * spread:.2g}, 90 %)")
    loose = [name for name in fit.names if name not in pinned]
    if loose:
        text.append(f"Not pinned, provenance kept: {', '.join(loose)}")
    return text


def check_lines(check: GaussCheck) -> list[str]:
    """Whether the Gaussian, from which intervals and [[posterior]] come, stands for the posterior."""
    text = [
        f"The posterior is taken to be Gaussian. Re-weighted with the model itself, {check.draws} of its draws count as "
        f"{check.effective:.1f}: " + ("it stands for it." if check.holds else "it does not stand for it; take the "
        "intervals of single constants as their order of magnitude.")
    ]  # fmt: skip
    if check.moved:
        moved = ", ".join(f"{name} by {shift:+.1f}" for name, shift in check.moved.items())
        text.append(f"The weights move, in standard deviations: {moved}.")
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
    text = f"Fitted to {sum(fitting)} cells ({said}); {left} cells are left out: they have no one figure, or are kept as a test."
    if summaries:
        text += f" Cells that a fit had not seen: {'; '.join(summaries)}."
    return msgspec.structs.replace(machine, calibration=text)

# SPDX-License-Identifier: MIT
"""Ratios and differences of two simulated cells, within each draw of the machine's constants: what
both cells have in common cancels, and the model's own error of each is added.

Launches of a simulation differ by their random numbers alone, which say nothing of a machine."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from linewright.analysis.contrast import Contrast, Scale, paired_t
from linewright.analysis.intervals import BAND
from linewright.analysis.summary import Summary

ENDS = (50 * (1 - BAND), 50 * (1 + BAND))
"""Percentiles at the ends of a band."""


def with_model_error(values: Sequence[float], misses: Sequence[float]) -> np.ndarray:
    """What a measurement may be where a model says `values`, a row each: as it is said, and with
    each of the logarithms of simulated over measured by which the model missed before."""
    return np.outer(values, np.exp([0.0, *(-miss for miss in misses)]))


def ratios_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """First over second within each draw (their rows), with each miss of either (their columns)."""
    return first[:, :, None] / second[:, None, :]


def cost_ratio(first: Summary, second: Summary) -> Contrast | None:
    """First over second by their issue intervals: over the launches that ran both, or of simulated
    cells over draws."""
    if first.simulated and second.simulated:
        return simulated_contrast(first, second, "issue")
    return paired_t(first.of_launches("issue_ns"), second.of_launches("issue_ns"))


def simulated_contrast(first: Summary, second: Summary, figure: str) -> Contrast | None:
    """Two simulated cells of one run by their issue intervals (a ratio) or their exposed costs (a
    difference in ns); None where one has no such figure."""
    one, two = (s.exposed if figure == "exposed" else s.issue for s in (first, second))
    if one is None or two is None:
        return None
    if figure == "exposed":
        return over_draws(first, second, "ns", one.median_ns - two.median_ns)
    if min(one.median_ns, two.median_ns) <= 0:
        return None
    return over_draws(first, second, "ratio", one.median_ns / two.median_ns)


def over_draws(first: Summary, second: Summary, scale: Scale, value: float) -> Contrast:
    """A ratio (or difference in ns) of two simulated cells with the band that the constants and the
    model's own error leave it; without an interval where the records hold no draws.

    Draws of one number had the same random numbers: the same constants on one machine, and on a
    copy of it all but those that were edited.  One cell on a machine and on such a copy is missed
    alike, so that its error cancels, too."""
    found = _found(first, second, scale)
    reach = [value, *map(float, np.percentile(found, ENDS))] if found.size else [value]
    return Contrast(
        scale=scale, value=value, low=min(reach), high=max(reach),
        launches=min(first.launches, second.launches), paired=True, p=1.0, spread=0.0, leverage=0.0,
        degrees=math.inf, over="draws" if found.size else "nothing",
    )  # fmt: skip


def _found(first: Summary, second: Summary, scale: Scale) -> np.ndarray:
    """The ratio or difference under each draw and each miss of either cell; nothing without
    draws."""
    one, two = first.drawn, second.drawn
    if one is None or two is None:
        return np.empty(0)
    draws = min(len(one.ns), len(two.ns))
    a, b = (with_model_error(own.ns[:draws], own.misses) for own in (one, two))
    alike = first.id == second.id and one.misses == two.misses
    if scale == "ratio":
        whole = min(*one.ns, *two.ns) > 0
        return (a / b if alike else ratios_of(a, b)) if whole else np.empty(0)
    loops = [s.issue.median_ns - s.exposed.median_ns for s in (first, second)]
    return (a - b if alike else a[:, :, None] - b[:, None, :]) - (loops[0] - loops[1])

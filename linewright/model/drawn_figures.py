# SPDX-License-Identifier: MIT
"""Figures that only simulated cells have: columns of a table, lines about one cell, and what their
flags mean."""

from __future__ import annotations

from collections.abc import Mapping

from linewright import numbers
from linewright.analysis.summary import Summary
from linewright.say.document import Column
from linewright.say.words import in_english

PHASES = {
    "work": "in the work and the loop around the operation",
    "wait_for_home": "waiting for the line's home to take up its request",
    "wait_for_snoop": "waiting for the line: look-up, snoop and data",
    "execute": "executing the operation",
    "retry": "in attempts that failed",
}
"""What an operation's time goes to; docs/guide/model.md says more of each."""
COLUMNS: tuple[Column[Summary], ...] = (
    Column(
        "band 5 %",
        lambda s: _figure(s, "p05_ns"),
        meaning="5th percentile over draws of the simulated machine's constants, with the model's"
        " own error.",
    ),
    Column("50 %", lambda s: _figure(s, "p50_ns")),
    Column("95 %", lambda s: _figure(s, "p95_ns"), meaning="95th percentile of the same."),
    Column(
        "away",
        lambda s: "" if (d := s.metrics.get("calibrated_distance")) is None else f"{d:.1f}",
        meaning="distance to the nearest cell that the constants were fitted to: 1 for a doubling"
        " of work or spacing, 2 of threads.",
    ),
)
FLAGS = {
    "simulated": "Simulated on a described machine: what the model says, and no measurement.",
    "starved": "Simulated, and in at least one window a thread got hardly any operation done while "
    "the window waited for it.",
    "edited": "Simulated on a machine whose file was changed after its calibration: a prediction "
    "for a machine that was never measured.",
}


def _figure(summary: Summary, name: str) -> str:
    return numbers.figure(summary.metrics[name]) if name in summary.metrics else ""


def modes_text(metrics: Mapping[str, float]) -> str:
    """The modes of a metastable cell, which its windows, and not its launches, fall into."""
    names = sorted(n for n in metrics if n.startswith("mode_") and n.endswith("_share"))
    modes = [
        f"{numbers.figure(metrics[name.replace('share', 'ns')])} ns ({100 * metrics[name]:.0f} % "
        "of the operations)"
        for name in names
    ]
    return (
        f"The cell is metastable: it sustains itself at {' and at '.join(modes)}. No one figure "
        "stands for it; the shares depend on how often something disturbs it."
    )


def lines(summary: Summary) -> list[str]:
    """The modes, the range over draws, where an operation's time goes, and how far the fit is
    away."""
    m = summary.metrics
    if "p05_ns" not in m:
        return []
    parts = ", ".join(
        f"{in_english(name)} {numbers.cost(m[f'{name}_ns'])}"
        for name in PHASES
        if f"{name}_ns" in m
    )
    known = summary.drawn is not None and summary.drawn.misses
    error = ", and with the model's own error" if known else ""
    said = [
        f"Over draws of the machine's constants{error}: "
        f"{numbers.cost(m['p05_ns'])} to {numbers.cost(m['p95_ns'])} ns (5th to 95th percentile), "
        f"middle {numbers.cost(m['p50_ns'])}."
    ]
    said += [modes_text(m)] if "metastable" in summary.flags else []
    if parts:
        said.append(f"An operation's ns: {parts}.")
    if "calibrated_distance" in m:
        said.append(
            f"The nearest cell that the constants were fitted to is {m['calibrated_distance']:.1f} "
            "away (doublings of work or spacing; 2 for a doubling of the threads, 4 for another "
            "form or contention; what else differs is not counted)."
        )
    return said

"""Every form of an operation side by side, with its interval, alone and contended."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.plans.grid import OPERATIONS
from linewright.report import charts, facts
from linewright.report.material import Material, Series
from linewright.report.parts import Control, Figure, Section

LANES = 3
"""Contention classes drawn beside each other: alone, placebo and the shortest contender spacing."""


def section(material: Material) -> Section | None:
    cells = facts.cells(material, OPERATIONS)
    if not cells:
        return None
    works = sorted({s.cell.work_iters for s, _ in cells})
    control = Control(signal="work", label="Work between operations", options=[(str(w), _work(w)) for w in works])
    classes = _classes(cells)
    operations = [o for o in OPERATIONS if any(s.cell.operation == o for s, _ in cells)]
    return Section(
        id="forms",
        title="Forms side by side",
        lead="Time of one operation with its work: medians, and the interval of a repeat's median. Logarithmic.",
        controls=[control] if len(works) > 1 else [],
        figures=[
            _figure(o, [c for c in cells if c[0].cell.operation == o], classes, material, control) for o in operations
        ],
    )


def _work(iters: int) -> str:
    return "none: back to back" if iters == 0 else f"{iters} units"


def _classes(cells: list[tuple[Summary, Series]]) -> list[str]:
    """Alone, placebo and one contended class: the first of each kind in their order."""
    first: dict[str, str] = {}
    for s, _ in sorted(cells, key=lambda c: facts.contention_rank(c[0].cell)):
        first.setdefault(s.cell.contender, facts.contention(s.cell))
    return list(first.values())[:LANES]


def _figure(
    operation: str, cells: list[tuple[Summary, Series]], classes: list[str], material: Material, work: Control
) -> Figure:
    rows: list[dict[str, Any]] = [
        facts.of_cell(s, series)
        | {"lane": f"{facts.contention(s.cell)} {series.label}", "work": str(s.cell.work_iters)}
        for s, series in cells
        if facts.contention(s.cell) in classes and s.issue.median_ns > 0
    ]
    forms, labels = facts.once(row["form"] for row in rows), material.labels
    lanes = [f"{c} {label}" for c in classes for label in labels]
    most = max((len({row["lane"] for row in rows if row["form"] == form}) for form in forms), default=1)
    chart = charts.dots(
        rows,
        "ns",
        "ns per operation",
        alt.Y("form:N", title=None, sort=forms),
        charts.hue("contention", classes),
        "lane",
        lanes,
        labels,
        True,
        charts.tip(*charts.CELL_TIP, *charts.NS_TIP),
        ["datum.work == work"],
        "work",
    )
    return Figure(
        id=f"forms-{operation}",
        title=operation,
        least=charts.room(forms),
        text=f"Time of {operation} by form, for {', '.join(classes)}, with intervals.",
        spec=charts.finish(
            chart, charts.pixels(len(forms)) + 9 * max(0, most - 2) * len(forms), [work], left=charts.beside(forms)
        ),
    )

"""Every form of an operation side by side, with its interval, alone and contended."""

from __future__ import annotations

from linewright.analysis.summary import Summary
from linewright.plans.grid import OPERATIONS
from linewright.say import report_words as say
from linewright.show.report import charts, facts
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section

LANES = 3
"""Contention classes drawn beside each other: alone, placebo and the shortest contender spacing."""


def section(material: Material) -> Section | None:
    cells = facts.cells(material, OPERATIONS)
    if not cells:
        return None
    works = sorted({s.cell.work_iters for s, _ in cells})
    control = Control(
        signal="work", label="Work between operations", options=[(str(w), _work(w)) for w in works]
    )
    classes = _classes(cells)
    operations = [o for o in OPERATIONS if any(s.cell.operation == o for s, _ in cells)]
    return Section.of(
        "forms",
        figures=[
            _figure(o, [c for c in cells if c[0].cell.operation == o], classes, material, control)
            for o in operations
        ],
        controls=[control],
    )


def _work(iters: int) -> str:
    return "none: back to back" if iters == 0 else f"{iters} units"


def _classes(cells: list[tuple[Summary, Series]]) -> list[str]:
    """Alone, placebo and one contended class: the first of each kind in their order."""
    first: dict[str, str] = {}
    for s, _ in sorted(cells, key=lambda c: c[0].cell.situation.rank):
        first.setdefault(s.cell.contender, s.cell.situation.sharers)
    return list(first.values())[:LANES]


def _figure(
    operation: str,
    cells: list[tuple[Summary, Series]],
    classes: list[str],
    material: Material,
    work: Control,
) -> Chart:
    rows = [
        facts.of_cell(s, series) | {"work": str(s.cell.work_iters)}
        for s, series in cells
        if s.cell.situation.sharers in classes and s.issue.median_ns > 0
    ]
    return charts.by_name(
        rows,
        material,
        "contention",
        ("contention", "series"),
        (*charts.CELL_TIP, *charts.NS_TIP),
        classes=classes,
        apart="work",
        filters=["datum.work == work"],
        controls=[work],
        id=f"forms-{operation}",
        title=operation,
        text=say.chart_text("forms", operation=operation, classes=", ".join(classes)),
    )

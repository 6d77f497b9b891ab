"""Every form of an operation side by side, with its interval, alone and contended."""

from __future__ import annotations

from linewright.plans.grid import OPERATIONS
from linewright.say import report_words as say
from linewright.say.page_material import Material
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

LANES = 3
"""Contention classes drawn beside each other: alone, placebo and the shortest contender spacing."""


def section(material: Material) -> Section | None:
    cells = material.cells(OPERATIONS)
    if not cells:
        return None
    works = sorted({cell.work_iters for cell, _ in cells})
    texts = [(str(w), f"{w} units" if w else "none: back to back") for w in works]
    control = Control(signal="work", label="Work between operations", options=texts)
    first: dict[str, str] = {}  # of each kind of contender the first class, in their order
    for cell, row in sorted(cells, key=lambda c: c[0].situation.rank):
        first.setdefault(cell.contender, row["contention"])
    classes = list(first.values())[:LANES]
    rows = [row | {"work": str(row["work"])} for _, row in cells]

    def figure(operation: str, own: list[Datum]) -> Chart:
        return charts.by_name(
            [r for r in own if r["contention"] in classes and (r["ns"] or 0) > 0],
            material,
            "contention",
            ("contention", "series"),
            (*charts.CELL_TIP, *charts.NS_TIP),
            classes=classes,
            apart="work",
            filters=["datum.work == work"],
            controls=[control],
            id=f"forms-{operation}",
            title=operation,
            text=say.chart_text("forms", operation=operation, classes=", ".join(classes)),
        )

    figures = facts.by_operation(rows, OPERATIONS, figure)
    return Section.of("forms", figures=figures, controls=[control])

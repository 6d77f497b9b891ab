"""What code around the operation pays as that code grows, and where one form overtakes another."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright import numbers
from linewright.plans.grid import OPERATIONS
from linewright.say import report_words as say
from linewright.say.columns import Column, table_of
from linewright.say.document import DrawnCell
from linewright.say.page_material import Material, Series
from linewright.say.phrases import crossing_where
from linewright.show.report import charts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

HEIGHT = 260
COLUMNS = (
    Column("operation", lambda row: row.operation, text=True),
    Column("contention", lambda row: crossing_where(row), text=True),
    Column("cheaper below", lambda row: row.cheaper_below, text=True),
    Column("cheaper above", lambda row: row.cheaper_above, text=True),
    Column("up to", lambda row: str(row.below)),
    Column("from", lambda row: str(row.above)),
    Column(
        "apart by, ns",
        lambda row: (
            f"{numbers.figure(row.margin_below_ns)} to {numbers.figure(row.margin_above_ns)}"
        ),
    ),
)


def section(material: Material) -> Section | None:
    cells = [c for c in material.cells(OPERATIONS) if c[1]["exposed"] is not None]
    if len({cell.work_iters for cell, _ in cells}) < 2:
        return None
    ordered = sorted(cells, key=lambda c: c[0].situation.rank)
    control = Control.of("contention", "Contention", (row["contention"] for _, row in ordered))
    crossed = [
        (c, series)
        for series in material.series
        for c in series.answers.crossovers
        if c.axis == "work_iters" and c.operation in OPERATIONS
    ]
    operations = [o for o in OPERATIONS if any(cell.operation == o for cell, _ in cells)]
    iteration = ", ".join(
        dict.fromkeys(numbers.figure(series.contexts[0].unit_ns) for series in material.series)
    )
    return Section.of(
        "exposed",
        figures=[_figure(o, _serving(o, cells), crossed, material, control) for o in operations],
        controls=[control],
        grids=[table_of("Crossovers, by units of work", material.with_machine(COLUMNS), crossed)]
        if crossed
        else [],
        iteration=iteration,
    )


def _serving(operation: str, cells: list[DrawnCell]) -> list[DrawnCell]:
    """The operation's cells; who adds and wants no value may also use forms that return one."""
    wanted = ("add", "fetch_add") if operation == "add" else (operation,)
    return [c for c in cells if c[0].operation in wanted]


def _figure(
    operation: str,
    cells: list[DrawnCell],
    crossed: list[tuple[Any, Series]],
    material: Material,
    control: Control,
) -> Chart:
    rows = [row for _, row in cells]
    base = charts.base(rows, "datum.contention == contention")
    x = alt.X(
        "work:Q",
        title="units of work between operations",
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(tickCount=6),
    )
    colour = charts.forms(material, operation, rows)
    fields = (
        *charts.CELL_TIP,
        ("exposed:q", "ns exposed"),
        *charts.ends("exposed"),
        ("remark", "note"),
    )
    y = alt.Y("exposed:Q", title="ns exposed per operation")
    strokes = charts.strokes(material.labels, rows)
    layers = charts.curves(base, x, "exposed", y, colour, fields, band=True, strokes=strokes)
    mine = _marks(cells, crossed)
    if mine:
        layers = alt.layer(layers, *_rules(mine))
    return Chart(
        id=f"exposed-{operation}",
        title="add, value not wanted" if operation == "add" else operation,
        text=say.chart_text("exposed", operation=operation, count=len(mine)),
        spec=charts.finish(layers, HEIGHT, [control]),
    )


def _marks(cells: list[DrawnCell], crossed: list[tuple[Any, Series]]) -> list[Datum]:
    """Crossovers between two forms that this chart shows, halfway between the work lengths they lie
    between."""
    forms = {cell.form for cell, _ in cells}
    at = {
        (cell.contender, cell.contender_iters, row["series"]): row["contention"]
        for cell, row in cells
        if cell.contender != "placebo"
    }
    return [
        {
            "series": series.label,
            "contention": at[(c.situation.contender, c.situation.contender_iters, series.label)],
            "x": (c.below + c.above) / 2,
            "from": c.below,
            "to": c.above,
            "change": f"{c.cheaper_below} → {c.cheaper_above}",
        }
        for c, series in crossed
        if {c.cheaper_below, c.cheaper_above} <= forms
        and (c.situation.contender, c.situation.contender_iters, series.label) in at
    ]


def _rules(rows: list[Datum]) -> list[alt.Chart]:
    base = charts.base(rows, "datum.contention == contention")
    tooltip = charts.tip(
        ("change", "cheaper"), ("from", "up to"), ("to", "and from"), ("series", "machine")
    )
    where = alt.X("x:Q", title="units of work between operations")
    return [
        base.mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(x=where, tooltip=tooltip),
        base.mark_text(style="muted", text="⇄", dy=-6, fontSize=15, baseline="bottom").encode(
            x=where, y=alt.value(6), tooltip=tooltip
        ),
    ]

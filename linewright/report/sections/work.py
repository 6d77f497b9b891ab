"""What code around the operation pays as that code grows, and where one form overtakes another."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.crossovers import Crossover, crossovers
from linewright.analysis.findings import findings
from linewright.analysis.summary import Summary
from linewright.output.columns import Column
from linewright.plans.grid import OPERATIONS
from linewright.report import charts, facts
from linewright.report.material import Material, Series
from linewright.report.parts import Control, Figure, Grid, Section
from linewright.units import ns_text

HEIGHT = 260
COLUMNS = (
    Column("operation", lambda row: row[0].operation, text=True),
    Column("contention", lambda row: row[0].where, text=True),
    Column("cheaper below", lambda row: row[0].cheaper_below, text=True),
    Column("cheaper above", lambda row: row[0].cheaper_above, text=True),
    Column("up to", lambda row: str(row[0].below)),
    Column("from", lambda row: str(row[0].above)),
    Column("apart by, ns", lambda row: f"{ns_text(row[0].margin_below_ns)} to {ns_text(row[0].margin_above_ns)}"),
)


def section(material: Material) -> Section | None:
    cells = [(s, series) for s, series in facts.cells(material, OPERATIONS) if s.exposed is not None]
    if len({s.cell.work_iters for s, _ in cells}) < 2:
        return None
    ordered = sorted(cells, key=lambda c: facts.contention_rank(c[0].cell))
    control = Control.of("contention", "Contention", (facts.contention(s.cell) for s, _ in ordered))
    crossed = [
        (c, series)
        for series in material.series
        for c in crossovers(findings([s for s, of in cells if of is series]))
        if c.axis == "work_iters"
    ]
    operations = [o for o in OPERATIONS if any(s.cell.operation == o for s, _ in cells)]
    iteration = ", ".join(dict.fromkeys(ns_text(series.contexts[0].unit_ns) for series in material.series))
    return Section(
        id="exposed",
        title="Exposed cost over work",
        lead="What an operation adds to a loop that also does other work: the loop minus the same loop without it."
        f" One unit of work takes {iteration} ns. Bands are intervals; a dashed line marks where two forms cross over.",
        controls=[control] if len(control.options) > 1 else [],
        figures=[_figure(o, _serving(o, cells), crossed, material, control) for o in operations],
        grids=[Grid.of("Crossovers, by units of work", material.with_machine(COLUMNS), crossed)] if crossed else [],
    )


def _serving(operation: str, cells: list[tuple[Summary, Series]]) -> list[tuple[Summary, Series]]:
    """The operation's cells; who adds and wants no value may also use forms that return one."""
    wanted = ("add", "fetch_add") if operation == "add" else (operation,)
    return [c for c in cells if c[0].cell.operation in wanted]


def _figure(
    operation: str,
    cells: list[tuple[Summary, Series]],
    crossed: list[tuple[Crossover, Series]],
    material: Material,
    control: Control,
) -> Figure:
    rows = [facts.of_cell(s, series) | facts.interval("exposed", s.exposed) for s, series in cells]
    base = alt.Chart(charts.inline(rows)).transform_filter("datum.contention == contention")
    x = alt.X(
        "work:Q",
        title="units of work between operations",
        scale=alt.Scale(zero=True, nice=True),
        axis=alt.Axis(tickCount=6),
    )
    colour = charts.hue("form", facts.forms_of(material, operation), facts.once(row["form"] for row in rows))
    strokes = charts.strokes(material.labels, rows)
    detail = {"detail": "series:N"}
    band = base.mark_area(opacity=0.16).encode(
        x=x, y=alt.Y("exposed_low:Q"), y2="exposed_high:Q", color=colour, **detail
    )
    line = base.mark_line().encode(
        x=x, y=alt.Y("exposed:Q", title="ns exposed per operation"), color=colour, **strokes, **detail
    )
    fields = (*charts.CELL_TIP, ("exposed:q", "ns exposed"), *charts.ends("exposed"), ("remark", "note"))
    points = base.mark_point(filled=True).encode(x=x, y="exposed:Q", color=colour, tooltip=charts.tip(*fields))
    marks = charts.doubts(base, {"x": x, "y": "exposed:Q"}, dy=-11)
    layers = [band, line, points, marks]
    mine = _marks(operation, cells, crossed)
    if mine:
        layers += _rules(mine, x)
    return Figure(
        id=f"exposed-{operation}",
        title="add, value not wanted" if operation == "add" else operation,
        text=f"Exposed cost of {operation} by form over units of work, with intervals and {len(mine)} crossovers.",
        spec=charts.finish(alt.layer(*layers), HEIGHT, [control]),
    )


def _marks(
    operation: str, cells: list[tuple[Summary, Series]], crossed: list[tuple[Crossover, Series]]
) -> list[dict[str, Any]]:
    """Crossovers between two forms that this chart shows, halfway between the work lengths they lie between."""
    forms = {s.cell.form for s, _ in cells}
    at = {(where_of(s), series.label): facts.contention(s.cell) for s, series in cells if s.cell.contender != "placebo"}
    return [
        {
            "series": series.label,
            "contention": at[(c.where, series.label)],
            "x": (c.below + c.above) / 2,
            "from": c.below,
            "to": c.above,
            "change": f"{c.cheaper_below} → {c.cheaper_above}",
        }
        for c, series in crossed
        if {c.cheaper_below, c.cheaper_above} <= forms and (c.where, series.label) in at
    ]


def where_of(s: Summary) -> str:
    """A cell's contention as crossovers word it."""
    return "alone" if s.cell.contender != "same_line" else f"contended every {s.cell.contender_iters} iterations"


def _rules(rows: list[dict[str, Any]], x: alt.X) -> list[alt.Chart]:
    base = alt.Chart(charts.inline(rows)).transform_filter("datum.contention == contention")
    tooltip = charts.tip(("change", "cheaper"), ("from", "up to"), ("to", "and from"), ("series", "machine"))
    where = alt.X("x:Q", title="units of work between operations")
    return [
        base.mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(x=where, tooltip=tooltip),
        base.mark_text(style="muted", text="⇄", dy=-6, fontSize=15, baseline="bottom").encode(
            x=where, y=alt.value(6), tooltip=tooltip
        ),
    ]

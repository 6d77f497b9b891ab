"""The library's operations as a program calls them: width against order, by policy."""

from __future__ import annotations

import altair as alt

from linewright.families import LIBRARY
from linewright.policy import of_parameter
from linewright.say import report_words as say
from linewright.say.page_material import Material
from linewright.schema import Cell
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

TIP = (
    ("operation", "operation"),
    ("form", "form"),
    ("width", "width"),
    ("order", "order"),
    ("shown:q", "ns"),
    *charts.ends("shown"),
    ("remark", "note"),
)


def section(material: Material) -> Section | None:
    cells = material.cells(LIBRARY.operations)
    rows = [_row(cell, row) for cell, row in cells if row["shown"] is not None]
    if not rows:
        return None
    domain = _domain([r["shown"] for r in rows])
    point = Control.of("point", "Show", (r["point"] for r in rows))
    machine = Control.of("machine", "Machine", material.labels)
    policy = Control(
        signal="policy",
        label="LINEWRIGHT_ATOMICS",
        options=[(p, of_parameter(p)) for p in facts.unique(r["policy"] for r in rows)],
    )
    controls = (point, policy, machine)

    def figure(operation: str, own: list[Datum]) -> Chart:
        orders = facts.unique(r["order"] for r in sorted(own, key=lambda r: r["order_place"]))
        return Chart(
            id=f"operations-{operation}",
            title=operation,
            text=say.chart_text("operations", operation=operation),
            spec=charts.finish(_chart(own, domain, orders), 26 * 4, controls),
        )

    figures = facts.by_operation(rows, facts.unique(r["operation"] for r in rows), figure)
    return Section.of("operations", figures=figures, controls=controls)


def _row(cell: Cell, row: Datum) -> Datum:
    return row | {
        "operation": cell.operation.removeprefix("library_"),
        "width": f"{cell.width_bits} bit",
        "policy": str(cell.params.get("policy", "default")),
        "point": f"{row['cost']}, {row['contention']}, ns",
    }


def _domain(values: list[float]) -> list[float]:
    """From zero to twice the most expensive: a few percent must not look like much."""
    return [min(0.0, *values), max(2 * max(values), 1.0)]


def _chart(rows: list[Datum], domain: list[float], orders: list[str]) -> alt.LayerChart:
    base = (
        charts.base(rows)
        .transform_filter(
            "datum.point == point && datum.policy == policy && datum.series == machine"
        )
        .transform_calculate(said=f"format(datum.shown, {charts.SAID.format('datum.shown')})")
    )
    widths = [f"{bits} bit" for bits in sorted({r["bits"] for r in rows})]
    place = {
        "x": alt.X(
            "order:N",
            title=None,
            sort=orders,
            scale=alt.Scale(domain=orders),
            axis=alt.Axis(labelAngle=0),
        ),
        "y": alt.Y("width:N", title=None, sort=widths),
    }
    scale = alt.Scale(domain=domain, range="heatmap", nice=False)
    colour = alt.Color(
        "shown:Q", scale=scale, legend=alt.Legend(title=None, gradientLength=180, tickCount=4)
    )
    return charts.tiles(base, place, colour, "shown", charts.tip(*TIP), "said", 11)

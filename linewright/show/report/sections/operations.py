"""The library's operations as a program calls them: width against order, by policy."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.findings import ORDERS
from linewright.analysis.summary import Summary
from linewright.families import LIBRARY
from linewright.say import report_words as say
from linewright.say.cost_words import doubt_mark
from linewright.show.report import charts, facts
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section

TIP = (
    ("operation", "operation"),
    ("form", "form"),
    ("width", "width"),
    ("order", "order"),
    ("ns:q", "ns"),
    ("low:q", "from"),
    ("high:q", "to"),
    ("remark", "note"),
)


def section(material: Material) -> Section | None:
    rows = [_row(s, series) for s, series in facts.cells(material, LIBRARY.operations)]
    if not rows:
        return None
    rows = [r for r in rows if r["ns"] is not None]
    domain = _domain([r["ns"] for r in rows])
    point = Control.of("point", "Show", (r["point"] for r in rows))
    machine = Control.of("machine", "Machine", material.labels)
    policy = Control(
        signal="policy",
        label="LINEWRIGHT_ATOMICS",
        options=[(p, p.replace("+", ",")) for p in facts.once(r["policy"] for r in rows)],
    )
    return Section.of(
        "operations",
        figures=[
            Chart(
                id=f"operations-{operation}",
                title=operation,
                text=say.chart_text("operations", operation=operation),
                spec=charts.finish(
                    _chart(mine, domain, [o for o in ORDERS if any(r["order"] == o for r in mine)]),
                    26 * 4,
                    [point, policy, machine],
                ),
            )
            for operation in facts.once(r["operation"] for r in rows)
            if (mine := [r for r in rows if r["operation"] == operation])
        ],
        controls=(point, policy, machine),
    )


def _row(s: Summary, series: Series) -> dict[str, Any]:
    cell = s.cell
    what, value = facts.shown(s)
    return {
        "series": series.label,
        "operation": cell.operation.removeprefix("library_"),
        "width": f"{cell.width_bits} bit",
        "form": cell.form,
        "order": cell.order,
        "policy": str(cell.params.get("policy", "default")),
        "point": f"{what}, {cell.situation.sharers}, ns",
        "ns": facts.rounded(value.median_ns),
        "low": facts.rounded(value.low_ns),
        "high": facts.rounded(value.high_ns),
        "bits": cell.width_bits,
        "mark": doubt_mark(s),
        "remark": facts.remark(s),
    }


def _domain(values: list[float]) -> list[float]:
    """From zero to twice the most expensive: a few percent must not look like much."""
    return [min(0.0, *values), max(2 * max(values), 1.0)]


def _chart(rows: list[dict[str, Any]], domain: list[float], orders: list[str]) -> alt.LayerChart:
    base = (
        charts.base(rows)
        .transform_filter(
            "datum.point == point && datum.policy == policy && datum.series == machine"
        )
        .transform_calculate(said=f"format(datum.ns, {charts.SAID.format('datum.ns')})")
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
        "ns:Q", scale=scale, legend=alt.Legend(title=None, gradientLength=180, tickCount=4)
    )
    return charts.tiles(base, place, colour, "ns", charts.tip(*TIP), "said", 11)

"""The matrix of form, contention and work as a heat map."""

from __future__ import annotations

import json

import altair as alt

from linewright.plans.grid import OPERATIONS
from linewright.say import report_words as say
from linewright.say.page_material import Material
from linewright.say.sentence import unique
from linewright.schema import Cell
from linewright.show.report import charts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

METRICS = {
    "ns": "median, ns",
    "p99": "99th percentile of batch means, ns",
    "exposed": "exposed cost, ns",
    "rate": "all threads together, operations per µs",
}
BROAD_STEP, STEP, ROW_STEP, BETWEEN = 46, 40, 23, 14
ABREAST = 3
"""Contention classes side by side in a picture; the page's script puts as many as there is room
for."""
TIP = (
    *charts.CELL_TIP[:3],
    ("work", "units of work"),
    ("ns:q", "median ns"),
    ("p99:q", "p99 ns"),
    ("exposed:q", "exposed ns"),
    ("rate:q", "all threads, per µs"),
    ("remark", "note"),
)


def section(material: Material) -> Section | None:
    every = [_row(cell, row) for cell, row in material.cells(OPERATIONS)]
    if not every:
        return None
    every.sort(key=lambda row: OPERATIONS.index(row["operation"]))
    shown = {
        name: text for name, text in METRICS.items() if any(row[name] is not None for row in every)
    }
    metric = Control(signal="metric", label="Show", options=list(shown.items()))
    domain = _domain({name: [row[name] for row in every] for name in shown})
    rows = {label: [r for r in every if r["series"] == label] for label in material.labels}
    return Section.of(
        "matrix",
        figures=[
            _figure(label, mine, domain, metric, material) for label, mine in rows.items() if mine
        ],
        controls=[metric],
    )


def _row(cell: Cell, row: Datum) -> Datum:
    width = "" if cell.width_bits in (64, 32) else f" u{cell.width_bits}"
    return row | {
        "label": f"{cell.operation} · {cell.form}{width}",
        "class": cell.situation.without("work_iters", "work", "placement").short(),
        "where": cell.situation.where,
        "rank": cell.situation.rank,
    }


def _figure(
    label: str,
    rows: list[Datum],
    domain: list[alt.ExprRef],
    metric: Control,
    material: Material,
) -> Chart:
    apart = len({row["where"] for row in rows if row["class"] not in ("alone", "placebo")}) > 1
    rows = [row | {"class": row["class"] + row["where"] * apart} for row in rows]
    classes = unique(row["class"] for row in sorted(rows, key=lambda row: row["rank"]))
    names = unique(row["label"] for row in rows)
    columns = len({(row["class"], row["work"]) for row in rows})
    step = STEP if columns > 16 else BROAD_STEP
    return Chart(
        **material.of_series("matrix", label, "Form × contention × work"),
        broad=True,
        text=say.chart_text(
            "matrix", count=len(names), metrics=", ".join(text for _, text in metric.options)
        ),
        spec=charts.finish(
            _chart(rows, classes, names, domain, step),
            None,
            [metric],
            fills=False,
            left=charts.beside(names) - BETWEEN,
            abreast=BETWEEN + step * len({row["work"] for row in rows}),
        ),
    )


FREE = 0.1
"""ns from which on a cost has the colour of the cheapest."""


def _domain(values: dict[str, list[float | None]]) -> list[alt.ExprRef]:
    """Ends of the colours for each metric, the same on every machine."""
    ends = {name: [max(FREE, v) for v in found if v is not None] for name, found in values.items()}
    low = {name: min(found) for name, found in ends.items()}
    high = {name: max(*found, 2 * low[name]) for name, found in ends.items()}
    return [alt.ExprRef(f"({json.dumps(end)})[metric]") for end in (low, high)]


def _chart(
    rows: list[Datum],
    classes: list[str],
    labels: list[str],
    domain: list[alt.ExprRef],
    step: int,
) -> alt.FacetChart:
    base = (
        charts.base(rows)
        .transform_calculate(
            value="datum[metric]",
            shade=f"max(datum.value, {FREE})",
            said="isValid(datum.value) ? format(datum.value, "
            f"{charts.SAID.format('datum.value')}) : ''",
        )
        .transform_filter("isValid(datum.value)")
    )
    where = {
        "x": alt.X("work:O", title=None, axis=alt.Axis(labelAngle=0)),
        "y": alt.Y("label:N", title=None, sort=labels, axis=alt.Axis(labelLimit=360)),
    }
    colour = alt.Color(
        "shade:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False, range="heatmap"),
        legend=alt.Legend(
            title="cheap to expensive (for the rate: slow to fast), logarithmic",
            gradientLength=260,
            format="~g",
            tickCount=4,
        ),
    )
    layered = charts.tiles(base, where, colour, "shade", charts.tip(*TIP), "said").properties(
        width=alt.Step(step), height=alt.Step(ROW_STEP)
    )
    header = alt.Header(
        title="contention; below: units of work between operations",
        titleAnchor="start",
        labelAnchor="start",
    )
    return layered.facet(
        alt.Facet("class:N", sort=classes, header=header),
        columns=min(ABREAST, len(classes)),
        spacing={"column": BETWEEN, "row": 2 * BETWEEN},
    )

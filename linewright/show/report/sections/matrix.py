"""The matrix of form, contention and work as a heat map."""

from __future__ import annotations

import json
from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.plans.grid import OPERATIONS
from linewright.say import report_words as say
from linewright.say.cost_words import doubt_mark
from linewright.show.report import charts, facts
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section

METRICS = {
    "p50": "median, ns",
    "p99": "99th percentile of batch means, ns",
    "exposed": "exposed cost, ns",
    "rate": "all threads together, operations per µs",
}
BROAD_STEP, STEP, ROW_STEP, BETWEEN = 46, 40, 23, 14
ABREAST = 3
"""Contention classes side by side in a picture; the page's script puts as many as there is room
for."""


def section(material: Material) -> Section | None:
    rows = {
        series.label: [_row(s, series) for s in by_operation(facts.measured(series, OPERATIONS))]
        for series in material.series
    }
    every = [row for of_series in rows.values() for row in of_series]
    if not every:
        return None
    shown = {
        name: text for name, text in METRICS.items() if any(row[name] is not None for row in every)
    }
    metric = Control(signal="metric", label="Show", options=list(shown.items()))
    domain = _domain({name: [row[name] for row in every] for name in shown})
    return Section.of(
        "matrix",
        figures=[
            _figure(label, mine, domain, metric, material) for label, mine in rows.items() if mine
        ],
        controls=[metric],
    )


def _figure(
    label: str,
    rows: list[dict[str, Any]],
    domain: list[alt.ExprRef],
    metric: Control,
    material: Material,
) -> Chart:
    ordered = sorted(rows, key=lambda row: row["rank"])
    apart = len({row["place"] for row in rows if row["class"] not in ("alone", "placebo")}) > 1
    for row in rows:
        row["class"] += row["place"] if apart else ""
        row.pop("rank")
    classes = facts.once(row["class"] for row in ordered)
    names = facts.once(row["label"] for row in rows)
    columns = len({(row["class"], row["work"]) for row in rows})
    step = STEP if columns > 16 else BROAD_STEP
    chart = _chart(rows, classes, names, domain, step)
    index = material.labels.index(label)
    return Chart(
        id=f"matrix-{index}" if material.several else "matrix",
        title=label if material.several else "Form × contention × work",
        broad=True,
        text=say.chart_text(
            "matrix", count=len(names), metrics=", ".join((text for _, text in metric.options))
        ),
        spec=charts.finish(
            chart,
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


def by_operation(cells: list[Summary]) -> list[Summary]:
    """Cells in the order of their operations."""
    return sorted(cells, key=lambda s: OPERATIONS.index(s.cell.operation))


def _row(s: Summary, series: Series) -> dict[str, Any]:
    cell = s.cell
    exposed = s.exposed.median_ns if s.exposed else None
    width = "" if cell.width_bits in (64, 32) else f" u{cell.width_bits}"
    return {
        "series": series.label,
        "label": f"{cell.operation} · {cell.form}{width}",
        "form": cell.form,
        "contention": cell.situation.sharers,
        "work": cell.work_iters,
        "rank": cell.situation.rank,
        "place": cell.situation.where,
        "class": cell.situation.without("work_iters", "work", "placement").short(),
        "p50": facts.rounded(s.issue.median_ns),
        "p99": facts.rounded(s.batch.p99_ns if s.batch else None),
        "exposed": facts.rounded(exposed),
        "rate": facts.rounded(s.total_mops) if s.total_mops > 0 else None,
        "mark": doubt_mark(s),
        "remark": facts.remark(s),
    }


def _chart(
    rows: list[dict[str, Any]],
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
    fields = (
        *charts.CELL_TIP[:3],
        ("work", "units of work"),
        ("p50:q", "median ns"),
        ("p99:q", "p99 ns"),
        ("exposed:q", "exposed ns"),
        ("rate:q", "all threads, per µs"),
        ("remark", "note"),
    )
    layered = charts.tiles(base, where, colour, "shade", charts.tip(*fields), "said").properties(
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

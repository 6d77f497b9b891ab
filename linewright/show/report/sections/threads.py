"""How time and total rate change with the number of threads on one line."""

from __future__ import annotations

import json
from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.say import report_words as say
from linewright.say.name_words import in_english
from linewright.show.report import charts, facts
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section

METRICS = {"rate": "all threads together, operations per µs", "ns": "one thread's ns per operation"}
UNITS = {"rate": "operations per µs", "ns": "ns per operation"}
OPERATIONS_WITHOUT = ("handoff", "none", "percpu_none", "readers_none", "readers_grace")
"""Operations that one thread alone cannot do, or that do nothing."""
HEIGHT = 240


def section(material: Material) -> Section | None:
    points: dict[str, list[dict[str, Any]]] = {}
    for series in material.series:
        for row in _rows(series):
            points.setdefault(row["operation"], []).append(row)
    if not points:
        return None
    metric = Control(signal="metric", label="Show", options=list(METRICS.items()))
    return Section.of(
        "threads",
        figures=[_figure(operation, rows, material, metric) for operation, rows in points.items()],
        controls=[metric],
    )


def _rows(series: Series) -> list[dict[str, Any]]:
    """Cells back to back, with no contender spacing, of whatever was run with different numbers of
    threads."""
    found: dict[tuple, list[Summary]] = {}
    for s in series.summaries:
        cell = s.cell
        if (
            cell.contender == "placebo"
            or cell.operation in OPERATIONS_WITHOUT
            or cell.work_iters
            or cell.contender_iters
        ):
            continue
        if not s.has_figures or s.total_mops <= 0 or cell.params.get("rounds") == "counted":
            continue
        around = cell.situation.without("contender", "threads", "placement", "lines")
        key = (cell.operation, cell.form, cell.order, around, cell.params.get("policy"))
        found.setdefault(key, []).append(s)
    several = [members for members in found.values() if len({s.cell.threads for s in members}) > 1]
    return [
        facts.of_cell(s, series)
        | {"rate": facts.rounded(s.total_mops), "which": facts.params_text(s.cell)}
        for members in several
        for s in _nearest(members)
    ]


def _nearest(members: list[Summary]) -> list[Summary]:
    """One cell for each number of threads: the first placement that was measured."""
    first: dict[int, Summary] = {}
    for s in members:
        first.setdefault(s.cell.threads, s)
    return [first[threads] for threads in sorted(first)]


def _figure(
    operation: str, rows: list[dict[str, Any]], material: Material, metric: Control
) -> Chart:
    which = facts.once(
        row["which"] for row in rows
    )  # of several, the middle one: a chart of all of them is a tangle
    rows = [row for row in rows if row["which"] == which[(len(which) - 1) // 2]]
    base = charts.base(rows).transform_calculate(
        value="datum[metric]", key="datum.form + datum.which + datum.series"
    )
    colour = charts.forms(material, operation, rows)
    x = charts.ordinal("threads", "threads")
    places = charts.log_axis({name: [row[name] for row in rows] for name in METRICS}, "metric")
    y = alt.Y("value:Q", title=None, **places)
    fields = (
        *charts.CELL_TIP,
        ("which", "parameters"),
        ("threads", "threads"),
        ("rate:q", "operations per µs"),
        ("ns:q", "ns per operation"),
        ("remark", "note"),
    )
    layers = charts.curves(
        base,
        x,
        "value",
        y,
        colour,
        fields,
        key="key",
        strokes=charts.strokes(material.labels, rows),
        marked=False,
    )
    return Chart(
        id=f"threads-{operation}",
        title=", ".join(x for x in (in_english(operation), in_english(rows[0]["which"])) if x),
        text=say.chart_text(
            "threads", operation=operation, count=len({row["threads"] for row in rows})
        ),
        spec=charts.finish(layers.properties(title=_unit()), HEIGHT, [metric]),
    )


def _unit() -> alt.TitleParams:
    """What stands above the axis: an axis' own title cannot follow a choice."""
    return alt.TitleParams(
        text=alt.ExprRef(f"({json.dumps(UNITS)})[metric]"),
        style="unit",
        fontSize=12,
        fontWeight=500,
        offset=8,
        frame="bounds",
    )

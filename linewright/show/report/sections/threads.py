"""How time and total rate change with the number of threads on one line."""

from __future__ import annotations

import json

import altair as alt

from linewright.say import report_words as say
from linewright.say.name_words import in_english
from linewright.say.page_material import Material
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

METRICS = {"rate": "all threads together, operations per µs", "ns": "one thread's ns per operation"}
UNITS = {"rate": "operations per µs", "ns": "ns per operation"}
OPERATIONS_WITHOUT = ("handoff", "none", "percpu_none", "readers_none", "readers_grace")
"""Operations that one thread alone cannot do, or that do nothing."""
HEIGHT = 240
TIP = (
    *charts.CELL_TIP,
    ("which", "parameters"),
    ("threads", "threads"),
    ("rate:q", "operations per µs"),
    ("ns:q", "ns per operation"),
    ("remark", "note"),
)


def section(material: Material) -> Section | None:
    rows = [row for label in material.labels for row in _rows(material, label)]
    if not rows:
        return None
    metric = Control(signal="metric", label="Show", options=list(METRICS.items()))
    figures = facts.by_operation(
        rows,
        facts.unique(row["operation"] for row in rows),
        lambda operation, own: _figure(operation, own, material, metric),
    )
    return Section.of("threads", figures=figures, controls=[metric])


def _rows(material: Material, label: str) -> list[Datum]:
    """Cells back to back, with no contender spacing, of whatever was run with different numbers of
    threads; of each number the first placement that was measured."""
    found: dict[tuple, dict[int, Datum]] = {}
    for cell, row in material.cells_of(label):
        spaced = cell.work_iters or cell.contender_iters or cell.contender == "placebo"
        if spaced or cell.operation in OPERATIONS_WITHOUT or row["rate"] is None:
            continue
        if cell.params.get("rounds") != "counted":
            around = cell.situation.without("contender", "threads", "placement", "lines")
            key = (cell.operation, cell.form, cell.order, around, cell.params.get("policy"))
            row = row | {"which": facts.params_text(cell)}
            found.setdefault(key, {}).setdefault(cell.threads, row)
    several = (own for own in found.values() if len(own) > 1)
    return [own[threads] for own in several for threads in sorted(own)]


def _figure(operation: str, rows: list[Datum], material: Material, metric: Control) -> Chart:
    # Of several, the middle one: a chart of all of them is a tangle.
    which = facts.unique(row["which"] for row in rows)
    rows = [row for row in rows if row["which"] == which[(len(which) - 1) // 2]]
    base = charts.base(rows).transform_calculate(
        value="datum[metric]", key="datum.form + datum.which + datum.series"
    )
    colour = charts.forms(material, operation, rows)
    x = charts.ordinal("threads", "threads")
    places = charts.log_axis({name: [row[name] for row in rows] for name in METRICS}, "metric")
    y = alt.Y("value:Q", title=None, **places)
    layers = charts.curves(
        base,
        x,
        "value",
        y,
        colour,
        TIP,
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

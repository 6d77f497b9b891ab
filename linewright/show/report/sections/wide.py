"""Accesses wider than a register, over the share of writes."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.say import report_words as say
from linewright.show.report import charts, facts
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section

OPERATIONS = {"wide_read": "reads", "wide_write": "writes", "wide_add": "adds"}
HEIGHT = 260


def section(material: Material) -> Section | None:
    cells = [
        (s, series)
        for s, series in facts.cells(material, OPERATIONS)
        if "write_percent" in s.cell.params
        and s.cell.params.get("rounds") != "counted"
        and s.issue.median_ns > 0
    ]
    if not cells:
        return None
    ordered = sorted(cells, key=lambda c: c[0].cell.situation.rank)
    control = Control.of("threads", "Threads", (_class(s) for s, _ in reversed(ordered)))
    shown = [o for o in OPERATIONS if any(s.cell.operation == o for s, _ in cells)]
    widths = "/".join(str(w) for w in sorted({s.cell.width_bits for s, _ in cells}))
    return Section.of(
        "wide",
        figures=[
            _figure(o, [c for c in cells if c[0].cell.operation == o], material, control)
            for o in shown
        ],
        controls=[control],
        cells=[s.id for s, _ in cells],
        widths=widths,
    )


def _class(s: Summary) -> str:
    return (
        "one thread"
        if s.cell.threads == 1
        else f"{s.cell.threads} threads on one line{s.cell.situation.where}"
    )


def _figure(
    operation: str, cells: list[tuple[Summary, Series]], material: Material, control: Control
) -> Chart:
    rows: list[dict[str, Any]] = [
        facts.of_cell(s, series) | {"writes": int(s.cell.params["write_percent"]), "who": _class(s)}
        for s, series in cells
    ]
    shares = sorted({row["writes"] for row in rows})
    base = charts.base(rows, "datum.who == threads")
    x = charts.ordinal("writes", "% writes", sort=shares)
    places = charts.log_axis_of(rows, "ns", "who", control)
    y = alt.Y("ns:Q", title="ns per operation", **places)
    colour = charts.forms(material, operation, rows)
    layers = charts.curves(
        base,
        x,
        "ns",
        y,
        colour,
        (*charts.CELL_TIP[:3], ("writes", "% writes"), *charts.NS_TIP),
        whiskers=True,
        strokes=charts.strokes(material.labels, rows),
    )
    return Chart(
        id=f"wide-{operation.removeprefix('wide_')}",
        title=OPERATIONS[operation] if len(shares) > 1 else f"{OPERATIONS[operation]} alone",
        text=say.chart_text("wide", operation=operation),
        spec=charts.finish(layers, HEIGHT, [control]),
    )

"""Accesses wider than a register, over the share of writes."""

from __future__ import annotations

import altair as alt

from linewright.say import report_words as say
from linewright.say.page_material import Material
from linewright.schema import Cell
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

OPERATIONS = {"wide_read": "reads", "wide_write": "writes", "wide_add": "adds"}
HEIGHT = 260


def section(material: Material) -> Section | None:
    cells = [
        (cell, row | {"writes": int(cell.params["write_percent"]), "who": _class(cell)})
        for cell, row in material.cells(OPERATIONS)
        if "write_percent" in cell.params
        and cell.params.get("rounds") != "counted"
        and (row["ns"] or 0) > 0
    ]
    if not cells:
        return None
    ordered = sorted(cells, key=lambda c: c[0].situation.rank)
    control = Control.of("threads", "Threads", (row["who"] for _, row in reversed(ordered)))
    figures = facts.by_operation(
        [row for _, row in cells],
        OPERATIONS,
        lambda operation, own: _figure(operation, own, material, control),
    )
    widths = "/".join(map(str, sorted({cell.width_bits for cell, _ in cells})))
    ids = [cell.id for cell, _ in cells]
    return Section.of("wide", figures=figures, controls=[control], cells=ids, widths=widths)


def _class(cell: Cell) -> str:
    many = f"{cell.threads} threads on one line{cell.situation.where}"
    return "one thread" if cell.threads == 1 else many


def _figure(operation: str, rows: list[Datum], material: Material, control: Control) -> Chart:
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

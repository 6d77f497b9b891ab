"""The price list: what each remedy costs alone and with a second CPU, as bars on a logarithmic
scale."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.say import report_words as say
from linewright.say.cell_figures import rounded
from linewright.say.document import Bars, TableCell
from linewright.say.page_material import Material
from linewright.say.sentence import render_all
from linewright.show.price_bars import scale_of
from linewright.show.report import charts
from linewright.show.report.parts import Chart, Section

ROW_PX = 30
LABEL_PX = 190
"""Room for what stands beside a bar."""


def section(material: Material) -> Section | None:
    """A chart for each machine whose records hold cells of the price list."""
    figures = []
    for index, series in enumerate(material.series):
        table = series.document.table("prices")
        if table and scale_of(table, 1):
            name = f"prices-{index}" if material.several else "prices"
            title = series.label if material.several else "ns per operation"
            figures.append(_figure(table, name, title))
    return Section.of("prices", figures=figures) if figures else None


def _figure(table: Bars, name: str, title: str) -> Chart:
    rows = [row for cells in table.rows for row in _rows(table, cells)]
    names = [cells[0] for cells in table.rows]
    scale = scale_of(table, 1)
    for row in rows:
        for end in ("low", "high"):
            ns = row[f"ns_{end}"]
            row[end] = None if ns is None else max(scale.low, ns)
        row["beside"] = max(row["ns"], row["high"] or 0)
    most = max(scale.high, *(row["beside"] for row in rows))
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=320))
    x = alt.X(
        "ns:Q",
        title="ns per operation",
        scale=alt.Scale(type="log", domain=[scale.low, most], nice=False),
        axis=alt.Axis(
            values=[t for t in charts.ticks([scale.low, most]) if scale.low <= t <= most],
            format=charts.PLAIN,
        ),
    )
    sides = [side for _, side in table.bars if any(row["side"] == side for row in rows)]
    base = charts.base(rows).transform_calculate(least=str(scale.low))
    shared = {"y": y, "yOffset": alt.YOffset("side:N", scale=alt.Scale(domain=sides))}
    bars = base.mark_bar(cornerRadiusEnd=3).encode(
        x=x,
        x2="least:Q",
        color=alt.Color(
            "side:N",
            scale=alt.Scale(domain=[side for _, side in table.bars], range="diverging"),
            legend=alt.Legend(values=sides, title=None),
        ),
        tooltip=charts.tip(
            ("name", "remedy"), ("side", "situation"), ("ns:q", "ns"), *charts.ends("ns")
        ),
        **shared,
    )
    ends = {"x": alt.X("low:Q", title="ns per operation"), "x2": "high:Q"}
    whiskers = base.mark_rule(strokeWidth=2).encode(**ends, **shared)
    labels = base.mark_text(align="left", dx=5, fontSize=11).encode(
        x=alt.X("beside:Q", title="ns per operation"), text="text:N", **shared
    )
    return Chart(
        id=name,
        title=title,
        broad=True,
        text=say.chart_text("prices", prices=" ".join(render_all(table.spoken))),
        spec=charts.finish(
            alt.layer(bars, whiskers, labels), ROW_PX * len(names), left=charts.beside(names)
        ),
        least=charts.beside(names) + LABEL_PX + 160,
    )


def _rows(table: Bars, cells: list[str | TableCell]) -> list[dict[str, Any]]:
    """A row for each bar of a remedy; what stands last in the table stands beside the last bar."""
    drawn = ((side, cells[n]) for n, side in table.bars)
    found = [
        (side, cell)
        for side, cell in drawn
        if isinstance(cell, TableCell) and cell.value and cell.value > 0
    ]
    made = [
        {
            "name": cells[0],
            "side": side,
            "ns": rounded(cell.value),
            "ns_low": rounded(cell.low),
            "ns_high": rounded(cell.high),
            "text": cell.text,
        }
        for side, cell in found
    ]
    if made and cells[-1] not in ("", "1"):
        made[-1]["text"] += f" · {cells[-1]}"
    return made

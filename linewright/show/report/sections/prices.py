"""The price list: what each remedy costs alone and with a second CPU, as bars on a logarithmic
scale."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.matrix import Figure
from linewright.analysis.price_list import Price
from linewright.say import report_words as say
from linewright.say.cell_figures import interval
from linewright.say.cost_words import SIDES, figure, price_words, ratio_text
from linewright.say.document import Document
from linewright.show.price_bars import LONGEST_NS, scale_of
from linewright.show.report import charts
from linewright.show.report.material import Material
from linewright.show.report.parts import Chart, Section

ROW_PX = 30


def section(material: Material) -> Section | None:
    """A chart for each machine whose records hold cells of the price list."""
    figures = []
    for index, series in enumerate(material.series):
        document = series.document
        if document and document.prices and scale_of(document.prices, 1):
            name = f"prices-{index}" if material.several else "prices"
            figures.append(
                _figure(document, name, series.label if material.several else "ns per operation")
            )
    if not figures:
        return None
    return Section.of("prices", figures=figures)


def _figure(document: Document, name: str, title: str) -> Chart:
    rows = [row for price in document.prices for row in _rows(price)]
    names = [price.name for price in document.prices]
    scale = scale_of(document.prices, 1)
    for row in rows:
        for end in ("low", "high"):
            ns = row[f"ns_{end}"]
            row[end] = None if ns is None else max(scale.low, min(ns, LONGEST_NS))
        row["beside"] = max(row["shown"], row["high"] or 0)
    most = max(scale.high, *(row["beside"] for row in rows))
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=320))
    x = alt.X(
        "shown:Q",
        title="ns per operation",
        scale=alt.Scale(type="log", domain=[scale.low, most], nice=False),
        axis=alt.Axis(
            values=[t for t in charts.ticks([scale.low, most]) if scale.low <= t <= most],
            format=charts.PLAIN,
        ),
    )
    sides = [side for side in SIDES.values() if any(row["side"] == side for row in rows)]
    base = charts.base(rows).transform_calculate(least=str(scale.low))
    shared = {"y": y, "yOffset": alt.YOffset("side:N", scale=alt.Scale(domain=sides))}
    bars = base.mark_bar(cornerRadiusEnd=3).encode(
        x=x,
        x2="least:Q",
        color=charts.hue("side", sides),
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
        text=say.chart_text("prices", prices=" ".join(map(price_words, document.prices))),
        spec=charts.finish(
            alt.layer(bars, whiskers, labels), ROW_PX * len(names), left=charts.beside(names)
        ),
    )


def _rows(price: Price) -> list[dict[str, Any]]:
    """A row for each figure of a remedy; the ratio stands beside the last of them."""
    found = [(side, cost) for key, side in SIDES.items() if (cost := getattr(price, key))]
    return [
        {
            "name": price.name,
            "side": side,
            **interval("ns", cost.ns),
            "shown": min(cost.ns.median_ns, LONGEST_NS),
            "text": _text(cost, price if (side, cost) == found[-1] else None),
        }
        for side, cost in found
        if cost.ns.median_ns > 0
    ]


def _text(cost: Figure, price: Price | None) -> str:
    if price is None or price.reference:
        return figure(cost)
    return f"{figure(cost)} · {ratio_text(price)}{', alone' if price.only_alone else ''}"

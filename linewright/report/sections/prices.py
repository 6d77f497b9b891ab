"""The price list: what each remedy costs alone and with a second CPU, as bars on a logarithmic scale."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.screen_data import Figure as Cost
from linewright.analysis.screen_data import Price, Screen
from linewright.output.screen.chart import LONGEST_NS, ratio_text, scale_of
from linewright.output.screen.words import ns
from linewright.report import charts, facts
from linewright.report.material import Material
from linewright.report.parts import Figure, Section

ROW_PX = 30
SIDES = ("alone", "with a second CPU")


def section(material: Material) -> Section | None:
    """A chart for each machine whose records hold cells of the price list."""
    figures = []
    for index, series in enumerate(material.series):
        screen = series.screen
        if screen and screen.prices and scale_of(screen.prices, 1):
            name = f"prices-{index}" if material.several else "prices"
            figures.append(_figure(screen, name, series.label if material.several else "ns per operation"))
    if not figures:
        return None
    return Section(
        id="prices",
        title="Price list",
        lead="What each remedy costs, in ns per operation: alone, and with a second CPU that does the same."
        " Ratios are to one shared atomic word under the same condition. The scale is logarithmic.",
        figures=figures,
    )


def _figure(screen: Screen, name: str, title: str) -> Figure:
    rows = [row for price in screen.prices for row in _rows(price, screen.coarse)]
    names = [price.name for price in screen.prices]
    scale = scale_of(screen.prices, 1)
    most = max(scale.high, *(row["shown"] for row in rows))
    y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=320))
    x = alt.X(
        "shown:Q",
        title="ns per operation",
        scale=alt.Scale(type="log", domain=[scale.low, most], nice=False),
        axis=alt.Axis(
            values=[t for t in charts.ticks([scale.low, most]) if scale.low <= t <= most], format=charts.PLAIN
        ),
    )
    sides = [side for side in SIDES if any(row["side"] == side for row in rows)]
    base = alt.Chart(charts.inline(rows)).transform_calculate(least=str(scale.low))
    shared = {"y": y, "yOffset": alt.YOffset("side:N", scale=alt.Scale(domain=sides))}
    bars = base.mark_bar(cornerRadiusEnd=3).encode(
        x=x,
        x2="least:Q",
        color=charts.hue("side", sides),
        tooltip=charts.tip(("name", "remedy"), ("side", "condition"), ("ns:q", "ns"), *charts.ends("ns")),
        **shared,
    )
    labels = base.mark_text(align="left", dx=5, fontSize=11).encode(x=x, text="text:N", **shared)
    return Figure(
        id=name,
        title=title,
        broad=True,
        text="Bars: " + "; ".join(_sentence(price) for price in screen.prices),
        spec=charts.finish(alt.layer(bars, labels), ROW_PX * len(names), left=charts.beside(names)),
    )


def _rows(price: Price, coarse: bool) -> list[dict[str, Any]]:
    """A row for each figure of a remedy; the ratio stands beside the last of them."""
    found = [(side, cost) for side, cost in zip(SIDES, (price.alone, price.contended), strict=True) if cost]
    return [
        {
            "name": price.name,
            "side": side,
            "ns": facts.rounded(cost.ns.median_ns),
            "ns_low": facts.rounded(cost.ns.low_ns),
            "ns_high": facts.rounded(cost.ns.high_ns),
            "shown": min(cost.ns.median_ns, LONGEST_NS),
            "text": _text(cost, price if (side, cost) == found[-1] else None, coarse),
        }
        for side, cost in found
        if cost.ns.median_ns > 0
    ]


def _text(cost: Cost, price: Price | None, coarse: bool) -> str:
    text = f"{ns(cost.ns.median_ns)}{' ~' if cost.metastable else ''}{' ?' if not cost.reliable else ''}"
    ratio = ratio_text(price.ratio, price.reference, coarse or price.few) if price and not price.reference else ""
    return f"{text} · {ratio}{', alone' if price.only_alone else ''}" if ratio else text


def _sentence(price: Price) -> str:
    costs = [
        f"{side} {ns(c.ns.median_ns)} ns" for side, c in zip(SIDES, (price.alone, price.contended), strict=True) if c
    ]
    return f"{price.name} {', '.join(costs)}"

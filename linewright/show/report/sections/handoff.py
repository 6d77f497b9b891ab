"""Core to core: what it takes to hand a line over, by pair and definition."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.say import report_words as say
from linewright.say.cost_words import doubt_mark
from linewright.say.phrases import DISTANCES
from linewright.show.report import charts, facts
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section

MEANING = {
    "cmpxchg_blind": "compare-and-swap until it succeeds",
    "load_cmpxchg": "load until it is one's turn, then compare-and-swap",
    "store_load": "load until it is one's turn, then store",
}
FEWEST_FOR_MAP = 3
"""CPUs from which a square map says more than a row of points."""


def section(material: Material) -> Section | None:
    rows = [_row(s, series) for s, series in facts.cells(material, ["handoff"]) if len(s.cpus) == 2]
    if not rows:
        return None
    definitions = Control(
        signal="definition",
        label="A handoff is",
        options=[(f, MEANING.get(f, f)) for f in facts.once(r["form"] for r in rows)],
    )
    maps = [
        series
        for series in material.series
        if len({c for r in rows if r["series"] == series.label for c in r["cpus"]})
        >= FEWEST_FOR_MAP
    ]
    return Section.of(
        "handoff",
        figures=[_map(series, rows, material, definitions) for series in maps]
        + [_classes(rows, material)],
        controls=[definitions] if maps else [],
    )


def _row(s: Summary, series: Series) -> dict[str, Any]:
    half = {
        key: None if value is None else facts.rounded(value / 2)
        for key, value in facts.interval("ns", s.issue).items()
    }
    return {
        "series": series.label,
        "form": s.cell.form,
        "cpus": s.cpus,
        "pair": f"CPU {s.cpus[0]} ↔ {s.cpus[1]}",
        "place": DISTANCES.get(s.placement_class, s.placement_class or "unknown"),
        **half,
        "work": s.cell.work_iters,
        "mark": doubt_mark(s),
        "remark": facts.remark(s),
        "launches": s.launches,
    }


TIP = (
    ("series", "machine"),
    ("form", "definition"),
    ("pair", "cores"),
    ("place", "apart"),
    ("ns:q", "ns a handoff"),
    *charts.ends("ns"),
    ("remark", "note"),
)


def _map(
    series: Series, rows: list[dict[str, Any]], material: Material, definitions: Control
) -> Chart:
    mine = [
        r for r in rows if r["series"] == series.label and r["ns"] is not None and not r["work"]
    ]
    both = [r | {"from": a, "to": b} for r in mine for a, b in (r["cpus"], r["cpus"][::-1])]
    cpus = sorted({r["from"] for r in both})
    base = charts.base(both, "datum.form == definition")
    place = {
        "x": alt.X("from:O", title="CPU", sort=cpus, axis=alt.Axis(labelAngle=0, orient="top")),
        "y": alt.Y("to:O", title=None, sort=cpus),
    }
    colour = alt.Color(
        "ns:Q",
        scale=alt.Scale(range="heatmap", zero=False),
        legend=alt.Legend(title="ns a handoff", gradientLength=200),
    )
    step = 40 if len(cpus) <= 12 else 24 if len(cpus) <= 32 else 12
    named = base.transform_calculate(said="format(datum.ns, '.0f')")
    chart = charts.tiles(
        named, place, colour, "ns", charts.tip(*TIP), "said" if step == 40 else "", 11
    ).properties(width=alt.Step(step), height=alt.Step(step))
    return Chart(
        id=f"handoff-map-{material.series.index(series)}" if material.several else "handoff-map",
        title=f"Map of {series.label}" if material.several else "Every pair of cores",
        broad=len(cpus) > 18,
        text=say.chart_text("handoff-map", count=len(cpus)),
        spec=charts.finish(chart, None, [definitions], fills=False),
    )


def _classes(rows: list[dict[str, Any]], material: Material) -> Chart:
    """All pairs by how far apart their cores are, one colour for each definition."""
    order = list(DISTANCES.values())
    near = {place: order.index(place) for place in order}
    rows = [r for r in rows if r["ns"] is not None and not r["work"]]
    return charts.by_name(
        sorted(rows, key=lambda r: near.get(r["place"], len(order))),
        material,
        "form",
        ("form", "series"),
        TIP,
        name="place",
        axis="ns a handoff",
        log=False,
        id="handoff",
        title="By distance and definition",
        text=say.chart_text("handoff", count=len(rows)),
    )

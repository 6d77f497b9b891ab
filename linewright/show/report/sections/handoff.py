"""Core to core: what it takes to hand a line over, by pair and definition."""

from __future__ import annotations

import altair as alt

from linewright.say import report_words as say
from linewright.say.page_material import Material
from linewright.say.phrases import DISTANCES
from linewright.say.sentence import unique
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

MEANING = {
    "cmpxchg_blind": "compare-and-swap until it succeeds",
    "load_cmpxchg": "load until it is one's turn, then compare-and-swap",
    "store_load": "load until it is one's turn, then store",
}
FEWEST_FOR_MAP = 3
"""CPUs from which a square map says more than a row of points."""


def section(material: Material) -> Section | None:
    rows = [_row(row) for _, row in material.cells(["handoff"]) if len(row["cpus"]) == 2]
    if not rows:
        return None
    definitions = Control(
        signal="definition",
        label="A handoff is",
        options=[(f, MEANING.get(f, f)) for f in unique(r["form"] for r in rows)],
    )
    own = {label: [r for r in rows if r["series"] == label] for label in material.labels}
    many = {
        label: mine
        for label, mine in own.items()
        if len({c for r in mine for c in r["cpus"]}) >= FEWEST_FOR_MAP
    }
    shown = [r for r in rows if r["ns"] is not None and not r["work"]]
    return Section.of(
        "handoff",
        figures=[_map(label, mine, material, definitions) for label, mine in many.items()]
        + [_classes(shown, material)],
        controls=[definitions] if many else [],
    )


def _row(row: Datum) -> Datum:
    """With the time of one handoff, of which a round trip has two."""
    distance = DISTANCES.get(row["apart"], row["apart"] or "unknown")
    pair = "CPU {} ↔ {}".format(*row["cpus"])
    return row | facts.over(row, 2) | {"pair": pair, "place": distance}


TIP = (
    ("series", "machine"),
    ("form", "definition"),
    ("pair", "cores"),
    ("place", "apart"),
    ("ns:q", "ns a handoff"),
    *charts.ends("ns"),
    ("remark", "note"),
)


def _map(series: str, rows: list[Datum], material: Material, definitions: Control) -> Chart:
    mine = [r for r in rows if r["ns"] is not None and not r["work"]]
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
        **material.of_series("handoff-map", series, "Every pair of cores", "Map of "),
        broad=len(cpus) > 18,
        text=say.chart_text("handoff-map", count=len(cpus)),
        spec=charts.finish(chart, None, [definitions], fills=False),
    )


def _classes(rows: list[Datum], material: Material) -> Chart:
    """All pairs by how far apart their cores are, one colour for each definition."""
    order = list(DISTANCES.values())
    far = lambda r: order.index(r["place"]) if r["place"] in order else len(order)
    return charts.by_name(
        sorted(rows, key=far),
        material,
        TIP,
        name="place",
        axis="ns a handoff",
        log=False,
        id="handoff",
        title="By distance and definition",
        text=say.chart_text("handoff", count=len(rows)),
    )

"""Cache maintenance over lists: time per line over entry size, the terms fitted to it, and what one
wait saves."""

from __future__ import annotations

import altair as alt

from linewright.say import report_words as say
from linewright.say.cache_maintenance import WAITS, list_figures, saving_figures
from linewright.say.cell_tables import STATES, TERMS
from linewright.say.columns import table_of
from linewright.say.page_material import Material
from linewright.say.sentence import unique
from linewright.show.report import charts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

HEIGHT = 280


def section(material: Material) -> Section | None:
    fits = [(fit, of) for of in material.series for fit in of.answers.cache_fits]
    savings = [row for of in material.series for row in saving_figures(of.label, of.answers)]
    rows = [
        row
        for series in material.series
        for row in list_figures(material.cells_of(series.label), series.answers)
    ]
    if len({row["bytes"] for row in rows}) < 2:
        return None
    found = unique(row["state"] for row in rows)
    states = [state for state in (*STATES, *found) if state in found]
    control = Control(
        signal="state",
        label="Lines are",
        options=[(s, STATES.get(s, s)) for s in dict.fromkeys(states)],
    )
    forms = unique(row["form"] for row in rows)
    figures = [_per_line(rows, forms, material, control)]
    if savings:
        figures.append(_saved(savings, forms, material, control))
    title, columns = "The fit: what a line, an entry and a wait cost", material.with_machine(TERMS)
    grids = [table_of(title, columns, fits)] if fits else []
    return Section.of("cache", figures=figures, controls=[control], grids=grids)


def _longest(rows: list[Datum]) -> list[Datum]:
    """Aligned lists; of those that differ in their number of entries alone, the longest."""

    def kind(row: Datum) -> tuple:
        return (row["series"], row["form"], row["state"], row["bytes"], row["wait"])

    most: dict[tuple, int] = {}
    for row in rows:
        most[kind(row)] = max(most.get(kind(row), 0), row["entries"])
    return [row for row in rows if row["align"] == 0 and row["entries"] == most[kind(row)]]


def _per_line(rows: list[Datum], forms: list[str], material: Material, control: Control) -> Chart:
    rows = _longest(rows)
    base = (
        charts.base(rows)
        .transform_filter("datum.state == state")
        .transform_calculate(key="datum.form + datum.wait + datum.series")
    )
    y = alt.Y("ns:Q", title="ns per line", **charts.log_axis_of(rows, "ns", "state", control))
    waits = [text for text in WAITS.values() if any(r["wait"] == text for r in rows)]
    fields = (
        ("series", "machine"),
        ("form", "instruction"),
        ("wait", "wait"),
        ("bytes", "bytes an entry"),
        ("entries", "entries"),
        ("lines", "lines"),
        ("ns:q", "ns a line"),
        *charts.ends("ns"),
        ("fitted:q", "fitted"),
    )
    marks = (
        charts.shape("series", material.labels, rows)
        if material.several
        else charts.shape("wait", waits, rows)
    )
    layers = charts.curves(
        base,
        _entry_bytes(rows),
        "ns",
        y,
        charts.hue(material, forms),
        fields,
        whiskers=True,
        key="key",
        fitted="fitted",
        strokes={"strokeDash": charts.dash("wait", waits)},
        marked=False,
        shape=marks,
    )
    return Chart(
        id="cache-line",
        title="Time per line",
        text=say.chart_text("cache-line", forms=", ".join(forms)),
        spec=charts.finish(layers, HEIGHT, [control]),
    )


def _entry_bytes(rows: list[Datum]) -> alt.X:
    label = (
        "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' :"
        " datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
    )
    sizes = sorted({row["bytes"] for row in rows})
    axis = alt.Axis(values=sizes, labelExpr=label, labelAngle=0, labelOverlap="greedy")
    scale = alt.Scale(type="log", base=2, nice=False, padding=14)
    return alt.X("bytes:Q", title="bytes of an entry", scale=scale, axis=axis)


def _saved(rows: list[Datum], forms: list[str], material: Material, control: Control) -> Chart:
    base = charts.base(rows, "datum.state == state")
    fields = (
        ("series", "machine"),
        ("form", "instruction"),
        ("bytes", "bytes an entry"),
        ("entries", "entries"),
        ("saved:q", "% saved"),
        *charts.ends("saved"),
        ("each:q", "µs, a wait each"),
        ("once:q", "µs, one wait"),
    )
    layers = charts.curves(
        base,
        _entry_bytes(rows),
        "saved",
        alt.Y("saved:Q", title="% of the time saved"),
        charts.hue(material, forms),
        fields,
        band=True,
        strokes=charts.strokes(material.labels),
        marked=False,
    )
    return Chart(
        id="cache-saved",
        title="What one wait saves",
        text=say.chart_text("cache-saved", forms=", ".join(forms)),
        spec=charts.finish(layers, HEIGHT, [control]),
    )

"""Cache maintenance over lists: time per line over entry size, the terms fitted to it, and what one
wait saves."""

from __future__ import annotations

import altair as alt

from linewright.analysis import cache_fit
from linewright.analysis.cache_fit import Saving
from linewright.say import report_words as say
from linewright.say.cell_tables import STATES, TERMS
from linewright.say.columns import table_of
from linewright.schema import Cell
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section

HEIGHT = 280
WAITS = {"each": "a wait behind each entry", "once": "one wait for the list"}


def section(material: Material) -> Section | None:
    fits = [(fit, of) for of in material.series for fit in of.answers.cache_fits]
    savings = [(saving, of) for of in material.series for saving in of.answers.cache_savings]
    rows = [
        _row(cell, row, series)
        for series in material.series
        for cell, row in material.cells_of(series.label)
        if cache_fit.concerns(cell) and row["status"] == "ok" and (row["ns"] or 0) > 0
    ]
    if not rows:
        return None
    found = facts.unique(row["state"] for row in rows)
    states = [state for state in (*STATES, *found) if state in found]
    control = Control(
        signal="state",
        label="Lines are",
        options=[(s, STATES.get(s, s)) for s in dict.fromkeys(states)],
    )
    forms = facts.unique(row["form"] for row in rows)
    figures = [_per_line(rows, forms, material, control)]
    if any(saving.percent for saving, _ in savings):
        figures.append(_saved(savings, forms, material, control))
    title, columns = "The fit: what a line, an entry and a wait cost", material.with_machine(TERMS)
    grids = [table_of(title, columns, fits)] if fits else []
    return Section.of("cache", figures=figures, controls=[control], grids=grids)


def _row(cell: Cell, row: Datum, series: Series) -> Datum:
    lines, entries, waits = cache_fit.terms_of(cell, series.answers.line_bytes)
    group = cache_fit.group_of(cell)
    fit = next((fit for fit in series.answers.cache_fits if fit.group == group), None)
    return row | {
        "state": group.state,
        "align": group.align_bytes,
        "bytes": int(cell.params["entry_bytes"]),
        "entries": entries,
        "lines": lines,
        "wait": WAITS[str(cell.params["wait"])],
        **facts.over(row, lines),
        "fitted": facts.rounded(fit.pass_ns(lines, entries, waits) / lines) if fit else None,
    }


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
        charts.hue("form", forms),
        fields,
        whiskers=True,
        key="key",
        fitted="fitted",
        strokes={"strokeDash": charts.dash("wait", waits, rows)},
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


def _saved(
    savings: list[tuple[Saving, Series]], forms: list[str], material: Material, control: Control
) -> Chart:
    longest: dict[tuple, int] = {}
    for saving, series in savings:
        key = (series.label, saving.group, saving.entry_bytes)
        longest[key] = max(longest.get(key, 0), saving.entries)
    rows = [
        {
            "series": series.label,
            "form": saving.group.form,
            "state": saving.group.state,
            "bytes": saving.entry_bytes,
            "entries": saving.entries,
            "saved": facts.rounded(saving.percent.value),
            "saved_low": facts.rounded(saving.percent.low),
            "saved_high": facts.rounded(saving.percent.high),
            "each": facts.rounded(saving.each_ns / 1e3),
            "once": facts.rounded(saving.once_ns / 1e3),
        }
        for saving, series in savings
        if saving.percent
        and saving.group.align_bytes == 0
        and saving.entries == longest[(series.label, saving.group, saving.entry_bytes)]
    ]
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
        charts.hue("form", forms),
        fields,
        band=True,
        strokes=charts.strokes(material.labels, rows),
        marked=False,
    )
    return Chart(
        id="cache-saved",
        title="What one wait saves",
        text=say.chart_text("cache-saved", forms=", ".join(forms)),
        spec=charts.finish(layers, HEIGHT, [control]),
    )

"""Accesses wider than a register, over the share of writes."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.report import charts, facts
from linewright.report.material import Material, Series
from linewright.report.parts import Control, Figure, Section

OPERATIONS = {"wide_read": "reads", "wide_write": "writes", "wide_add": "adds"}
HEIGHT = 260


def section(material: Material) -> Section | None:
    cells = [
        (s, series)
        for s, series in facts.cells(material, OPERATIONS)
        if "write_percent" in s.cell.params and s.cell.params.get("rounds") != "counted" and s.issue.median_ns > 0
    ]
    if not cells:
        return None
    ordered = sorted(cells, key=lambda c: facts.contention_rank(c[0].cell))
    control = Control.of("threads", "Threads", (_class(s) for s, _ in reversed(ordered)))
    shown = [o for o in OPERATIONS if any(s.cell.operation == o for s, _ in cells)]
    widths = "/".join(str(w) for w in sorted({s.cell.width_bits for s, _ in cells}))
    return Section(
        id="wide",
        title="Wide atomics",
        lead=f"{widths}-bit reads and writes mixed: every thread does the same share of both."
        " Time of one operation of the mix.",
        controls=[control] if len(control.options) > 1 else [],
        figures=[_figure(o, [c for c in cells if c[0].cell.operation == o], material, control) for o in shown],
    )


def _class(s: Summary) -> str:
    return "one thread" if s.cell.threads == 1 else f"{s.cell.threads} threads on one line{facts.place(s.cell)}"


def _figure(operation: str, cells: list[tuple[Summary, Series]], material: Material, control: Control) -> Figure:
    rows: list[dict[str, Any]] = [
        facts.of_cell(s, series) | {"writes": int(s.cell.params["write_percent"]), "who": _class(s)}
        for s, series in cells
    ]
    shares = sorted({row["writes"] for row in rows})
    base = alt.Chart(charts.inline(rows)).transform_filter("datum.who == threads")
    x = alt.X(
        "writes:O",
        title="% writes",
        sort=shares,
        scale=alt.Scale(type="point", padding=0.3),
        axis=alt.Axis(labelAngle=0),
    )
    y = alt.Y(
        "ns:Q",
        title="ns per operation",
        **charts.log_axis({who: [r["ns"] for r in rows if r["who"] == who] for who, _ in control.options}, "threads"),
    )
    colour = charts.hue("form", facts.forms_of(material, operation), facts.once(row["form"] for row in rows))
    strokes = charts.strokes(material.labels, rows)
    whiskers = (
        base.transform_filter("datum.ns_low > 0")
        .mark_rule(strokeWidth=2)
        .encode(x=x, y=alt.Y("ns_low:Q", title="ns per operation"), y2="ns_high:Q", color=colour)
    )
    line = base.mark_line().encode(x=x, y=y, color=colour, detail="series:N", **strokes)
    points = base.mark_point(filled=True).encode(
        x=x, y=y, color=colour, tooltip=charts.tip(*charts.CELL_TIP[:3], ("writes", "% writes"), *charts.NS_TIP)
    )
    marks = charts.doubts(base, {"x": x, "y": y}, dy=-11)
    return Figure(
        id=f"wide-{operation.removeprefix('wide_')}",
        title=OPERATIONS[operation] if len(shares) > 1 else f"{OPERATIONS[operation]} alone",
        text=f"Time of {operation} by form over the share of writes, for one thread and for several.",
        spec=charts.finish(alt.layer(whiskers, line, points, marks), HEIGHT, [control]),
    )

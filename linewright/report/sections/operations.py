"""The library's operations as a program calls them: width against order, by policy."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.report.material import Material, Series
from linewright.report.parts import (
    Control, Figure, Section, contention, doubt, figure, finish, inline, once, remark, tip,
)  # fmt: skip
from linewright.table import has_figures

ORDERS = ("relaxed", "acquire", "release", "acq_rel", "seq_cst", "full")
STEP, ROW_STEP = 52, 26


def section(material: Material) -> Section | None:
    rows = [_row(s, series) for series in material.series for s in series.summaries if s.cell.operation.startswith("library_") and has_figures(s)]
    if not rows:
        return None
    point = Control(signal="point", label="Show", options=[(p, p) for p in once(r["point"] for r in rows)])
    machine = Control(signal="machine", label="Machine", options=[(s.label, s.label) for s in material.series])
    policy = Control(signal="policy", label="LINEWRIGHT_ATOMICS", options=[(p, p.replace("+", ",")) for p in once(r["policy"] for r in rows)])
    controls = [c for c in (point, policy, machine) if len(c.options) > 1]
    return Section(
        id="operations",
        title="Library operations",
        lead="The operations of linewright/atomic.h with the policy's branch, by operand width and memory order.",
        controls=controls,
        figures=[
            Figure(
                id="operations", title="Width × order", broad=True,
                text="Heat map of the library's operations: rows are operation and width, columns memory orders, colour is ns.",
                spec=finish(_chart(rows), None, [point, policy, machine], fills=False),
            )
        ],
    )  # fmt: skip


def _row(s: Summary, series: Series) -> dict[str, Any]:
    cell = s.cell
    exposed = cell.work_iters > 0 and s.exposed is not None
    value = s.exposed if exposed else s.issue
    what = f"exposed, work {cell.work_iters}" if exposed else "back to back" if not cell.work_iters else f"work {cell.work_iters} included"
    return {
        "series": series.label, "operation": cell.operation.removeprefix("library_"), "width": f"{cell.width_bits} bit",
        "form": cell.form, "order": cell.order, "policy": str(cell.params.get("policy", "default")),
        "point": f"{what}, {contention(cell)}, ns", "ns": figure(value.median_ns), "low": figure(value.low_ns), "high": figure(value.high_ns),
        "bits": cell.width_bits, "mark": doubt(s), "remark": remark(s),
    }  # fmt: skip


def _chart(rows: list[dict[str, Any]]) -> alt.FacetChart:
    rows = [r for r in rows if r["ns"] is not None]
    orders = [o for o in ORDERS if any(r["order"] == o for r in rows)]
    base = (
        alt.Chart(inline(rows))
        .transform_filter("datum.point == point && datum.policy == policy && datum.series == machine")
        .transform_calculate(said="format(datum.ns, abs(datum.ns) < 9.95 ? '.2f' : '.1f') + (datum.mark ? ' ' + datum.mark : '')")
    )
    widths = [f"{bits} bit" for bits in sorted({r["bits"] for r in rows})]
    place = {
        "x": alt.X("order:N", title=None, sort=orders, axis=alt.Axis(labelAngle=0, orient="bottom")),
        "y": alt.Y("width:N", title=None, sort=widths),
    }
    colour = alt.Color("ns:Q", scale=alt.Scale(type="symlog", constant=1, range="heatmap", nice=False), legend=alt.Legend(title="ns", gradientLength=200))
    fields = (("operation", "operation"), ("form", "form"), ("width", "width"), ("order", "order"), ("ns:q", "ns"), ("low:q", "from"), ("high:q", "to"), ("remark", "note"))
    tiles = base.mark_rect(style="tile", cornerRadius=3).encode(color=colour, tooltip=tip(*fields), **place)
    ink = "contrast('#ffffff', scale('color', datum.ns)) >= contrast('#16191d', scale('color', datum.ns)) ? '#ffffff' : '#16191d'"
    numbers = base.mark_text(fontSize=11, color=alt.ExprRef(ink)).encode(text="said:N", **place)
    layered = alt.layer(tiles, numbers).properties(width=alt.Step(STEP), height=alt.Step(ROW_STEP))
    operations = once(r["operation"] for r in rows)
    return layered.facet(
        column=alt.Column("operation:N", sort=operations, header=alt.Header(title=None)), spacing=18
    ).resolve_scale(x="independent")

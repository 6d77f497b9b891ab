"""The matrix of form, contention and work as a heat map."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.grid import OPERATIONS
from linewright.report.material import Material, Series
from linewright.report.parts import (
    CELL_TIP, SAID, Control, Figure, Section, contention, contention_rank, doubt, figure, finish, inline, measured, once, remark,
    tiles, tip,
)  # fmt: skip

METRICS = {
    "p50": "median, ns", "p99": "99th percentile of batch means, ns", "exposed": "exposed cost, ns",
    "rate": "all threads together, operations per µs",
}  # fmt: skip
BROAD_STEP, STEP, ROW_STEP = 46, 40, 23


def section(material: Material) -> Section | None:
    cells = [(s, series) for series in material.series for s in measured(series, OPERATIONS)]
    if not cells:
        return None
    rows = [_row(s, series) for s, series in cells]
    shown = {name: text for name, text in METRICS.items() if any(row[name] is not None for row in rows)}
    metric = Control(signal="metric", label="Show", options=list(shown.items()))
    machine = Control(signal="machine", label="Machine", options=[(s.label, s.label) for s in material.series])
    controls = [metric, machine] if material.several else [metric]
    classes = once(contention(s.cell) for s, _ in sorted(cells, key=lambda c: contention_rank(c[0].cell)))
    columns = len({(contention(s.cell), s.cell.work_iters) for s, _ in cells})
    labels = sorted(once(row["label"] for row in rows), key=by_operation)
    spec = finish(_chart(rows, classes, labels, material.several, STEP if columns > 16 else BROAD_STEP), None, controls, fills=False)
    return Section(
        id="matrix",
        title="The matrix",
        lead="Every form at every contention and work length. Contended cells name the pause: iterations between the contender's"
        " operations. ◆ marks metastable cells, whose launches fall into groups; ? marks cells not to be relied on.",
        controls=controls,
        figures=[
            Figure(
                id="matrix", title="Form × contention × work", broad=True, spec=spec,
                text=f"Heat map of {len(labels)} forms by contention and work iterations; colour is {', '.join(shown.values())}, to choose from.",
            )
        ],
    )  # fmt: skip


def by_operation(label: str) -> int:
    """Sorts labels that begin with an operation."""
    return OPERATIONS.index(label.partition(" ")[0])


def _row(s: Summary, series: Series) -> dict[str, Any]:
    cell = s.cell
    exposed = s.exposed.median_ns if s.exposed else None
    width = "" if cell.width_bits in (64, 32) else f" u{cell.width_bits}"
    return {
        "series": series.label, "label": f"{cell.operation} · {cell.form}{width}", "form": cell.form,
        "contention": contention(cell), "work": cell.work_iters,
        "p50": figure(s.issue.median_ns), "p99": figure(s.batch.p99_ns if s.batch else None), "exposed": figure(exposed),
        "rate": figure(s.total_mops) if s.total_mops > 0 else None, "mark": doubt(s), "remark": remark(s),
    }  # fmt: skip


def _chart(rows: list[dict[str, Any]], classes: list[str], labels: list[str], several: bool, step: int) -> alt.FacetChart:
    base = (
        alt.Chart(inline(rows))
        .transform_calculate(
            value="datum[metric]",
            shade="max(datum.value, 0.1)",
            said=f"isValid(datum.value) ? format(datum.value, {SAID.format('datum.value')}) + (datum.mark ? ' ' + datum.mark : '') : ''",
        )
        .transform_filter("isValid(datum.value)")
    )
    if several:
        base = base.transform_filter("datum.series == machine")
    place = {
        "x": alt.X("work:O", title=None, axis=alt.Axis(labelAngle=0)),
        "y": alt.Y("label:N", title=None, sort=labels, axis=alt.Axis(labelLimit=360)),
    }
    colour = alt.Color(
        "shade:Q", scale=alt.Scale(type="log", nice=False, range="heatmap"),
        legend=alt.Legend(title="cheap to dear (for the rate: slow to fast), logarithmic", gradientLength=260, format="~g", tickCount=4),
    )  # fmt: skip
    fields = (*CELL_TIP[:3], ("work", "work iterations"), ("p50:q", "median ns"), ("p99:q", "p99 ns"), ("exposed:q", "exposed ns"),
              ("rate:q", "all threads, per µs"), ("remark", "note"))  # fmt: skip
    layered = tiles(base, place, colour, "shade", tip(*fields), "said").properties(width=alt.Step(step), height=alt.Step(ROW_STEP))
    header = alt.Header(title="contention, and below it iterations of work between operations", titleAnchor="start", labelAnchor="start")
    return layered.facet(column=alt.Column("contention:N", sort=classes, header=header), spacing=14)

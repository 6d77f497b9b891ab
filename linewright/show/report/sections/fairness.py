"""Who gets the line when several threads want it."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.analysis.summary import Summary
from linewright.plans.grid import OPERATIONS
from linewright.say import report_words as say
from linewright.show.report import charts, facts
from linewright.show.report.material import Material, Series
from linewright.show.report.parts import Chart, Control, Section
from linewright.show.report.sections.matrix import by_operation


def section(material: Material) -> Section | None:
    cells = [
        (s, series)
        for s, series in facts.cells(material, set(OPERATIONS) - {"read"})
        if s.cell.contender == "same_line" and len(s.thread_ops) > 1 and sum(s.thread_ops) > 0
    ]
    if not cells:
        return None
    ordered = sorted(cells, key=lambda c: (c[0].cell.situation.rank, c[0].cell.work_iters))
    control = Control.of("point", "Point", (s.cell.situation.words() for s, _ in ordered))
    return Section.of(
        "fairness",
        figures=[
            _figure(series, [s for s, of in cells if of is series], material, control)
            for series in material.series
            if any(of is series for _, of in cells)
        ],
        controls=[control],
    )


def _figure(series: Series, cells: list[Summary], material: Material, control: Control) -> Chart:
    rows: list[dict[str, Any]] = [
        {
            "label": f"{s.cell.operation} · {s.cell.form}",
            "point": s.cell.situation.words(),
            "thread": f"thread {thread}",
            "place": thread,
            "share": facts.rounded(ops / sum(s.thread_ops)),
            "jain": facts.rounded(s.fairness) if s.equal_loops else None,
            "cpu": s.cpus[thread] if thread < len(s.cpus) else None,
        }
        for s in by_operation(cells)
        for thread, ops in enumerate(s.thread_ops)
    ]
    labels = facts.once(row["label"] for row in rows)
    threads = facts.once(row["thread"] for row in rows)
    base = charts.base(rows, "datum.point == point")
    y = alt.Y("label:N", title=None, sort=labels, axis=alt.Axis(labelLimit=360))
    legend = alt.Legend(title=None) if len(threads) <= 12 else None
    bars = base.mark_bar(height={"band": 0.62}).encode(
        y=y,
        x=alt.X(
            "share:Q",
            stack="zero",
            title="share of all operations",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=5),
        ),
        color=alt.Color("thread:N", scale=alt.Scale(domain=threads), legend=legend),
        order="place:Q",
        tooltip=charts.tip(
            ("label", "form"),
            ("point", "point"),
            ("thread", "thread"),
            ("cpu", "CPU"),
            ("share:q", "share"),
            ("jain:q", "Jain's index"),
        ),
    )
    jain = (
        base.transform_filter("datum.place == 0")
        .mark_text(align="left", dx=8)
        .encode(y=y, x=alt.value(alt.ExprRef("width")), text=alt.Text("jain:Q", format=".2f"))
    )
    name = f"fairness-{material.series.index(series)}" if material.several else "fairness"
    return Chart(
        id=name,
        title=series.label
        if material.several
        else "Shares of the threads; Jain's index on the right",
        broad=not material.several,
        least=180 + charts.beside(labels),
        text=say.chart_text("fairness", count=len(labels)),
        spec=charts.finish(alt.layer(bars, jain), charts.ROW_PX * max(len(labels), 3), [control]),
    )

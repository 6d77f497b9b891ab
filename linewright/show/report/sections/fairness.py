"""Who gets the line when several threads want it."""

from __future__ import annotations

import altair as alt

from linewright.plans.grid import OPERATIONS
from linewright.say import report_words as say
from linewright.say.page_material import Material
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

TIP = (
    ("label", "form"),
    ("situation", "point"),
    ("thread", "thread"),
    ("cpu", "CPU"),
    ("share:q", "share"),
    ("jain:q", "Jain's index"),
)


def section(material: Material) -> Section | None:
    cells = [
        (cell, row)
        for cell, row in material.cells(set(OPERATIONS) - {"read"})
        if cell.situation.contended and len(row["thread_ops"]) > 1 and sum(row["thread_ops"]) > 0
    ]
    if not cells:
        return None
    ordered = sorted(cells, key=lambda c: (c[0].situation.rank, c[0].work_iters))
    control = Control.of("situation", "Point", (row["situation"] for _, row in ordered))
    cells.sort(key=lambda c: OPERATIONS.index(c[0].operation))
    own = {label: [r for _, r in cells if r["series"] == label] for label in material.labels}
    return Section.of(
        "fairness",
        figures=[_figure(label, rows, material, control) for label, rows in own.items() if rows],
        controls=[control],
    )


def _figure(series: str, cells: list[Datum], material: Material, control: Control) -> Chart:
    rows: list[Datum] = [
        row
        | {
            "label": f"{row['operation']} · {row['form']}",
            "thread": f"thread {thread}",
            "place": thread,
            "share": facts.rounded(ops / sum(row["thread_ops"])),
            "cpu": row["cpus"][thread] if thread < len(row["cpus"]) else None,
        }
        for row in cells
        for thread, ops in enumerate(row["thread_ops"])
    ]
    labels, threads = (facts.unique(row[name] for row in rows) for name in ("label", "thread"))
    base = charts.base(rows, "datum.situation == situation")
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
        tooltip=charts.tip(*TIP),
    )
    jain = (
        base.transform_filter("datum.place == 0")
        .mark_text(align="left", dx=8)
        .encode(y=y, x=alt.value(alt.ExprRef("width")), text=alt.Text("jain:Q", format=".2f"))
    )
    title = "Shares of the threads; Jain's index on the right"
    return Chart(
        **material.of_series("fairness", series, title),
        broad=not material.several,
        least=180 + charts.beside(labels),
        text=say.chart_text("fairness", count=len(labels)),
        spec=charts.finish(alt.layer(bars, jain), charts.ROW_PX * max(len(labels), 3), [control]),
    )

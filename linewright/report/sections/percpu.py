"""Counting on the current CPU: sequences against what is used instead."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.families import PERCPU
from linewright.report import charts, facts
from linewright.report.material import Material
from linewright.report.parts import Control, Figure, Section

OPERATIONS = PERCPU.operations


def section(material: Material) -> Section | None:
    cells = facts.cells(material, OPERATIONS)
    if not cells:
        return None
    rows = [facts.of_cell(s, series) | facts.interval("exposed", s.exposed) | _point(s) for s, series in cells]
    words = Control.of("words", "Counters", (row["words"] for row in rows))
    point = Control.of("point", "Cost", (row["point"] for row in rows))
    figures = [_figure(o, [r for r in rows if r["operation"] == o], material, [point, words]) for o in OPERATIONS]
    return Section(
        id="percpu",
        title="Per-CPU counters",
        lead="Adding to a counter of the current CPU, by a restartable sequence and by the alternatives: thread-local"
        " and racy counters (floors: they count something else, or lose counts), atomics on an own line, and one"
        " shared line.",
        controls=[c for c in (point, words) if len(c.options) > 1],
        figures=[f for f in figures if f is not None],
    )


def _point(s) -> dict[str, Any]:
    """Which cost at which work; with work around it the exposed cost is the figure."""
    slots = s.cell.params.get("slots", 1)
    words = "one word" if slots == 1 else f"{slots} words in turn"
    work = s.cell.work_iters
    if work and s.exposed is not None:
        point, shown = f"exposed with {work} units of work", s.exposed
    else:
        point, shown = f"work {work} included" if work else "back to back", s.issue
    return {"words": words, "point": point, **facts.interval("shown", shown)}


def _figure(operation: str, rows: list[dict[str, Any]], material: Material, controls: list[Control]) -> Figure | None:
    if not rows:
        return None
    for row in rows:
        row["who"] = "one thread" if row["threads"] == 1 else f"{row['threads']} threads at once"
        row["lane"] = row["who"] + row["series"]
    forms, labels = facts.once(row["form"] for row in rows), material.labels
    who = sorted(facts.once(row["who"] for row in rows), key=lambda w: (w != "one thread", w))
    lanes = [w + label for w in who for label in labels]
    chart = charts.dots(
        rows,
        "shown",
        "ns per operation",
        alt.Y("form:N", title=None, sort=forms),
        charts.hue("who", who),
        "lane",
        lanes,
        labels,
        False,
        charts.tip(
            *charts.CELL_TIP,
            ("point", "cost"),
            ("shown:q", "ns"),
            *charts.ends("shown"),
            *charts.NS_TIP[3:],
        ),
        ["datum.point == point", "datum.words == words"],
        "point",
    )
    return Figure(
        id=f"percpu-{operation.removeprefix('percpu_')}",
        title=operation.replace("_", " "),
        least=charts.room(forms),
        text=f"Time of {operation} by form, for {' and '.join(who)}.",
        spec=charts.finish(
            chart,
            charts.pixels(len(forms)) + 8 * max(0, len(lanes) - 2) * len(forms),
            controls,
            left=charts.beside(forms),
        ),
    )

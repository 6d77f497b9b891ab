"""Counting on the current CPU: sequences against what is used instead."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.report import charts, facts
from linewright.report.material import Material
from linewright.report.parts import Control, Figure, Section

OPERATIONS = ("percpu_add", "percpu_cmpxchg")
METRICS = {"ns": "back to back", "exposed": "exposed"}


def section(material: Material) -> Section | None:
    cells = [(s, series) for series in material.series for s in facts.measured(series, OPERATIONS)]
    if not cells:
        return None
    rows = [facts.of_cell(s, series) | facts.interval("exposed", s.exposed) | _point(s) for s, series in cells]
    words = Control(
        signal="words", label="Counters", options=[(w, w) for w in facts.once(row["words"] for row in rows)]
    )
    point = Control(signal="point", label="Cost", options=[(p, p) for p in facts.once(row["point"] for row in rows)])
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
    if s.cell.work_iters == 0 or s.exposed is None:
        return {
            "words": words,
            "point": "back to back" if s.cell.work_iters == 0 else f"work {s.cell.work_iters} included",
            **{
                f"shown{end}": value
                for end, value in zip(("", "_low", "_high"), facts.interval("x", s.issue).values(), strict=True)
            },
        }
    return {
        "words": words,
        "point": f"exposed with {s.cell.work_iters} units of work",
        **{
            f"shown{end}": value
            for end, value in zip(("", "_low", "_high"), facts.interval("x", s.exposed).values(), strict=True)
        },
    }


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
            ("shown_low:q", "from"),
            ("shown_high:q", "to"),
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

"""Counting on the current CPU: sequences against what is used instead."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.report.material import Material
from linewright.report.parts import (
    CELL_TIP,
    NS_TIP,
    Control,
    Figure,
    Section,
    beside,
    dots,
    facts,
    finish,
    hue,
    interval,
    measured,
    once,
    pixels,
    room,
    tip,
)

OPERATIONS = ("percpu_add", "percpu_cmpxchg")
METRICS = {"ns": "back to back", "exposed": "exposed"}


def section(material: Material) -> Section | None:
    cells = [(s, series) for series in material.series for s in measured(series, OPERATIONS)]
    if not cells:
        return None
    rows = [facts(s, series) | interval("exposed", s.exposed) | _point(s) for s, series in cells]
    words = Control(signal="words", label="Counters", options=[(w, w) for w in once(row["words"] for row in rows)])
    point = Control(signal="point", label="Cost", options=[(p, p) for p in once(row["point"] for row in rows)])
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
                for end, value in zip(("", "_low", "_high"), interval("x", s.issue).values(), strict=True)
            },
        }
    return {
        "words": words,
        "point": f"exposed with {s.cell.work_iters} iterations of work",
        **{
            f"shown{end}": value
            for end, value in zip(("", "_low", "_high"), interval("x", s.exposed).values(), strict=True)
        },
    }


def _figure(operation: str, rows: list[dict[str, Any]], material: Material, controls: list[Control]) -> Figure | None:
    if not rows:
        return None
    for row in rows:
        row["who"] = "one thread" if row["threads"] == 1 else f"{row['threads']} threads at once"
        row["lane"] = row["who"] + row["series"]
    forms, labels = once(row["form"] for row in rows), [series.label for series in material.series]
    who = sorted(once(row["who"] for row in rows), key=lambda w: (w != "one thread", w))
    lanes = [w + label for w in who for label in labels]
    chart = dots(
        rows,
        "shown",
        "ns per operation",
        alt.Y("form:N", title=None, sort=forms),
        hue("who", who),
        "lane",
        lanes,
        labels,
        False,
        tip(
            *CELL_TIP,
            ("point", "cost"),
            ("shown:q", "ns"),
            ("shown_low:q", "from"),
            ("shown_high:q", "to"),
            *NS_TIP[3:],
        ),
        ["datum.point == point", "datum.words == words"],
        "point",
    )
    return Figure(
        id=f"percpu-{operation.removeprefix('percpu_')}",
        title=operation.replace("_", " "),
        least=room(forms),
        text=f"Time of {operation} by form, for {' and '.join(who)}.",
        spec=finish(chart, pixels(len(forms)) + 8 * max(0, len(lanes) - 2) * len(forms), controls, left=beside(forms)),
    )

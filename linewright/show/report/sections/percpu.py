"""Counting on the current CPU: sequences against what is used instead."""

from __future__ import annotations

from typing import Any

from linewright.families import PERCPU
from linewright.say import report_words as say
from linewright.say.name_words import in_english
from linewright.show.report import charts, facts
from linewright.show.report.material import Material
from linewright.show.report.parts import Chart, Control, Section

OPERATIONS = PERCPU.operations


def section(material: Material) -> Section | None:
    cells = facts.cells(material, OPERATIONS)
    if not cells:
        return None
    rows = [
        facts.of_cell(s, series) | facts.interval("exposed", s.exposed) | _point(s)
        for s, series in cells
    ]
    words = Control.of("words", "Counters", (row["words"] for row in rows))
    point = Control.of("point", "Cost", (row["point"] for row in rows))
    return Section.of(
        "percpu",
        figures=[
            _figure(operation, mine, material, [point, words])
            for operation in OPERATIONS
            if (mine := [row for row in rows if row["operation"] == operation])
        ],
        controls=(point, words),
    )


def _point(s) -> dict[str, Any]:
    """Which cost at which work; with work around it the exposed cost is the figure."""
    slots = s.cell.params.get("slots", 1)
    words = "one word" if slots == 1 else f"{slots} words in turn"
    point, shown = facts.shown(s)
    return {"words": words, "point": point, **facts.interval("shown", shown)}


def _figure(
    operation: str, rows: list[dict[str, Any]], material: Material, controls: list[Control]
) -> Chart:
    for row in rows:
        row["who"] = "one thread" if row["threads"] == 1 else f"{row['threads']} threads at once"
    who = sorted(facts.once(row["who"] for row in rows), key=lambda w: (w != "one thread", w))
    cost = (("point", "cost"), ("shown:q", "ns"), *charts.ends("shown"))
    return charts.by_name(
        rows,
        material,
        "who",
        ("who", "series"),
        (*charts.CELL_TIP, *cost, *charts.NS_TIP[3:]),
        classes=who,
        value="shown",
        log=False,
        filters=["datum.point == point", "datum.words == words"],
        controls=controls,
        id=f"percpu-{operation.removeprefix('percpu_')}",
        title=in_english(operation),
        text=say.chart_text("percpu", operation=operation, who=" and ".join(who)),
    )

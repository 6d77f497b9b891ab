"""Counting on the current CPU: sequences against what is used instead."""

from __future__ import annotations

from linewright.families import PERCPU
from linewright.say import report_words as say
from linewright.say.name_words import in_english
from linewright.say.page_material import Material
from linewright.schema import Cell
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

TIP = (
    *charts.CELL_TIP,
    ("cost", "cost"),
    ("shown:q", "ns"),
    *charts.ends("shown"),
    *charts.NS_TIP[3:],
)


def section(material: Material) -> Section | None:
    rows = [_row(cell, row) for cell, row in material.cells(PERCPU.operations)]
    if not rows:
        return None
    words = Control.of("words", "Counters", (row["words"] for row in rows))
    cost = Control.of("cost", "Cost", (row["cost"] for row in rows))

    def figure(operation: str, own: list[Datum]) -> Chart:
        who = sorted(facts.unique(row["who"] for row in own), key=lambda w: (w != "one thread", w))
        return charts.by_name(
            own,
            material,
            "who",
            ("who", "series"),
            TIP,
            classes=who,
            value="shown",
            log=False,
            filters=["datum.cost == cost", "datum.words == words"],
            controls=[cost, words],
            id=f"percpu-{operation.removeprefix('percpu_')}",
            title=in_english(operation),
            text=say.chart_text("percpu", operation=operation, who=" and ".join(who)),
        )

    figures = facts.by_operation(rows, PERCPU.operations, figure)
    return Section.of("percpu", figures=figures, controls=(cost, words))


def _row(cell: Cell, row: Datum) -> Datum:
    slots = cell.params.get("slots", 1)
    words = "one word" if slots == 1 else f"{slots} words in turn"
    who = "one thread" if cell.threads == 1 else f"{cell.threads} threads at once"
    return row | {"words": words, "who": who}

"""Readers' cost beside what it makes grace periods cost."""

from __future__ import annotations

import altair as alt

from linewright.say import report_words as say
from linewright.say.cell_figures import ENDS
from linewright.say.page_material import Material
from linewright.say.sentence import unique
from linewright.say.words import in_english
from linewright.schema import Cell
from linewright.show.report import charts, facts
from linewright.show.report.facts import Datum
from linewright.show.report.parts import Chart, Control, Section

PAIR, GRACE = "readers_pair", "readers_grace"
GROUPS: dict[str, str] = {
    PAIR: "Enter and leave",
    "readers_lookup": "Find an object, hold it, let it go",
    "readers_shape": "The two increments of a pair, by form",
    "readers_floor": "What a reader is made of",
    GRACE: "Wait for readers",
}


def section(material: Material) -> Section | None:
    rows = [_row(cell, row) for cell, row in material.cells(GROUPS) if (row["ns"] or 0) > 0]
    if not rows:
        return None
    shown = [row["point"] for row in rows if row["operation"] != GRACE]
    control = Control.of("point", "Readers", shown or [""])
    groups = facts.by_operation(
        rows, GROUPS, lambda operation, own: _group(operation, own, material, control)
    )
    return Section.of("readers", figures=[*_both(rows, material), *groups], controls=[control])


def _row(cell: Cell, row: Datum) -> Datum:
    row = row | {"which": facts.params_text(cell, ("updater", "read_delay", "instances"))}
    return row | {"point": _point(row)}


def _point(row: Datum) -> str:
    """Who is there: readers, how long they stay inside, and how an updater waits beside them."""
    many = {0: "no reader", 1: "one reader"}.get(row["readers"], f"{row['readers']} readers")
    inside = f"{row['delay']} units of work inside" if row["delay"] else ""
    updater = f"updater: {row['updater']}" if row["updater"] != "none" else ""
    return ", ".join(x for x in (many, inside, updater, in_english(row["which"])) if x)


def _joined(rows: list[Datum]) -> list[Datum]:
    """A row for each form that has both figures: its reader's, and its updater's beside readers
    where there are any."""
    pairs: dict[tuple[str, str], Datum] = {}
    waits: dict[tuple[str, str, str], Datum] = {}
    for row in rows:
        key = (row["series"], row["form"])
        if (
            row["operation"] == PAIR
            and not row["delay"]
            and row["updater"] == "none"
            and row["readers"] == 1
        ):
            pairs.setdefault(key, row)
        if row["operation"] == GRACE:
            known = waits.get((*key, row["updater"]))
            if known is None or (not known["readers"] and row["readers"]):
                waits[(*key, row["updater"])] = row
    return [
        {
            "series": label,
            "form": form,
            "name": form + ("" if updater == "synchronize" else f", {updater}"),
            **{f"pair{end}": pair[f"ns{end}"] for end in ENDS},
            **{f"grace{end}": wait[f"ns{end}"] for end in ENDS},
            "waited": wait["point"],
        }
        for (label, form, updater), wait in waits.items()
        if (pair := pairs.get((label, form)))
    ]


def _both(rows: list[Datum], material: Material) -> list[Chart]:
    """Each form as one point: its reader alone on one axis, its grace period on the other; nothing
    where fewer than two have both."""
    joined = _joined(rows)
    if len(joined) < 2:
        return []
    joined = charts.within(charts.within(joined, "pair"), "grace")
    labels, forms = material.labels, unique(row["form"] for row in joined)
    base = charts.base(joined)
    x_title, y_title = "ns that a reader pays for enter and leave", "ns of a grace period"
    x, y = (
        place(
            f"{name}:Q",
            title=title,
            **charts.log_axis([r[name + e] for r in joined for e in ("", "_from", "_to")]),
        )
        for place, name, title in ((alt.X, "pair", x_title), (alt.Y, "grace", y_title))
    )
    colour = charts.hue(material, forms)
    fields = (
        ("series", "machine"),
        ("name", "form"),
        ("pair:q", "ns enter and leave"),
        *charts.ends("pair"),
        ("grace:q", "ns a grace period"),
        *charts.ends("grace"),
        ("waited", "measured with"),
    )
    across = base.mark_rule().encode(
        x=alt.X("pair_from:Q", title=x_title), x2="pair_to:Q", y=y, color=colour
    )
    down = base.mark_rule().encode(
        y=alt.Y("grace_from:Q", title=y_title), y2="grace_to:Q", x=x, color=colour
    )
    points = base.mark_point(filled=True, size=110).encode(
        x=x,
        y=y,
        color=colour,
        shape=charts.shape("series", labels, joined),
        tooltip=charts.tip(*fields),
    )
    return [
        Chart(
            id="readers-both",
            title="Reader against grace period",
            broad=True,
            text=say.chart_text("readers-both"),
            spec=charts.finish(alt.layer(across, down, points), 340),
        )
    ]


def _group(operation: str, rows: list[Datum], material: Material, control: Control) -> Chart:
    waits = operation == GRACE
    rows = [row | {"named": f"{row['form']}, {row['point']}"} for row in rows] if waits else rows
    return charts.by_name(
        rows,
        material,
        (*charts.CELL_TIP, ("which", "parameters"), *charts.NS_TIP),
        name="named" if waits else "form",
        axis="ns",
        apart="" if waits else "point",
        controls=[] if waits else [control],
        id=operation.replace("_", "-"),
        title=GROUPS[operation],
        text=say.chart_text("readers", operation=in_english(operation)),
    )

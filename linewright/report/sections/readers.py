"""Readers' cost beside what it makes grace periods cost."""

from __future__ import annotations

from typing import Any

import altair as alt

from linewright.report.material import Material
from linewright.report.parts import (
    CELL_TIP, NS_TIP, Control, Figure, Section, beside, dots, facts, finish, forms_of, hue, inline, log_axis, measured, once, params_text,
    pixels, room, shape, ticks, tip,
)  # fmt: skip

PAIR, GRACE = "readers_pair", "readers_grace"
GROUPS = {
    PAIR: "Enter and leave", "readers_lookup": "Find an object, hold it, let it go",
    "readers_shape": "The two increments of a pair, by form", "readers_floor": "What sections are made of",
    GRACE: "Wait for readers",
}  # fmt: skip


def section(material: Material) -> Section | None:
    rows = [
        facts(s, series) | {"which": params_text(s.cell)}
        for series in material.series
        for s in measured(series, GROUPS)
        if s.issue.median_ns > 0
    ]
    if not rows:
        return None
    for row in rows:
        many = "one thread" if row["threads"] == 1 else f"{row['threads']} threads"
        row["point"] = ", ".join(x for x in (many, f"work {row['work']}" if row["work"] else "", row["which"]) if x)
    control = Control(signal="point", label="Readers", options=[(p, p) for p in once(r["point"] for r in rows if r["operation"] != GRACE)])
    figures = [_both(rows, material)]
    figures += [_group(operation, title, rows, material, control) for operation, title in GROUPS.items()]
    return Section(
        id="readers",
        title="Readers and grace periods",
        lead="What a read-side critical section costs its reader, beside what an updater pays to wait for readers. Cheap readers make"
        " waiting dear: the choice is between the two.",
        controls=[control] if len(control.options) > 1 else [],
        figures=[f for f in figures if f is not None],
    )


def _both(rows: list[dict[str, Any]], material: Material) -> Figure | None:
    """Each form as one point: its pair on one axis, its grace period on the other; the first measured point of each."""
    pairs: dict[tuple[str, str], dict[str, Any]] = {}
    waits: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        into = pairs if row["operation"] == PAIR else waits if row["operation"] == GRACE else None
        if into is not None and not row["work"]:
            into.setdefault((row["series"], row["form"]), row)
    joined = [
        {
            "series": key[0], "form": key[1], "pair": pair["ns"], "pair_low": pair["ns_low"], "pair_high": pair["ns_high"],
            "grace": waits[key]["ns"], "grace_low": waits[key]["ns_low"], "grace_high": waits[key]["ns_high"],
            "mark": pair["mark"] or waits[key]["mark"],
        }
        for key, pair in pairs.items()
        if key in waits
    ]  # fmt: skip
    if not joined:
        return None
    labels, forms = [series.label for series in material.series], once(row["form"] for row in joined)
    base = alt.Chart(inline(joined))
    x = alt.X("pair:Q", title="ns that a reader pays for enter and leave", scale=alt.Scale(type="log", nice=False, padding=40),
              axis=alt.Axis(values=ticks(r["pair"] for r in joined), format="~g"))
    y = alt.Y("grace:Q", title="ns of a grace period", **log_axis(r["grace"] for r in joined))
    colour = hue("form", forms_of(material, PAIR), forms)
    fields = (("series", "machine"), ("form", "form"), ("pair:q", "ns enter and leave"), ("pair_low:q", "from"), ("pair_high:q", "to"),
              ("grace:q", "ns a grace period"), ("grace_low:q", "from"), ("grace_high:q", "to"))  # fmt: skip
    across = base.transform_filter("datum.pair_low > 0").mark_rule().encode(x="pair_low:Q", x2="pair_high:Q", y=y, color=colour)
    down = base.transform_filter("datum.grace_low > 0").mark_rule().encode(y="grace_low:Q", y2="grace_high:Q", x=x, color=colour)
    points = base.mark_point(filled=True, size=110).encode(x=x, y=y, color=colour, shape=shape("series", labels, joined), tooltip=tip(*fields))
    names = base.mark_text(align="left", dx=10, dy=-8).encode(x=x, y=y, text="form:N")
    return Figure(
        id="readers-both", title="Reader against grace period", broad=True,
        text="Each form as a point: what enter and leave cost a reader across, what a grace period costs upwards; both logarithmic.",
        spec=finish(alt.layer(across, down, points, names), 340),
    )  # fmt: skip


def _group(operation: str, title: str, rows: list[dict[str, Any]], material: Material, control: Control) -> Figure | None:
    mine = [row | {"lane": row["contention"] + row["series"]} for row in rows if row["operation"] == operation]
    if not mine:
        return None
    forms, labels = once(row["form"] for row in mine), [series.label for series in material.series]
    classes = once(row["contention"] for row in mine)
    lanes = [c + label for c in classes for label in labels]
    filters = ["datum.point == point"] if operation != GRACE else []
    chart = dots(
        mine, "ns", "ns", alt.Y("form:N", title=None, sort=forms), hue("contention", classes), "lane", lanes, labels, True,
        tip(*CELL_TIP, ("which", "parameters"), *NS_TIP), filters, "point",
    )  # fmt: skip
    return Figure(
        id=operation.replace("_", "-"), title=title, least=room(forms), text=f"Time of {operation.replace('_', ' ')} by form, with intervals; logarithmic.",
        spec=finish(chart, pixels(len(forms)), [control] if filters else [], left=beside(forms)),
    )  # fmt: skip

# SPDX-License-Identifier: MIT
"""Draws the charts and bars of a document by Vega-Lite: points with intervals, lines, tiles, bars;
it knows no form, no operation and no situation, only axes, colours and rows."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
from msgspec.structs import asdict

from linewright.say.document import Axis, Bars, Chart, Explorer, Selection, TableCell, unique

ROW_PX, BAR_ROW_PX, HEIGHT = 24, 30, 300
LABEL_PX = 190
"""Room for what stands beside a bar."""
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
DASHES = [[1, 0], [6, 4], [2, 3], [10, 4, 2, 4], [4, 2], [12, 6]]
DASH_PX = 24
"""Length of a stroke in a legend: each of these is whole in it."""
PLAIN = ".6~g"
"""Numbers on axes: no exponent below a million."""
REACH = 5.0
"""How many times beyond the smallest and the largest median a logarithmic axis goes for an
interval's sake."""


class Canvas:
    """Draws the charts of one page: which machines are told apart there, and who has which
    colour."""

    def __init__(self, machines: Sequence[str], colours: dict[str, int]) -> None:
        self.machines, self.colours = machines, colours

    def specification(self, block: Chart | Bars) -> dict[str, Any]:
        """The block as a Vega-Lite specification, with the room that the page's script gives it."""
        if isinstance(block, Bars):
            return _bars(block)
        draw = {
            "points": self._points,
            "scatter": self._scatter,
            "lines": self._lines,
            "tiles": self._tiles,
        }
        return draw[block.kind](block)

    def _hue(self, forms: Sequence[str]) -> alt.Color:
        """Colour by the form: the page's own for each, and no other name in the legend."""
        numbers = {self.colours[form]: form for form in forms}
        # A scale gives colours by place: names of no form stand where other forms have theirs.
        domain = [numbers.get(n, f"({n})") for n in range(max(numbers, default=-1) + 1)]
        listed = alt.Legend(values=list(forms), title=None)
        return alt.Color("form:N", scale=alt.Scale(domain=domain), legend=listed)

    def _shape(self) -> alt.Shape:
        """Of several machines each has its own."""
        return alt.Shape(
            "series:N",
            scale=alt.Scale(domain=list(self.machines), range=SHAPES),
            legend=_legend(self.machines),
        )

    def _points(self, chart: Chart) -> dict[str, Any]:
        """A line for each name, a lane of it for each machine (and form, where a line has
        several, which their colours tell apart)."""
        name, value, rows = chart.y.name, chart.x.name, chart.rows
        forms = unique(row["form"] for row in rows)
        mixed = any(len({r["form"] for r in rows if r[name] == one}) > 1 for one in chart.y.places)
        rows = [row | {"lane": f"{row['form'] if mixed else ''} {row['series']}"} for row in rows]
        order = lambda row: (forms.index(row["form"]), self.machines.index(row["series"]))
        lanes = unique(row["lane"] for row in sorted(rows, key=order))
        rows, place = _value(chart.x, rows, chart.choices)
        drawn = _base(rows, chart.choices)
        where: dict[str, Any] = {"y": alt.Y(f"{name}:N", title=None, sort=chart.y.places)}
        if len(lanes) > 1:
            where["yOffset"] = alt.YOffset("lane:N", scale=alt.Scale(domain=lanes))
        shared = where | ({"color": self._hue(forms)} if mixed else {})
        layers = [
            _reach(drawn.mark_rule(strokeWidth=2), "x", chart.x, **shared),
            drawn.mark_point(filled=True).encode(
                x=alt.X(f"{value}:Q", title=chart.x.title, **place),
                shape=self._shape(),
                tooltip=_tip(chart.tips),
                **shared,
            ),
            _doubts(drawn, {"x": f"{value}_to:Q", **where}, align="left", dx=5),
        ]
        rows_px = ROW_PX + 9 * max(0, len(lanes) - 2)
        left, row = _beside(chart.y.places), len(chart.y.places)
        height = max(rows_px * row, 3 * ROW_PX)
        layout = {"left": left, "least": 180 + left, "row": height // row}
        return _finish(alt.layer(*layers), height, chart.choices, **layout)

    def _scatter(self, chart: Chart) -> dict[str, Any]:
        """Each row as a point with an interval on both axes."""
        rows, across = _value(chart.x, chart.rows)
        rows, up = _value(chart.y, rows)
        drawn, x, y = _base(rows), chart.x, chart.y
        places = {
            "x": alt.X(f"{x.name}:Q", title=x.title, **across),
            "y": alt.Y(f"{y.name}:Q", title=y.title, **up),
        }
        colour = self._hue(unique(row["form"] for row in rows))
        layers = [
            _reach(drawn.mark_rule(), "x", x, y=places["y"], color=colour),
            _reach(drawn.mark_rule(), "y", y, x=places["x"], color=colour),
            drawn.mark_point(filled=True, size=110).encode(
                color=colour, shape=self._shape(), tooltip=_tip(chart.tips), **places
            ),
        ]
        return _finish(alt.layer(*layers), HEIGHT, chart.choices)

    def _lines(self, chart: Chart) -> dict[str, Any]:
        """A line for each form, machine and stroke over the places of the horizontal axis, or over
        what was fitted to them."""
        value, title = chart.y.name, chart.y.title
        rows, up = _value(chart.y, chart.rows, chart.choices)
        drawn = _base(rows, chart.choices)
        strokes = chart.strokes or Axis(name="series", title="", places=list(self.machines))
        keys = " + ".join(f"datum.{name}" for name in unique(("form", "series", strokes.name)))
        drawn = drawn.transform_calculate(key=keys)
        x = alt.X(
            f"{chart.x.name}:O",
            title=chart.x.title,
            sort=chart.x.places,
            scale=alt.Scale(type="point", padding=0.3, domain=chart.x.places),
            axis=alt.Axis(labelAngle=0),
        )
        colour = self._hue(unique(row["form"] for row in rows))
        shared = {"x": x, "color": colour, "detail": "key:N"}
        y, lines = alt.Y(f"{value}:Q", title=title, **up), drawn
        height = y
        if chart.fitted:
            lines = drawn.transform_filter(f"datum.{chart.fitted} > 0")
            height = alt.Y(f"{chart.fitted}:Q", title=title)
        layers = [
            _reach(drawn.mark_rule(strokeWidth=2), "y", chart.y, **shared),
            lines.mark_line().encode(y=height, strokeDash=_dash(strokes), **shared),
            drawn.mark_point(filled=True).encode(
                y=y, tooltip=_tip(chart.tips), shape=self._shape(), **shared
            ),
        ]
        return _finish(alt.layer(*layers), HEIGHT, chart.choices)

    def _tiles(self, chart: Chart) -> dict[str, Any]:
        """Coloured rectangles with their values, the heat from cheap to expensive."""
        square, part = not chart.facet, chart.facet.name if chart.facet else ""
        columns = len({(row.get(part), row[chart.x.name]) for row in chart.rows})
        step = (40 if columns <= 12 else 24 if columns <= 32 else 12) if square else STEP
        drawn = _tile_layers(chart, 11 if square else 10.5, step >= STEP).properties(
            width=alt.Step(step), height=alt.Step(step if square else TILE_ROW_PX)
        )
        layout = {"left": _beside(chart.y.places) - BETWEEN, "row": TILE_ROW_PX}
        if chart.facet is None:
            return _finish(drawn, None, chart.choices, **layout | {"row": step})
        header = alt.Header(title=chart.facet.title, titleAnchor="start", labelAnchor="start")
        drawn = drawn.facet(
            alt.Facet(f"{chart.facet.name}:N", sort=chart.facet.places, header=header),
            columns=min(ABREAST, len(chart.facet.places)),
            spacing={"column": BETWEEN, "row": 2 * BETWEEN},
        )
        layout["abreast"] = BETWEEN + step * len({row[chart.x.name] for row in chart.rows})
        return _finish(drawn, None, chart.choices, **layout)

    def asked(self, block: Explorer) -> dict[str, Any]:
        """What the page's script needs to draw any of it: a chart for each figure, without rows,
        and without the names and places that it fills in."""
        return asdict(block) | {
            "figures": [{"spec": self._asked(axis)} | asdict(axis) for axis in block.figures],
            "axes": [asdict(axis) for axis in block.axes],
            "colours": self.colours,
        }

    def _asked(self, figure: Axis) -> dict[str, Any]:
        drawn, name = alt.Chart(alt.NamedData("rows")), figure.name
        fields = [("series", "machine"), ("form", "form"), ("place", "at"), ("held", "held")]
        ends = [(f"{name}_low:q", "from"), (f"{name}_high:q", "to")] if figure.interval else []
        scale = {"type": "log", "nice": False} if figure.log else {"zero": True, "nice": True}
        y = alt.Y(
            f"{name}:Q",
            title=figure.title,
            scale=alt.Scale(**scale),
            axis=alt.Axis(format=PLAIN, tickCount=6),
        )
        names = alt.Legend(title=None)
        several = Axis(name="series", title="", places=list(self.machines))
        stroke = {"strokeDash": _dash(several)} if len(self.machines) > 1 else {}
        tips = [*fields, (f"{name}:q", figure.title), *ends]
        layers = [
            drawn.mark_line(clip=True).encode(**stroke),
            drawn.mark_point(filled=True, clip=True).encode(
                shape=alt.Shape("form:N", legend=names),
                tooltip=_tip([*tips, ("launches", "launches"), ("remark", "note")]),
            ),
            _doubts(drawn, {}, dy=-11),
        ]
        if figure.interval:
            rules, both = drawn.mark_rule(clip=True, strokeWidth=2), (f"{name}_low", f"{name}_high")
            layers.insert(0, _reach(rules, "y", figure, both))
        chart = alt.layer(*layers).encode(
            x=alt.X("place:N", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("name:N"),
            y=y,
            color=alt.Color("form:N", legend=names),
            detail="name:N",
        )
        return _finish(chart, 340)


# ---- bars --------------------------------------------------------------------------------------


def _bars(table: Bars) -> dict[str, Any]:
    """A group of bars for each row, one for each column that is drawn, on a logarithmic scale;
    what stands last in the table stands beside the last bar."""
    rows = [row for cells in table.rows for row in _bar_rows(table, cells)]
    names = unique(row["name"] for row in rows)
    least = 10.0 ** math.floor(math.log10(min(row["ns"] for row in rows)))
    for row in rows:
        row["low"] = None if row["ns_low"] is None else max(least, row["ns_low"])
        row["beside"] = max(row["ns"], row["ns_high"] or 0)
    most = max(10 * least, *(row["beside"] for row in rows))
    title, known = table.axis.title, [side for _, side in table.bars]
    sides = [side for side in known if any(row["side"] == side for row in rows)]
    x = alt.X(
        "ns:Q",
        title=title,
        scale=alt.Scale(type="log", domain=[least, most], nice=False),
        axis=alt.Axis(values=[t for t in ticks([least, most]) if least <= t <= most], format=PLAIN),
    )
    drawn = _base(rows).transform_calculate(least=str(least))
    shared = {
        "y": alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=320)),
        "yOffset": alt.YOffset("side:N", scale=alt.Scale(domain=sides)),
    }
    colour = alt.Color(
        "side:N",
        scale=alt.Scale(domain=known, range="diverging"),
        legend=alt.Legend(values=sides, title=None),
    )
    tips = [("name", table.what), ("side", "situation"), ("ns:q", "ns")]
    tips += [("ns_low:q", "from"), ("ns_high:q", "to")]
    layers = [
        drawn.mark_bar(cornerRadiusEnd=3).encode(
            x=x, x2="least:Q", color=colour, tooltip=_tip(tips), **shared
        ),
        _reach(drawn.mark_rule(strokeWidth=2), "x", table.axis, ("low", "ns_high"), **shared),
        drawn.mark_text(align="left", dx=5, fontSize=11).encode(
            x=alt.X("beside:Q", title=title), text="text:N", **shared
        ),
    ]
    left = _beside(names)
    layout = {"left": left, "least": left + LABEL_PX + 160, "row": BAR_ROW_PX}
    return _finish(alt.layer(*layers), BAR_ROW_PX * len(names), **layout)


def _bar_rows(table: Bars, cells: list[str | TableCell]) -> list[dict[str, Any]]:
    made = [
        {
            "name": cells[0],
            "side": side,
            "ns": min(cell.modes, default=cell.value),
            "ns_low": min(cell.modes, default=cell.low),
            "ns_high": max(cell.modes, default=cell.high),
            "text": cell.text,
        }
        for place, side in table.bars
        if isinstance(cell := cells[place], TableCell) and cell.value and cell.value > 0
    ]
    if made and cells[-1] not in ("", "1"):
        made[-1]["text"] += f" · {cells[-1]}"
    return made


# ---- tiles -------------------------------------------------------------------------------------

STEP, TILE_ROW_PX, BETWEEN = 40, 23, 14
ABREAST = 3
"""Parts side by side in a picture; the page's script puts as many as there is room for."""
_SAID = "abs({0}) < 9.95 ? '.2f' : abs({0}) < 99.5 ? '.1f' : abs({0}) < 9999 ? '.0f' : '.1~e'"
"""Three digits for any size, as a Vega expression."""


def _tile_layers(chart: Chart, size: float, texts: bool) -> alt.LayerChart:
    """The values on their colours in the ink with more contrast, with a mark of doubt.

    A text of its own, since many fonts have no such sign, and all of a text takes the font that
    has."""
    asked = [choice for choice in chart.choices if choice.signal == "shade"]
    value, heat = f"datum.{chart.shades[0].name}", "datum.value"
    scale: dict[str, Any] = {"range": "heatmap", "zero": False}
    if asked:
        ends = f"({json.dumps({shade.name: shade.ends for shade in chart.shades})})[shade]"
        value, heat = "datum[shade]", f"max(datum.value, {ends}[0])"
        domain = [alt.ExprRef(f"{ends}[{n}]") for n in (0, 1)]
        scale = {"range": "heatmap", "type": "log", "nice": False, "domain": domain}
    drawn = (
        _base(chart.rows, [choice for choice in chart.choices if choice not in asked])
        .transform_calculate(value=value)
        .transform_filter("isValid(datum.value)")
        .transform_calculate(heat=heat, said=f"format(datum.value, {_SAID.format('datum.value')})")
    )
    colour = alt.Color(
        "heat:Q",
        scale=alt.Scale(**scale),
        legend=alt.Legend(
            title=chart.legend.split(", "), gradientLength=200, format=PLAIN, tickCount=4
        ),
    )
    axis = alt.Axis(labelAngle=0, orient="bottom" if chart.facet else "top")
    across = chart.x.places or alt.Undefined
    place = {
        "x": alt.X(f"{chart.x.name}:O", title=chart.x.title or None, sort=across, axis=axis),
        "y": alt.Y(
            f"{chart.y.name}:N", title=None, sort=chart.y.places, axis=alt.Axis(labelLimit=360)
        ),
    }
    tile = {"color": colour, "tooltip": _tip(chart.tips), **place}
    layers = [drawn.mark_rect(style="tile", cornerRadius=3).encode(**tile)]
    if texts:
        on = "contrast('{}', scale('color', datum.heat))"
        ink = f"{on.format('#ffffff')} >= {on.format('#16191d')} ? '#ffffff' : '#16191d'"
        style = {"color": alt.ExprRef(ink)}
        marked = drawn.transform_filter("datum.mark")
        layers += [
            drawn.mark_text(fontSize=size, **style).encode(text="said:N", **place),
            marked.mark_text(fontSize=size - 3, align="left", dx=1.2 * size, **style).encode(
                text="mark:N", **place
            ),
        ]
    return alt.layer(*layers)


# ---- what charts share -------------------------------------------------------------------------


def _base(rows: list[dict[str, Any]], choices: Sequence[Selection] = ()) -> alt.Chart:
    """A chart of the rows that have what each choice above it names."""
    chart = alt.Chart(alt.InlineData(values=rows))
    for choice in choices:
        chart = chart.transform_filter(f"datum.{choice.signal} == {choice.signal}")
    return chart


def _tip(fields: Iterable[tuple[str, str]]) -> list[alt.Tooltip]:
    """Tooltip lines of (field, title); numbers, whose fields end in ``:q``, to four digits."""
    return [
        alt.Tooltip(field[:-2], type="quantitative", title=title, format=".4~g")
        if field.endswith(":q")
        else alt.Tooltip(field, type="nominal", title=title)
        for field, title in fields
    ]


def _dash(axis: Axis) -> alt.StrokeDash:
    legend = _legend(axis.places, symbolType="stroke", symbolSize=DASH_PX**2)
    dashes = [DASHES[n % len(DASHES)] for n in range(len(axis.places))]
    scale = alt.Scale(domain=axis.places, range=dashes)
    return alt.StrokeDash(f"{axis.name}:N", scale=scale, legend=legend)


def _legend(names: Sequence[str], **more: Any) -> alt.Legend | None:
    """The names; nothing for one, which nothing is told apart by."""
    return alt.Legend(title=None, values=list(names), **more) if len(names) > 1 else None


def _reach(
    rules: alt.Chart, at: str, axis: Axis, ends: Sequence[str] = (), **where: Any
) -> alt.Chart:
    """Rules along an axis, for the drawn part of each interval or between the fields `ends`."""
    low, high = ends or (f"{axis.name}_from", f"{axis.name}_to")
    first = {"x": alt.X, "y": alt.Y}[at](f"{low}:Q", title=axis.title)
    return rules.encode(**{at: first, f"{at}2": f"{high}:Q"}, **where)


def _doubts(drawn: alt.Chart, where: dict[str, Any], **style: Any) -> alt.Chart:
    """The marks of doubt beside points."""
    doubted = drawn.transform_filter("datum.mark != ''")
    return doubted.mark_text(style="doubt", **style).encode(text="mark:N", **where)


def _value(
    axis: Axis, rows: list[dict[str, Any]], choices: Sequence[Selection] = ()
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows with ``NAME_from`` and ``NAME_to``, the drawn part of each interval, which on a
    logarithmic axis ends at the chart's edge; and the axis for them, one for each choice."""
    signal = choices[0].signal if choices and axis.log else ""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row[signal] if signal else "", []).append(row)
    drawn = {key: [_within(axis, own, row) for row in own] for key, own in groups.items()}
    every = [row for own in drawn.values() for row in own]
    if not axis.log:
        shown = alt.Axis(tickCount=5, format=PLAIN)
        return every, {"scale": alt.Scale(zero=True, nice=True), "axis": shown}
    fields = [axis.name + end for end in ("", "_from", "_to")]
    by_value = {k: ticks(row[f] for row in own for f in fields) for k, own in drawn.items()}
    places: Any = next(iter(by_value.values()), [])
    if len(by_value) > 1:
        places = alt.ExprRef(f"({json.dumps(by_value)})[{signal}]")
    return every, {
        "scale": alt.Scale(type="log", nice=False, padding=12),
        "axis": alt.Axis(values=places, format=PLAIN, labelOverlap="greedy", labelSeparation=4),
    }


def _within(axis: Axis, own: list[dict[str, Any]], row: dict[str, Any]) -> dict[str, Any]:
    low, high = row.get(f"{axis.name}_low"), row.get(f"{axis.name}_high")
    if axis.log and low is not None and high is not None:
        known = [v for r in own if (v := r[axis.name]) is not None and v > 0]
        low, high = max(low, min(known) / REACH), min(high, max(known) * REACH)
    return row | {f"{axis.name}_from": low, f"{axis.name}_to": high}


def ticks(values: Iterable[float | None]) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten over many decades, 1, 2 and 5 over few, even steps
    over less."""
    known = [v for v in values if v is not None and v > 0]
    if not known:
        return []
    low, high = min(known), max(known)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high <= 1500 * low else (1,)
    choices = []
    if high >= 4 * low:
        choices.append([float(f"{step}e{power}") for power in powers for step in steps])
    for parts in (3, 6):
        step = _even((high - low) / parts or high / 10)
        counts = range(max(1, math.ceil(low / step) - 1), math.floor(high / step) + 2)
        choices.append([float(f"{step * n:.6g}") for n in counts])
    return next(
        (places for places in choices if sum(low <= place <= high for place in places) > 1),
        choices[-1],
    )


def _even(size: float) -> float:
    """The next 1, 2 or 5 of a decade."""
    decade = 10 ** math.floor(math.log10(size))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= size * 0.999)


def _beside(names: Iterable[str]) -> int:
    """Pixels that names of rows take."""
    return 20 + 7 * max(map(len, names), default=0)


def _finish(
    chart: alt.TopLevelMixin,
    height: int | None = None,
    choices: Sequence[Selection] = (),
    **layout: int,
) -> dict[str, Any]:
    """The chart's specification; one with a height takes its container's width. `layout`, in
    pixels: ``left``, what row names take; ``abreast``, each of its parts, of which the page puts
    as many side by side as there is room for; ``least``, below which it scrolls rather than
    shrinks; ``row``, a row, whose name the page puts above it where there is no room beside it."""
    for choice in choices:
        chart = chart.add_params(alt.param(name=choice.signal, value=choice.options[0][0]))
    if height is not None:
        fit = alt.AutoSizeParams(type="fit-x", contains="padding")
        chart = chart.properties(width="container", autosize=fit, height=height)
    # A test holds every chart against Vega-Lite's schema, which takes as long as the rest of it.
    spec = chart.to_dict(validate=False)
    spec.pop("config", None)  # the theme's business
    chosen = [value for choice in choices for value, _ in choice.options]
    spec["datasets"] = _named_alone(spec, chosen)
    legend = max(map(len, _legend_names(spec)), default=0)
    spec["usermeta"] = {"legend": legend, "left": 40, "abreast": 0, "least": 0, "row": 0} | layout
    return spec


def _named_alone(spec: dict[str, Any], chosen: Sequence[str]) -> dict[str, list]:
    """The rows of a chart, with what it or a choice above it names of each."""
    rows = spec.pop("datasets", {})
    named = {*chosen, *re.findall(r"\w+", json.dumps(spec))}
    return {
        name: [{key: row[key] for key in row if key in named} for row in own]
        for name, own in rows.items()
    }


def _legend_names(part: Any) -> Iterable[str]:
    """Every name that a specification's legends list."""
    if isinstance(part, dict):
        values = part["legend"].get("values") if isinstance(part.get("legend"), dict) else None
        yield from map(str, values or ())
        part = [value for key, value in part.items() if key not in ("datasets", "data")]
    if not isinstance(part, str) and isinstance(part, Iterable):
        for inner in part:
            yield from _legend_names(inner)

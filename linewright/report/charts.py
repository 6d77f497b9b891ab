"""What Vega-Lite charts share: colours and shapes by name, axes, tooltips, points with intervals, tiles."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from linewright.report import facts
from linewright.report.parts import Control

ROW_PX = 24
"""Height of one form's row."""
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]
DASHES = [[1, 0], [6, 4], [2, 3], [10, 4, 2, 4], [4, 2], [12, 6]]


def inline(rows: list[dict[str, Any]]) -> alt.InlineData:
    return alt.InlineData(values=rows)


def signal(control: Control) -> alt.Parameter:
    return alt.param(name=control.signal, value=control.options[0][0])


def hue(field: str, domain: Sequence[str], shown: Sequence[str] | None = None, title: str | None = None) -> alt.Color:
    """Colour by a name; `domain` fixes who has which colour, `shown` what the legend lists."""
    legend = alt.Legend(values=list(shown if shown is not None else domain), title=title)
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(domain)), legend=legend)


def shape(field: str, domain: Sequence[str], rows: Sequence[dict[str, Any]]) -> alt.Shape:
    """Form of a point by a name; the legend lists what the rows have."""
    return alt.Shape(
        f"{field}:N", scale=alt.Scale(domain=list(domain), range=SHAPES), legend=_legend(field, domain, rows)
    )


def _legend(field: str, domain: Sequence[str], rows: Sequence[dict[str, Any]], **more: Any) -> alt.Legend | None:
    present = [value for value in domain if any(row[field] == value for row in rows)]
    return alt.Legend(title=None, values=present, **more) if len(domain) > 1 else None


def dash(field: str, domain: Sequence[str], rows: Sequence[dict[str, Any]]) -> alt.StrokeDash:
    legend = _legend(field, domain, rows, symbolType="stroke")
    scale = alt.Scale(domain=list(domain), range=[DASHES[i % len(DASHES)] for i in range(len(domain))])
    return alt.StrokeDash(f"{field}:N", scale=scale, legend=legend)


def strokes(labels: Sequence[str], rows: Sequence[dict[str, Any]]) -> dict[str, alt.StrokeDash]:
    """How lines of several machines are told apart; nothing for one."""
    return {"strokeDash": dash("series", labels, rows)} if len(labels) > 1 else {}


def tip(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    """Tooltip lines of (field, title); numbers, whose fields end in ``:q``, to four digits."""
    return [
        alt.Tooltip(field[:-2], type="quantitative", title=title, format=".4~g")
        if field.endswith(":q")
        else alt.Tooltip(field, type="nominal", title=title)
        for field, title in fields
    ]


def ends(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Fields of a tooltip for the ends of an interval."""
    return (f"{name}_low:q", "from"), (f"{name}_high:q", "to")


CELL_TIP = (("series", "machine"), ("form", "form"), ("contention", "contention"), ("work", "units of work"))
NS_TIP = (("ns:q", "ns, median"), *ends("ns"), ("launches", "launches"), ("remark", "note"))


def doubts(base: alt.Chart, where: dict[str, Any], **style: Any) -> alt.Chart:
    """The marks of doubt beside points."""
    return base.transform_filter("datum.mark != ''").mark_text(style="doubt", **style).encode(text="mark:N", **where)


def finish(
    chart: alt.TopLevelMixin,
    height: int | None = None,
    controls: Sequence[Control] = (),
    fills: bool = True,
    left: int = 40,
    abreast: int = 0,
) -> dict[str, Any]:
    """The chart's specification; one that fills takes its container's width. `left`: pixels that row names take;
    `abreast`: pixels of each of its parts, of which the page puts as many side by side as there is room for."""
    for control in controls:
        chart = chart.add_params(signal(control))
    if fills:
        chart = chart.properties(width="container", autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))
    if height is not None:
        chart = chart.properties(height=height)
    spec = chart.to_dict()
    spec.pop("config", None)  # the theme's business
    spec["usermeta"] = {
        "legend": max((len(name) for name in _legend_names(spec)), default=0),
        "left": left,
        "abreast": abreast,
    }
    return spec


def _legend_names(part: Any) -> Iterable[str]:
    """Every name that a specification's legends list."""
    if isinstance(part, dict):
        values = part["legend"].get("values") if isinstance(part.get("legend"), dict) else None
        yield from map(str, values or ())
        part = [value for key, value in part.items() if key not in ("datasets", "data")]
    if not isinstance(part, str) and isinstance(part, Iterable):
        for inner in part:
            yield from _legend_names(inner)


def ticks(values: Iterable[float | None]) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten over many decades, 1, 2 and 5 over few, even steps over less."""
    known = [v for v in values if v is not None and v > 0]
    if not known:
        return []
    low, high = min(known), max(known)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    choices = (
        [[float(f"{step}e{power}") for power in powers for step in ((1, 2, 5) if high <= 1500 * low else (1,))]]
        if high >= 4 * low
        else []
    )
    for parts in (3, 6):
        step = _even((high - low) / parts or high / 10)
        choices.append(
            [float(f"{step * i:.6g}") for i in range(max(1, math.ceil(low / step) - 1), math.floor(high / step) + 2)]
        )
    return next((places for places in choices if sum(low <= place <= high for place in places) > 1), choices[-1])


def _even(size: float) -> float:
    """The next 1, 2 or 5 of a decade."""
    decade = 10 ** math.floor(math.log10(size))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= size * 0.999)


PLAIN = ".6~g"
"""Numbers on axes: no exponent below a million."""


def log_axis(seen: Iterable[float | None] | Mapping[str, Iterable[float | None]], signal: str = "") -> dict[str, Any]:
    """Scale and axis for positive values over decades; a mapping has what is seen for each value of the signal."""
    places: Any
    if isinstance(seen, Mapping):
        by_value = {value: ticks(values) for value, values in seen.items()}
        places = (
            next(iter(by_value.values()), [])
            if len(by_value) < 2
            else alt.ExprRef(f"({json.dumps(by_value)})[{signal}]")
        )
    else:
        places = ticks(seen)
    return {
        "scale": alt.Scale(type="log", nice=False, padding=12),
        "axis": alt.Axis(values=places, format=PLAIN, labelOverlap="greedy", labelSeparation=4),
    }


def room(names: Iterable[str]) -> int:
    """Least width of a chart whose rows have these names."""
    return 180 + beside(names)


def beside(names: Iterable[str]) -> int:
    """Pixels that names of rows take."""
    return 20 + 7 * max(map(len, names), default=0)


def pixels(rows: int, least: int = 3) -> int:
    return ROW_PX * max(rows, least)


REACH = 5.0
"""How many times beyond the smallest and the largest median a logarithmic axis goes for an interval's sake."""


def within(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rows with `NAME_from` and `NAME_to`: the drawn part of each interval, which ends at the chart's edge."""
    known = [row[name] for row in rows if row.get(name) is not None and row[name] > 0]
    least, most = (min(known) / REACH, max(known) * REACH) if known else (0.0, 0.0)
    low, high = f"{name}_low", f"{name}_high"
    return [
        row
        | {
            f"{name}_from": None if row.get(low) is None else facts.rounded(max(row[low], least)),
            f"{name}_to": None if row.get(high) is None else facts.rounded(min(row[high], most)),
        }
        for row in rows
    ]


def dots(
    rows: list[dict[str, Any]],
    name: str,
    title: str,
    y: alt.Y,
    colour: alt.Color,
    lane: str,
    lanes: Sequence[str],
    series: Sequence[str],
    log: bool,
    tooltip: list[alt.Tooltip],
    filters: Sequence[str] = (),
    apart: str = "",
) -> alt.LayerChart:
    """Medians as points with their intervals as whiskers, one lane for each contention or machine.

    `apart` is both a field and the signal that picks one of its values: the others are not seen.
    """
    lanes = [value for value in lanes if any(row[lane] == value for row in rows)]
    if log:
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault(row.get(apart, ""), []).append(row)
        groups = {value: within(members, name) for value, members in groups.items()}
        rows = [row for members in groups.values() for row in members]
        axis = log_axis(
            {
                value: [r[name + end] for r in members for end in ("", "_from", "_to")]
                for value, members in groups.items()
            },
            apart,
        )
        low, high = f"{name}_from", f"{name}_to"
    else:
        low, high = f"{name}_low", f"{name}_high"
        axis = {"scale": alt.Scale(zero=True, nice=True), "axis": alt.Axis(tickCount=5, format=PLAIN)}
    base = alt.Chart(inline(rows))
    for text in filters:
        base = base.transform_filter(text)
    offset = alt.YOffset(f"{lane}:N", scale=alt.Scale(domain=list(lanes)))
    shared = {"y": y, "color": colour} | ({"yOffset": offset} if len(lanes) > 1 else {})
    x = alt.X(f"{name}:Q", title=title, **axis)
    whiskers = base.mark_rule(strokeWidth=2).encode(x=alt.X(f"{low}:Q", title=title), x2=f"{high}:Q", **shared)
    points = base.mark_point(filled=True).encode(x=x, shape=shape("series", series, rows), tooltip=tooltip, **shared)
    beside = {"x": f"{high}:Q", "y": y} | ({"yOffset": offset} if len(lanes) > 1 else {})
    return alt.layer(whiskers, points, doubts(base, beside, align="left", dx=5))


SAID = "abs({0}) < 9.95 ? '.2f' : abs({0}) < 99.5 ? '.1f' : abs({0}) < 9999 ? '.0f' : '.1~e'"
"""Three digits for any size, as a Vega expression."""


def tiles(
    base: alt.Chart,
    place: dict[str, Any],
    colour: alt.Color,
    field: str,
    tooltip: list[alt.Tooltip],
    text: str = "",
    size: float = 10.5,
) -> alt.LayerChart:
    """Coloured rectangles; `text`, a field, is written on them in the ink with more contrast, with a mark of doubt.

    A text of its own, since many fonts have no such sign, and all of a text takes the font that has.
    """
    layers = [base.mark_rect(style="tile", cornerRadius=3).encode(color=colour, tooltip=tooltip, **place)]
    if text:
        on = "contrast('{}', scale('color', datum." + field + "))"
        ink = f"{on.format('#ffffff')} >= {on.format('#16191d')} ? '#ffffff' : '#16191d'"
        layers.append(base.mark_text(fontSize=size, color=alt.ExprRef(ink)).encode(text=f"{text}:N", **place))
        marks = base.transform_filter("datum.mark").mark_text(
            fontSize=size - 3, color=alt.ExprRef(ink), align="left", dx=1.2 * size
        )
        layers.append(marks.encode(text="mark:N", **place))
    return alt.layer(*layers)

"""What Vega-Lite charts share: colours and shapes by name, axes, tooltips, points with intervals,
tiles."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
from msgspec.structs import asdict

from linewright.say.cell_figures import ENDS
from linewright.say.document import Axis, Explorer
from linewright.say.page_material import Material
from linewright.say.sentence import unique
from linewright.show.report import facts
from linewright.show.report.parts import Chart, Control

ROW_PX = 24
"""Height of one form's row."""
SHAPES = [
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
    "triangle-left",
]  # fmt: skip
DASHES = [[1, 0], [6, 4], [2, 3], [10, 4, 2, 4], [4, 2], [12, 6]]


def base(rows: list[dict[str, Any]], *filters: str) -> alt.Chart:
    """A chart of the rows that pass every filter."""
    chart = alt.Chart(alt.InlineData(values=rows))
    for text in filters:
        chart = chart.transform_filter(text)
    return chart


def hue(material: Material, forms: Sequence[str], legend: bool = True) -> alt.Color:
    """Colour by the form: the page's own for each, and no other name in the legend."""
    numbers = {material.colours[form]: form for form in forms}
    # A scale gives colours by place: names of no form stand where other forms have theirs.
    domain = [numbers.get(n, f"({n})") for n in range(max(numbers, default=-1) + 1)]
    listed = alt.Legend(values=list(forms), title=None) if legend else None
    return alt.Color("form:N", scale=alt.Scale(domain=domain), legend=listed)


def shape(field: str, domain: Sequence[str], rows: Sequence[dict[str, Any]]) -> alt.Shape:
    """Form of a point by a name; the legend lists what the rows have."""
    return alt.Shape(
        f"{field}:N",
        scale=alt.Scale(domain=list(domain), range=SHAPES),
        legend=_legend(field, domain, rows),
    )


def _legend(
    field: str, domain: Sequence[str], rows: Sequence[dict[str, Any]], **more: Any
) -> alt.Legend | None:
    present = [value for value in domain if any(row[field] == value for row in rows)]
    return alt.Legend(title=None, values=present, **more) if len(domain) > 1 else None


def strokes(labels: Sequence[str]) -> dict[str, alt.StrokeDash]:
    """How lines of several machines are told apart; nothing for one."""
    return {"strokeDash": dash("series", labels)} if len(labels) > 1 else {}


def dash(field: str, domain: Sequence[str]) -> alt.StrokeDash:
    legend = alt.Legend(title=None, symbolType="stroke") if len(domain) > 1 else None
    scale = alt.Scale(
        domain=list(domain), range=[DASHES[i % len(DASHES)] for i in range(len(domain))]
    )
    return alt.StrokeDash(f"{field}:N", scale=scale, legend=legend)


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


CELL_TIP = (
    ("series", "machine"),
    ("form", "form"),
    ("contention", "contention"),
    ("work", "units of work"),
)
NS_TIP = (("ns:q", "ns, median"), *ends("ns"), ("launches", "launches"), ("remark", "note"))


def doubts(drawn: alt.Chart, where: dict[str, Any], **style: Any) -> alt.Chart:
    """The marks of doubt beside points."""
    return (
        drawn.transform_filter("datum.mark != ''")
        .mark_text(style="doubt", **style)
        .encode(text="mark:N", **where)
    )


def finish(
    chart: alt.TopLevelMixin,
    height: int | None = None,
    controls: Sequence[Control] = (),
    fills: bool = True,
    left: int = 40,
    abreast: int = 0,
) -> dict[str, Any]:
    """The chart's specification; one that fills takes its container's width. `left`: pixels that
    row names take; `abreast`: pixels of each of its parts, of which the page puts as many side by
    side as there is room for."""
    for control in controls:
        chart = chart.add_params(alt.param(name=control.signal, value=control.options[0][0]))
    if fills:
        chart = chart.properties(
            width="container", autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
        )
    if height is not None:
        chart = chart.properties(height=height)
    # A test holds every chart against Vega-Lite's schema, which takes as long as the rest of it.
    spec = chart.to_dict(validate=False)
    spec.pop("config", None)  # the theme's business
    chosen = [value for control in controls for value, _ in control.options]
    spec["datasets"] = _named_alone(spec, chosen)
    spec["usermeta"] = {
        "legend": max((len(name) for name in _legend_names(spec)), default=0),
        "left": left,
        "abreast": abreast,
    }
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


def ticks(values: Iterable[float | None]) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten over many decades, 1, 2 and 5 over few, even steps
    over less."""
    known = [v for v in values if v is not None and v > 0]
    if not known:
        return []
    low, high = min(known), max(known)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    choices = (
        [
            [
                float(f"{step}e{power}")
                for power in powers
                for step in ((1, 2, 5) if high <= 1500 * low else (1,))
            ]
        ]
        if high >= 4 * low
        else []
    )
    for parts in (3, 6):
        step = _even((high - low) / parts or high / 10)
        choices.append(
            [
                float(f"{step * i:.6g}")
                for i in range(max(1, math.ceil(low / step) - 1), math.floor(high / step) + 2)
            ]
        )
    return next(
        (places for places in choices if sum(low <= place <= high for place in places) > 1),
        choices[-1],
    )


def _even(size: float) -> float:
    """The next 1, 2 or 5 of a decade."""
    decade = 10 ** math.floor(math.log10(size))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= size * 0.999)


PLAIN = ".6~g"
"""Numbers on axes: no exponent below a million."""


def log_axis(
    seen: Iterable[float | None] | Mapping[str, Iterable[float | None]], signal: str = ""
) -> dict[str, Any]:
    """Scale and axis for positive values over decades; a mapping has what is seen for each value of
    the signal."""
    by_value = {k: ticks(v) for k, v in (seen if isinstance(seen, Mapping) else {"": seen}).items()}
    places: Any = next(iter(by_value.values()), [])
    if len(by_value) > 1:
        places = alt.ExprRef(f"({json.dumps(by_value)})[{signal}]")
    return {
        "scale": alt.Scale(type="log", nice=False, padding=12),
        "axis": alt.Axis(values=places, format=PLAIN, labelOverlap="greedy", labelSeparation=4),
    }


def log_axis_of(rows: Sequence[dict[str, Any]], value: str, field: str, control: Control) -> dict:
    """The same for a value of the rows, for each choice of what `field` is."""
    own = {
        k: [row[value + end] for row in rows if row[field] == k for end in ENDS]
        for k, _ in control.options
    }
    return log_axis(own, control.signal)


def beside(names: Iterable[str]) -> int:
    """Pixels that names of rows take."""
    return 20 + 7 * max(map(len, names), default=0)


REACH = 5.0
"""How many times beyond the smallest and the largest median a logarithmic axis goes for an
interval's sake."""


def within(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The rows with `NAME_from` and `NAME_to`: the drawn part of each interval, which ends at the
    chart's edge."""
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


def _logarithmic(
    rows: list[dict[str, Any]], value: str, apart: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows with the drawn parts of their intervals, and a logarithmic axis for them: one for
    each value of the field `apart`."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get(apart, ""), []).append(row)
    groups = {key: within(members, value) for key, members in groups.items()}
    places = log_axis(
        {
            key: [r[value + end] for r in members for end in ("", "_from", "_to")]
            for key, members in groups.items()
        },
        apart,
    )
    return [row for members in groups.values() for row in members], places


def by_name(
    rows: list[dict[str, Any]],
    material: Material,
    tooltip: Sequence[tuple[str, str]],
    *,
    name: str = "form",
    axis: str = "ns per operation",
    log: bool = True,
    apart: str = "",
    controls: Sequence[Control] = (),
    **chart: Any,
) -> Chart:
    """Times as points with their intervals as whiskers: in a line for each `name`, in a lane of it
    for each machine (and form, where a line has several), in the colour of the form.

    `apart` is both a field and the signal that picks one of its values: the others are not seen.
    `chart`: the other fields of a `Chart`."""
    names, labels = unique(row[name] for row in rows), material.labels
    forms = unique(row["form"] for row in rows)
    mixed = any(len({r["form"] for r in rows if r[name] == one}) > 1 for one in names)
    rows = [row | {"lane": f"{row['form'] if mixed else ''} {row['series']}"} for row in rows]
    ordered = sorted(rows, key=lambda r: (forms.index(r["form"]), labels.index(r["series"])))
    lanes = unique(row["lane"] for row in ordered)
    crowd = max((len({r["lane"] for r in rows if r[name] == one}) for one in names), default=0)
    low, high = "ns_low", "ns_high"
    places: dict[str, Any] = {
        "scale": alt.Scale(zero=True, nice=True),
        "axis": alt.Axis(tickCount=5, format=PLAIN),
    }
    if log:
        rows, places = _logarithmic(rows, "ns", apart)
        low, high = "ns_from", "ns_to"
    drawn = base(rows, *([f"datum.{apart} == {apart}"] if apart else []))
    where: dict[str, Any] = {"y": alt.Y(f"{name}:N", title=None, sort=names)}
    if crowd > 1:
        where["yOffset"] = alt.YOffset("lane:N", scale=alt.Scale(domain=lanes))
    colour = hue(material, forms, legend=mixed)
    whiskers = drawn.mark_rule(strokeWidth=2).encode(
        x=alt.X(f"{low}:Q", title=axis), x2=f"{high}:Q", color=colour, **where
    )
    points = drawn.mark_point(filled=True).encode(
        x=alt.X("ns:Q", title=axis, **places),
        color=colour,
        shape=shape("series", labels, rows),
        tooltip=tip(*tooltip),
        **where,
    )
    marks = doubts(drawn, {"x": f"{high}:Q", **where}, align="left", dx=5)
    height = ROW_PX * max(len(names), 3) + 9 * max(0, crowd - 2) * len(names)
    spec = finish(alt.layer(whiskers, points, marks), height, controls, left=beside(names))
    return Chart(least=180 + beside(names), spec=spec, **chart)


def curves(
    drawn: alt.Chart,
    x: alt.X,
    value: str,
    y: alt.Y,
    colour: alt.Color,
    tooltip: Sequence[tuple[str, str]],
    *,
    band: bool = False,
    whiskers: bool = False,
    key: str = "series",
    fitted: str = "",
    strokes: Mapping[str, alt.StrokeDash] = {},
    marked: bool = True,
    **points: Any,
) -> alt.LayerChart:
    """Lines of `value` over `x`, one for each `key`, with points and marks of doubt on them; their
    intervals as a band or as whiskers.  `fitted`: the field of the lines, where they are not of the
    points' own values; `points`: other channels of the points."""
    shared = {"x": x, "color": colour, "detail": f"{key}:N"}
    reach = {"y": alt.Y(f"{value}_low:Q", title=y["title"]), "y2": f"{value}_high:Q"}
    layers = []
    if band:
        layers.append(drawn.mark_area(opacity=0.16).encode(**reach, **shared))
    if whiskers:
        known = drawn.transform_filter(f"datum.{value}_low > 0")
        layers.append(known.mark_rule(strokeWidth=2).encode(**reach, **shared))
    lines, height = drawn, y
    if fitted:
        lines = drawn.transform_filter(f"isValid(datum.{fitted}) && datum.{fitted} > 0")
        height = alt.Y(f"{fitted}:Q", title=y["title"])
    layers.append(lines.mark_line().encode(y=height, **shared, **strokes))
    dots = drawn.mark_point(filled=True)
    layers.append(dots.encode(y=y, tooltip=tip(*tooltip), **shared, **points))
    if marked:
        layers.append(doubts(drawn, {"x": x, "y": y}, dy=-11))
    return alt.layer(*layers)


def explored(asked: Explorer, material: Material) -> dict[str, Any]:
    """What the page's script needs to draw any of it: a chart for each figure, without rows, and
    without the names and places that it fills in."""
    return {
        "figures": [
            {"spec": _asked(axis, material.labels)} | asdict(axis) for axis in asked.figures
        ],
        "axes": [asdict(axis) for axis in asked.axes],
        "operations": asked.operations,
        "rows": asked.rows,
        "colours": material.colours,
    }


def _asked(figure: Axis, machines: Sequence[str]) -> dict[str, Any]:
    drawn, name = alt.Chart(alt.NamedData("rows")), figure.name
    bounds = [f"{name}_low", f"{name}_high"] if name in ("ns", "exposed") else []
    fields = [("series", "machine"), ("form", "form"), ("place", "at"), ("held", "held")]
    values = [(f"{name}:q", figure.title), *(ends(name) if bounds else ())]
    scale = {"type": "log", "nice": False} if figure.log else {"zero": True, "nice": True}
    y = alt.Y(
        f"{name}:Q",
        title=figure.title,
        scale=alt.Scale(**scale),
        axis=alt.Axis(format=PLAIN, tickCount=6),
    )
    names = alt.Legend(title=None)
    layers = [
        drawn.mark_line(clip=True).encode(**strokes(machines)),
        drawn.mark_point(filled=True, clip=True).encode(
            shape=alt.Shape("form:N", legend=names),
            tooltip=tip(*fields, *values, ("launches", "launches"), ("remark", "note")),
        ),
        doubts(drawn, {}, dy=-11),
    ]
    if bounds:
        reach = {"y": alt.Y(f"{bounds[0]}:Q", title=figure.title), "y2": f"{bounds[1]}:Q"}
        layers.insert(0, drawn.mark_rule(clip=True, strokeWidth=2).encode(**reach))
    chart = alt.layer(*layers).encode(
        x=alt.X("place:N", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("name:N"),
        y=y,
        color=alt.Color("form:N", legend=names),
        detail="name:N",
    )
    return finish(chart, 340)


SAID = "abs({0}) < 9.95 ? '.2f' : abs({0}) < 99.5 ? '.1f' : abs({0}) < 9999 ? '.0f' : '.1~e'"
"""Three digits for any size, as a Vega expression."""


def tiles(
    drawn: alt.Chart,
    place: dict[str, Any],
    colour: alt.Color,
    field: str,
    tooltip: list[alt.Tooltip],
    text: str = "",
    size: float = 10.5,
) -> alt.LayerChart:
    """Coloured rectangles; `text`, a field, is written on them in the ink with more contrast, with
    a mark of doubt.

    A text of its own, since many fonts have no such sign, and all of a text takes the font that
    has."""
    layers = [
        drawn.mark_rect(style="tile", cornerRadius=3).encode(color=colour, tooltip=tooltip, **place)
    ]
    if text:
        on = "contrast('{}', scale('color', datum." + field + "))"
        ink = f"{on.format('#ffffff')} >= {on.format('#16191d')} ? '#ffffff' : '#16191d'"
        layers.append(
            drawn.mark_text(fontSize=size, color=alt.ExprRef(ink)).encode(text=f"{text}:N", **place)
        )
        marks = drawn.transform_filter("datum.mark").mark_text(
            fontSize=size - 3, color=alt.ExprRef(ink), align="left", dx=1.2 * size
        )
        layers.append(marks.encode(text="mark:N", **place))
    return alt.layer(*layers)

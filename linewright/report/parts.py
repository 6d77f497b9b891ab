"""What sections are made of, and the facts and marks that their charts share."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
from msgspec import Struct

from linewright.analysis.summary import Summary
from linewright.report.material import Material, Series
from linewright.schema import Cell, Interval
from linewright.units import ns_text

ROW_PX = 24
"""Height of one form's row."""
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]
DASHES = [[1, 0], [6, 4], [2, 3], [10, 4, 2, 4], [4, 2], [12, 6]]
PLACES = {
    "smt_sibling": "same core",
    "same_l3": "same last-level cache",
    "other_l3": "other last-level cache",
    "other_socket": "other socket",
}
"""Topology classes in words."""
METASTABLE, DOUBT = "◆", "?"


class Control(Struct, frozen=True, kw_only=True):
    """A choice above a section's charts; it sets `signal` in each. The first option holds at first."""

    signal: str
    label: str
    options: list[tuple[str, str]]
    """(value, text)."""


class Figure(Struct, frozen=True, kw_only=True):
    """One chart."""

    id: str
    title: str
    text: str
    """What the chart shows, for those who do not see it."""
    spec: dict[str, Any]
    broad: bool = False
    """Takes the page's whole width."""
    least: int = 0
    """Pixels below which it scrolls rather than shrinks."""


class Grid(Struct, frozen=True, kw_only=True):
    """A small table of text; figures stand right."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    left: int = 1
    """Leading columns that are names."""


class Section(Struct, frozen=True, kw_only=True):
    """One heading with what belongs below it."""

    id: str
    title: str
    lead: str
    controls: list[Control] = []
    figures: list[Figure] = []
    grids: list[Grid] = []
    notes: list[str] = []


# ------------------------------------------------------------------------------------------------------------- facts


LARGEST = 1e300
"""Twice or ten times as much is still a number."""


def figure(value: float | None) -> float | None:
    """Five significant digits, and nothing for what is no number (JSON knows no NaN) or too large to reckon with."""
    if value is None or not abs(value) < LARGEST:
        return None
    return float(f"{value:.5g}")


def contention(cell: Cell) -> str:
    """The contender in a few words."""
    many = f" by {cell.threads - 1}" if cell.threads > 2 else ""
    where = place(cell)
    if cell.contender == "none":
        return "alone" + where
    if cell.contender == "placebo":
        return "placebo" + many + where
    return f"contended{many}{where}, pause {short(cell.contender_iters)}"


def place(cell: Cell) -> str:
    """Where the plan placed the threads, in brackets; nothing where the probe chose."""
    return (
        ""
        if cell.placement == "auto"
        else f" ({cell.placement.replace('cpus:', 'CPU ').replace(',', '+').replace('_', ' ')})"
    )


def short(count: int) -> str:
    """10, 1k, 1M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if count >= size and count % size == 0:
            return f"{count // size}{unit}"
    return str(count)


def contention_rank(cell: Cell) -> tuple:
    """Order of contention classes: alone, placebo, then by pause."""
    return ("none", "placebo", "same_line").index(cell.contender), cell.placement, cell.threads, cell.contender_iters


def params_text(cell: Cell, without: Sequence[str] = ()) -> str:
    """A cell's parameters, less some."""
    return ", ".join(f"{key} {cell.params[key]}" for key in sorted(cell.params) if key not in without)


def doubt(s: Summary) -> str:
    """The mark beside a figure that is not one number, or not to be relied on."""
    return METASTABLE if s.metastable else "" if s.status == "ok" else DOUBT


def remark(s: Summary) -> str:
    """What a tooltip adds: groups of launches, status, flags."""
    said = []
    if s.metastable:
        said.append("metastable: " + ", ".join(f"{ns_text(m.median_ns)} ns ({m.share:.0%})" for m in s.modes))
    if s.status != "ok":
        said.append(f"{s.status}: {s.reason}")
    said += [flag.replace("_", " ") for flag in s.flags if flag != "metastable"]
    return "; ".join(said)


def facts(s: Summary, series: Series) -> dict[str, Any]:
    """What every chart may want of one cell; JSON values only."""
    cell = s.cell
    return {
        "series": series.label,
        "operation": cell.operation,
        "form": cell.form,
        "contention": contention(cell),
        "work": cell.work_iters,
        "threads": cell.threads,
        **interval("ns", s.issue),
        "mark": doubt(s),
        "remark": remark(s),
        "launches": s.launches,
    }


def interval(name: str, value: Interval | None) -> dict[str, float | None]:
    """``NAME``, ``NAME_low`` and ``NAME_high``; bounds of no confidence are left out."""
    if value is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    sure = value.confidence > 0
    return {
        name: figure(value.median_ns),
        f"{name}_low": figure(value.low_ns if sure else None),
        f"{name}_high": figure(value.high_ns if sure else None),
    }


def measured(series: Series, operations: Iterable[str]) -> list[Summary]:
    """Cells with figures, of certain operations."""
    wanted = set(operations)
    return [s for s in series.summaries if s.cell.operation in wanted and s.has_figures]


def once(values: Iterable[Any]) -> list[Any]:
    """Each value once, in order of appearance."""
    return list(dict.fromkeys(values))


def slug(text: str) -> str:
    """Text as part of an id or file name: letters, digits and dashes."""
    return "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split()) or "x"


def forms_of(material: Material, operation: str) -> list[str]:
    """Every form of an operation in the whole report, so that a form keeps its colour from chart to chart."""
    wanted = SERVES.get(operation, (operation,))
    return once(
        s.cell.form
        for name in wanted
        for series in material.series
        for s in series.summaries
        if s.cell.operation == name
    )


# ------------------------------------------------------------------------------------------------------------- charts


SERVES = {"add": ("add", "fetch_add"), "fetch_add": ("add", "fetch_add")}
"""Operations whose forms share colours: where the value is not wanted, both kinds serve."""


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


def tip(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    """Tooltip lines of (field, title); numbers to four digits."""
    kinds = {"ns": ".4~g"}
    return [
        alt.Tooltip(
            field.split(":")[0],
            type="quantitative" if ":q" in field else "nominal",
            title=title,
            **({"format": kinds["ns"]} if ":q" in field else {}),
        )
        for field, title in fields
    ]


CELL_TIP = (("series", "machine"), ("form", "form"), ("contention", "contention"), ("work", "work iterations"))
NS_TIP = (
    ("ns:q", "ns, median"),
    ("ns_low:q", "from"),
    ("ns_high:q", "to"),
    ("launches", "launches"),
    ("remark", "note"),
)


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
            f"{name}_from": None if row.get(low) is None else figure(max(row[low], least)),
            f"{name}_to": None if row.get(high) is None else figure(min(row[high], most)),
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
    marks = (
        base.transform_filter("datum.mark != ''")
        .mark_text(style="doubt", align="left", dx=5)
        .encode(x=f"{high}:Q", y=y, text="mark:N", **({"yOffset": offset} if len(lanes) > 1 else {}))
    )
    return alt.layer(whiskers, points, marks)


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

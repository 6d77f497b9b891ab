"""Colours and type of the charts, dark and light; report.css holds the same for everything around them."""

from __future__ import annotations

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

LEGEND_COLUMNS = 3
"""Of a legend below an exported chart; the page's script sets as many as there is room for."""

_CATEGORIES = {
    "light": [
        "#1f6fd0",
        "#d9640a",
        "#0f8a5f",
        "#b4307c",
        "#6b4fc4",
        "#8a6a00",
        "#0a8aa0",
        "#c4372b",
        "#556370",
        "#5d8a00",
        "#a0522d",
        "#3a3fa8",
    ],
    "dark": [
        "#69b1ff",
        "#ffa057",
        "#4fd1a1",
        "#f285c1",
        "#b39cff",
        "#e2c14d",
        "#5fd3e8",
        "#ff8a7a",
        "#aab6c2",
        "#a8d84f",
        "#e0a77a",
        "#9aa2ff",
    ],
}
"""Distinct hues that keep 3:1 against their background; shapes and dashes repeat what they say."""
_HEAT = {
    "light": ["#fff8e8", "#fddc9f", "#f9ad68", "#ec7346", "#c23d55", "#7c2461", "#33133f"],
    "dark": ["#201b3a", "#4b2160", "#8a2c63", "#c54c52", "#ec7f47", "#fbb868", "#fdf0cc"],
}
"""Cheap to dear: away from the background in both."""
_INK = {
    "light": {"text": "#16191d", "muted": "#59636e", "line": "#e4e7ea", "surface": "#ffffff", "accent": "#0b6bcb"},
    "dark": {"text": "#e8ebee", "muted": "#a3adb8", "line": "#2c333c", "surface": "#171b21", "accent": "#6cb6ff"},
}


def config(mode: str, width: int | None = None) -> dict:
    """A Vega-Lite configuration: ``light`` or ``dark``; `width` in pixels for charts that fill no container."""
    ink = _INK[mode]
    view = {"stroke": None} | ({"continuousWidth": width, "discreteWidth": width} if width else {})
    return {
        "background": "transparent",
        "font": FONT,
        "aria": False,
        "padding": 4,
        "view": view,
        "range": {"category": _CATEGORIES[mode], "heatmap": _HEAT[mode], "ramp": _HEAT[mode], "ordinal": _HEAT[mode]},
        "axis": {
            "labelColor": ink["muted"],
            "titleColor": ink["muted"],
            "gridColor": ink["line"],
            "domainColor": ink["line"],
            "tickColor": ink["line"],
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": 500,
            "titlePadding": 10,
            "labelPadding": 6,
            "labelLimit": 280,
            "domain": False,
            "ticks": False,
        },
        "axisY": {
            "titleAnchor": "end",
            "titleAngle": 0,
            "titleAlign": "left",
            "titleBaseline": "bottom",
            "titleY": -8,
            "titleX": 0,
        },
        "legend": {
            "labelColor": ink["text"],
            "titleColor": ink["muted"],
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": 500,
            "orient": "bottom",
            "direction": "horizontal",
            "columnPadding": 16,
            "rowPadding": 4,
            "symbolSize": 90,
            "symbolOpacity": 1,
            "symbolBaseFillColor": ink["muted"],
            "symbolBaseStrokeColor": ink["muted"],
            "layout": {"bottom": {"anchor": "start", "direction": "vertical", "center": False}},
            "columns": LEGEND_COLUMNS,
            "symbolStrokeWidth": 2,
            "labelLimit": 320,
            "titleLimit": 400,
            "offset": 14,
        },
        "header": {
            "labelColor": ink["text"],
            "titleColor": ink["muted"],
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": 500,
            "labelFontWeight": 600,
        },
        "title": {
            "color": ink["text"],
            "fontSize": 15,
            "fontWeight": 600,
            "anchor": "start",
            "offset": 14,
            "subtitleColor": ink["muted"],
            "subtitlePadding": 6,
        },
        "text": {"color": ink["text"], "fontSize": 12},
        "rule": {"color": ink["muted"]},
        "errorbar": {"rule": {"strokeWidth": 1.5}},
        "point": {"filled": True, "size": 70, "opacity": 1},
        "line": {"strokeWidth": 2.25},
        "bar": {"color": ink["accent"]},
        "style": {
            "doubt": {"color": ink["text"], "fontSize": 11, "fontWeight": 700},
            "muted": {"color": ink["muted"], "fontSize": 11},
            "unit": {"fill": ink["muted"]},
            "cell": {"stroke": None},
            "tile": {"stroke": ink["surface"], "strokeWidth": 1.5},
        },
    }


MODES = ("light", "dark")

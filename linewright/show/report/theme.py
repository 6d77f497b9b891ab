# SPDX-License-Identifier: MIT
"""Colours and type of the charts, dark and light; report.css holds the same for everything around
them."""

from __future__ import annotations

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

_CATEGORIES = {
    "light": [
        "#1ca3b5", "#ac4e01", "#047d6e", "#7e0b09", "#0a18a0", "#762dd7", "#ae9305", "#521e57",
        "#6c9b69", "#5b3b82", "#5e132c", "#20694d", "#3280c7", "#6b3148", "#9d2b09", "#b27018",
    ],
    "dark": [
        "#96edfc", "#fe985e", "#68c8b7", "#cf5d51", "#3f6df2", "#b498fa", "#fce06f", "#9a629f",
        "#b6e8b2", "#a181ce", "#aa596d", "#6cb292", "#9fcbf8", "#b6758c", "#f07759", "#fdbd79",
    ],
}  # fmt: skip
"""Colours of forms, found by search: the closest two of the first eight stay well apart in each of
four kinds of vision (normal, and without red, green or blue cones, simulated after Machado et al.,
2009), those of all sixteen less so, with 3:1 contrast to the page. A form has one hue in both
themes, whose lightness alone differs. Rows, dashes and a table say what colours say;
tests/py/show/report/test_palette.py checks them."""
_SITUATIONS = {"light": ["#808c98", "#33414f"], "dark": ["#7d8996", "#dfe5ea"]}
"""Alone, and with a second CPU: greys, since every other colour is a form's."""
_HEAT = ["#fff3d6", "#fddc9f", "#f9ad68", "#ec7346", "#c23d55", "#8a2c63", "#5b2a6e"]
"""From cheap to expensive, the same on either background; lightness alone tells the order."""
_INK = {
    "light": {"text": "#16191d", "muted": "#59636e", "line": "#e4e7ea", "surface": "#ffffff"},
    "dark": {"text": "#e8ebee", "muted": "#a3adb8", "line": "#2c333c", "surface": "#171b21"},
}


def config(mode: str) -> dict:
    """A Vega-Lite configuration: ``light`` or ``dark``."""
    ink = _INK[mode]
    return {
        "background": "transparent",
        "font": FONT,
        "aria": False,
        "padding": 4,
        "view": {"stroke": None},
        "range": {
            "category": _CATEGORIES[mode],
            "heatmap": _HEAT,
            "diverging": _SITUATIONS[mode],
        },
        **_guides(ink),
        **_marks(ink),
    }


def _guides(ink: dict[str, str]) -> dict:
    """Axes, legends and headings."""
    text = {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500}
    return {
        "axis": {
            **text,
            "labelColor": ink["muted"],
            "titleColor": ink["muted"],
            "gridColor": ink["line"],
            "domainColor": ink["line"],
            "tickColor": ink["line"],
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
            **text,
            "labelColor": ink["text"],
            "titleColor": ink["muted"],
            "orient": "bottom",
            "direction": "horizontal",
            "columnPadding": 16,
            "rowPadding": 4,
            "symbolSize": 90,
            "symbolOpacity": 1,
            "symbolBaseFillColor": ink["muted"],
            "symbolBaseStrokeColor": ink["muted"],
            "layout": {"bottom": {"anchor": "start", "direction": "vertical", "center": False}},
            "symbolStrokeWidth": 2,
            "labelLimit": 320,
            "titleLimit": 400,
            "offset": 14,
        },
        "header": {
            **text,
            "labelColor": ink["text"],
            "titleColor": ink["muted"],
            "labelFontWeight": 600,
        },
    }


def _marks(ink: dict[str, str]) -> dict:
    """Marks, and the styles that they refer to by name."""
    return {
        "text": {"color": ink["text"], "fontSize": 12},
        "rule": {"color": ink["muted"]},
        "point": {"filled": True, "size": 70, "opacity": 1, "color": ink["text"]},
        "line": {"strokeWidth": 2.25},
        "style": {
            "doubt": {"color": ink["text"], "fontSize": 11, "fontWeight": 700},
            "cell": {"stroke": None},
            "tile": {"stroke": ink["surface"], "strokeWidth": 1.5},
        },
    }


MODES = ("light", "dark")

"""Charts as files for papers and slides: SVG and PNG, light, one file for each choice above a
chart."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import vl_convert

from linewright.show import new_file
from linewright.show.report import facts, theme
from linewright.show.report.parts import Chart, Control, Section

WIDTH = 640
"""Pixels of a chart that fills its container on the page."""
SCALE = 2.0
"""Pixels of a PNG for each of a chart."""


def variants(section: Section, figure: Chart) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file name without its end, specification): every control's options in turn, the others at
    their first."""
    params = {param["name"] for param in figure.spec.get("params", [])}
    controls = [control for control in section.controls if control.signal in params]
    yield figure.id, _set(section, figure, controls, {})
    for control in controls:
        for value, _ in control.options[1:]:
            yield (
                f"{figure.id}-{facts.slug(value)}",
                _set(section, figure, controls, {control.signal: value}),
            )


def _set(
    section: Section, figure: Chart, controls: Sequence[Control], values: dict[str, str]
) -> dict[str, Any]:
    spec = copy.deepcopy(figure.spec)
    for param in spec.get("params", []):
        param["value"] = values.get(param["name"], param["value"])
    if spec.get("width") == "container":
        spec["width"] = WIDTH
    spec.pop("autosize", None)
    said = [
        f"{control.label}: {text}"
        for control in controls
        for value, text in control.options
        if value == values.get(control.signal, control.options[0][0])
    ]
    spec["title"] = {"text": f"{section.title}: {figure.title}", "subtitle": said}
    spec["background"] = "white"
    return spec


def write(sections: Sequence[Section], folder: str) -> int:
    """Write every chart as SVG and as PNG; how many charts they are. UserError when the directory
    cannot be written to."""
    config, count = theme.config("light"), 0
    drawn = (v for section in sections for f in section.figures for v in variants(section, f))
    for name, spec in drawn:
        svg = vl_convert.vegalite_to_svg(spec, config=config)
        png = vl_convert.vegalite_to_png(spec, config=config, scale=SCALE)
        for suffix, content in (("svg", svg), ("png", png)):
            path = Path(folder) / f"{name}.{suffix}"
            new_file.write(path, content, "--charts", "name a directory that can be written")
        count += 1
    return count

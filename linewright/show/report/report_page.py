# SPDX-License-Identifier: MIT
"""The page: template, style, script and Vega in one file that fetches nothing and runs no other
script."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from functools import lru_cache
from importlib import resources
from typing import Any

import vl_convert
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from msgspec.structs import replace

from linewright.errors import one_line
from linewright.say.document import Bars, Chart, Explorer, Section, TextTable, render_all
from linewright.say.document import render as render_sentence
from linewright.say.page_material import Material
from linewright.say.page_sections import PageMachine
from linewright.show.document_page import filled
from linewright.show.report import charts, theme
from linewright.show.terminal import legend_of, narrowed


def render(material: Material) -> str:
    """The whole page as text."""
    scripts = [_vega(), _inlined(_resource("report.js"))]
    canvas = charts.Canvas(material.labels, material.colours)
    chapters = [_chapter(section, canvas) for section in material.sections]
    return filled(
        "report/page/page.html",
        policy=_policy(scripts),
        style=Markup(_resource("report.css")),
        scripts=[Markup(script) for script in scripts],
        data=_data(material, chapters),
        records=Markup(base64.b64encode(material.archive).decode("ascii")),
        records_bytes=len(material.archive),
        material=material,
        title=" · ".join(material.labels[:3]),
        say=lambda sentence: _unbroken(one_line(render_sentence(sentence))),
        unbroken=_unbroken,
        matrices={series.label: _matrix(series) for series in material.series},
        chapters=chapters,
        pieces=lambda text: [
            (part, part in material.code)
            for part in re.split(r"([a-z0-9_]+)", _unbroken(text))
            if part
        ],
        cells=sum(len(series.cells) for series in material.series),
    )


def _unbroken(text: str) -> str:
    """The text with no line's end between a number and its unit, and none in "x86-64"."""
    text = text.replace("x86-64", "x86\N{NON-BREAKING HYPHEN}64")
    return re.sub(r"(?<=\d) (?=%|[nµm]?s\b|cycles?\b|CPUs?\b)", "\N{NO-BREAK SPACE}", text)


def _chapter(section: Section, canvas: charts.Canvas) -> dict[str, Any]:
    """A section with its blocks by the way in which they are drawn."""
    drawn = [b for b in section.blocks if isinstance(b, (Chart, Bars)) and not _of_one_point(b)]
    asked = [block for block in section.blocks if isinstance(block, Explorer)]
    return {
        "section": section,
        "figures": [
            {
                "id": block.name,
                "title": block.title,
                "text": _spoken(block),
                "spec": canvas.specification(block),
                "broad": isinstance(block, Bars) or block.broad,
            }
            for block in drawn
        ],
        "explorer": canvas.asked(asked[0]) if asked else None,
        "grids": [block for block in section.blocks if type(block) is TextTable],
    }


def _of_one_point(block: Chart | Bars) -> bool:
    """Whether no choice shows more than one point, which a table says better."""
    if not isinstance(block, Chart) or block.kind == "tiles":
        return False
    shown = Counter(tuple(row[choice.signal] for choice in block.choices) for row in block.rows)
    return max(shown.values(), default=0) < 2


def _spoken(block: Chart | Bars) -> str:
    if isinstance(block, Chart):
        return block.spoken
    return f"{block.axis.title}: {' '.join(render_all(block.spoken))}"


def _matrix(series: PageMachine) -> tuple[TextTable | None, list[str]]:
    """The matrix of the machine's screen, and the lines that explain it."""
    matrix = series.document.table("matrix")
    if not matrix or len(matrix.headings) < 2:
        return None, []
    made, letters = narrowed(matrix)
    caption = f"{series.label}: {matrix.title}"
    lines = [legend_of(made, letters), *render_all(matrix.notes)]
    return replace(made, title=caption), list(filter(None, lines))


@lru_cache(maxsize=1)
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, as vl-convert bundles them."""
    return _inlined(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _resource(name: str) -> str:
    return (resources.files("linewright.show.report") / "page" / name).read_text(encoding="utf-8")


def _inlined(script: str) -> str:
    """A script that nothing in it can end early."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(scripts: list[str]) -> str:
    """Content security policy: these scripts by their hash, no evaluation, no connection, no frame,
    no form."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
        for s in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:;"
        " base-uri 'none'; form-action 'none'"
    )


def _data(material: Material, chapters: list[dict[str, Any]]) -> Markup:
    """Everything that the scripts read, as JSON that is text and nothing else to an HTML parser."""
    names = [column["name"] for column in material.columns]
    data = {
        "themes": {mode: theme.config(mode) for mode in theme.MODES},
        "figures": {
            figure["id"]: {"title": figure["title"], "spec": figure["spec"]}
            for chapter in chapters
            for figure in chapter["figures"]
        },
        "explorer": next((c["explorer"] for c in chapters if c["explorer"]), None),
        "columns": material.columns,
        "cells": [
            [row.get(n) for n in names] for series in material.series for row in series.cells
        ],
    }
    return safe_json(data)


def safe_json(value: Any) -> Markup:
    """JSON without any character that could end a script element or a line of JavaScript."""
    return htmlsafe_json_dumps(value, allow_nan=False, separators=(",", ":"))

"""The page: template, style, script and Vega in one file that fetches nothing and runs no other
script."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from importlib import resources
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup
from msgspec.structs import replace

from linewright import __version__
from linewright.errors import one_line
from linewright.say import cell_rows
from linewright.say.cell_figures import rounded
from linewright.say.machine_lines import doubts, facts
from linewright.say.page_material import Material, Series
from linewright.say.sentence import render as render_sentence
from linewright.say.sentence import render_all
from linewright.say.verdict import areas
from linewright.say.words import in_english
from linewright.show.report import about, theme
from linewright.show.report.parts import Section
from linewright.show.text_tables import legend_of, narrowed

SCRIPT = "report.js"
FIRST_COLUMNS = {
    "machine": "machine",
    "operation": "operation",
    "form": "form",
    "situation": "situation",
    "issue_median_ns": "median ns",
    "issue_low_ns": "low",
    "issue_high_ns": "high",
    "exposed_median_ns": "exposed ns",
    "batch_p99_ns": "p99 ns",
    "total_mops": "all Mop/s",
    "width_bits": "bits",
    "params": "parameters",
    "flags": "flags",
}
"""Columns of the table of every cell that are shown at first where their values differ, and their
headings; a click shows the rest."""


def render(material: Material, sections: list[Section]) -> str:
    """The whole page as text."""
    scripts = [_vega(), _ours()]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("linewright.show.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = about.names_of(material)
    return environment.get_template("page.html").render(
        policy=_policy(scripts),
        style=Markup(_resource("report.css")),
        scripts=[Markup(script) for script in scripts],
        data=_data(material, sections),
        records=Markup(base64.b64encode(material.archive).decode("ascii")),
        records_bytes=len(material.archive),
        material=material,
        title=" · ".join(series.label for series in material.series[:3]),
        areas={series.label: areas(series.answers) for series in material.series},
        say=lambda sentence: one_line(render_sentence(sentence)),
        machines=[_machine(series) for series in material.series],
        sections=sections,
        pieces=lambda text: about.pieces(text, names),
        cells=sum(len(series.answers.summaries) for series in material.series),
        version=__version__,
    )


def _machine(series: Series) -> dict[str, Any]:
    """One machine: the matrix of its screen with the legend, and the facts and doubts below."""
    document = series.document
    matrix, legend = document.table("matrix"), []
    if matrix:
        notes = render_all(matrix.notes)
        matrix, letters = narrowed(matrix)
        legend = [legend_of(matrix, letters), *notes]
        caption = f"{series.label}: every operation, and the best other form"
        matrix = replace(matrix, title=caption) if len(matrix.headings) > 1 else None
    return {
        "series": series,
        "matrix": matrix,
        "legend": list(filter(None, legend)),
        "facts": [*facts(series.contexts), ("Files", ", ".join(series.files))],
        "doubts": [*map(one_line, render_all(doubts(series.answers, document, series.records)))],
    }


@lru_cache(maxsize=1)
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, as vl-convert bundles them."""
    return _inlined(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


@lru_cache(maxsize=1)
def _ours() -> str:
    return _inlined(_resource(SCRIPT))


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


def _data(material: Material, sections: list[Section]) -> Markup:
    """Everything that the scripts read, as JSON that is text and nothing else to an HTML parser."""
    columns, cells = _cells(material)
    data = {
        "themes": {mode: theme.config(mode) for mode in theme.MODES},
        "figures": {
            f.id: {"title": f.title, "spec": f.spec}
            for section in sections
            for f in section.figures
        },
        "explorer": next((s.explorer for s in sections if s.explorer), None),
        "columns": columns,
        "cells": cells,
    }
    return safe_json(data)


def safe_json(value: Any) -> Markup:
    """JSON without any character that could end a script element or a line of JavaScript."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _cells(material: Material) -> tuple[list[dict[str, Any]], list[list[Any]]]:
    """The table of every cell: its columns, and a row of values for each cell."""
    found: list[dict[str, Any]] = []
    for series in material.series:
        own = series.answers.summaries
        for s, row in zip(own, cell_rows.of_cells(own), strict=True):
            found.append({"machine": series.label} | row | _more(s))
    names = list(dict.fromkeys(name for row in found for name in row))
    first = [n for n in FIRST_COLUMNS if len({row.get(n) for row in found}) > 1]
    columns = [
        {
            "name": name,
            "label": FIRST_COLUMNS.get(name, in_english(name)),
            "number": any(isinstance(row.get(name), (int, float)) for row in found),
            "first": first.index(name) if name in first else None,
        }
        for name in names
    ]
    return columns, [[_plain(row.get(name)) for name in names] for row in found]


def _more(s) -> dict[str, Any]:
    """What the CSV leaves out: the situation in words, each launch's median, each thread's
    operations, where a form is performed."""
    return {
        "situation": s.cell.situation.words(),
        "unit": s.unit,
        "unit_medians_ns": " ".join(f"{value:.5g}" for value in s.unit_ns),
        "thread_ops": " ".join(str(value) for value in s.thread_ops),
        "nearness": s.nearness,
    }


def _plain(value: Any) -> Any:
    return rounded(value) if isinstance(value, float) else value

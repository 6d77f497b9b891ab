# SPDX-License-Identifier: MIT
"""A document of text tables as one self-contained HTML page: no script, nothing loaded, every text
escaped."""

from __future__ import annotations

import math
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from linewright import __version__, numbers
from linewright.errors import one_line
from linewright.say.document import Document, TextTable, render, text_of

WIDTH = 240
"""Of a drawn interval, in units of its own coordinate system."""
NARROWEST = 0.02
"""Least reach of the axis: changes below 2 % must not fill the page."""
FARTHEST = 100
"""Largest ratio that the axis shows."""


def page(document: Document) -> str:
    """The whole page as text."""
    parts = [_part(table) for table in document.tables]
    return filled("document_page.html", document=document, parts=parts, width=WIDTH)


def filled(template: str, **values: Any) -> str:
    """A template of this folder with its values, every text escaped."""
    environment = Environment(
        loader=PackageLoader("linewright.show", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"line": one_line, "say": lambda sentence: one_line(render(sentence))}
    return environment.get_template(template).render(version=__version__, **values)


def _part(table: TextTable) -> dict[str, Any]:
    """A table with its intervals as coordinates on one axis."""
    ends = [abs(math.log(end)) for span in table.spans if span for end in span if _drawable(end)]
    reach = max([math.log1p(NARROWEST), *(min(end, math.log(FARTHEST)) for end in ends)])
    rows = [
        {
            "texts": [text_of(cell) for cell in cells],
            "style": table.styles[number] if table.styles else "",
            "span": [_at(end, reach) for end in span] if span else None,
        }
        for number, cells in enumerate(table.rows)
        for span in [table.spans[number] if table.spans else None]
    ]
    return {"table": table, "rows": rows, "axis": _axis(reach) if any(table.spans) else None}


def _drawable(ratio: float) -> bool:
    return 0 < ratio < math.inf


def _at(ratio: float, reach: float) -> float:
    """Where a ratio lies on the axis, logarithmic, 1 in the middle."""
    away = math.log(ratio) if _drawable(ratio) else math.copysign(reach, ratio - 1)
    return round(WIDTH / 2 * (1 + max(-1.0, min(1.0, away / reach)) * 0.96), 1)


def _axis(reach: float) -> list[dict[str, Any]]:
    """Marks at the ends of the axis and in its middle."""
    return [
        {
            "x": _at(math.exp(end), reach),
            "text": numbers.percent(math.exp(end) - 1) if end else "0",
            "anchor": anchor,
        }
        for end, anchor in ((-reach, "start"), (0.0, "middle"), (reach, "end"))
    ]

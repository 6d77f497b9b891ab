"""A comparison as one self-contained HTML page: no script, nothing loaded, every text escaped."""

from __future__ import annotations

import math
from pathlib import Path

from msgspec import Struct

from linewright.compare import comparison as c
from linewright.output import static_page
from linewright.units import value_text

PAGES = Path(__file__).parent
WIDTH = 240
"""Of the drawn interval, in units of its own coordinate system."""
NARROWEST = 0.02
"""Least reach of the axis: changes below 2 % must not fill the page."""


class Drawn(Struct, frozen=True):
    """One row with its interval as coordinates."""

    row: c.Row
    change: str
    low: float
    middle: float
    high: float

    @property
    def drawn(self) -> bool:
        return self.row.ratio is not None


def page(comparison: c.Comparison) -> str:
    """The whole page as text."""
    filters = {"value": value_text, "p": lambda p: "–" if p is None else f"{p:.2g}"}
    return static_page.render(
        PAGES,
        filters,
        comparison=comparison,
        width=WIDTH,
        check=c.check_sentence(comparison),
        failing=comparison.failed,
        files=[_file(comparison, side) for side in comparison.others],
    )


def _file(comparison: c.Comparison, side: c.Side) -> dict:
    rows = comparison.of(side.file)
    return {
        "side": side,
        "sentences": c.sentences(comparison, side),
        "changed": _part([row for row in rows if row.finding in (*c.CERTAIN, *c.FAILED)]),
        "undecided": _part([row for row in rows if row.finding == "undecided"]),
        "same": _part([row for row in rows if row.finding == "same"]),
        "left_out": _part([row for row in rows if row.finding == "not_comparable"]),
    }


def _part(rows: list[c.Row]) -> dict:
    """Rows of one table on a common axis."""
    reach = _reach(rows)
    return {"rows": [_drawn(row, reach) for row in rows], "axis": _axis(reach)}


def _reach(rows: list[c.Row]) -> float:
    """Logarithm of the largest ratio, or of its inverse, that the axis shows."""
    ends = [abs(math.log(end)) for row in rows for end in (row.ratio_low, row.ratio_high) if end and 0 < end < math.inf]
    return max([math.log1p(NARROWEST), *(min(end, math.log(100)) for end in ends)])


def _at(ratio: float, reach: float) -> float:
    """Where a ratio lies on the axis, logarithmic, 1 in the middle."""
    away = 0.0 if ratio == 1 else math.copysign(reach, ratio - 1) if not 0 < ratio < math.inf else math.log(ratio)
    return round(WIDTH / 2 * (1 + max(-1.0, min(1.0, away / reach)) * 0.96), 1)


def _drawn(row: c.Row, reach: float) -> Drawn:
    if row.ratio is None:
        return Drawn(row, c.change_text(row), 0, 0, 0)
    return Drawn(row, c.change_text(row), *(_at(end, reach) for end in (row.ratio_low, row.ratio, row.ratio_high)))


def _axis(reach: float) -> list[dict]:
    """Marks at the ends of the axis and in its middle."""
    ends = [(-reach, "start"), (0.0, "middle"), (reach, "end")]
    return [{"x": _at(math.exp(e), reach), "text": c.percent(math.exp(e)) if e else "0", "anchor": a} for e, a in ends]

# SPDX-License-Identifier: MIT
"""A table with bars on a terminal: each row's values on one logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace
from rich.table import Table

from linewright.say.document import Bars, TableCell
from linewright.show.console import encodes
from linewright.show.text_tables import narrowed, table_width
from linewright.show.text_tables import table as drawn

BarRow = Sequence[str | TableCell]
SHORTEST_BAR = 12
"""Columns below which no bars are drawn."""


class Signs(NamedTuple):
    """Characters of the bars: those of Unicode, or ASCII where the stream's encoding has no
    others."""

    solid: str
    light: str
    beyond: str


UNICODE = Signs("█", "░", "▶")
ASCII = Signs("#", "-", ">")


def signs_for(encoding: str) -> Signs:
    """The signs that an encoding can express."""
    return UNICODE if encodes("".join(UNICODE), encoding) else ASCII


class BarScale(NamedTuple):
    """A logarithmic scale of `columns` columns from `low` to `high` ns, both powers of ten."""

    low: float
    high: float
    columns: int

    def at(self, value: float) -> int:
        """Columns up to a value: at least 1, so that every cost is seen."""
        decades = math.log10(self.high / self.low)
        part = math.log10(max(value, self.low) / self.low) / decades
        return max(1, min(self.columns, round(part * self.columns)))

    def axis(self) -> str:
        """The heading: each power of ten where a bar of that length ends."""
        text = ""
        for power in range(round(math.log10(self.low)), round(math.log10(self.high)) + 1):
            label = f"{10.0**power:g}"
            end = max(1, self.at(10.0**power)) if power > math.log10(self.low) else len(label)
            if text and end - len(label) <= len(text):
                continue
            text = text.ljust(end - len(label)) + label
        return text


def scale_of(table: Bars, columns: int) -> BarScale | None:
    """The scale that holds every value but those beyond it; None without any."""
    values = [v for row in table.rows for v in table.values_of(row) if v <= table.beyond]
    if not values:
        return None
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values)))
    return BarScale(low, max(high, 10 * low), columns)


def bar(values: Sequence[float], beyond: float, scale: BarScale, signs: Signs) -> str:
    """Solid up to the cheaper of the figures, light from there to the more expensive one."""
    if not values:
        return ""
    if min(values) > beyond:
        return signs.solid * (scale.columns - 1) + signs.beyond
    solid = scale.at(min(values))
    if max(values) > beyond:
        return signs.solid * solid + signs.light * (scale.columns - solid - 1) + signs.beyond
    light = scale.at(max(values)) - solid
    return signs.solid * solid + signs.light * light


def chart(table: Bars, most: int, width: int, encoding: str) -> Table:
    """The `most` rows of the lowest ranks, in their order, with bars as far as the width has room
    for them."""
    kept = sorted(range(len(table.rows)), key=lambda i: (table.ranks[i], i))[:most]
    signs, rows = signs_for(encoding), [table.rows[i] for i in sorted(kept)]
    drawn_by = zip(table.bars, (signs.solid, signs.light), strict=False)
    marks = {n: sign for (n, _), sign in drawn_by}
    headings = [f"{h} {marks[n]}" if n in marks else h for n, h in enumerate(table.headings)]
    shown, _ = narrowed(replace(table, rows=rows, headings=headings))
    scale = scale_of(replace(table, rows=rows), width - table_width(shown))
    if not scale or scale.columns < SHORTEST_BAR:
        return drawn(shown)
    made = drawn(
        replace(
            shown,
            headings=[*shown.headings, scale.axis()],
            left=[*shown.left, True],
            rows=[
                [*texts, bar(table.values_of(row), table.beyond, scale, signs)]
                for texts, row in zip(shown.rows, rows, strict=True)
            ],
        )
    )
    made.columns[-1].style = "cyan"
    return made

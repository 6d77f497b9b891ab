"""The price list as a bar chart: what each remedy costs alone and with a second CPU, on a
logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from linewright.analysis.matrix import Figure
from linewright.analysis.price_list import Price
from linewright.say.columns import Column, table_of
from linewright.say.cost_words import figure, ratio_text
from linewright.show.console import encodes
from linewright.show.text_tables import table, table_width

LONGEST_NS = 2000.0
"""Costs above this are waits, not operations: their bars end in an arrow, and the scale is made for
the others."""
SHORTEST_BAR = 12
"""Columns below which no bars are drawn."""


class Signs(NamedTuple):
    """Characters of the bars: those of Unicode, or ASCII where the stream's encoding has no
    others."""

    alone: str
    contended: str
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


def scale_of(prices: Sequence[Price], columns: int) -> BarScale | None:
    """The scale that holds every operation's cost; None without any."""
    values = [
        f.ns.median_ns
        for price in prices
        for f in (price.alone, price.contended)
        if f and 0 < f.ns.median_ns <= LONGEST_NS
    ]
    if not values:
        return None
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values)))
    return BarScale(low, max(high, 10 * low), columns)


def bar(price: Price, scale: BarScale, signs: Signs) -> str:
    """Solid up to the cheaper of the two figures, light from there to the more expensive one."""
    values = [f.ns.median_ns for f in (price.alone, price.contended) if f and f.ns.median_ns > 0]
    if not values:
        return ""
    if min(values) > LONGEST_NS:
        return signs.alone * (scale.columns - 1) + signs.beyond
    solid = scale.at(min(values))
    if max(values) > LONGEST_NS:
        return signs.alone * solid + signs.contended * (scale.columns - solid - 1) + signs.beyond
    light = scale.at(max(values)) - solid
    return signs.alone * solid + signs.contended * light


def _ratio(price: Price, contended: bool) -> str:
    """The ratio, and that it is of the uncontended costs where other lines compare the contended
    ones."""
    text = ratio_text(price)
    return f"{text}, alone" if contended and price.only_alone else text


def chart(prices: Sequence[Price], width: int, encoding: str) -> Table:
    """The price list, with bars as far as the width has room for them."""
    signs = signs_for(encoding)
    contended = any(price.contended for price in prices)
    columns: list[Column[Price]] = [
        Column("price list, ns", lambda price: price.name, text=True),
        Column(f"alone {signs.alone}", lambda price: _figure(price.alone)),
    ]
    if contended:
        columns.append(Column(f"2 CPUs {signs.contended}", lambda price: _figure(price.contended)))
    columns.append(Column("vs one atomic", lambda price: _ratio(price, contended)))
    room = width - table_width(table_of("", columns, prices))
    scale = scale_of(prices, room)
    if scale and room >= SHORTEST_BAR:
        columns.append(Column(scale.axis(), lambda price: bar(price, scale, signs), text=True))
    made = table(table_of("", columns, prices))
    if scale and room >= SHORTEST_BAR:
        made.columns[-1].style = "cyan"
    return made


def _figure(found: Figure | None) -> str:
    return figure(found) if found else ""

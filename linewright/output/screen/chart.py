"""The price list as a bar chart: what each remedy costs alone and with a second CPU, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from linewright.analysis.screen_data import Figure, Price
from linewright.output.columns import Column, table, table_width
from linewright.output.screen import words
from linewright.schema import Interval

LONGEST_NS = 2000.0
"""Costs above this are waits, not operations: their bars end in an arrow, and the scale is made for the others."""
SAME = 0.10
"""Costs whose ratio is shown to lie within this share are called the same, as in the matrix under contention."""
SHORTEST_BAR = 12
"""Columns below which no bars are drawn."""


class Signs(NamedTuple):
    """Characters of the bars: those of Unicode, or ASCII where the stream's encoding has no others."""

    alone: str
    contended: str
    beyond: str


UNICODE = Signs("█", "░", "▶")
ASCII = Signs("#", "-", ">")


def signs_for(encoding: str) -> Signs:
    """The signs that an encoding can express."""
    return UNICODE if words.encodes("".join(UNICODE), encoding) else ASCII


class Scale(NamedTuple):
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


def scale_of(prices: Sequence[Price], columns: int) -> Scale | None:
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
    return Scale(low, max(high, 10 * low), columns)


def bar(price: Price, scale: Scale, signs: Signs) -> str:
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


def ratio_text(ratio: Interval | None, reference: bool, coarse: bool = False) -> str:
    """``14–20× less``, ``3.4–3.8× more``, ``same``, or ``0.8–1.4×`` where it may be either; ``1`` for the reference.

    Of a coarse run, with fewer launches than a claim needs, ``about 17×``.
    """
    if reference:
        return "1"
    if ratio is not None and coarse:
        times = ratio.median_ns
        return f"about {_times(1 / times, 1 / times)} less" if 0 < times < 1 else f"about {_times(times, times)} more"
    if ratio is None or not (math.isfinite(ratio.low_ns) and ratio.low_ns > 0 and math.isfinite(ratio.high_ns)):
        return ""
    low, high = ratio.low_ns, ratio.high_ns
    if low > 1 / (1 + SAME) and high < 1 + SAME:
        return "same"
    if high < 1:
        return f"{_times(1 / high, 1 / low)} less"
    return f"{_times(low, high)} more" if low > 1 else _times(low, high)


def _ratio(price: Price, contended: bool, coarse: bool) -> str:
    """The ratio, and that it is of the uncontended costs where other lines compare the contended ones."""
    text = ratio_text(price.ratio, price.reference, coarse or price.few)
    return f"{text}, alone" if text and contended and price.only_alone else text


def _times(low: float, high: float) -> str:
    digits = 0 if low >= 9.95 else 1
    ends = [f"{end:.{digits}f}" for end in (low, high)]
    return f"{ends[0]}×" if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}×"


def chart(prices: Sequence[Price], width: int, encoding: str, coarse: bool = False) -> Table:
    """The price list, with bars as far as the width has room for them."""
    signs = signs_for(encoding)
    contended = any(price.contended for price in prices)
    columns: list[Column[Price]] = [
        Column("price list, ns", lambda price: price.name, text=True),
        Column(f"alone {signs.alone}", lambda price: _figure(price.alone)),
    ]
    if contended:
        columns.append(Column(f"2 CPUs {signs.contended}", lambda price: _figure(price.contended)))
    columns.append(Column("vs one atomic", lambda price: _ratio(price, contended, coarse)))
    room = width - table_width(columns, prices)
    scale = scale_of(prices, room)
    if scale and room >= SHORTEST_BAR:
        columns.append(Column(scale.axis(), lambda price: bar(price, scale, signs), text=True))
    made = table("", columns, prices)
    if scale and room >= SHORTEST_BAR:
        made.columns[-1].style = "cyan"
    return made


def _figure(found: Figure | None) -> str:
    return words.figure(found) if found else ""

"""A heat map of one operation on the terminal: contention × work for each form, shaded on a
logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from linewright import numbers
from linewright.analysis.summary import Summary
from linewright.say.cost_words import doubt_mark
from linewright.show.console import encodes

SHADES = " ░▒▓█"
"""From cheap to expensive; each figure stands beside its shade, so that no colour is needed."""
ASCII_SHADES = " .:+#"
_COLOURS = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Cividis, from cheap to expensive: it is read alike with and without colour blindness."""
_COLUMN = 8


def print_heat_map(operation: str, summaries: Sequence[Summary], console: Console) -> None:
    """Print the map of cells of one operation on one machine: a block for each form, a line for
    each contention."""
    cells = [
        s
        for s in summaries
        if s.cell.operation == operation and s.has_figures and s.issue.median_ns > 0
    ]
    values = [math.log(s.issue.median_ns) for s in cells]
    low, high = min(values), max(values)
    works = sorted({s.cell.work_iters for s in cells})
    console.print(
        Text(
            f"{operation}: ns per operation with its work, by contention and units of work",
            style="bold",
        )
    )
    lines = list(
        dict.fromkeys(
            s.cell.situation.sharers for s in sorted(cells, key=lambda s: s.cell.situation.rank)
        )
    )
    space = max(*map(len, lines), len("units of work")) + 2
    console.print(
        Text("units of work".ljust(space) + "".join(f"{work:>{_COLUMN}}" for work in works))
    )
    signs = SHADES if encodes(SHADES, console.encoding) else ASCII_SHADES
    for key in dict.fromkeys((s.cell.form, s.cell.width_bits, _extra(s)) for s in cells):
        form, width, extra = key
        console.print(
            Text(form + ("" if width in (32, 64) else f" u{width}") + extra, style="bold")
        )
        own = {
            (s.cell.situation.sharers, s.cell.work_iters): s
            for s in cells
            if (s.cell.form, s.cell.width_bits, _extra(s)) == key
        }
        for line in lines:
            if any((line, work) in own for work in works):
                found = [own.get((line, work)) for work in works]
                console.print(
                    Text.assemble(line.ljust(space), *(_tile(s, low, high, signs) for s in found))
                )
    console.print(Text(_legend(low, high, signs, cells)))


def _extra(s: Summary) -> str:
    cell = s.cell
    return cell.situation.where + "".join(
        f" {key}={cell.params[key]}" for key in sorted(cell.params)
    )


def _tile(s: Summary | None, low: float, high: float, signs: str) -> Text:
    if s is None:
        return Text(" " * _COLUMN)
    share = (math.log(s.issue.median_ns) - low) / (high - low) if high > low else 0.0
    sign = signs[min(len(signs) - 1, int(share * len(signs)))]
    colour = _COLOURS[min(len(_COLOURS) - 1, int(share * len(_COLOURS)))]
    ink = "black" if share > 0.55 else "white"
    return Text(
        f"{sign}{numbers.cost(s.issue.median_ns) + doubt_mark(s):>{_COLUMN - 2}} ",
        style=f"{ink} on {colour}",
    )


def _legend(low: float, high: float, signs: str, cells: Sequence[Summary]) -> str:
    text = (
        f"From {numbers.cost(math.exp(low))} ns ({signs[1]}: more) to "
        f"{numbers.cost(math.exp(high))} ns ({signs[-1]}), logarithmic."
    )
    text += " ~ metastable." if any(s.metastable for s in cells) else ""
    return text + (" ? unreliable." if any(s.status != "ok" for s in cells) else "")

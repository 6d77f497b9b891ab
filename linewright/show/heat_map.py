"""A heat map of one operation on the terminal: contention × work for each form, shaded on a
logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from linewright.analysis.summary import grouped
from linewright.say.document import Document
from linewright.schema import Cell
from linewright.show.console import encodes

SHADES = " ░▒▓█"
"""From cheap to expensive; each figure stands beside its shade, so that no colour is needed."""
ASCII_SHADES = " .:+#"
_COLOURS = ("#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838")
"""Cividis, from cheap to expensive: it is read alike with and without colour blindness."""
_COLUMN = 8


def print_heat_map(operation: str, document: Document, console: Console) -> None:
    """Print the map of a machine's cells of one operation: a block for each form, a line for each
    contention."""
    cells = [(cell, row) for cell, row in document.cells if cell.operation == operation]
    cells = [(cell, row) for cell, row in cells if (row["ns"] or 0) > 0]
    ends = [end((row for _, row in cells), key=lambda row: row["ns"]) for end in (min, max)]
    scale = _ShadeScale(*ends, encodes(SHADES, console.encoding))
    works = sorted({cell.work_iters for cell, _ in cells})
    ordered = sorted(cells, key=lambda c: c[0].situation.rank)
    lines = list(dict.fromkeys(row["contention"] for _, row in ordered))
    title = f"{operation}: ns per operation with its work, by contention and units of work"
    space = max(*map(len, lines), len("units of work")) + 2
    console.print(Text(title, style="bold"))
    heading = "".join(f"{work:>{_COLUMN}}" for work in works)
    console.print(Text("units of work".ljust(space) + heading))
    for name, own in grouped(cells, lambda c: _name(c[0])).items():
        console.print(Text(name, style="bold"))
        at = {(row["contention"], cell.work_iters): row for cell, row in own}
        for line in lines:
            found = [at.get((line, work)) for work in works]
            if any(found):
                console.print(Text.assemble(line.ljust(space), *map(scale.tile, found)))
    marks = {row["mark"] for _, row in cells}
    signs = " ~ metastable." * ("~" in marks) + " ? unreliable." * ("?" in marks)
    console.print(Text(scale.legend + signs))


def _name(cell: Cell) -> str:
    """What tells a block's cells from those of other blocks."""
    width = "" if cell.width_bits in (32, 64) else f" u{cell.width_bits}"
    params = "".join(f" {key}={cell.params[key]}" for key in sorted(cell.params))
    return cell.form + width + cell.situation.where + params


class _ShadeScale(NamedTuple):
    """The cells of the least and the greatest cost, and whether block elements can be printed."""

    low: Mapping[str, Any]
    high: Mapping[str, Any]
    blocks: bool

    @property
    def signs(self) -> str:
        return SHADES if self.blocks else ASCII_SHADES

    @property
    def legend(self) -> str:
        low, high = self.low["figure"], self.high["figure"]
        ends = f"From {low} ns ({self.signs[1]}: more) to {high} ns ({self.signs[-1]})"
        return f"{ends}, logarithmic."

    def tile(self, row: Mapping[str, Any] | None) -> Text:
        """A cost beside its shade."""
        if row is None:
            return Text(" " * _COLUMN)
        cost, low, high = (math.log(of["ns"]) for of in (row, self.low, self.high))
        share = (cost - low) / (high - low) if high > low else 0.0
        sign, colour = (of[min(len(of) - 1, int(share * len(of)))] for of in (self.signs, _COLOURS))
        text = f"{sign}{row['figure'] + row['mark']:>{_COLUMN - 2}} "
        return Text(text, style=f"{'black' if share > 0.55 else 'white'} on {colour}")

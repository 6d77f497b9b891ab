# SPDX-License-Identifier: MIT
"""The screen as a whole: blocks in order of importance, shortened until they fit 30 lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from linewright import numbers
from linewright.errors import one_line
from linewright.say.columns import Column, table_of
from linewright.say.common_costs import CommonCost, common_costs, numbered
from linewright.say.document import Document, TableCell, TextTable
from linewright.say.price_table import in_signs
from linewright.say.sentence import Sentence, render, render_all
from linewright.show.console import width_of
from linewright.show.one_screen import fitted, more, print_blocks
from linewright.show.price_bars import chart
from linewright.show.text_tables import legend_of, narrowed, table

_SHORTER = (
    ("limits", 1),
    ("prices", 9),
    ("rows", 5),
    ("use", 3),
    ("blank", 0),
    ("prices", 6),
    ("use", 1),
    ("prices", 3),
    ("rows", 1),
)
"""How the screen is shortened until it fits: each block down to this many, in this order."""


def print_documents(screens: Sequence[Document], console: Console) -> None:
    """Print each machine's screen, then the figures of several machines beside each other."""
    screens = numbered(screens)
    for number, screen in enumerate(screens):
        if number:
            console.print()
        print_blocks(_fitted(screen, console), console)
    if len(screens) > 1:
        console.print()
        print_blocks(_side_by_side(screens, width_of(console)), console)


def _fitted(screen: Document, console: Console) -> list[RenderableType]:
    """The blocks, shortened in the order of `_SHORTER` where they take more than one screen."""
    tables = {name: screen.table(name) for name in ("matrix", "prices")}
    amounts = {
        "limits": 3,
        "use": 4,
        "prices": len(tables["prices"].rows) if tables["prices"] else 0,
        "rows": len(tables["matrix"].rows) if tables["matrix"] else 0,
        "blank": 3,
    }
    return fitted(
        lambda kept: list(_blocks(screen, console, kept)), amounts, _next_shorter, console
    )


def _next_shorter(amounts: Mapping[str, int]) -> str:
    return next((name for name, fewest in _SHORTER if amounts[name] > fewest), "")


def _blocks(
    screen: Document, console: Console, amounts: Mapping[str, int]
) -> Iterator[RenderableType]:
    width = width_of(console)
    before_headline, before_prices, before_matrix = (
        [Text("")] * (amounts["blank"] >= least) for least in (3, 2, 1)
    )
    yield Text(one_line(", ".join([screen.title, *render_all(screen.of("facts"))])), style="bold")
    yield Text(one_line(", ".join(render_all(screen.of("run")))))
    for sentence in screen.of("warning"):
        yield Text(_text(sentence), style="bold red")
    yield from before_headline
    for sentence in screen.of("headline"):
        yield from _wrapped(_text(sentence), "", width, "bold")
    yield from labelled("USE", screen.of("uses")[: amounts["use"]], width)
    yield from labelled("SET", screen.of("settings")[:2], width)
    matrix, prices = screen.table("matrix"), screen.table("prices")
    if matrix and _has_figures(matrix):
        yield from before_matrix
        # Where there is no room for all, the first rows go, which are the cheap ones.
        rows = matrix.rows[len(matrix.rows) - amounts["rows"] :]
        made, letters = narrowed(msgspec.structs.replace(matrix, rows=rows), width)
        yield table(made)
        for line in [legend_of(made, letters), *render_all(matrix.notes)]:
            yield from _wrapped(line, "", width)
    if prices:
        yield from before_prices
        yield chart(prices, amounts["prices"], width, console.encoding)
    for line in _limits(screen)[: amounts["limits"]]:
        yield from _wrapped(_text(line), "", width)
    if said := _left_out(screen, amounts):
        yield from _wrapped(said, "", width)


def _has_figures(matrix: TextTable) -> bool:
    cells = (cell for row in matrix.rows for cell in row)
    return any(isinstance(cell, TableCell) and cell.value is not None for cell in cells)


def _text(sentence: Sentence) -> str:
    return one_line(render(sentence))


def labelled(label: str, sentences: Sequence[Sentence], width: int) -> Iterator[Text]:
    """Sentences below each other behind a label that stands before the first."""
    for number, sentence in enumerate(sentences):
        yield from _wrapped(
            _text(sentence), " " * (len(label) + 1) if number else f"{label} ", width
        )


def _wrapped(text: str, label: str, width: int, style: str = "") -> Iterator[Text]:
    """Lines no longer than `width` behind a label, which is bold; further lines stand below the
    text."""
    indent = " " * len(label)
    for number, line in enumerate(textwrap.wrap(text, width - len(label)) or [""]):
        yield Text.assemble((label, "bold") if not number else indent, (line, style))


def _limits(screen: Document) -> list[Sentence]:
    return [*screen.of("missing"), *screen.of("undecided"), *screen.of("limits")]


def _left_out(screen: Document, amounts: Mapping[str, int]) -> str:
    """The line that says what had no room, and which command has it; empty where all had."""
    matrix, prices = screen.table("matrix"), screen.table("prices")
    left = {
        "suggestion": len(screen.of("uses")) - amounts["use"],
        "row": len(matrix.rows) - amounts["rows"] if matrix and _has_figures(matrix) else 0,
        "price": len(prices.rows) - amounts["prices"] if prices else 0,
        "limit": len(_limits(screen)) - amounts["limits"],
    }
    *others, last = [(count, what) for what, count in left.items() if count > 0] or [(0, "")]
    if not last[0]:
        return ""
    also = "" if others else " and every figure"
    parts = [numbers.count(count, f"more {what}") for count, what in others]
    return numbers.join([*parts, more(*last, "show --all FILE", also)])


# ---- several machines --------------------------------------------------------------------------

NAME_COLUMNS = (14, 34)
"""Shortest and longest room for a machine's name in a heading."""
RATIO_COLUMNS = 16
"""Room for the ratio of two machines."""


def _side_by_side(screens: Sequence[Document], width: int) -> list[RenderableType]:
    """A table of the common costs; machines that the width has no room for are named below it."""
    rows = common_costs(screens)
    if not rows:
        return [Text("The machines have no cost in common.")]
    space = max(len(row.name) for row in rows) + 1
    shortest, longest = NAME_COLUMNS
    most = min(len(screens), max(1, (width - space) // (shortest + 1)))
    room = min(longest, (width - space - (len(screens) == 2) * RATIO_COLUMNS) // most - 1)
    columns: list[Column[CommonCost]] = [
        Column("ns per operation", lambda row: row.name, text=True),
        *(
            Column(
                _short(screen.title, room),
                lambda row, n=n: row.costs[n] or numbers.ABSENT,
            )
            for n, screen in enumerate(screens[:most])
        ),
    ]
    if len(screens) == 2:
        columns.append(Column("second", lambda row: in_signs(row.ratio) or "?"))
    made: list[RenderableType] = [table(table_of("The machines beside each other", columns, rows))]
    if len(screens) > most:
        made.append(Text(f"{len(screens) - most} more machines: linewright report shows all."))
    return made


def _short(title: str, room: int) -> str:
    """A machine's name; where it is too long its beginning, and its number."""
    if len(title) <= room:
        return title
    mark = re.search(r"( #[0-9]+)?$", title)[0]
    return f"{title[: room - len(mark) - 1]}…{mark}"

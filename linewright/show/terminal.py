# SPDX-License-Identifier: MIT
"""The screen as a whole, or advice: blocks in order of importance, shortened until they fit 30
lines, with a table's values as bars on one logarithmic scale."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from linewright import numbers
from linewright.errors import one_line
from linewright.say.document import (
    Bars,
    Column,
    CommonCost,
    Document,
    TableCell,
    TextTable,
    Topic,
    common_costs,
    numbered,
    table_of,
)
from linewright.say.machine_tables import in_signs
from linewright.say.sentence import Sentence, render, render_all
from linewright.show.console import encodes, width_of
from linewright.show.text_tables import (
    fitted,
    legend_of,
    more,
    narrowed,
    print_blocks,
    table,
    table_width,
    topic_blocks,
)

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


def chart(bars: Bars, most: int, width: int, encoding: str) -> Table:
    """The `most` rows of the lowest ranks, in their order, with bars as far as the width has room
    for them."""
    kept = sorted(range(len(bars.rows)), key=lambda i: (bars.ranks[i], i))[:most]
    signs, rows = signs_for(encoding), [bars.rows[i] for i in sorted(kept)]
    drawn_by = zip(bars.bars, (signs.solid, signs.light), strict=False)
    marks = {n: sign for (n, _), sign in drawn_by}
    headings = [f"{h} {marks[n]}" if n in marks else h for n, h in enumerate(bars.headings)]
    shown, _ = narrowed(replace(bars, rows=rows, headings=headings))
    scale = scale_of(replace(bars, rows=rows), width - table_width(shown))
    if not scale or scale.columns < SHORTEST_BAR:
        return table(shown)
    made = table(
        replace(
            shown,
            headings=[*shown.headings, scale.axis()],
            left=[*shown.left, True],
            rows=[
                [*texts, bar(bars.values_of(row), bars.beyond, scale, signs)]
                for texts, row in zip(shown.rows, rows, strict=True)
            ],
        )
    )
    made.columns[-1].style = "cyan"
    return made


MOST_USED = 3
"""Sentences on what to write in code; the screen of `linewright show` has more."""


def print_advice(documents: Sequence[Document], console: Console, every: bool) -> None:
    """Print each machine's advice: on one screen, or all of it with `every`."""
    for number, document in enumerate(documents):
        if number:
            console.print()
        head = _decision(document, width_of(console))
        if every:
            print_blocks([*head, *topic_blocks(document.evidence)], console)
        else:
            print_blocks(
                _advice_fitted(head, document.evidence, _floor(document), console), console
            )


def _floor(document: Document) -> str:
    """The run's own controls, which stand below the matrix."""
    matrix = document.table("matrix")
    return " ".join(render_all(matrix.notes)) if matrix else ""


def _decision(document: Document, width: int) -> list[RenderableType]:
    """The setting, what to write in code, and the machine that this was measured on."""
    if not document.of("settings"):
        return [Text(one_line(render(document.decision.sentence)), style="bold")]
    measured = [document.title, *render_all(document.of("facts"))], render_all(document.of("run"))
    return [
        *labelled("SET", [document.decision.sentence], width),
        *labelled("USE", document.of("uses")[:MOST_USED], width),
        *(Text(one_line(", ".join(texts))) for texts in measured),
    ]


def _advice_fitted(
    head: list[RenderableType], topics: Sequence[Topic], floor: str, console: Console
) -> list[RenderableType]:
    """As many lines of each section as there is room for; where one line of each is too much, fewer
    sections."""
    every = sum(len(topic.lines) for topic in topics)
    amounts = {topic.name: len(topic.lines) for topic in topics if topic.rank < 2}
    stays = [topic.name for topic in topics if topic.rank == 0]

    def made(kept: Mapping[str, int]) -> list[RenderableType]:
        shown = [
            msgspec.structs.replace(topic, lines=topic.lines[: kept[topic.name]])
            for topic in topics
            if kept.get(topic.name)
        ]
        left_out = every - sum(len(topic.lines) for topic in shown)
        blocks = [*head, *topic_blocks(shown)]
        blocks += [Text(floor)] if floor else []
        return blocks + ([Text(more(left_out, "line", "advise --all FILE"))] if left_out else [])

    def next_shorter(kept: Mapping[str, int]) -> str:
        """The section with the most lines, of equals the last; of single lines the last but the
        first and those that stay."""
        longest = max(kept.values(), default=0)
        if longest > 1:
            return [name for name, lines in kept.items() if lines == longest][-1]
        return next(iter([name for name in kept if kept[name] and name not in stays][:0:-1]), "")

    return fitted(made, amounts, next_shorter, console)

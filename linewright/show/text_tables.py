# SPDX-License-Identifier: MIT
"""A document of text tables on a terminal, as a comparison, a trial, a search or every cell of a
machine gives: the answer first, then the figures, then what limits the answer; kept to one screen
of 30 lines of at most 100 columns, of which the longest list gives way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from msgspec.structs import replace
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from linewright.errors import one_line
from linewright.say.document import LETTERS, Document, TableCell, TextTable, Topic, text_of
from linewright.say.sentence import Sentence, render
from linewright.show.console import WIDE, width_of

_TONES = {"good": "bold green", "doubt": "bold yellow", "bad": "bold red"}
_STYLES = {"good": "green", "bad": "red", "alarm": "bold red", "doubted": "italic"}
LEAST_FOLDED = 7
"""Columns to which a text that may be folded shrinks at most."""
SPACE = 2
"""Columns between two of a table."""
NARROW_NAME = 20
"""Columns of a name that is broken at its joints."""


def print_tables(document: Document, console: Console, rest: str = "") -> None:
    """Print a document; where a command has the `rest`, as many rows of each table as one screen
    has room for, and that command."""
    most = max((len(t.rows) for t in document.tables), default=0)
    tables = [_without_spare(t, console.width) for t in document.tables]

    def made(count: int) -> list[RenderableType]:
        return _blocks(document, tables, count, rest)

    print_blocks(longest(made, most, console) if rest else made(most), console)


def print_cells(documents: Sequence[Document], console: Console) -> None:
    """Print of each document what is for those who ask for every cell: the tables use the whole
    width, and what it has no room for is left out.  On a terminal a name is not repeated from row
    to row."""
    wide, blocks = console.width >= WIDE, []
    for block in (b for document in documents for b in document.blocks if b.audience == "cells"):
        if isinstance(block, TextTable):
            fitting = _fitted(block, wide, console.is_terminal)
            blocks += _table_blocks(fitting, None, "", 1, not wide)
        else:
            blocks += topic_blocks([block])
    print_blocks(blocks[1:], console, console.width)


def _fitted(one: TextTable, wide: bool, terminal: bool) -> TextTable:
    kept = [n for n in range(len(one.headings)) if wide or n not in one.spare]
    names = [text_of(row[0]) for row in one.rows]
    if terminal or not wide:
        pairs = zip(["", *names], names, strict=False)
        names = ["" if name == before else name for before, name in pairs]
    rows = [[name, *row[1:]] for name, row in zip(names, one.rows, strict=True)]
    return _with_columns(replace(one, rows=rows), kept)


def _with_columns(one: TextTable, kept: Sequence[int]) -> TextTable:
    return replace(
        one,
        headings=[one.headings[n] for n in kept],
        left=[one.left[n] for n in kept],
        rows=[[row[n] for n in kept] for row in one.rows],
        folds=tuple(kept.index(n) for n in one.folds),
        spare=(),
    )


def _without_spare(one: TextTable, width: int) -> TextTable:
    """The table without as many of its spare columns, in their order, as there is no room for
    beside a name."""
    columns = zip(one.headings, *([text_of(cell) for cell in row] for row in one.rows), strict=True)
    sizes = [max(map(len, texts)) for texts in columns]
    sizes = [min(s, NARROW_NAME) if n in one.folds else s for n, s in enumerate(sizes)]
    kept = list(range(len(sizes)))
    for n in one.spare:
        if sum(sizes[k] + SPACE for k in kept) > width:
            kept.remove(n)
    return _with_columns(one, kept)


def _broken(name: str) -> str:
    """A long name on several lines, broken at its underscores."""
    return "\n".join(re.findall(rf".{{1,{NARROW_NAME - 1}}}(?:_|$)|.+", name))


def _blocks(
    document: Document,
    tables: Sequence[TextTable],
    count: int | None,
    command: str,
) -> list[RenderableType]:
    """The document with at most `count` rows of each of its tables, all for None."""
    blocks: list[RenderableType] = []
    for number, sentence in enumerate(document.of("headline")):
        style = "bold" if number else _TONES.get(document.tone, "bold")
        blocks.append(Text(one_line(render(sentence)), style=style))
    blocks += [_line(render(fact), 0) for fact in document.of("facts")]
    for one in tables:
        blocks += _table_blocks(one, count, command)
    blocks += topic_blocks(document.evidence)
    return blocks + _paragraph(document.of("limits"))


def _table_blocks(
    one: TextTable, count: int | None, command: str, space: int = SPACE, narrow: bool = False
) -> list[RenderableType]:
    """At most `count` rows of a table, all for None, and what stands below it."""
    blocks: list[RenderableType] = [Text(), table(one, count, space, narrow)] if one.rows else []
    if one.rows[count:] and count is not None:
        blocks.append(Text(more(len(one.rows) - count, one.what, command)))
    return blocks + _paragraph(one.notes)


def _paragraph(sentences: Sequence[Sentence]) -> list[RenderableType]:
    """Sentences below a blank line; nothing for none."""
    lines: list[RenderableType] = [Text(one_line(render(sentence))) for sentence in sentences]
    return [Text(), *lines] if lines else []


def topic_blocks(topics: Sequence[Topic]) -> list[RenderableType]:
    """Each topic's title, and its lines below."""
    blocks: list[RenderableType] = []
    for topic in topics:
        blocks += [Text(), *([Text(one_line(topic.title), style="bold")] if topic.title else [])]
        blocks += [_line(render(line), 2 if topic.title else 0) for line in topic.lines]
    return blocks


def _line(text: str, indent: int) -> RenderableType:
    """A line; one that begins with spaces belongs to the line before."""
    return Padding(Text(one_line(text)), (0, 0, 0, 4 if text.startswith("  ") else indent))


def table(one: TextTable, count: int | None = None, space: int = 1, narrow: bool = False) -> Table:
    """A table without a frame, of at most `count` rows; `space` is the distance between columns,
    and on a `narrow` terminal long names stand on several lines."""
    made = Table(
        title=Text(one_line(one.title)) if one.title else None,
        title_justify="left",
        box=None,
        padding=(0, space, 0, 0),
        pad_edge=False,
    )
    for place, (heading, left) in enumerate(zip(one.headings, one.left, strict=True)):
        folds = place in one.folds
        made.add_column(
            Text(heading),
            justify="left" if left else "right",
            no_wrap=not folds,
            overflow="fold",
            min_width=LEAST_FOLDED if folds else None,
        )
    for row, style in zip_longest(one.rows[:count], one.styles[:count], fillvalue=""):
        name, *others = (one_line(text_of(cell)) for cell in row)
        texts = [_broken(name) if narrow else name, *others]
        made.add_row(*map(Text, texts), style=_STYLES.get(style, ""))
    return made


def table_width(one: TextTable) -> int:
    """Columns of the terminal that a table takes, each column's distance to the next included."""
    columns = zip(one.headings, *([text_of(cell) for cell in row] for row in one.rows), strict=True)
    return sum(max(map(len, texts)) + 1 for texts in columns)


LEVELS = ((0, True), (0, False), (1, False), (2, True), (2, False))
"""What gives way where a table is too wide, step by step: how much shorter the texts are, and
whether spare columns are shown."""


def narrowed(one: TextTable, width: int = 0) -> tuple[TextTable, dict[str, str]]:
    """The table as wide as `width` has room for, all of it for 0, without empty columns, and the
    letters behind the texts that have a note.  A figure is never cut."""
    for level, spare in LEVELS:
        letters: dict[str, str] = {}
        kept = [
            n
            for n in range(len(one.headings))
            if (spare or n not in one.spare) and any(text_of(row[n]) for row in one.rows)
        ]
        columns = [[_lettered(row[n], level, letters) for row in one.rows] for n in kept]
        headings = one.short_headings if level and one.short_headings else one.headings
        made = replace(
            one,
            title="",
            headings=[headings[n] for n in kept],
            short_headings=[],
            left=[one.left[n] for n in kept],
            rows=list(map(list, zip(*columns, strict=True))),
            spare=(),
            folds=(),
        )
        if not width or table_width(made) <= width + 1:
            break
    return made, letters


def _lettered(cell: str | TableCell, level: int, letters: dict[str, str]) -> str | TableCell:
    """A cell's text at a level, with the letter of its note unless only its sign is left."""
    if isinstance(cell, str):
        return cell
    text = cell.at(level)
    if cell.note and text != cell.sign:
        text += f" {letters.setdefault(cell.note, chr(ord('a') + len(letters)))}"
    return replace(cell, text=text)


def legend_of(one: TextTable, letters: dict[str, str]) -> str:
    """What the signs and letters of a table's cells mean, and what is always said of it."""
    signs = {cell.sign for row in one.rows for cell in row if isinstance(cell, TableCell)}
    notes = ", ".join(f"{letter}: {name}" for name, letter in letters.items())
    parts = [
        notes if sign == LETTERS else meaning
        for sign, meaning in one.legend
        if not sign or sign == LETTERS or sign in signs
    ]
    return "; ".join(filter(None, parts))


LINES = 30
"""Most lines that a command prints unless it is asked for all."""


def height(blocks: Sequence[RenderableType], console: Console) -> int:
    """Lines that the blocks take."""
    options = console.options.update(width=width_of(console))
    return sum(_lines(block, console, options) for block in blocks)


def _lines(block: RenderableType, console: Console, options: ConsoleOptions) -> int:
    """Lines of one block; those of short texts and of rows that never fold are counted, since
    rendering everything for each attempt to fit takes most of a command's time."""
    if isinstance(block, Text) and block.cell_len <= options.max_width and "\n" not in block.plain:
        return 1
    if isinstance(block, Table) and not block.title and all(c.no_wrap for c in block.columns):
        return block.row_count + block.show_header
    return len(console.render_lines(block, options))


def fitted(
    make: Callable[[dict[str, int]], list[RenderableType]],
    amounts: Mapping[str, int],
    shorter: Callable[[Mapping[str, int]], str],
    console: Console,
) -> list[RenderableType]:
    """What `make` gives for so much of each part, less and less until it fits one screen: `shorter`
    names the part that gives way next, and nothing where all of them are as short as may be."""
    kept = dict(amounts)
    while height(blocks := make(kept), console) > LINES and (part := shorter(kept)):
        kept[part] -= 1
    return blocks


def longest(
    make: Callable[[int], list[RenderableType]], most: int, console: Console
) -> list[RenderableType]:
    """What `make` gives for the most items, up to `most`, that fit one screen; for one item if none
    does."""
    return fitted(
        lambda kept: make(kept["items"]),
        {"items": min(most, LINES)},
        lambda kept: "items" if kept["items"] > 1 else "",
        console,
    )


def print_blocks(
    blocks: Sequence[RenderableType], console: Console, width: int | None = None
) -> None:
    """Print blocks below each other, no wider than `width` (else than one screen); in a pipe
    without the spaces that fill a terminal's lines."""
    width = width or width_of(console)
    if console.is_terminal or console.record:
        for block in blocks:
            console.print(block, width=width)
        return
    with console.capture() as captured:
        for block in blocks:
            console.print(block, width=width)
    console.file.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def more(count: int, what: str, command: str, also: str = "") -> str:
    """The line that says what was left out and which command has it: ``12 more functions:
    linewright inspect --all ./p``; `also`: what else is there."""
    return f"{count} more {what}{'' if count == 1 else 's'}{also}: linewright {command}"

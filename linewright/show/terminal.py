# SPDX-License-Identifier: MIT
"""A document on a terminal: blocks in order of importance, the answer first, kept to one screen of
30 lines of at most 100 columns, of which the longest list gives way; a table's values as bars on
one logarithmic scale; advice; and every cell of a machine."""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from msgspec.structs import replace
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from linewright import numbers
from linewright.errors import one_line
from linewright.say.document import (
    ASKED,
    LETTERS,
    LIMITS,
    Bars,
    Column,
    CommonCost,
    Document,
    Sentence,
    TableCell,
    TextTable,
    Topic,
    common_costs,
    numbered,
    render,
    render_all,
    table_of,
    text_of,
)
from linewright.say.machine_tables import in_signs
from linewright.show.output import WIDE, width_of

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
    fitting = [
        _without_spare(block, console.width) if isinstance(block, TextTable) else block
        for block in document.blocks
    ]
    document = replace(document, blocks=fitting)

    draw = partial(_document_blocks, document, rest)
    print_blocks(fitted(document, draw, console) if rest else draw(document), console)


def print_cells(documents: Sequence[Document], console: Console) -> None:
    """Print of each machine all that its screen has, shortened by nothing, then what is for those
    who ask for every cell: its tables use the whole width, and what that has no room for is left
    out.  On a terminal a name is not repeated from row to row."""
    wide = console.width >= WIDE
    for number, document in enumerate(numbered(documents)):
        if number:
            console.print()
        blocks: list[RenderableType] = []
        for block in (b for b in document.blocks if b.audience == "cells"):
            if isinstance(block, TextTable):
                fitting = _as_wide(block, wide, console.is_terminal)
                blocks += _table_blocks(fitting, space=1, narrow=not wide)
            else:
                blocks += topic_blocks([block])
        print_blocks(_screen_blocks(document, console, document), console)
        print_blocks(blocks, console, console.width)


def _as_wide(one: TextTable, wide: bool, terminal: bool) -> TextTable:
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


def _document_blocks(
    whole: Document, command: str, document: Document, most: int = ASKED
) -> list[RenderableType]:
    """A document, and how many rows its tables have less than those of the `whole` one."""
    blocks: list[RenderableType] = []
    for number, sentence in enumerate(document.of("headline")):
        style = "bold" if number else _TONES.get(document.tone, "bold")
        blocks.append(Text(one_line(render(sentence)), style=style))
    blocks += [_line(render(fact), 0) for fact in document.of("facts")]
    for one, table in zip(document.tables, whole.tables, strict=True):
        blocks += _table_blocks(one, len(table.rows) - len(one.rows), command)
    blocks += topic_blocks(document.evidence)
    return blocks + _paragraph(document.of("limits"))


def _table_blocks(
    one: TextTable, left_out: int = 0, command: str = "", space: int = SPACE, narrow: bool = False
) -> list[RenderableType]:
    """A table, how many of its rows were left out, and what stands below it."""
    blocks: list[RenderableType] = [Text(), table(one, space, narrow)] if one.rows else []
    if left_out:
        blocks.append(Text(more(left_out, one.what, command)))
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


def table(one: TextTable, space: int = 1, narrow: bool = False) -> Table:
    """A table without a frame; `space` is the distance between columns, and on a `narrow` terminal
    long names stand on several lines."""
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
    for row, style in zip_longest(one.rows, one.styles, fillvalue=""):
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
        turned = zip(*one.rows, strict=True)
        columns = [[_lettered(cell, level, letters) for cell in row] for row in turned]
        headings = one.short_headings if level and one.short_headings else one.headings
        rows = list(map(list, zip(*columns, strict=True)))
        shown = replace(one, title="", headings=headings, short_headings=[], rows=rows, folds=())
        made = _with_columns(shown, kept)
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
    document: Document,
    draw: Callable[[Document, int], list[RenderableType]],
    console: Console,
    of_layout: Iterable[int] = (),
) -> list[RenderableType]:
    """What `draw` gives of a document, without what has the highest rank until it fits one screen,
    or nothing more may go. `draw` gets the highest rank that is left, by which blank lines, of
    the ranks `of_layout`, give way too."""
    may_go = sorted({rank for rank in [*document.ranks, *of_layout] if rank < ASKED})
    # Each takes a line or more, so that of more than these no attempt would fit.
    may_go, most = may_go[: LINES + 1], ASKED - 1 if len(may_go) <= LINES else may_go[LINES]
    while height(blocks := draw(document.kept(most), most), console) > LINES and may_go:
        most = may_go.pop() - 1
    return blocks


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


_BLANK = {"matrix": 5001, "prices": 5002, "headline": 5003}
"""Ranks of the blank lines before blocks of a screen."""


def print_documents(screens: Sequence[Document], console: Console) -> None:
    """Print each machine's screen, then the figures of several machines beside each other."""
    screens = numbered(screens)
    for number, screen in enumerate(screens):
        if number:
            console.print()
        draw = partial(_screen_blocks, screen, console)
        print_blocks(fitted(screen, draw, console, _BLANK.values()), console)
    if len(screens) > 1:
        console.print()
        print_blocks(_side_by_side(screens, width_of(console)), console)


def _screen_blocks(
    whole: Document, console: Console, screen: Document, most: int = ASKED
) -> list[RenderableType]:
    """A screen, what it leaves out of the `whole` one, and blank lines up to a rank."""
    width = width_of(console)
    blank = {name: [Text("")] * (rank <= most) for name, rank in _BLANK.items()}
    blocks: list[RenderableType] = [
        Text(one_line(", ".join([screen.title, *render_all(screen.of("facts"))])), style="bold"),
        Text(one_line(", ".join(render_all(screen.of("run"))))),
        *(Text(_text(sentence), style="bold red") for sentence in screen.of("warning")),
        *blank["headline"],
    ]
    for sentence in screen.of("headline"):
        blocks += _wrapped(_text(sentence), "", width, "bold")
    blocks += labelled("USE", screen.of("uses"), width)
    blocks += labelled("SET", screen.of("settings"), width)
    matrix, prices = screen.table("matrix"), screen.table("prices")
    if matrix and _has_figures(matrix):
        made, letters = narrowed(matrix, width)
        blocks += [*blank["matrix"], table(made)]
        for line in [legend_of(made, letters), *render_all(matrix.notes)]:
            blocks += _wrapped(line, "", width)
    if isinstance(prices, Bars):
        blocks += [*blank["prices"], chart(prices, width)]
    for line in [line for name in LIMITS for line in screen.of(name)]:
        blocks += _wrapped(_text(line), "", width)
    if said := _left_out(screen, whole):
        blocks += _wrapped(said, "", width)
    return blocks


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


_WHAT = {"uses": "suggestion"} | dict.fromkeys(LIMITS, "limit")
"""What a sentence of these topics is, for the line that counts those left out."""


def _left_out(screen: Document, whole: Document) -> str:
    """The line that says what had no room, and which command has it; empty where all had."""
    left: Counter[str] = Counter()
    for shown, block in zip(screen.blocks, whole.blocks, strict=True):
        if isinstance(shown, TextTable) and isinstance(block, TextTable) and _has_figures(block):
            left[block.what] += len(block.rows) - len(shown.rows)
        elif isinstance(shown, Topic) and isinstance(block, Topic) and block.name in _WHAT:
            left[_WHAT[block.name]] += len(block.lines) - len(shown.lines)
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


SHORTEST_BAR = 12
"""Columns below which no bars are drawn."""


SOLID, LIGHT, BEYOND = "█░▶"
"""Of a bar the part up to the cheaper cost, the part from there to the other, and the end of one
that is longer than the scale; where an encoding lacks them their likeness is printed."""


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


def bar(values: Sequence[float], beyond: float, scale: BarScale) -> str:
    """Solid up to the cheaper of the figures, light from there to the more expensive one."""
    if not values:
        return ""
    ends = min(values), max(values)
    solid, whole = (scale.columns - 1 if end > beyond else scale.at(end) for end in ends)
    return SOLID * solid + LIGHT * (whole - solid) + BEYOND * (ends[1] > beyond)


def chart(bars: Bars, width: int) -> Table:
    """The rows, with bars as far as the width has room for them."""
    marks = {n: sign for (n, _), sign in zip(bars.bars, (SOLID, LIGHT), strict=False)}
    headings = [f"{h} {marks[n]}" if n in marks else h for n, h in enumerate(bars.headings)]
    shown, _ = narrowed(replace(bars, headings=headings))
    scale = scale_of(bars, width - table_width(shown))
    if not scale or scale.columns < SHORTEST_BAR:
        return table(shown)
    made = table(
        replace(
            shown,
            headings=[*shown.headings, scale.axis()],
            left=[*shown.left, True],
            rows=[
                [*texts, bar(bars.values_of(row), bars.beyond, scale)]
                for texts, row in zip(shown.rows, bars.rows, strict=True)
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
            continue
        evidence = replace(document, blocks=document.evidence)
        # The run's own controls stand below the matrix.
        floor = " ".join(render(note) for table in document.tables for note in table.notes)
        draw = partial(_evidence, head, floor, evidence)
        print_blocks(fitted(evidence, draw, console), console)


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


def _evidence(
    head: list[RenderableType], floor: str, whole: Document, shown: Document, most: int
) -> list[RenderableType]:
    """The evidence that is shown of the whole, and how many lines are left out."""
    left_out = sum(len(block.lines) for block in whole.evidence)
    left_out -= sum(len(topic.lines) for topic in shown.evidence)
    blocks = [*head, *topic_blocks([topic for topic in shown.evidence if topic.lines])]
    blocks += [Text(floor)] if floor else []
    return blocks + ([Text(more(left_out, "line", "advise --all FILE"))] if left_out else [])

# SPDX-License-Identifier: MIT
"""How output is kept to one screen: 30 lines of at most 100 columns, of which the longest list
gives way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from linewright.show.console import width_of

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

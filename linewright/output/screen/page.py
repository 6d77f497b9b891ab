"""The screen as a whole: blocks in order of importance, shortened until they fit 30 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from linewright.analysis.saying import Sentence, render
from linewright.analysis.screen_data import Price, Screen
from linewright.errors import one_line
from linewright.output.one_screen import LINES, height, print_blocks, width_of
from linewright.output.screen import side_by_side
from linewright.output.screen.chart import chart
from linewright.output.screen.matrix import matrix

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


def print_screens(screens: Sequence[Screen], console: Console) -> None:
    """Print each machine's screen, then the figures of several machines beside each other."""
    for number, (screen, mark) in enumerate(zip(screens, side_by_side.marks(screens), strict=True)):
        if number:
            console.print()
        print_blocks(_fitted(msgspec.structs.replace(screen, title=screen.title + mark), console), console)
    if len(screens) > 1:
        console.print()
        print_blocks(side_by_side.side_by_side(screens, width_of(console)), console)


def _fitted(screen: Screen, console: Console) -> list[RenderableType]:
    """The blocks, shortened in the order of `_SHORTER` where they would take more than `LINES`."""
    amounts = {"limits": 3, "use": 4, "prices": len(screen.prices), "rows": len(screen.rows), "blank": 3}
    blocks = list(_blocks(screen, console, amounts))
    for name, fewest in _SHORTER:
        while height(blocks, console) > LINES and amounts[name] > fewest:
            amounts[name] -= 1
            blocks = list(_blocks(screen, console, amounts))
    return blocks


def _blocks(screen: Screen, console: Console, amounts: dict[str, int]) -> Iterator[RenderableType]:
    width = width_of(console)
    before_headline, before_prices, before_matrix = ([Text("")] * (amounts["blank"] >= least) for least in (3, 2, 1))
    yield Text(one_line(", ".join([screen.title, *screen.facts])), style="bold")
    coarse = ["coarse: fewer launches than a claim needs"] if screen.coarse else []
    yield Text(one_line(", ".join([*screen.run, *coarse])))
    if screen.warning:
        yield Text(one_line(screen.warning), style="bold red")
    yield from before_headline
    for sentence in screen.headline:
        yield from _wrapped(_text(sentence), "", width, "bold")
    yield from labelled("USE", screen.use[: amounts["use"]], width)
    yield from labelled("SET", screen.set[:2], width)
    if any(entry.default for row in screen.rows for entry in row.entries.values()):
        yield from before_matrix
        made, legend = matrix(_fewer_rows(screen, amounts["rows"]), width)
        yield made
        for line in legend:
            yield from _wrapped(line, "", width)
    if screen.prices:
        yield from before_prices
        yield chart(_weightiest(screen.prices, amounts["prices"]), width, console.encoding, screen.coarse)
    yield from _limits(screen, amounts["limits"], width)


def _fewer_rows(screen: Screen, most: int) -> Screen:
    """The matrix without its first rows, which are the cheap ones, when there is no room for all."""
    return msgspec.structs.replace(screen, rows=screen.rows[len(screen.rows) - most :])


def _weightiest(prices: Sequence[Price], most: int) -> list[Price]:
    """The prices of the lowest ranks, in their own order."""
    kept = sorted(range(len(prices)), key=lambda i: (prices[i].rank, i))[:most]
    return [prices[i] for i in sorted(kept)]


def _text(sentence: Sentence) -> str:
    return one_line(render(sentence))


def labelled(label: str, sentences: Sequence[Sentence], width: int) -> Iterator[Text]:
    """Sentences below each other behind a label that stands before the first."""
    for number, sentence in enumerate(sentences):
        yield from _wrapped(_text(sentence), " " * (len(label) + 1) if number else f"{label} ", width)


def _wrapped(text: str, label: str, width: int, style: str = "") -> Iterator[Text]:
    """Lines no longer than `width` behind a label, which is bold; further lines stand below the text."""
    indent = " " * len(label)
    for number, line in enumerate(textwrap.wrap(text, width - len(label)) or [""]):
        yield Text.assemble((label, "bold") if not number else indent, (line, style))


def _limits(screen: Screen, most: int, width: int) -> Iterator[Text]:
    lines = [*screen.missing, *(_text(sentence) for sentence in screen.limits)]
    for line in lines[:most]:
        yield from _wrapped(one_line(line), "", width)
    if len(lines) > most:
        more = len(lines) - most
        yield Text(f"{more} more {'limit' if more == 1 else 'limits'} and every figure: linewright show --all.")

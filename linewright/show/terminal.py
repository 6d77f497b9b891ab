"""The screen as a whole: blocks in order of importance, shortened until they fit 30 lines."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from linewright.analysis.price_list import Price
from linewright.errors import one_line
from linewright.say.common_costs import numbered
from linewright.say.document import Document
from linewright.say.sentence import Sentence, render, render_all
from linewright.show.one_screen import fitted, more, print_blocks, width_of
from linewright.show.price_bars import chart
from linewright.show.screen_matrix import matrix
from linewright.show.side_by_side import side_by_side
from linewright.show.text_tables import table

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
        print_blocks(side_by_side(screens, width_of(console)), console)


def _fitted(screen: Document, console: Console) -> list[RenderableType]:
    """The blocks, shortened in the order of `_SHORTER` where they take more than one screen."""
    amounts = {
        "limits": 3,
        "use": 4,
        "prices": len(screen.prices),
        "rows": len(screen.rows),
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
    yield Text(one_line(", ".join([screen.title, *render_all(screen.facts)])), style="bold")
    yield Text(one_line(", ".join(render_all(screen.run))))
    if screen.warning:
        yield Text(_text(screen.warning), style="bold red")
    yield from before_headline
    for sentence in screen.headline:
        yield from _wrapped(_text(sentence), "", width, "bold")
    yield from labelled("USE", screen.uses[: amounts["use"]], width)
    yield from labelled("SET", screen.settings[:2], width)
    if any(entry.default for row in screen.rows for entry in row.entries.values()):
        yield from before_matrix
        # Where there is no room for all, the first rows go, which are the cheap ones.
        rows = screen.rows[len(screen.rows) - amounts["rows"] :]
        made, legend = matrix(msgspec.structs.replace(screen, rows=rows), width)
        yield table(made)
        for line in legend:
            yield from _wrapped(line, "", width)
    if screen.prices:
        yield from before_prices
        prices = _weightiest(screen.prices, amounts["prices"])
        yield chart(prices, width, console.encoding)
    yield from _limits(screen, amounts["limits"], width)


def _weightiest(prices: Sequence[Price], most: int) -> list[Price]:
    """The prices of the lowest ranks, in their own order."""
    kept = sorted(range(len(prices)), key=lambda i: (prices[i].rank, i))[:most]
    return [prices[i] for i in sorted(kept)]


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


def _limits(screen: Document, most: int, width: int) -> Iterator[Text]:
    lines = [*screen.missing, *screen.undecided, *screen.limits]
    for line in lines[:most]:
        yield from _wrapped(_text(line), "", width)
    if len(lines) > most:
        yield Text(more(len(lines) - most, "limit", "show --all FILE", " and every figure"))

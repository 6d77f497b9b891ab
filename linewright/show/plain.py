"""The screen in linear order for screen readers: one statement a line, no columns, no bars, no
signs to look up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linewright.errors import one_line
from linewright.say.common_costs import common_costs, common_words, numbered
from linewright.say.cost_words import control_line, entry_words, price_words
from linewright.say.document import Document
from linewright.say.sentence import render, render_all


def lines(screens: Sequence[Document]) -> list[str]:
    """Every line of every machine's screen; of several machines, then the figures that they have in
    common."""
    screens = numbered(screens)
    said = [line for screen in screens for line in _of(screen)]
    if len(screens) > 1:
        said += [common_words(row, screens) for row in common_costs(screens)]
    return list(map(one_line, said))


def _of(screen: Document) -> Iterator[str]:
    yield f"Machine: {', '.join([screen.title, *render_all(screen.facts)])}."
    yield f"Run: {', '.join(render_all(screen.run))}."
    if screen.warning:
        yield f"Warning: {render(screen.warning)}"
    yield from map(render, screen.headline)
    for label, sentences in (("Use", screen.uses), ("Set", screen.settings)):
        yield from (f"{label}: {render(sentence)}" for sentence in sentences)
    if screen.rows:
        yield f"Matrix of {screen.width_bits}-bit operations, nanoseconds per operation."
    for row in screen.rows:
        for column in screen.columns:
            if entry := row.entries.get(column.key):
                situation = column.situation
                where = situation.sharers if situation.contended else situation.words()
                yield f"{row.name}, {where}: {entry_words(entry, column)}"
    if noise := control_line(screen):
        yield noise
    if screen.prices:
        yield "Price list, nanoseconds per operation."
    yield from map(price_words, screen.prices)
    yield from render_all([*screen.missing, *screen.undecided])
    yield from (f"Limit: {render(sentence)}" for sentence in screen.limits)

# SPDX-License-Identifier: MIT
"""A document in linear order for screen readers: one statement a line, no columns, no bars, no
signs to look up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linewright.errors import one_line
from linewright.say.document import (
    Document,
    TextTable,
    common_costs,
    common_words,
    numbered,
    render,
    render_all,
)

LABELS = {"warning": "Warning", "uses": "Use", "settings": "Set", "limits": "Limit"}
"""What stands before each sentence of a topic; others are said as they are."""


def lines(documents: Sequence[Document]) -> list[str]:
    """Every line of every document; of several machines, then the figures that they have in
    common."""
    documents = numbered(documents)
    said = [line for document in documents for line in _of(document)]
    if len(documents) > 1:
        said += [common_words(row, documents) for row in common_costs(documents)]
    return list(map(one_line, said))


def _of(document: Document) -> Iterator[str]:
    if document.title:
        yield f"Machine: {', '.join([document.title, *render_all(document.of('facts'))])}."
    for block in document.blocks:
        if isinstance(block, TextTable):
            yield from (f"{block.title}.", *map(render, [*block.spoken, *block.notes]))
        elif block.name == "run":
            yield f"Run: {', '.join(render_all(block.lines))}."
        elif block.name != "facts" or not document.title:
            label = f"{LABELS[block.name]}: " if block.name in LABELS else ""
            yield from (f"{label}{text}" for text in render_all(block.lines))

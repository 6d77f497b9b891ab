# SPDX-License-Identifier: MIT
"""Advice on a terminal or in a pipe: what to set and to write first, then the evidence, the limits
last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console, RenderableType
from rich.text import Text

from linewright.errors import one_line
from linewright.say.document import Document, Topic
from linewright.say.sentence import render, render_all
from linewright.show.console import width_of
from linewright.show.one_screen import fitted, more, print_blocks
from linewright.show.terminal import labelled
from linewright.show.text_tables import topic_blocks

MOST_USED = 3
"""Sentences on what to write in code; the screen of `linewright show` has more."""


def show(documents: Sequence[Document], console: Console, every: bool) -> None:
    """Print each machine's advice: on one screen, or all of it with `every`."""
    for number, document in enumerate(documents):
        if number:
            console.print()
        head = _decision(document, width_of(console))
        if every:
            print_blocks([*head, *topic_blocks(document.evidence)], console)
        else:
            print_blocks(_fitted(head, document.evidence, _floor(document), console), console)


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


def _fitted(
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

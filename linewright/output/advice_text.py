"""Advice on a terminal or in a pipe: the decision first, then each part of the evidence, the limits last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from linewright.advice.machine import Advice, Section
from linewright.errors import one_line
from linewright.output.machine import describe
from linewright.output.one_screen import LINES, height, longest, more, print_blocks
from linewright.schema import Context


def show(answers: Sequence[Advice], contexts: Sequence[Context], console: Console, every: bool) -> None:
    """Print each machine's advice: on one screen, or all of it with `every`."""
    for number, answer in enumerate(answers):
        if number:
            console.print()
        known = [c for c in contexts if c.machine_id == answer.machine_id]
        lines = max((len(section.lines) for section in answer.sections), default=0)
        whole = _blocks(answer, known, answer.sections, lines)
        print_blocks(whole if every else _fitted(answer, known, lines, console), console)


def _fitted(answer: Advice, known: Sequence[Context], lines: int, console: Console) -> list[RenderableType]:
    """As many lines of each section as there is room for; where one of each is too much, fewer sections."""
    blocks = longest(lambda count: _blocks(answer, known, answer.sections, count), lines, console)
    if height(blocks, console) <= LINES:
        return blocks
    first, last = answer.sections[:-1], answer.sections[-1:]
    return longest(lambda count: _blocks(answer, known, [*first[:count], *last], 1), len(first), console)


def _blocks(answer: Advice, known: Sequence[Context], sections: Sequence[Section], lines: int) -> list[RenderableType]:
    """The decision, `lines` lines of each section, and what was left out of the whole advice."""
    blocks: list[RenderableType] = [Text(one_line(answer.setting.sentence), style="bold")]
    blocks += [Text(line, style="dim") for line in describe(known)]
    for section in sections:
        blocks += [Text(), Text(one_line(section.title), style="bold")]
        for line in section.lines[:lines]:
            blocks.append(Padding(Text(one_line(line)), (0, 0, 0, 4 if line.startswith("  ") else 2)))
    every = sum(len(section.lines) for section in answer.sections)
    if left_out := every - sum(len(section.lines[:lines]) for section in sections):
        blocks += [Text(), Text(more(left_out, "line", "advise"), style="dim")]
    return blocks

"""Advice on a terminal or in a pipe: what to set and to write first, then the evidence, the limits last."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from linewright.advice.machine import Advice, Topic
from linewright.analysis.saying import said
from linewright.analysis.screen_data import Screen
from linewright.errors import one_line
from linewright.output.one_screen import LINES, height, longest, more, print_blocks, width_of
from linewright.output.screen.matrix import control_line
from linewright.output.screen.page import labelled

CONTROL, UNKNOWN = "control", "unknown"
"""Sections that limit what may be concluded: of the first one screen has the noise floor alone, the second stays."""
MOST_USED = 3
"""Sentences on what to write in code; the screen of `linewright show` has more."""


def show(answers: Sequence[Advice], screens: Sequence[Screen], console: Console, every: bool) -> None:
    """Print each machine's advice: on one screen, or all of it with `every`."""
    for number, answer in enumerate(answers):
        if number:
            console.print()
        screen = next((s for s in screens if s.machine_id == answer.machine_id), None)
        head = _decision(answer, screen, width_of(console))
        if every:
            print_blocks([*head, *_sections(answer.sections)], console)
        else:
            print_blocks(_fitted(head, answer, control_line(screen) if screen else "", console), console)


def _decision(answer: Advice, screen: Screen | None, width: int) -> list[RenderableType]:
    """The setting, what to write in code, and the machine that this was measured on."""
    if screen is None or not screen.set:
        return [Text(one_line(answer.setting.sentence), style="bold")]
    own = [said(answer.setting.sentence)] if answer.setting.why == "depends" else screen.set  # the screen refers to us
    machine = ", ".join([screen.title, *screen.facts, *screen.run])
    return [
        *labelled("SET", own, width),
        *labelled("USE", screen.use[:MOST_USED], width),
        Text(one_line(machine)),
    ]


def _fitted(head: list[RenderableType], answer: Advice, floor: str, console: Console) -> list[RenderableType]:
    """As many lines of each section as there is room for; where one of each is too much, fewer sections."""
    evidence = [section for section in answer.sections if section.name not in (CONTROL, UNKNOWN)]
    unknown = [section for section in answer.sections if section.name == UNKNOWN]
    every = sum(len(section.lines) for section in answer.sections)

    def made(sections: Sequence[Topic], lines: int) -> list[RenderableType]:
        left_out = every - sum(len(section.lines[:lines]) for section in sections)
        blocks = [*head, *_sections(sections, lines)]
        blocks += [Text(floor)] if floor else []
        return blocks + ([Text(more(left_out, "line", "advise"))] if left_out else [])

    most = max((len(section.lines) for section in answer.sections), default=0)
    blocks = longest(lambda lines: made([*evidence, *unknown], lines), most, console)
    if height(blocks, console) <= LINES:
        return blocks
    return longest(lambda count: made([*evidence[:count], *unknown], 1), len(evidence), console)


def _sections(sections: Sequence[Topic], lines: int | None = None) -> list[RenderableType]:
    """Each topic's title and lines, at most `lines` of them."""
    blocks: list[RenderableType] = []
    for section in sections:
        blocks += [Text(), Text(one_line(section.title), style="bold")]
        for line in section.lines[:lines]:
            blocks.append(Padding(Text(one_line(line)), (0, 0, 0, 4 if line.startswith("  ") else 2)))
    return blocks

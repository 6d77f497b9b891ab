"""Advice on a terminal or in a pipe: what to set and to write first, then the evidence, the limits last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
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
        head = _decision(answer, screen, width_of(console), every)
        if every:
            print_blocks([*head, *_sections(answer.sections)], console)
        else:
            print_blocks(_fitted(head, answer, control_line(screen) if screen else "", console), console)


def _decision(answer: Advice, screen: Screen | None, width: int, every: bool) -> list[RenderableType]:
    """The setting, what to write in code, and the machine that this was measured on."""
    if screen is None or not screen.set:
        return [Text(one_line(answer.setting.sentence), style="bold")]
    # The screen refers to us; here the places are shown, or have no room.
    depends = answer.setting.sentence if every else answer.setting.sentence.replace("see below", "--all shows where")
    own = [said(depends)] if answer.setting.why == "depends" else screen.set
    machine = ", ".join([screen.title, *screen.facts, *screen.run])
    return [
        *labelled("SET", own, width),
        *labelled("USE", screen.use[:MOST_USED], width),
        Text(one_line(machine)),
    ]


def _fitted(head: list[RenderableType], answer: Advice, floor: str, console: Console) -> list[RenderableType]:
    """As many lines of each section as there is room for, and what room is left for the first ones; where one line of
    each is too much, fewer sections."""
    evidence = [section for section in answer.sections if section.name not in (CONTROL, UNKNOWN)]
    unknown = [section for section in answer.sections if section.name == UNKNOWN]
    every = sum(len(section.lines) for section in answer.sections)

    def made(sections: Sequence[Topic], lines: int, more_of: Mapping[str, int] = {}) -> list[RenderableType]:
        shown = [
            msgspec.structs.replace(section, lines=section.lines[: lines + more_of.get(section.name, 0)])
            for section in sections
        ]
        left_out = every - sum(len(section.lines) for section in shown)
        blocks = [*head, *_sections(shown)]
        blocks += [Text(floor)] if floor else []
        return blocks + ([Text(more(left_out, "line", "advise"))] if left_out else [])

    most = max((len(section.lines) for section in answer.sections), default=0)
    lines = next((n for n in range(most, 1, -1) if height(made([*evidence, *unknown], n), console) <= LINES), 1)
    if height(made([*evidence, *unknown], lines), console) > LINES:
        return longest(lambda count: made([*evidence[:count], *unknown], 1), len(evidence), console)
    room: dict[str, int] = {}
    for section in evidence:
        for extra in range(1, len(section.lines) - lines + 1):
            if height(made([*evidence, *unknown], lines, {**room, section.name: extra}), console) > LINES:
                break
            room[section.name] = extra
    return made([*evidence, *unknown], lines, room)


def _sections(sections: Sequence[Topic]) -> list[RenderableType]:
    """Each topic's title and lines."""
    blocks: list[RenderableType] = []
    for section in sections:
        blocks += [Text(), Text(one_line(section.title), style="bold")]
        for line in section.lines:
            blocks.append(Padding(Text(one_line(line)), (0, 0, 0, 4 if line.startswith("  ") else 2)))
    return blocks

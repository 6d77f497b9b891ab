"""Several machines beside each other: the figures of their screens, one column for each machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.text import Text

from linewright.analysis.screen_data import Figure, Screen
from linewright.errors import one_line
from linewright.output.columns import Column, table
from linewright.output.screen import words

NAME_COLUMNS = (14, 34)
"""Shortest and longest room for a machine's name in a heading."""
SHORT = {"alone": "alone", "work": "in work", "contended": "2nd CPU"}


class Line(NamedTuple):
    """One cost on every machine; None where it was not measured."""

    name: str
    costs: tuple[Figure | None, ...]


def lines(screens: Sequence[Screen]) -> list[Line]:
    """Costs that at least two machines have, in the order of the first machine's screen."""
    found: dict[str, dict[int, Figure]] = {}
    for number, screen in enumerate(screens):
        for name, cost in _costs(screen):
            found.setdefault(name, {})[number] = cost
    return [
        Line(name, tuple(costs.get(number) for number in range(len(screens))))
        for name, costs in found.items()
        if len(costs) > 1
    ]


def _costs(screen: Screen) -> list[tuple[str, Figure]]:
    """The back-to-back figures of the matrix, then the price list, by name."""
    costs = [
        (f"{row.name}, {SHORT[key]}", entry.default)
        for row in screen.rows
        for key, entry in row.entries.items()
        if entry.default and key != "work"
    ]
    for price in screen.prices:
        if not price.reference:
            sides = (("", price.alone if not price.contended else None), (", 2 CPUs", price.contended))
            costs += [(f"{price.name}{side}", cost) for side, cost in sides if cost]
    return costs


def side_by_side(screens: Sequence[Screen], width: int) -> list[RenderableType]:
    """A table of the common costs; machines that the width has no room for are named below it."""
    rows = lines(screens)
    if not rows:
        return [Text("The machines have no cost in common.")]
    space = max(len(row.name) for row in rows) + 1
    shortest, longest = NAME_COLUMNS
    most = min(len(screens), max(1, (width - space) // (shortest + 1)))
    room = min(longest, (width - space) // most - 1)
    columns: list[Column[Line]] = [Column("ns per operation", lambda row: row.name, text=True)]
    columns += [Column(_name(screens, number, room), _cost(number)) for number in range(most)]
    made: list[RenderableType] = [table("The machines beside each other", columns, rows)]
    if len(screens) > most:
        made.append(Text(f"{len(screens) - most} more machines: linewright report shows all."))
    return made


def marks(screens: Sequence[Screen]) -> list[str]:
    """`` #2`` behind the name of each machine that is not the only one of its name, by its place; else nothing."""
    names = [one_line(screen.title) for screen in screens]
    return [f" #{number + 1}" if names.count(name) > 1 else "" for number, name in enumerate(names)]


def _name(screens: Sequence[Screen], number: int, room: int) -> str:
    """The machine's name, shortened; numbered where another machine has the same."""
    name, mark = one_line(screens[number].title), marks(screens)[number]
    room -= len(mark)
    return (name if len(name) <= room else f"{name[: room - 1]}…") + mark


def _cost(number: int) -> Callable[[Line], str]:
    return lambda row: words.figure(row.costs[number])

"""What a page is made of: sections with their choices, charts and small tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from linewright.output.columns import Column


class Control(Struct, frozen=True, kw_only=True):
    """A choice above a section's charts; it sets `signal` in each. The first option holds at first."""

    signal: str
    label: str
    options: list[tuple[str, str]]
    """(value, text)."""

    @classmethod
    def of(cls, signal: str, label: str, values: Iterable[str]) -> Control:
        """A choice among values that are shown as they are, each once."""
        return cls(signal=signal, label=label, options=[(value, value) for value in dict.fromkeys(values)])


class Figure(Struct, frozen=True, kw_only=True):
    """One chart."""

    id: str
    title: str
    text: str
    """What the chart shows, for those who do not see it."""
    spec: dict[str, Any]
    broad: bool = False
    """Takes the page's whole width."""
    least: int = 0
    """Pixels below which it scrolls rather than shrinks."""


class Grid(Struct, frozen=True, kw_only=True):
    """A small table of text; figures stand right."""

    caption: str
    columns: list[str]
    rows: list[list[str]]
    left: int = 1
    """Leading columns that are names."""

    @classmethod
    def of(cls, caption: str, columns: Sequence[Column], rows: Iterable[Any]) -> Grid:
        """The rows in columns that are declared as those of a terminal's tables are; text columns come first."""
        cells = [[column.value(row) for column in columns] for row in rows]
        return cls(caption=caption, columns=[c.title for c in columns], rows=cells, left=sum(c.text for c in columns))


class Section(Struct, frozen=True, kw_only=True):
    """One heading with what belongs below it."""

    id: str
    title: str
    lead: str
    controls: list[Control] = []
    figures: list[Figure] = []
    grids: list[Grid] = []
    notes: list[str] = []

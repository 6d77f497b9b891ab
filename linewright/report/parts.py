"""What a page is made of: sections with their choices, charts and small tables."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Control(Struct, frozen=True, kw_only=True):
    """A choice above a section's charts; it sets `signal` in each. The first option holds at first."""

    signal: str
    label: str
    options: list[tuple[str, str]]
    """(value, text)."""


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


class Section(Struct, frozen=True, kw_only=True):
    """One heading with what belongs below it."""

    id: str
    title: str
    lead: str
    controls: list[Control] = []
    figures: list[Figure] = []
    grids: list[Grid] = []
    notes: list[str] = []

"""What a page is made of: sections with their choices, charts and small tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from linewright.say.document import TextTable
from linewright.say.report_words import section_words
from linewright.say.sentence import Sentence


class Control(Struct, frozen=True, kw_only=True):
    """A choice above a section's charts; it sets `signal` in each. The first option holds at
    first."""

    signal: str
    label: str
    options: list[tuple[str, str]]
    """(value, text)."""

    @classmethod
    def of(cls, signal: str, label: str, values: Iterable[str]) -> Control:
        """A choice among values that are shown as they are, each once."""
        return cls(
            signal=signal, label=label, options=[(value, value) for value in dict.fromkeys(values)]
        )


class Chart(Struct, frozen=True, kw_only=True):
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


class Section(Struct, frozen=True, kw_only=True):
    """One heading with what belongs below it."""

    id: str
    title: str
    lead: Sentence
    controls: list[Control] = []
    figures: list[Chart] = []
    explorer: dict[str, Any] | None = None
    """What the page's script draws for those who choose what it shows."""
    grids: list[TextTable] = []
    notes: list[Sentence] = []

    @classmethod
    def of(
        cls,
        id: str,
        figures: Iterable[Chart] = (),
        controls: Iterable[Control] = (),
        grids: Iterable[TextTable] = (),
        explorer: dict[str, Any] | None = None,
        **said: Any,
    ) -> Section:
        """A section in the report's own words; a choice of one is none.  `said`: the figures in
        these words, and the cells that they are of."""
        title, lead = section_words(id, **said)
        shown = [control for control in controls if len(control.options) > 1]
        return cls(
            id=id,
            title=title,
            lead=lead,
            controls=shown,
            figures=[*figures],
            grids=[*grids],
            explorer=explorer,
        )

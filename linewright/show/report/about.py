"""The names in a report's sentences that are set as code."""

from __future__ import annotations

import re

from linewright.families import CACHE, family_of
from linewright.forms import made_of
from linewright.say.page_material import Material


def pieces(text: str, names: frozenset[str]) -> list[tuple[str, bool]]:
    """A sentence as runs of text, and whether each is the name of a form or operation."""
    return [(part, part in names) for part in re.split(r"([a-z0-9_]+)", text) if part]


def names_of(material: Material) -> frozenset[str]:
    """Forms of the report that are no words of a sentence, as `mutex` is: those of instructions,
    and those with a joint or a digit."""
    cells = [record.cell for series in material.series for record in series.records]
    return frozenset(
        cell.form
        for cell in cells
        if not cell.form.isalpha()
        or made_of(cell.form).instruction
        or family_of(cell.operation) is CACHE
    )

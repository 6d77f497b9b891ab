"""Short names for cells, for tables whose rows are cells of several operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from linewright.schema import Cell


def label(cell: Cell) -> str:
    """A cell in a few words; what has its usual value is left out."""
    width = "" if cell.width_bits == 64 else f" u{cell.width_bits}"
    parts = [f"{cell.operation} {cell.form}{width}"]
    around = cell.situation.short() + cell.situation.where
    parts += [around] if around != "alone" else []
    return ", ".join(parts + [f"{key}={cell.params[key]}" for key in sorted(cell.params)])


def unique_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """A label for every cell's id; the id itself where two cells would have the same label."""
    names = {cell.id: label(cell) for cell in cells}
    often = Counter(names.values())
    return {i: name if often[name] == 1 else i for i, name in names.items()}

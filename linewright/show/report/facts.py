"""What charts share: names of parameters, each value once, ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from linewright.say.cell_figures import ENDS, rounded
from linewright.schema import Cell

Datum = dict[str, Any]
"""What is drawn of one cell, by name."""


def params_text(cell: Cell, without: Sequence[str] = ()) -> str:
    """A cell's parameters, less some."""
    return ", ".join(
        f"{key} {cell.params[key]}" for key in sorted(cell.params) if key not in without
    )


def over(row: Datum, by: float) -> Datum:
    """A row's time with the ends of its interval, divided."""
    return {f"ns{e}": None if (v := row[f"ns{e}"]) is None else rounded(v / by) for e in ENDS}


def by_operation(
    rows: Sequence[Datum], operations: Iterable[str], draw: Callable[[str, list[Datum]], Any]
) -> list[Any]:
    """What is drawn of the rows of each operation that has any."""
    own = {o: [row for row in rows if row["operation"] == o] for o in operations}
    return [draw(operation, mine) for operation, mine in own.items() if mine]

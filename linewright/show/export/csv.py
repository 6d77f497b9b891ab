"""CSV: a heading line with the units in the names, then one line per row; empty where there is no
figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

_FORMULA = ("=", "+", "-", "@")
"""What makes a spreadsheet run a text field instead of showing it."""


def of_rows(rows: Sequence[dict[str, object]]) -> str:
    """One line per row, with the columns of the first; empty without rows."""
    return text(rows, list(rows[0])) if rows else ""


def text(flat: Iterable[dict[str, object]], names: Sequence[str]) -> str:
    """Rows as CSV.  Text that a spreadsheet would take for a formula gets an apostrophe before
    it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in flat)
    return out.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value

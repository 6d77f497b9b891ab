# SPDX-License-Identifier: MIT
"""Results as files that other tools read: CSV, a heading line with the units in the names, then one
line per row, empty where there is no figure; Parquet, typed columns, the contexts in the file's
metadata. pyarrow is optional and imported where it is used."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import msgspec

from linewright.schema import Context

_FORMULA = ("=", "+", "-", "@")
"""What makes a spreadsheet run a text field instead of showing it."""


def csv_of(rows: Sequence[dict[str, object]]) -> str:
    """One line per row, with the columns of the first; empty without rows."""
    return csv_text(rows, list(rows[0])) if rows else ""


def csv_text(rows: Iterable[dict[str, object]], columns: Sequence[str]) -> str:
    """A heading line and the rows. Text that a spreadsheet would take for a formula gets an
    apostrophe before it."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def parquet_of(contexts: Sequence[Context], rows: list[dict[str, object]]) -> bytes:
    """The rows as in the CSV; a column without any figure is one of numbers. The contexts go
    into the metadata as JSON under ``linewright_contexts``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, out = pa.Table.from_pylist(rows), io.BytesIO()
    typed = [f.with_type(pa.float64()) if pa.types.is_null(f.type) else f for f in table.schema]
    metadata = {"linewright_contexts": msgspec.json.encode(contexts)}
    pq.write_table(table.cast(pa.schema(typed, metadata=metadata)), out)
    return out.getvalue()

"""Parquet: typed columns, the contexts in the file's metadata.  pyarrow is optional and imported
where it is used."""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec

from linewright.schema import Context


def of_rows(contexts: Sequence[Context], rows: list[dict[str, object]]) -> bytes:
    """The rows as in the CSV; a column without any figure is one of numbers. The contexts go
    into the metadata as JSON under ``linewright_contexts``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, out = pa.Table.from_pylist(rows), io.BytesIO()
    typed = [f.with_type(pa.float64()) if pa.types.is_null(f.type) else f for f in table.schema]
    metadata = {"linewright_contexts": msgspec.json.encode(contexts)}
    pq.write_table(table.cast(pa.schema(typed, metadata=metadata)), out)
    return out.getvalue()

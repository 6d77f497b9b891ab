"""Parquet: typed columns, the contexts in the file's metadata.  pyarrow is optional and imported
where it is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO

import msgspec

from linewright.schema import Context
from linewright.show.export import rows


def write(
    out: BinaryIO,
    columns: Mapping[str, type],
    flat: Iterable[dict[str, object]],
    contexts: Sequence[Context],
) -> None:
    """Write the rows; the contexts go into the metadata as JSON under ``linewright_contexts``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema(
        [(name, kinds[kind]) for name, kind in columns.items()],
        metadata={"linewright_contexts": msgspec.json.encode(contexts)},
    )
    with pq.ParquetWriter(out, schema) as writer:
        for batch in rows.batches(flat):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))

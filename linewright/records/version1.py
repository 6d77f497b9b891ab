"""Records and contexts of version 1, converted to the present version as they are read."""

from __future__ import annotations

from typing import Any

import msgspec

from linewright.schema import Cell, Context, Record

RENAMED = {
    "record": {"empty_ns": "baseline_ns", "completion_empty_ns": "completion_baseline_ns"},
    "context": {"work_iter_ns": "nop_iter_ns"},
}
"""Fields that have another name now, by shape."""


def convert(data: bytes, kind: str) -> Context | Record:
    """A line of version 1 in the present version's shape; msgspec's errors for what is neither.

    Version 1 knew one kind of work, the loop around one NOP: cells with work get that kind, and with it their present
    id.
    """
    fields = msgspec.json.decode(data)
    fields[f"linewright_{kind}"] = 2
    _rename(fields, RENAMED[kind])
    if kind == "context":
        return msgspec.convert(fields, Context)
    if isinstance(discarded := fields.get("discarded"), dict):
        _rename(discarded, {"gap": "long_batch"})
    if isinstance(fields.get("cell"), dict) and "work" in fields["cell"]:
        raise msgspec.ValidationError("Object contains unknown field `work` - at `$.cell`")
    record = msgspec.convert(fields, Record)
    if record.id != record.cell.id or not _works(record.cell):
        return record
    cell = msgspec.structs.replace(record.cell, work="nop_loop")
    return msgspec.structs.replace(record, cell=cell, id=cell.id)


def _works(cell: Cell) -> bool:
    """Whether a cell has work whose kind matters: around the operation, or inside a read-side critical section."""
    return cell.work_iters > 0 or cell.params.get("read_delay", 0) != 0


def _rename(fields: dict[str, Any], names: dict[str, str]) -> None:
    """Give fields their present names; the present name in an object of version 1 is an unknown field."""
    for old, new in names.items():
        if new in fields:
            raise msgspec.ValidationError(f"Object contains unknown field `{new}`")
        if old in fields:
            fields[new] = fields.pop(old)

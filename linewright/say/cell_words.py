"""A cell as a person would say it."""

from __future__ import annotations

from linewright.say.name_words import in_english
from linewright.schema import Cell

_OPERATIONS = {
    "read": "load",
    "fetch_add": "fetch_add",
    "xchg": "exchange",
    "cmpxchg": "compare-and-swap",
    "none": "loop without an operation",
    "handoff": "handoff between cores",
    "clean": "cache-line clean",
    "clean_invalidate": "cache-line clean and invalidate",
    "percpu_add": "counter",
    "percpu_none": "counter loop without a counter",
    "apart_writers": "writer beside a writer",
    "apart_reader": "reader beside a writer",
    "apart_writer": "writer beside a reader",
    "apart_shared": "writer beside a word that both write",
    "readers_pair": "reader",
    "readers_grace": "grace period",
    "readers_shape": "increments of an SRCU reader",
    "readers_floor": "part of a reader",
    "readers_lookup": "lookup",
    "readers_none": "reader loop without a reader",
}


def in_words(cell: Cell) -> str:
    """A cell as a person would say it: ``fetch_add by lock_xadd, with a second CPU, with 20 units
    of work``."""
    operation = _OPERATIONS.get(cell.operation, in_english(cell.operation))
    plain = cell.form in (cell.operation, "empty", "percpu_empty", "readers_empty")
    parts = [operation if plain else f"{operation} by {cell.form}"]
    parts.append(cell.situation.sharers)
    if cell.work_iters:
        parts.append(cell.situation.around)
    return ", ".join(parts)

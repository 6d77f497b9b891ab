"""Names for cells: short ones for tables whose rows are cells of several operations, and whole ones in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

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
    "readers_pair": "reader",
    "readers_grace": "grace period",
    "readers_shape": "increments of an SRCU reader",
    "readers_floor": "part of a reader",
    "readers_lookup": "lookup",
    "readers_none": "reader loop without a reader",
}


def label(cell: Cell) -> str:
    """A cell in a few words; what has its usual value is left out."""
    width = "" if cell.width_bits == 64 else f" u{cell.width_bits}"
    parts = [f"{cell.operation} {cell.form}{width}"]
    if cell.contender == "same_line":
        parts.append(f"{cell.threads} threads")
        parts += [f"spacing {cell.contender_iters}"] if cell.contender_iters else []
    elif cell.contender == "placebo":
        parts.append("placebo")
    if cell.placement != "auto":
        parts.append(cell.placement)
    if cell.work_iters:
        parts.append(f"work {cell.work_iters}")
    return ", ".join(parts + [f"{key}={cell.params[key]}" for key in sorted(cell.params)])


def unique_labels(cells: Sequence[Cell]) -> dict[str, str]:
    """A label for every cell's id; the id itself where two cells would have the same label."""
    names = {cell.id: label(cell) for cell in cells}
    often = Counter(names.values())
    return {i: name if often[name] == 1 else i for i, name in names.items()}


def in_words(cell: Cell) -> str:
    """A cell as a person would say it: ``fetch_add by lock_xadd, second CPU on the line, 20 units of work``."""
    operation = _OPERATIONS.get(cell.operation, cell.operation.replace("_", " "))
    plain = cell.form in (cell.operation, "empty", "percpu_empty", "readers_empty")
    parts = [operation if plain else f"{operation} by {cell.form}"]
    parts.append(contention(cell))
    if cell.work_iters:
        parts.append(f"{cell.work_iters} units of work")
    return ", ".join(parts)


def contention(cell: Cell) -> str:
    """Who else runs, in words: ``alone``, ``beside a spinning CPU``, ``second CPU on the line``."""
    if cell.contender == "none":
        return "alone"
    many = cell.threads > 2
    if cell.contender == "placebo":
        return f"beside {cell.threads - 1} spinning CPUs" if many else "beside a spinning CPU"
    who = f"{cell.threads} CPUs on the line" if many else "second CPU on the line"
    return who + (f", {cell.contender_iters} iterations apart" if cell.contender_iters else "")

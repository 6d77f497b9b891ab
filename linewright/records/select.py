# SPDX-License-Identifier: MIT
"""Choosing cells by their canonical ids, for --only."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from linewright.errors import UserError
from linewright.schema import Cell

_FIELDS = ("operations", "forms", "widths", "orders", "contenders", "contender_iters", "work_iters")


def matches(cell_id: str, pattern: str) -> bool:
    """Whether a shell glob fits the whole id, or fits a run of whole parts between slashes.

    ``lock_add``, ``same_line/ci0``, ``prefetchw_*`` and ``add/*/w0/*`` are patterns; ``lock`` is
    none of ``lock_add``."""
    if fnmatchcase(cell_id, pattern):
        return True
    wanted, parts = pattern.strip("/").split("/"), cell_id.split("/")
    runs = (parts[start:] for start in range(len(parts) - len(wanted) + 1))
    return any(all(map(fnmatchcase, run, wanted)) for run in runs)


def choose(cells: Sequence[Cell], patterns: Sequence[str], where: str = "--only") -> list[Cell]:
    """Cells that fit any of the patterns, in plan order; a pattern that fits no cell is refused."""
    if not patterns:
        return list(cells)
    ids = [cell.id for cell in cells]
    unmatched(ids, patterns, where)
    named = zip(cells, ids, strict=True)
    return [cell for cell, name in named if any(matches(name, pattern) for pattern in patterns)]


def unmatched(ids: Sequence[str], patterns: Sequence[str], where: str = "--only") -> None:
    """Refuse a pattern that fits none of the ids."""
    for pattern in patterns:
        if not any(matches(cell_id, pattern) for cell_id in ids):
            raise UserError(f"no cell fits {pattern!r}", where, _what_exists(ids, pattern))


def _what_exists(ids: Sequence[str], pattern: str) -> str:
    """The nearest parts to a pattern, then every value of each field, on one line."""
    columns = [sorted({cell_id.split("/")[i] for cell_id in ids}) for i in range(len(_FIELDS))]
    near = difflib.get_close_matches(
        pattern, {part for column in columns for part in column}, n=3, cutoff=0.6
    )
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    listed = "; ".join(
        f"{name}: {' '.join(values)}" for name, values in zip(_FIELDS, columns, strict=False)
    )
    return f"{hint}patterns are shell globs on ids or on their parts, which are {listed}"

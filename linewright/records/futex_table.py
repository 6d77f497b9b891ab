"""The published table of the kernel's prefetch option: futex benchmarks, with the option off and
on."""

from __future__ import annotations

from typing import NamedTuple

from linewright.errors import UserError
from linewright.records.bounded import number, table

COLUMNS = ("program", "threads", "unit", "off", "on")
UNITS = {"ms": False, "operations/s": True}
"""Units of a table, and whether more is better."""
PROGRAMS = ("futex-hash", "futex-wake", "futex-wake-parallel", "futex-requeue", "futex-lock-pi")


class FutexRow(NamedTuple):
    """One line of the table; `threads` is None where the number was not published."""

    program: str
    threads: int | None
    unit: str
    off: float
    on: float

    @property
    def change(self) -> float:
        """Of the figure, as a share: what the option adds to it."""
        return self.on / self.off - 1


def from_table(text: str, where: str) -> dict[tuple[str, int | None], FutexRow]:
    """Rows by program and threads; UserError names the line that is none."""
    rows: dict[tuple[str, int | None], FutexRow] = {}
    for row in table(text, COLUMNS, where, "a table of the option", _row):
        if rows.setdefault((row.program, row.threads), row) is not row:
            raise UserError(f"{row.program} at these threads twice", where, "each once")
    return rows


def _row(program: str, threads: str, unit: str, off: str, on: str) -> FutexRow:
    if program not in PROGRAMS or unit not in UNITS:
        allowed = f"programs {', '.join(PROGRAMS)}; units {', '.join(UNITS)}"
        raise ValueError(f"{program!r} in {unit!r} is unknown ({allowed})")
    count = number(threads, 1, 1e6, int) if threads else None
    return FutexRow(program, count, unit, number(off, 1e-300, 1e15), number(on, 1e-300, 1e15))

# SPDX-License-Identifier: MIT
"""Heap blocks and who allocated them, from the table that the preloaded malloc keeps
(find/preload/blocks.hpp): with the times between which each lived, since an address may have had
several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from linewright.find.addresses import HeapBlock
from linewright.find.evidence import LINE
from linewright.find.results import Remark, note
from linewright.find.space import Spaces
from linewright.find.stream import Map

MAGIC = 0x33736B636F6C6266
SLOTS = 1 << 20
HEADER = 64
COLUMNS = 8
"""Numbers of a block: process, address, size, four return addresses, time of birth."""
BYTES = HEADER + SLOTS * 8 * (2 + COLUMNS)
TICK_NS = 10_000_000
"""Times of birth and death are those of the last tick before: up to so much too early."""


class BlockRows(NamedTuple):
    """Blocks of a process by their beginnings: start, end, birth, death (0 of a living one) and
    four addresses; and the farthest end up to each."""

    rows: np.ndarray
    reach: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> BlockRows:
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        return cls(rows, np.maximum.accumulate(rows[:, 1]))

    def over(self, begin: int, end: int) -> np.ndarray:
        """Those that ever held one of these bytes."""
        first = np.searchsorted(self.reach, np.uint64(begin), "right")
        behind = np.searchsorted(self.rows[:, 0], np.uint64(end), "left")
        some = self.rows[first:behind]
        return some[some[:, 1] > np.uint64(begin)]


class HeapTable:
    """The table of one run, read once the program has ended or been left."""

    def __init__(self, path: str, spaces: Spaces, mapped: str = "") -> None:
        """`mapped` is the path that the programs know the file by, where that is another one."""
        self._path, self._spaces, self._mapped = path, spaces, mapped or path
        self._blocks: dict[int, BlockRows] = {}
        self._reused: dict[tuple[int, int], np.ndarray] = {}
        """By process and line: the blocks that had the same bytes as others, of other calls."""
        self.notes: list[Remark] = []
        """Why no block is known, or some are not."""

    def read(self) -> None:
        """Take every block from the file, by process."""
        data = np.memmap(self._path, "<u8", "r")
        magic, slots, dropped = map(int, data[:3])
        if magic != MAGIC or slots != SLOTS:
            self.notes.append(note("other_version" if magic else "not_loaded"))
            return
        self.notes += [note("heap_dropped", dropped)] * bool(dropped)
        data = data[HEADER // 8 :]
        used = np.flatnonzero(data[:SLOTS] > 1)
        died = data[SLOTS:][used]
        blocks = data[2 * SLOTS :].reshape(SLOTS, COLUMNS)[used]
        pids, starts, sizes = blocks[:, :3].T
        ends = starts + np.maximum(sizes, 1)
        table = np.column_stack([starts, ends, blocks[:, -1], died, blocks[:, 3:-1]])
        self._blocks = {int(pid): BlockRows.of(table[pids == pid]) for pid in np.unique(pids)}

    def find(self, pid: int, address: int, when_ns: int = 1 << 62) -> HeapBlock | None:
        """The block that held the address at a time, without one the living block; None also where
        it may have been either of two."""
        for rows in self._over(pid, address, address + 1):
            if blocks := set(map(_block, _then(rows, when_ns))):
                return blocks.pop() if len(blocks) == 1 else None
        return None

    def owners(self, pid: int, line: int, when_ns: int) -> frozenset[HeapBlock]:
        """Of the blocks that had bytes of a line which other calls' blocks had at other times,
        those that held them at this time."""
        place = (pid, line)
        if place not in self._reused:
            none = np.empty((0, COLUMNS), "<u8")
            some = np.concatenate([none, *self._over(pid, line, line + LINE)])
            blocks = list(map(_block, some))
            again = [any(b.reuses(other) for other in blocks) for b in blocks]
            self._reused[place] = some[np.array(again, dtype=bool)]
        reused = self._reused[place]
        return frozenset(map(_block, _then(reused, when_ns)) if len(reused) else ())

    def _over(self, pid: int, begin: int, end: int) -> Iterator[np.ndarray]:
        """Blocks that ever held one of these bytes, of a process and of those it was forked of."""
        seen: int | None = pid
        while seen is not None:
            if seen in self._blocks:
                yield self._blocks[seen].over(begin, end)
            seen = self._spaces.parents.get(seen)

    def is_table(self, mapping: Map | None) -> bool:
        """Whether a mapping is this table's own: it travels too, and only because we look."""
        return mapping is not None and (
            mapping.path == self._mapped or mapping.path.startswith("/memfd:linewright-find-heap")
        )


def _then(rows: np.ndarray, when_ns: int) -> np.ndarray:
    """Of blocks those that may have lived at a time."""
    alive = (rows[:, 3] == 0) | (rows[:, 3] + np.uint64(TICK_NS) >= np.uint64(when_ns))
    return rows[alive & (rows[:, 2] <= np.uint64(when_ns))]


def _block(row: np.ndarray) -> HeapBlock:
    start, end, _, _, *callers = map(int, row)
    return HeapBlock(start, end - start, tuple(c for c in callers if c))


@contextmanager
def empty_table() -> Iterator[str]:
    """A file for the table, in memory and without a name of its own, so that a kill leaves nothing;
    sparse, so that only what is used takes room."""
    handle = os.memfd_create("linewright-find-heap")
    try:
        os.ftruncate(handle, BYTES)
        yield f"/proc/{os.getpid()}/fd/{handle}"
    finally:
        os.close(handle)

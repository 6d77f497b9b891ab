"""Heap blocks and who allocated them, from the table that the preloaded malloc keeps
(find/preload/blocks.hpp): with the times between which each lived, since an address may have had
several."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from linewright.find.objects import Block
from linewright.find.sharing_schema import Map
from linewright.find.space import Spaces

MAGIC = 0x33736B636F6C6266
SLOTS = 1 << 20
HEADER = 64
COLUMNS = 8
"""Numbers of a block: process, address, size, four return addresses, time of birth."""
BYTES = HEADER + SLOTS * 8 * (2 + COLUMNS)
SLACK_NS = 10_000_000
"""How coarse the times of birth and death are."""


class HeapTable:
    """The table of one run, read once the program has ended or been left."""

    def __init__(self, path: str, spaces: Spaces, mapped: str = "") -> None:
        """`mapped` is the path that the programs know the file by, where that is another one."""
        self._path, self._spaces, self._mapped = path, spaces, mapped or path
        self._blocks: dict[int, np.ndarray] = {}
        """By process: start, end, birth, death (0 of a living block) and the addresses."""
        self.dropped = 0
        self.missing = ""
        """Why no block is known: ``other_version``, ``not_loaded``, ``unread``; empty where some
        are."""
        self.failure = ""
        """Of a table that was not read, what stopped that."""

    def read(self) -> None:
        """Take every block from the file, by process."""
        data = np.memmap(self._path, "<u8", "r")
        magic, slots, self.dropped = map(int, data[:3])
        if magic != MAGIC or slots != SLOTS:
            self.missing = "other_version" if magic else "not_loaded"
            return
        data = data[HEADER // 8 :]
        used = np.flatnonzero(data[:SLOTS] > 1)
        died = data[SLOTS:][used]
        blocks = data[2 * SLOTS :].reshape(SLOTS, COLUMNS)[used]
        pids, starts, sizes = blocks[:, :3].T
        ends = starts + np.maximum(sizes, 1)
        table = np.column_stack([starts, ends, blocks[:, -1], died, blocks[:, 3:-1]])
        self._blocks = {int(pid): table[pids == pid] for pid in np.unique(pids)}

    def find(self, pid: int, address: int, when_ns: int = 1 << 62) -> Block | None:
        """The block that held the address at a time, without one the living block; a forked
        process has its parent's."""
        seen: int | None = pid
        while seen is not None:
            if seen in self._blocks:
                t, at = self._blocks[seen], np.uint64(address)
                some = t[(t[:, 0] <= at) & (at < t[:, 1]) & (t[:, 2] <= when_ns + SLACK_NS)]
                some = some[(some[:, 3] == 0) | (some[:, 3] + np.uint64(SLACK_NS) >= when_ns)]
                if len(some):
                    start, end, _, _, *callers = map(int, some[np.argmax(some[:, 2])])
                    return Block(start, end - start, tuple(c for c in callers if c))
            seen = self._spaces.parents.get(seen)
        return None

    def is_table(self, mapping: Map | None) -> bool:
        """Whether a mapping is this table's own: it travels too, and only because we look."""
        return mapping is not None and (
            mapping.path == self._mapped or mapping.path.startswith("/memfd:linewright-find-heap")
        )


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

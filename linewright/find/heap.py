"""Heap blocks and who allocated them, from the table that the preloaded malloc keeps (find/preload/blocks.hpp)."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from linewright.find.objects import Block
from linewright.find.schema import Map
from linewright.find.space import Spaces

MAGIC = 0x31736B636F6C6266
SLOTS = 1 << 20
HEADER = 64
BYTES = HEADER + SLOTS * 8 + SLOTS * 24
_ADDRESS_BITS = 43


class Table:
    """The table of one run, read once the program has ended or been left."""

    def __init__(self, path: str, spaces: Spaces, mapped: str = "") -> None:
        """`mapped` is the path that the programs know the file by, where that is another one."""
        self._path, self._spaces, self._mapped = path, spaces, mapped or path
        self._blocks: dict[int, tuple[list[int], list[Block]]] = {}
        self.dropped = 0

    def read(self) -> None:
        """Sort every living block by process and address."""
        with open(self._path, "rb") as file, mmap.mmap(file.fileno(), BYTES, access=mmap.ACCESS_READ) as data:
            magic, slots, self.dropped = struct.unpack_from("<QQQ", data, 0)
            if magic != MAGIC or slots != SLOTS:
                return  # no process ever opened it: statically linked, say
            keys = np.frombuffer(data, "<u8", SLOTS, HEADER).copy()
            blocks = np.frombuffer(data, "<u8", SLOTS * 3, HEADER + SLOTS * 8).reshape(SLOTS, 3).copy()
        for at in np.flatnonzero(keys > 1):
            key = int(keys[at])
            start = (key & ((1 << _ADDRESS_BITS) - 1)) << 4
            size, caller, _ = map(int, blocks[at])
            self._blocks.setdefault(key >> _ADDRESS_BITS, ([], []))[1].append(Block(start, size, (caller,)))
        for pid, (_, some) in self._blocks.items():
            some.sort()
            self._blocks[pid] = ([b.start for b in some], some)

    def find(self, pid: int, address: int) -> Block | None:
        """The living block that holds the address; a forked process has its parent's."""
        seen: int | None = pid
        while seen is not None:
            starts, blocks = self._blocks.get(seen, ([], []))
            at = int(np.searchsorted(starts, address, side="right")) - 1
            if at >= 0 and address < blocks[at].start + blocks[at].size:
                return blocks[at]
            seen = self._spaces.parents.get(seen)
        return None

    def is_table(self, mapping: Map | None) -> bool:
        """Whether a mapping is this table's own: it travels too, and only because we look."""
        return mapping is not None and mapping.path == self._mapped


@contextmanager
def empty_table() -> Iterator[str]:
    """A file for the table, in memory where there is such a folder; sparse, so that only what is used takes room."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    handle, path = tempfile.mkstemp(prefix="linewright-find-", dir=folder)
    try:
        os.ftruncate(handle, BYTES)
        os.close(handle)
        yield path
    finally:
        Path(path).unlink(missing_ok=True)

"""Thread-local variables by name: whose copy of which module's thread-local data an address lies
in.

Each thread has one block for each module (the program or a library) with such data. The sampler
says where the blocks of each number lie; which module has which number stands in the dynamic
linker's own entries, at a place that glibc's symbols for debuggers name."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple

from linewright.elf.symbols import content, demangle, lookup, module
from linewright.find.names import Object
from linewright.find.sharing_schema import LinkMap
from linewright.find.space import Spaces

_NUMBER = "_thread_db_link_map_l_tls_modid"
"""What libthread_db reads: bits of the field, how many, and its offset in bytes; three 32-bit
numbers."""
_DYNAMIC = 2
"""Word of a link map: the address of the module's dynamic section, which lies in the module's own
data."""


class StorageCopy(NamedTuple):
    """A thread's copy of a module's data."""

    begin: int
    tid: int
    path: str


class ThreadStorage:
    """Blocks of all threads of one run."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces

    def find(self, pid: int, address: int) -> Object | None:
        """What lies at an address, where it is a thread's copy of a module's data."""
        blocks = self._blocks.get(pid, [])
        at = bisect.bisect_right(blocks, address, key=lambda block: block.begin) - 1
        if at < 0:
            return None
        begin, tid, path = blocks[at]
        file = module(self._spaces.store.here(path))
        if file.thread_data is None or address >= begin + file.thread_data[1]:
            return None
        symbol, name = lookup(file.thread_locals, address - begin), PurePath(path).name
        if symbol is None:
            return Object("thread_local", file=name, thread=tid, start=address)
        offset, start = address - begin - symbol.address, begin + symbol.address
        return Object("thread_local", offset, demangle(symbol.name), name, tid, start=start)

    @cached_property
    def _blocks(self) -> dict[int, list[StorageCopy]]:
        """By process, in order of addresses."""
        return {pid: sorted(self._of(pid)) for pid in self._spaces.threads}

    def _of(self, pid: int) -> Iterator[StorageCopy]:
        files = self._files(pid)
        for tid, thread in self._spaces.threads[pid].items():
            for number, begin in enumerate(thread.blocks, 1):
                if begin and number in files:
                    yield StorageCopy(begin, tid, files[number])

    def _files(self, pid: int) -> dict[int, str]:
        """The file of each module's number; where no C library says where the number stands, the
        program's alone, which is 1."""
        entries = [(self._path(pid, entry), entry) for entry in self._spaces.modules.get(pid, [])]
        libraries = (
            self._spaces.store.here(path)
            for path, _ in entries
            if PurePath(path).name.startswith(("libc.", "libc-"))
        )
        offset = next((o for o in map(_offset_of_number, libraries) if o), 0)
        found = {}
        for path, entry in entries:
            number = (
                entry.words[offset // 8]
                if 0 < offset // 8 < len(entry.words)
                else int(bool(entry.path))
            )
            if number and path:
                found[number] = path
        return found

    def _path(self, pid: int, entry: LinkMap) -> str:
        if entry.path or len(entry.words) <= _DYNAMIC:
            return entry.path
        mapping = self._spaces.find(pid, entry.words[_DYNAMIC])
        return mapping.path if mapping else ""


def _offset_of_number(path: str) -> int:
    """Where a link map has the module's number, if the file is a C library that says so."""
    symbol = next((s for s in module(path).variables if s.name == _NUMBER), None)
    said = content(path, symbol.address, 12) if symbol else b""
    return struct.unpack("<3I", said)[2] if len(said) == 12 else 0

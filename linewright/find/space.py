# SPDX-License-Identifier: MIT
"""Address spaces over time: which mapping of which process an address lies in, also after fork,
exec and exit."""

from __future__ import annotations

import bisect
from collections import defaultdict
from pathlib import PurePath
from typing import NamedTuple

import msgspec

from linewright.find.mapped_files import Files
from linewright.find.stream import Code, LinkMap, Map, SpaceLine, Task, ThreadBlock

PAGE = 4096


class Key(NamedTuple):
    """A place in memory that is the same for all who share it: a process's own address, or an
    offset in a shared mapping."""

    space: tuple[int, ...]
    """(process,) for private memory, (device, inode) for a shared mapping."""
    at: int


class Spaces:
    """Mappings, threads and code of every process of a run."""

    def __init__(self, files: Files | None = None) -> None:
        self.store = files or Files()
        self._maps: dict[int, list[Map]] = defaultdict(list)
        self._starts: dict[int, list[int]] = defaultdict(list)
        self._code: dict[tuple[int, int], bytes] = {}
        self.names: dict[int, str] = {}
        self.began_s = 0.0
        """When the program was started (time.time), where this command did that."""
        self.process_of: dict[int, int] = {}
        self.parents: dict[int, int] = {}
        self.threads: dict[int, dict[int, ThreadBlock]] = defaultdict(dict)
        """Where threads' own data lie, by process and thread, as far as it is known."""
        self.modules: dict[int, list[LinkMap]] = defaultdict(list)

    def mapping(self, line: Map) -> None:
        """A new mapping takes the place of what lay there."""
        maps, starts = self._maps[line.pid], self._starts[line.pid]
        end = line.start + line.length
        first = bisect.bisect_right(starts, line.start) - 1
        if first < 0 or maps[first].start + maps[first].length <= line.start:
            first += 1
        last = bisect.bisect_left(starts, end)
        kept = [line]
        for old in maps[first:last]:
            if old.start < line.start:
                kept.insert(0, _part(old, old.start, line.start))
            if old.start + old.length > end:
                kept.append(_part(old, end, old.start + old.length))
        maps[first:last] = kept
        starts[first:last] = [m.start for m in kept]

    def _replace(self, pid: int, maps: list[Map]) -> None:
        self._maps[pid] = maps
        self._starts[pid] = [m.start for m in maps]

    def task(self, line: Task) -> None:
        """Threads get their process and name; a new process has its parent's mappings, a new
        program none."""
        self.process_of[line.tid] = line.pid
        if line.name:
            self.names[line.tid] = line.name
        elif line.event == "start":
            self.names.setdefault(line.tid, self.names.get(line.parent, ""))
        if line.event == "start" and line.pid != line.parent and line.tid == line.pid:
            self._replace(line.pid, list(self._maps[line.parent]))
            self.parents[line.pid] = line.parent
        if line.event == "exec":
            self._replace(line.pid, [])
            self.threads.pop(line.pid, None)
            self.modules.pop(line.pid, None)
            for key in [key for key in self._code if key[0] == line.pid]:
                del self._code[key]

    def take(self, line: SpaceLine) -> None:
        """Whatever a line says of address spaces."""
        match line:
            case Map():
                self.mapping(self.store.mapped(line))
            case Task():
                self.task(line)
            case Code():
                self._code[line.pid, line.address // PAGE] = bytes.fromhex(line.bytes)
            case ThreadBlock():
                self.threads[line.pid][line.tid] = line
            case LinkMap():
                self.modules[line.pid].append(line)

    def find(self, pid: int, address: int) -> Map | None:
        """The mapping that holds the address, or None."""
        index = bisect.bisect_right(self._starts[pid], address) - 1
        if index < 0:
            return None
        found = self._maps[pid][index]
        return found if address < found.start + found.length else None

    def has_file(self, pid: int, name: str) -> bool:
        """Whether a process has mapped a file of this name."""
        return any(PurePath(mapping.path).name == name for mapping in self._maps[pid])

    def beginning(self, pid: int, mapping: Map) -> Map | None:
        """The mapping of the beginning of the same file, at or below this one: where the file was
        loaded."""
        index = bisect.bisect_right(self._starts[pid], mapping.start) - 1
        for other in reversed(self._maps[pid][max(0, index - 64) : index + 1]):
            if other.path == mapping.path and other.inode == mapping.inode and other.offset == 0:
                return other
        return None

    def key(self, pid: int, address: int) -> Key:
        """The place that an address of a process is: shared mappings have one place for all
        processes."""
        found = self.find(pid, address)
        if found is not None and found.shared and is_named(found):
            return Key((found.device, found.inode), address - found.start + found.offset)
        return Key((pid,), address)

    def read_code(self, pid: int, start: int, end: int) -> tuple[int, bytes]:
        """Code bytes known in [start, end): the longest run that reaches back from the end, and its
        address."""
        begin, data = (end - 1) // PAGE * PAGE + PAGE, b""
        while begin > start and (known := self._page(pid, begin // PAGE - 1)):
            begin, data = begin - PAGE, known + data
        if not data:
            return end, b""
        return max(begin, start), data[max(0, start - begin) : end - begin]

    def _page(self, pid: int, page: int) -> bytes | None:
        seen = pid
        while (seen, page) not in self._code and seen in self.parents:
            seen = self.parents[seen]  # a forked process runs its parent's code
        if (seen, page) not in self._code:
            self._code[pid, page] = self._from_file(pid, page * PAGE)
            seen = pid
        return self._code[seen, page] or None

    def _from_file(self, pid: int, address: int) -> bytes:
        """A page that was not read of the process, which had ended: its file holds the same, unless
        it was replaced."""
        found = self.find(pid, address)
        if found is None or not found.executable or not found.path.startswith("/"):
            return b""
        try:
            if self.store.inode(found.path) != found.inode:
                return b""
            with open(self.store.here(found.path), "rb") as file:
                file.seek(found.offset + address - found.start)
                return file.read(PAGE).ljust(PAGE, b"\0")
        except OSError:
            return b""


def is_named(mapping: Map) -> bool:
    """Whether its inode number names it: the first SysV segment of a machine has number 0."""
    return bool(mapping.inode) or mapping.path.startswith("/SYSV")


def _part(old: Map, start: int, end: int) -> Map:
    offset = old.offset + start - old.start
    return msgspec.structs.replace(old, start=start, length=end - start, offset=offset)

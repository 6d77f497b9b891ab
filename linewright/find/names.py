# SPDX-License-Identifier: MIT
"""Names for addresses of processes: functions and variables from symbol tables, source lines from
debug information."""

from __future__ import annotations

import bisect
import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import PurePath
from typing import NamedTuple

from linewright.elf import types
from linewright.elf.frames import frame
from linewright.elf.source_lines import SourceLine, is_library, source_lines
from linewright.elf.symbols import Module, Symbol, demangle, lookup, module
from linewright.find.mapped_files import is_file
from linewright.find.results import CodeName, Object, Remark, note
from linewright.find.space import Spaces
from linewright.find.stream import Map, Sample

SYSTEM = re.compile(
    r"^(ld-|ld\.so|libc[-.]|libpthread[-.]|libm[-.]|libstdc\+\+|libc\+\+|libgcc_s|libtsan|libatomic"
    r"|\[vdso\])"
)
"""Libraries whose callers are what a reader wants to see."""
_STACK = 7
"""The stack pointer of x86-64, as DWARF numbers it."""
ARM64_REGISTERS = 33
"""That a sample of it has, more than of x86-64."""
_JITTED = re.compile(r"(?:0x)?([0-9a-f]{1,16}) (?:0x)?([0-9a-f]{1,16}) (.{1,400})", re.IGNORECASE)
"""A line of the list that JIT compilers write for perf: address, size, name."""


class FileAddress(NamedTuple):
    """An address as a file and an address of its own; `path` is empty for memory without a file."""

    path: str
    address: int


class Names:
    """Names of code and data of the processes of one run; source lines are asked for in batches."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces, self._files = spaces, spaces.store
        self._lines: dict[FileAddress, SourceLine] = {}
        self._base, self._jit = cache(self._base_of), cache(self._listed)
        self.unlisted: set[int] = set()
        """Processes with code that neither a file nor their compiler's list names."""
        self._undecoded: set[str] = set()
        """Files whose types were asked for and that no tool here could decompress."""

    def where(self, pid: int, address: int) -> FileAddress:
        """The file that an address belongs to: the mapping's own, or for .bss the one mapped below
        it."""
        found = self._spaces.find(pid, address)
        if found is not None and not is_file(found):
            # An anonymous mapping right behind a file's last one holds what its .bss needs beyond
            # the file.
            found = self._spaces.find(pid, found.start - 1)
        if found is not None and is_file(found):
            own = address - self._base(pid, found)
            if address < found.start + found.length or own < self._module(found.path).end:
                return FileAddress(found.path, own)
        return FileAddress("", address)

    def _base_of(self, pid: int, mapping: Map) -> int:
        """What was added to the file's own addresses where this part of it is mapped."""
        file, begin = self._module(mapping.path), mapping.offset
        # By the bytes of each segment that it holds. Of a file without segments, as a JIT
        # compiler's cache, the offset is all there is.
        parts = {
            mapping.start - begin + offset - address: max(
                0, min(offset + size, begin + mapping.length) - max(offset, begin)
            )
            for offset, size, address, _ in file.segments
        } or {mapping.start - begin: 1}
        # Two segments may share a page, and a part may be mapped once more far away, as V8 does
        # with its own code.
        beginning = self._spaces.beginning(pid, mapping)
        usual = beginning.start - file.lowest if beginning else -1
        return usual if parts.get(usual) else max(parts, key=parts.__getitem__)

    def _module(self, path: str) -> Module:
        return module(self._files.here(path))

    def typed(self, path: str) -> str:
        """A file here with what `path` holds there, for its types."""
        file = self._files.here(path)
        self._undecoded |= {types.undecoded(file)} - {""}
        return file

    def untyped(self) -> list[Remark]:
        """What is said of files that should have had types; known when all is named."""
        return [note("packed", path) for path in sorted(self._undecoded)]

    def extent(self, pid: int, address: int) -> tuple[str, int]:
        """The function that an address lies in, by its file and beginning; -1 for the beginning
        where the file has no symbol there, and without a file the page."""
        where = self.where(pid, address)
        symbol = self._symbol(pid, where)
        if symbol is None:
            return where.path, -1 if where.path else where.address >> 12
        return where.path, symbol.address

    def _symbol(self, pid: int, where: FileAddress) -> Symbol | None:
        """The function that an address lies in."""
        if not where.path:
            return lookup(self._jit(pid), where.address)
        return lookup(self._module(where.path).functions, where.address, slack=4096)

    def callers(self, sample: Sample) -> list[int]:
        """Return addresses above a sample, the innermost first. Where functions address their frame
        by the stack pointer, by what their files have for unwinders, as far as the sample holds the
        stack; from there by frame pointers."""
        found: list[int] = []
        at, up = sample.ip, 0
        while sample.bits == 64 and len(sample.registers) < ARM64_REGISTERS:
            where = self.where(sample.pid, at)
            known = frame(self._files.here(where.path), where.address) if where.path else None
            if known is None or known.register != _STACK:
                break
            up += known.offset
            back = sample.top[up // 8 - 1] if 8 <= up <= 8 * len(sample.top) else 0
            if not self.is_code(sample.pid, back):
                return found
            found.append(back)
            at = back - 1
            if known.saves_pointer:
                return found
        return found + sample.chain[1:]

    def called(self, pid: int, after: int) -> int:
        """Where the direct call before a return address leads, or 0."""
        _, code = self._spaces.read_code(pid, after - 5, after)
        if code[:1] == b"\xe8" and len(code) == 5:
            return after + int.from_bytes(code[1:], "little", signed=True)
        word = int.from_bytes(code[-4:], "little")
        if word >> 26 != 0x25:  # no arm64 `bl`
            return 0
        return after - 4 + 4 * ((word & 0x3FFFFFF ^ 0x2000000) - 0x2000000)

    def _listed(self, pid: int) -> list[Symbol]:
        """Functions without a file, as the process's compiler lists them for perf; a list that is
        older than the process is another one's. A Java machine without one is asked for it, and
        the list is removed again."""
        path, found = self._files.here(f"/tmp/perf-{pid}.map"), []
        is_java = not os.path.exists(path) and self._spaces.has_file(pid, "libjvm.so")
        asked = is_java and self._files.ask_java(pid)
        with contextlib.suppress(OSError):
            if os.stat(path).st_mtime >= self._spaces.began_s:
                with open(path, errors="replace") as lines:
                    for m in filter(None, map(_JITTED.match, lines)):
                        _put_over(found, Symbol(int(m[1], 16), int(m[2], 16), m[3]))
            if asked:
                os.unlink(path)
        return found

    def is_system(self, pid: int, address: int) -> bool:
        """Code of the C or C++ library, the dynamic linker or the kernel's page."""
        found = self._spaces.find(pid, address)
        return found is not None and bool(SYSTEM.match(PurePath(found.path).name))

    def is_program(self, path: str) -> bool:
        """Whether it is a program, and no library: what `trial --pad` can name functions of."""
        return bool(path) and self._module(path).interpreted

    def is_header(self, pid: int, address: int) -> bool:
        """Code of a library's header or source that was compiled into the program, without
        optimisation as functions of their own, or an operation of JavaScript that V8 has as a
        function; known of prepared addresses."""
        named = self.name(pid, address)
        by_v8 = named.function.startswith("Builtins_")
        return is_library(named.source) or by_v8

    def is_unlisted(self, pid: int, address: int) -> bool:
        """An operation of JavaScript whose callers have no names and look like data: V8 has listed
        no function."""
        unlisted = self.name(pid, address).function.startswith("Builtins_") and not self._jit(pid)
        if unlisted:
            self.unlisted.add(pid)
        return unlisted

    def is_code(self, pid: int, address: int) -> bool:
        """Code, also where a JIT compiler listed a function that it has given up since."""
        found = self._spaces.find(pid, address)
        if found is None or found.executable or is_file(found):
            return found is not None and found.executable
        return lookup(self._jit(pid), address) is not None

    def prepare(self, addresses: Iterable[tuple[int, int]]) -> None:
        """Ask for the source lines of (process, address) in one batch for each file."""
        wanted: dict[str, set[int]] = defaultdict(set)
        for pid, address in addresses:
            where = self.where(pid, address)
            if (
                where.path
                and where not in self._lines
                and os.path.isfile(self._files.here(where.path))
            ):
                wanted[where.path].add(where.address)
        for path, some in wanted.items():
            said = source_lines(self._files.here(path), sorted(some))
            self._lines |= {FileAddress(path, at): line for at, line in said.items()}

    def name(self, pid: int, address: int) -> CodeName:
        """Function and source line of code; prepared addresses have a line, where the file has
        debug information."""
        where = self.where(pid, address)
        if not where.path and self._symbol(pid, where) is None:
            found = self._spaces.find(pid, address)
            self.unlisted.add(pid)
            file = found is not None and found.path not in ("", "//anon")
            label = found.path if file else "code without a file"
            return CodeName("", f"{label} at {address:#x}", "")
        function, source, _ = self._lines.get(where, SourceLine())
        return CodeName(
            PurePath(where.path).name, function or self.symbol(pid, address, True), source
        )

    def inlined(self, pid: int, address: int) -> tuple[str, ...]:
        """The functions that were inlined at a prepared address, innermost first."""
        return self._lines.get(self.where(pid, address), SourceLine()).inlined

    def symbol(self, pid: int, address: int, exact: bool = False) -> str:
        """The function that an address lies in as every build calls it; without one the file, with
        its own address there where that is to be `exact`."""
        where = self.where(pid, address)
        found, file = self._symbol(pid, where), PurePath(where.path).name
        return demangle(found.name) if found else file + f"+{where.address:#x}" * exact

    def variable(self, pid: int, address: int) -> Object | None:
        """What lies at an address of a file's static data; None where it is no file's."""
        where = self.where(pid, address)
        if not where.path:
            return None
        found = lookup(self._module(where.path).variables, where.address)
        name, offset = (found.name, where.address - found.address) if found else ("", where.address)
        start = address - offset if found else address
        return Object("static", offset, demangle(name), PurePath(where.path).name, start=start)


def _put_over(known: list[Symbol], new: Symbol) -> None:
    """A function among others in order, in the place of those that it overlaps: their code was
    there before, and is no more."""
    at = bisect.bisect_left(known, new)
    first = at - (at > 0 and known[at - 1].address + known[at - 1].size > new.address)
    known[first : bisect.bisect_left(known, (new.address + new.size,), at)] = [new]

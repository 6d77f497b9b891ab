# SPDX-License-Identifier: MIT
"""What an address is: code by its function and line, data by its object. One table over address
spaces, symbol tables, heap blocks, stacks and threads' own storage.

Each thread has one block for each module (the program or a library) with thread-local data. The
sampler says where the blocks of each number lie; which module has which number stands in the
dynamic linker's own entries, at a place that glibc's symbols for debuggers name.

Heap blocks stand in the table that the preloaded malloc keeps (find/preload/blocks.hpp), with the
times between which each lived, since an address may have had several."""

from __future__ import annotations

import bisect
import contextlib
import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from linewright.elf import types
from linewright.elf.frames import frame
from linewright.elf.source_lines import SourceLine, is_library, source_lines
from linewright.elf.symbols import Module, Symbol, content, demangle, lookup, module
from linewright.find.evidence import LINE
from linewright.find.mapped_files import is_file
from linewright.find.results import CodeName, Object, Remark, note
from linewright.find.space import Spaces, is_named
from linewright.find.stream import LinkMap, Map, Sample

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
SMALL_STACK = 64 << 10
"""Bytes above a stack pointer that are its stack's for certain where one mapping holds stacks of
several threads: Go's lie among the objects of its heap."""
_NUMBER = "_thread_db_link_map_l_tls_modid"
"""What libthread_db reads: bits of the field, how many, and its offset in bytes; three 32-bit
numbers."""
_DYNAMIC = 2
"""Word of a link map: the address of the module's dynamic section, which lies in the module's own
data."""
HEAP_MAGIC = 0x33736B636F6C6266
HEAP_SLOTS = 1 << 20
HEAP_HEADER = 64
HEAP_COLUMNS = 8
"""Numbers of a block: process, address, size, four return addresses, time of birth."""
HEAP_BYTES = HEAP_HEADER + HEAP_SLOTS * 8 * (2 + HEAP_COLUMNS)
TICK_NS = 10_000_000
"""Times of birth and death are those of the last tick before: up to so much too early."""


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
        return is_library(named.source) or named.function.startswith("Builtins_")

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


class HeapBlock(NamedTuple):
    """A heap block as the interposed malloc saw it."""

    start: int
    size: int
    callers: tuple[int, ...]
    """Return address of the allocating call, then words of the stack above it, its callers' return
    addresses among them."""

    def reuses(self, other: HeapBlock) -> bool:
        """Whether it has bytes of another one, at another time."""
        overlaps = self.start < other.start + other.size and other.start < self.start + self.size
        return overlaps and self != other


class Stacks:
    """Mappings that stack pointers of threads were seen in."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces
        self._lowest: dict[tuple[int, int], dict[int, int]] = {}

    def sample(self, pid: int, tid: int, pointer: int) -> None:
        mapping = self._spaces.find(pid, pointer)
        if mapping is not None:
            threads = self._lowest.setdefault((pid, mapping.start), {})
            threads[tid] = min(pointer, threads.get(tid, pointer))

    def owner(self, pid: int, address: int) -> int | None:
        """The thread whose stack holds the address; with several in one mapping, the one nearest
        below."""
        mapping = self._spaces.find(pid, address)
        threads = self._lowest.get((pid, mapping.start)) if mapping is not None else None
        if not threads:
            return None
        below = [tid for tid, pointer in threads.items() if pointer <= address + 4096]
        owner = max(below, key=lambda tid: threads[tid], default=None)
        among_heap = len(threads) > 1 and owner is not None
        return None if among_heap and address > threads[owner] + SMALL_STACK else owner


class _ThreadStorage:
    """Blocks of all threads of one run."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces = spaces

    def find(self, pid: int, address: int) -> Object | None:
        """What lies at an address, where it is a thread's copy of a module's data."""
        blocks = self._blocks.get(pid, [])
        at = bisect.bisect_right(blocks, address, key=lambda block: block[0]) - 1
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
    def _blocks(self) -> dict[int, list[tuple[int, int, str]]]:
        """By process, in order of addresses: where each thread's copy of a module's data begins,
        the thread, and the module's file."""
        return {
            pid: sorted(
                (begin, tid, files[number])
                for tid, thread in threads.items()
                for number, begin in enumerate(thread.blocks, 1)
                if begin and number in files
            )
            for pid, threads in self._spaces.threads.items()
            for files in [self._files(pid)]
        }

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
            told = 0 < offset // 8 < len(entry.words)
            number = entry.words[offset // 8] if told else int(bool(entry.path))
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
        self._reused = cache(self._reusing)
        self.notes: list[Remark] = []
        """Why no block is known, or some are not."""

    def read(self) -> None:
        """Take every block from the file, by process."""
        data = np.memmap(self._path, "<u8", "r")
        magic, slots, dropped = map(int, data[:3])
        if magic != HEAP_MAGIC or slots != HEAP_SLOTS:
            self.notes.append(note("other_version" if magic else "not_loaded"))
            return
        self.notes += [note("heap_dropped", dropped)] * bool(dropped)
        data = data[HEAP_HEADER // 8 :]
        used = np.flatnonzero(data[:HEAP_SLOTS] > 1)
        died = data[HEAP_SLOTS:][used]
        blocks = data[2 * HEAP_SLOTS :].reshape(HEAP_SLOTS, HEAP_COLUMNS)[used]
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
        reused = self._reused(pid, line)
        return frozenset(map(_block, _then(reused, when_ns)) if len(reused) else ())

    def _reusing(self, pid: int, line: int) -> np.ndarray:
        """A line's blocks that had the same bytes as others, of other calls."""
        none = np.empty((0, HEAP_COLUMNS), "<u8")
        some = np.concatenate([none, *self._over(pid, line, line + LINE)])
        blocks = list(map(_block, some))
        again = [any(b.reuses(other) for other in blocks) for b in blocks]
        return some[np.array(again, dtype=bool)]

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


@contextlib.contextmanager
def empty_table() -> Iterator[str]:
    """A file for the table, in memory and without a name of its own, so that a kill leaves nothing;
    sparse, so that only what is used takes room."""
    handle = os.memfd_create("linewright-find-heap")
    try:
        os.ftruncate(handle, HEAP_BYTES)
        yield f"/proc/{os.getpid()}/fd/{handle}"
    finally:
        os.close(handle)


class Addresses:
    """Names of code and data of one run."""

    def __init__(self, spaces: Spaces, stacks: Stacks, heap: HeapTable | None = None) -> None:
        self.spaces, self.code, self._stacks, self._heap = spaces, Names(spaces), stacks, heap
        self._storage = _ThreadStorage(spaces)

    def object(self, pid: int, address: int, when_ns: int) -> Object:
        """What lay at an address of a process at a time."""
        # Before the heap, which the blocks of libraries are taken from.
        mine = self._storage.find(pid, address)
        if mine is not None:
            return mine
        block = self._held(pid, address, when_ns)
        if block is not None:
            return self._block(pid, block, address)
        mapping = self.spaces.find(pid, address)
        if mapping is None:
            return Object("unknown", address)
        inside = address - mapping.start
        if mapping.shared and is_named(mapping):
            nameless = mapping.path.startswith(("/dev/zero", "//anon"))
            label = "" if nameless else PurePath(mapping.path).name
            return Object("shared_mapping", inside + mapping.offset, file=label)
        variable = self.code.variable(pid, address)
        if variable is not None:
            return variable
        owner = self._stacks.owner(pid, address)
        if owner is not None or mapping.path == "[stack]":
            return Object("stack", thread=pid if owner is None else owner)
        if mapping.path == "[heap]":
            return Object("heap")
        return Object("mapping", inside, size=mapping.length)

    def one_block(self, pid: int, addresses: Sequence[int], when_ns: int) -> bool:
        """Whether these addresses are known to lie in one heap block."""
        blocks = {self._held(pid, at, when_ns) for at in addresses}
        return len(blocks) == 1 and None not in blocks

    def _held(self, pid: int, address: int, when_ns: int) -> HeapBlock | None:
        return self._heap.find(pid, address, when_ns) if self._heap else None

    def allocation(self, pid: int, address: int, when_ns: int) -> list[tuple[int, int]]:
        """The code that a heap block's name is made of: the allocating call and its caller."""
        block = self._held(pid, address, when_ns)
        return [(pid, at - 1) for at in self._callers(pid, block) if at] if block else []

    def _callers(self, pid: int, block: HeapBlock) -> tuple[int, int]:
        """Return addresses of the allocating call outside of system libraries, and of the call of
        its function, or 0."""
        names = self.code
        inner, *above = [c for c in block.callers if not names.is_system(pid, c)] or block.callers
        # A word of the stack is a caller's if the call before it leads to the function below it.
        mine = names.extent(pid, inner)
        caller = next((c for c in above if names.extent(pid, names.called(pid, c)) == mine), 0)
        return inner, caller

    def _block(self, pid: int, block: HeapBlock, address: int) -> Object:
        names, (inner, caller) = self.code, self._callers(pid, block)
        names.prepare([(pid, at - 1) for at in (inner, caller) if at])
        named = names.name(pid, inner - 1)
        where = names.where(pid, inner)
        site = named.function if names.is_program(where.path) else ""
        return Object(
            "heap",
            address - block.start,
            size=block.size,
            start=block.start,
            allocator=named,
            caller=names.name(pid, caller - 1) if caller else None,
            site=(site or f"{named.module}+{where.address:#x}") if named.module else "",
            allocated=(inner, caller),
        )

    def layout(self, pid: int, what: Object, code: Iterable[int]) -> types.Layout | None:
        """Its type, by the code that allocates it or accesses it."""
        names = self.code
        block = what.kind == "heap"
        if what.kind not in ("heap", "static", "thread_local") or (block and not what.size):
            return None
        own = names.where(pid, what.start).address if what.kind == "static" else 0
        places = [names.where(pid, at - 1 if block else at) for at in what.allocated or code if at]
        found = (
            types.allocated(names.typed(p.path), p.address, what.size)
            if block
            else types.variable(names.typed(p.path), p.address, what.symbol, own)
            for p in places
            if p.path
        )
        return next((layout for layout in found if layout), None)

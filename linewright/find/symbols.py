"""Names for addresses: functions and variables from symbol tables, source lines by LLVM's symboliser or addr2line."""

from __future__ import annotations

import bisect
import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from linewright.find.schema import Map
from linewright.find.space import Spaces

SYSTEM = re.compile(
    r"^(ld-|ld\.so|libc[-.]|libpthread[-.]|libm[-.]|libstdc\+\+|libc\+\+|libgcc_s|libtsan|libatomic|\[vdso\])"
)
"""Libraries whose callers are what a reader wants to see."""
_SYMBOLISERS = ("llvm-symbolizer", *(f"llvm-symbolizer-{n}" for n in range(22, 10, -1)))
_TIMEOUT_S = 120


class Symbol(NamedTuple):
    """A function or variable in its file's own addresses; `size` 0 where the file does not say."""

    address: int
    size: int
    name: str


class Where(NamedTuple):
    """An address as a file and an address of its own; `path` is empty for memory without a file."""

    path: str
    address: int


class Named(NamedTuple):
    """What an address is called."""

    module: str
    function: str
    source: str


@dataclass
class Module:
    """One file's segments and symbols."""

    segments: list[tuple[int, int, int, int]] = field(default_factory=list)
    """File offset, size in the file, address, size in memory."""
    functions: list[Symbol] = field(default_factory=list)
    variables: list[Symbol] = field(default_factory=list)
    thread_locals: list[Symbol] = field(default_factory=list)
    thread_data: tuple[int, int, int] | None = None
    """Address, size and alignment of the segment that every thread gets a copy of (PT_TLS)."""
    stripped: bool = True
    interpreted: bool = False
    """It names a dynamic linker, or is linked to a fixed address, as programs do and are and libraries are not."""

    @property
    def lowest(self) -> int:
        """Address of the page that the file's beginning is loaded at."""
        return min((address & ~4095 for _, _, address, _ in self.segments), default=0)

    @property
    def end(self) -> int:
        return max((address + size for _, _, address, size in self.segments), default=0)


def content(path: str, address: int, size: int) -> bytes:
    """Bytes of a file by its own addresses; fewer where it does not hold them."""
    for offset, in_file, begin, _ in module(path).segments:
        if begin <= address < begin + in_file:
            with open(path, "rb") as file:
                file.seek(offset + address - begin)
                return file.read(min(size, begin + in_file - address))
    return b""


@lru_cache(maxsize=256)
def module(path: str) -> Module:
    """The file's symbols; an unreadable, damaged or foreign one has none."""
    found = Module()
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            for s in elf.iter_segments("PT_LOAD"):
                found.segments.append((s["p_offset"], s["p_filesz"], s["p_vaddr"], s["p_memsz"]))
            for s in elf.iter_segments("PT_TLS"):
                found.thread_data = (s["p_vaddr"], s["p_memsz"], max(1, s["p_align"]))
            found.interpreted = elf["e_type"] == "ET_EXEC" or any(elf.iter_segments("PT_INTERP"))
            tables = [s for s in elf.iter_sections() if isinstance(s, SymbolTableSection)]
            found.stripped = not any(t.name == ".symtab" for t in tables)
            for table in tables:
                _symbols(table, found)
    except (OSError, ELFError, ValueError, KeyError, AttributeError, TypeError, AssertionError, MemoryError):
        pass  # what was read until there stays
    for kind in (found.functions, found.variables, found.thread_locals):
        kind.sort()
    return found


def _is_file(mapping: Map) -> bool:
    """Whether a file with symbols may lie there."""
    return (
        mapping.path.startswith("/")
        and bool(mapping.inode)
        and not mapping.path.startswith(("/dev/", "/memfd:", "/SYSV"))
    )


def _symbols(table: SymbolTableSection, to: Module) -> None:
    kinds = {"STT_FUNC": to.functions, "STT_GNU_IFUNC": to.functions, "STT_LOOS": to.functions}
    kinds |= {"STT_OBJECT": to.variables, "STT_COMMON": to.variables, "STT_TLS": to.thread_locals}
    for symbol in table.iter_symbols():
        kind = kinds.get(symbol["st_info"]["type"])
        if kind is not None and symbol["st_shndx"] != "SHN_UNDEF" and symbol.name:
            kind.append(Symbol(symbol["st_value"], symbol["st_size"], symbol.name.split("@")[0]))


def lookup(symbols: list[Symbol], address: int, slack: int = 0) -> Symbol | None:
    """The symbol that covers an address; one without a size reaches `slack` bytes."""
    at = bisect.bisect_right(symbols, address, key=lambda s: s.address) - 1
    for symbol in reversed(symbols[max(0, at - 8) : at + 1]):
        if symbol.address <= address < symbol.address + (symbol.size or slack):
            return symbol
    return None


class Names:
    """Names of code and data of the processes of one run; source lines are asked for in batches."""

    def __init__(self, spaces: Spaces) -> None:
        self._spaces, self._files = spaces, spaces.store
        self._lines: dict[Where, tuple[str, str]] = {}
        self.symboliser = next((s for s in map(shutil.which, (*_SYMBOLISERS, "eu-addr2line", "addr2line")) if s), None)

    def where(self, pid: int, address: int) -> Where:
        """The file that an address belongs to: the mapping's own, or for .bss the one mapped below it."""
        found = self._spaces.find(pid, address)
        if found is None:
            return Where("", address)
        if _is_file(found):
            return Where(found.path, address - self._base(pid, found))
        # An anonymous mapping right behind a file's last one holds what its .bss needs beyond the file.
        below = self._spaces.find(pid, found.start - 1)
        if below is not None and _is_file(below) and address - self._base(pid, below) < self._module(below.path).end:
            return Where(below.path, address - self._base(pid, below))
        return Where("", address)

    def _base(self, pid: int, mapping: Map) -> int:
        """What was added to the file's own addresses when it was loaded."""
        beginning = self._spaces.beginning(pid, mapping)
        if beginning is None:  # only a later part was seen, as of a JIT compiler's cache: its offset is all there is
            return mapping.start - mapping.offset
        return beginning.start - self._module(mapping.path).lowest

    def _module(self, path: str) -> Module:
        return module(self._files.here(path))

    def is_system(self, pid: int, address: int) -> bool:
        """Code of the C or C++ library, the dynamic linker or the kernel's page."""
        found = self._spaces.find(pid, address)
        return found is not None and bool(SYSTEM.match(PurePath(found.path).name))

    def is_program(self, path: str) -> bool:
        """Whether it is a program, and no library: what `trial --pad` can name functions of."""
        return bool(path) and self._module(path).interpreted

    def is_code(self, pid: int, address: int) -> bool:
        found = self._spaces.find(pid, address)
        return found is not None and found.executable

    def prepare(self, addresses: Iterable[tuple[int, int]]) -> None:
        """Ask for the source lines of (process, address) in one batch for each file."""
        wanted: dict[str, set[int]] = defaultdict(set)
        for pid, address in addresses:
            where = self.where(pid, address)
            if where.path and where not in self._lines and os.path.isfile(self._files.here(where.path)):
                wanted[where.path].add(where.address)
        for path, some in wanted.items():
            for address, said in _symbolise(self.symboliser, self._files.here(path), sorted(some)).items():
                self._lines[Where(path, address)] = said

    def name(self, pid: int, address: int) -> Named:
        """Function and source line of code; prepared addresses have a line, where the file has debug information."""
        where = self.where(pid, address)
        if not where.path:
            found = self._spaces.find(pid, address)
            label = "code without a file" if found is None or found.path in ("", "//anon") else found.path
            return Named("", f"{label} at {address:#x}", "")
        function, source = self._lines.get(where, ("", ""))
        base = PurePath(where.path).name
        if not function:
            symbol = lookup(self._module(where.path).functions, where.address, slack=4096)
            function = demangle(symbol.name) if symbol else f"{base}+{where.address:#x}"
        return Named(base, function, source)

    def variable(self, pid: int, address: int) -> str | None:
        """Static variable and offset, or the file's section; None where the address is no file's data."""
        where = self.where(pid, address)
        if not where.path:
            return None
        symbol = lookup(self._module(where.path).variables, where.address)
        if symbol is None:
            return f"static data of {PurePath(where.path).name} at {where.address:#x}"
        offset = where.address - symbol.address
        return demangle(symbol.name) + (f" + {offset}" if offset else "")


@lru_cache(maxsize=4096)
def demangle(name: str) -> str:
    """A C++ name as it is written, where a demangler is installed."""
    tool = _demangler() if name.startswith("_Z") else None
    if tool is None:
        return name
    try:
        return subprocess.run([tool, name], capture_output=True, text=True, timeout=10).stdout.strip() or name
    except (OSError, subprocess.TimeoutExpired):
        return name


@lru_cache(maxsize=1)
def _demangler() -> str | None:
    return next((t for t in map(shutil.which, ("llvm-cxxfilt", "c++filt")) if t), None)


def _symbolise(tool: str | None, path: str, addresses: list[int]) -> dict[int, tuple[str, str]]:
    """Function and `file:line` of each address that the tool knows."""
    if tool is None:
        return {}
    llvm = "symbolizer" in PurePath(tool).name
    command = [tool, f"--obj={path}", "--output-style=JSON"] if llvm else [tool, "-f", "-C", "-e", path]
    asked = "".join(f"{address:#x}\n" for address in addresses)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S,
            env=os.environ | {"DEBUGINFOD_URLS": ""},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.splitlines()
    return _from_llvm(lines, addresses) if llvm else _from_addr2line(lines, addresses)


def _from_llvm(lines: list[str], addresses: list[int]) -> dict[int, tuple[str, str]]:
    found = {}
    for address, line in zip(addresses, lines, strict=False):
        try:
            frames = json.loads(line).get("Symbol") or []
        except (json.JSONDecodeError, AttributeError):
            continue
        # The last frame is the function that was not inlined; the first one has the line itself.
        inner = next((f for f in frames if f.get("FileName")), None)
        source = f"{inner['FileName']}:{inner.get('Line', 0)}" if inner else ""
        found[address] = (frames[-1].get("FunctionName", "") if frames else "", source)
    return found


def _from_addr2line(lines: list[str], addresses: list[int]) -> dict[int, tuple[str, str]]:
    found = {}
    for address, function, source in zip(addresses, lines[::2], lines[1::2], strict=False):
        source = source.split(" (discriminator")[0]
        found[address] = ("" if function == "??" else function, "" if source.startswith("??") else source)
    return found

# SPDX-License-Identifier: MIT
"""Functions and variables of an ELF file by its symbol tables, and its bytes by its own addresses;
where its symbols and debug information are (in it, or where distributions, linkers and debuginfod's
client keep what was stripped from it); and the part of it that is needed to run it."""

from __future__ import annotations

import bisect
import io
import operator
import os
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from elftools.common.exceptions import DWARFError, ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

DEBUG_FOLDER = Path("/usr/lib/debug")
DAMAGE = (ELFError, DWARFError, ConstructError, ArithmeticError, AssertionError, AttributeError,
          LookupError, TypeError, ValueError, struct.error, OSError, MemoryError,
          RecursionError)  # fmt: skip
"""What a reader of damaged files may raise from its inside; anything else is a fault of ours."""
STT_OBJECT, STT_FUNC, STT_COMMON, STT_TLS, STT_GNU_IFUNC = 1, 2, 5, 6, 10


def debug_files(path: str) -> Iterator[Path]:
    """The file, then files of what was stripped from it: of the same build, as their build ID says
    or, without one, the checksum in the file."""
    own = Path(path)
    yield own
    build, name, checksum = _links(own)
    cache = os.environ.get("DEBUGINFOD_CACHE_PATH") or Path.home() / ".cache/debuginfod_client"
    found, folder = [], own.resolve().parent
    if build:
        found += [DEBUG_FOLDER / f".build-id/{build[:2]}/{build[2:]}.debug"]
        found += [Path(cache, build, "debuginfo")]
    if name:
        found += [folder / name, folder / ".debug" / name, DEBUG_FOLDER / str(folder)[1:] / name]
    for file in found:
        if file.is_file() and (
            _links(file)[0] == build if build else zlib.crc32(file.read_bytes()) == checksum
        ):
            yield file


def _links(path: Path) -> tuple[str, str, int]:
    """A file's build ID, and name and checksum of the file that .gnu_debuglink leads to."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        note, link = (elf.get_section_by_name(s) for s in (".note.gnu.build-id", ".gnu_debuglink"))
        build = next((n["n_desc"] for n in note.iter_notes()), "") if note else ""
        data = link.data() if link else b""
    return build, data.split(b"\0")[0].decode(), int.from_bytes(data[-4:], "little")


class Symbol(NamedTuple):
    """A function or variable in its file's own addresses; `size` 0 where the file does not say."""

    address: int
    size: int
    name: str


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
    """It names a dynamic linker, or is linked to a fixed address, as programs do and are and
    libraries are not."""

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
        if found.stripped:
            _kept_apart(path, found)
    except DAMAGE:
        pass  # what was read until there stays
    for kind in (found.functions, found.variables, found.thread_locals):
        kind.sort()
    return found


def _kept_apart(path: str, to: Module) -> None:
    """The symbols of a stripped file, from the file of its debug information."""
    for other in list(debug_files(path))[1:2]:
        with other.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".symtab")
            if table is not None:
                _symbols(table, to)


class SymbolRow(NamedTuple):
    """A row of a symbol table."""

    name: int
    """Where it begins in the table's strings."""
    value: int
    size: int
    kind: int
    defined: bool


def symbol_rows(table: bytes | memoryview, bits: int, order: str = "<") -> Iterator[SymbolRow]:
    """The rows of a table, all at once: those of programs have ten thousands."""
    row = struct.Struct(order + ("IBBHQQ" if bits == 64 else "IIIBBH"))
    fields = operator.itemgetter(*((0, 4, 5, 1, 3) if bits == 64 else (0, 1, 2, 3, 5)))
    for found in row.iter_unpack(table[: len(table) - len(table) % row.size]):
        name, value, size, info, section = fields(found)
        yield SymbolRow(name, value, size, info & 15, section != 0)


def name_at(names: bytes, at: int) -> str:
    """A name in a table's strings; of a hostile file no endless one."""
    end = names.find(b"\0", at, at + 4096)
    return names[at : end if end >= 0 else at].decode("utf-8", "replace")


def _symbols(table: SymbolTableSection, to: Module) -> None:
    kinds = {STT_OBJECT: to.variables, STT_COMMON: to.variables, STT_TLS: to.thread_locals}
    kinds |= dict.fromkeys((STT_FUNC, STT_GNU_IFUNC), to.functions)
    names, file = table.stringtable.data(), table.elffile
    for row in symbol_rows(table.data(), file.elfclass, "<" if file.little_endian else ">"):
        kind = kinds.get(row.kind)
        if kind is not None and row.defined and (name := name_at(names, row.name)):
            kind.append(Symbol(row.value, row.size, name.split("@")[0]))


def lookup(symbols: list[Symbol], address: int, slack: int = 0) -> Symbol | None:
    """The symbol that covers an address; one without a size reaches `slack` bytes."""
    at = bisect.bisect_right(symbols, address, key=lambda s: s.address) - 1
    for symbol in reversed(symbols[max(0, at - 8) : at + 1]):
        if symbol.address <= address < symbol.address + (symbol.size or slack):
            return symbol
    return None


_ESCAPED = re.compile(r"\$(LT|GT|C|RF|BP|LP|RP|u[0-9a-f]{1,6})\$")
_SIGNS = {"LT": "<", "GT": ">", "C": ",", "RF": "&", "BP": "*", "LP": "(", "RP": ")"}
_HASH = re.compile(r"::h[0-9a-f]{16}( \(\.llvm\.\d+\)|\.llvm\.\d+)?$")


def without_hash(name: str) -> str:
    """A name of Rust without what its compiler adds to it: the hash, and what stands for characters
    that linkers may not know."""
    plain = _HASH.sub("", name)
    if plain == name or "$" not in plain:
        return plain
    plain = re.sub(r"(^|::)_(?=\$)", r"\1", plain.replace("..", "::"))
    return _ESCAPED.sub(lambda m: _SIGNS.get(m[1]) or chr(int(m[1][1:], 16)), plain)


@lru_cache(maxsize=4096)
def demangle(name: str) -> str:
    """A name of C++ or Rust as it is written, where a demangler is installed."""
    tool = _demangler() if name.startswith("_Z") else None
    if tool is None:
        return name
    try:
        done = subprocess.run([tool, name], capture_output=True, text=True, timeout=10)
        return without_hash(done.stdout.strip()) or name
    except (OSError, subprocess.TimeoutExpired):
        return name


@lru_cache(maxsize=1)
def _demangler() -> str | None:
    return next((t for t in map(shutil.which, ("llvm-cxxfilt", "c++filt")) if t), None)


def loadable(path: Path) -> bytes:
    """The file without what lies behind its segments; whole where it is no ELF file."""
    data = path.read_bytes()
    try:
        image = ELFFile(io.BytesIO(data))
        end = max(segment["p_offset"] + segment["p_filesz"] for segment in image.iter_segments())
    except (ELFError, ValueError):
        return data  # a script
    return without_sections(data[: max(end, image["e_ehsize"])])


def without_sections(data: bytes) -> bytes:
    """The beginning of an ELF file, whose header points to no section any more: they lie behind
    what is left of it."""
    # e_shoff, e_shnum and e_shstrndx are cleared (ELF specification, ELF header).
    head = bytearray(data)
    shoff, width, shnum = (40, 8, 60) if data[4] == 2 else (32, 4, 48)
    head[shoff : shoff + width] = bytes(width)
    head[shnum : shnum + 4] = bytes(4)
    return bytes(head)

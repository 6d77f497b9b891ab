# SPDX-License-Identifier: MIT
"""An ELF file as far as its code is concerned: text, functions, imports, and what its call stubs
lead to.

Whatever the file says is checked against its size before it is used, so that a damaged or hostile
file costs one line, little time and at most a few times its own size in memory. Text is a view of
the file's bytes, never a copy."""

from __future__ import annotations

import io
import os
import stat
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from linewright.elf import frames
from linewright.elf.symbols import (
    DAMAGE,
    STT_FUNC,
    STT_GNU_IFUNC,
    Symbol,
    SymbolRow,
    name_at,
    symbol_rows,
)
from linewright.errors import UserError, cannot_read
from linewright.schema import ARCHITECTURES

MACHINES = {a.elf: a.name for a in ARCHITECTURES if a.elf}
ALLOWED = "allowed: a program or shared library"
KINDS = {"ET_EXEC": "program", "ET_DYN": "library"}
LARGEST = 4 << 30
"""Bytes; a file larger than any program is refused unread."""
HIGHEST = 1 << 63
"""No program's text lies above: the upper half of the address space is the kernel's."""
UNAUDITED = {"ld-musl": "musl", "linker": "bionic"}
"""Dynamic linkers without auditing, by how their file names begin, and whose they are."""
_SHF_EXECINSTR, _SHF_ALLOC = 4, 2
_PF_X, _PF_W = 1, 2
_MOST_SECTIONS, _MOST_TAGS = 100_000, 10_000
_RELA64 = struct.Struct("<QQq")
_JUMP_SLOT = 1026
"""R_AARCH64_JUMP_SLOT: a call stub's word, with the symbol that it leads to."""


@dataclass(frozen=True)
class Text:
    """Bytes that are executed, and the address they are executed at."""

    address: int
    code: memoryview

    @property
    def end(self) -> int:
        return self.address + len(self.code)


@dataclass(frozen=True)
class ElfHeaders:
    """What the headers alone say."""

    machine: str
    kind: str
    interpreter: str
    needs_dynamic_linker: bool
    unaudited: str
    """The C library it is made for, if that one's dynamic linker knows no auditing; else empty."""

    @property
    def unswitchable(self) -> Literal["", "not_arm64", "static", "unaudited"]:
        """Why the auditing library reaches nothing in it."""
        if self.machine != "arm64":
            return "not_arm64"
        if not self.needs_dynamic_linker:
            return "static"
        return "unaudited" if self.unaudited else ""


@dataclass(frozen=True)
class Image(ElfHeaders):
    """What of a file matters for its atomics. Addresses are the file's own, before it is loaded
    anywhere."""

    path: str
    texts: tuple[Text, ...]
    writable: tuple[tuple[int, int], ...]
    """Address ranges, from and to, that the program can write for as long as it runs."""
    functions: tuple[Symbol, ...]
    """By address; without a symbol table what the unwind table knows, under made-up names."""
    bodies: np.ndarray
    """Address ranges of all functions whose extent is known, from and to, ascending and disjoint;
    the rest of a text is padding or data. Empty where the file gives no extents."""
    imports: frozenset[str]
    """Functions that the dynamic linker has to find in other objects."""
    privileges: str
    """Why the dynamic linker ignores its environment for most users, or empty."""
    stubs: dict[int, str]
    """Words that call stubs load from, and the symbol that the dynamic linker puts there."""
    stripped: bool


def privileges(path: str) -> str:
    """The rights that a file takes when it is run, or empty: with them the dynamic linker ignores
    LD_AUDIT."""
    mode = os.stat(path).st_mode
    if mode & stat.S_ISUID or mode & stat.S_ISGID:
        return "set-user-ID" if mode & stat.S_ISUID else "set-group-ID"
    try:
        return "file capabilities" if os.getxattr(path, "security.capability") else ""
    except OSError:
        return ""


def load(path: str) -> Image:
    """Read a program or library. Raises UserError, one line, for whatever is not one."""
    with _whole(path) as (elf, raw):
        return _image(path, elf, raw)


def begin(path: str) -> ElfHeaders:
    """Read the headers only, of a program of any size. Raises UserError as `load` does."""
    with opened(path) as (_, headers):
        return headers


@contextmanager
def opened(path: str) -> Iterator[tuple[ELFFile, ElfHeaders]]:
    """An open file to read more from. Whatever a damaged file raises inside becomes a UserError,
    one line."""
    with _opened(path) as file, _blamed(path, file.read(4)):
        elf = ELFFile(file)
        yield elf, _headers(path, elf, list(elf.iter_segments()))


@contextmanager
def _blamed(path: str, magic: bytes) -> Iterator[None]:
    """Whatever a damaged file makes its reader raise becomes one line."""
    if magic != b"\x7fELF":
        kinds = {
            b"#!": ", but a script: name its interpreter instead",
            b"!<": ", but an archive: name the program linked from it",
        }
        raise UserError(f"not an ELF file{kinds.get(magic[:2], '')}", path, ALLOWED)
    try:
        yield
    except UserError:
        raise
    except DAMAGE as error:
        what = f"damaged ELF file: {str(error) or type(error).__name__}"[:200]
        raise UserError(what, path, ALLOWED) from None


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    try:
        file = Path(path)
        if file.is_dir():
            raise UserError("a directory", path, ALLOWED)
        if not file.is_file() and file.exists():
            raise UserError("not a regular file", path, ALLOWED)
        with file.open("rb") as opened:
            yield opened
    except (OSError, ValueError) as error:
        raise cannot_read(path, error, ALLOWED) from None


@contextmanager
def _whole(path: str) -> Iterator[tuple[ELFFile, bytes]]:
    """A file in memory."""
    with _opened(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise UserError(f"larger than {LARGEST >> 30} GiB", path, ALLOWED)
        raw = file.read()
    with _blamed(path, raw[:4]):
        yield ELFFile(io.BytesIO(raw)), raw


def _headers(path: str, elf: ELFFile, segments: list) -> ElfHeaders:
    machine, kind = elf["e_machine"], elf["e_type"]
    bits = 32 if machine == "EM_386" else 64
    if machine not in MACHINES or not elf.little_endian or elf.elfclass != bits:
        code = f"code for {str(machine).removeprefix('EM_')}, {elf.elfclass} bits"
        code += "" if elf.little_endian else ", big-endian"
        raise UserError(code, path, f"allowed: {', '.join(MACHINES.values())}")
    if kind not in KINDS:
        linked = "an object file: name the program linked from it"
        other = f"neither program nor library: {kind}"
        raise UserError(linked if kind == "ET_REL" else other, path)
    interpreter = next((s.get_interp_name() for s in segments if s["p_type"] == "PT_INTERP"), "")
    linker, pie = Path(interpreter).name, _is_pie(segments)
    return ElfHeaders(
        machine=MACHINES[machine],
        kind="program" if kind == "ET_EXEC" or interpreter or pie else "library",
        interpreter=interpreter,
        needs_dynamic_linker=bool(interpreter) or (kind == "ET_DYN" and not pie),
        unaudited=next((libc for begin, libc in UNAUDITED.items() if linker.startswith(begin)), ""),
    )


def _image(path: str, elf: ELFFile, raw: bytes) -> Image:
    sections, segments = _sections(elf), list(elf.iter_segments())
    left_out = (s["sh_flags"] & _SHF_EXECINSTR and s["sh_type"] == "SHT_NOBITS" for s in sections)
    if elf["e_machine"] in MACHINES and any(left_out):
        raise UserError("debug information without its code", path, ALLOWED)
    headers = _headers(path, elf, segments)
    texts = _texts(raw, segments, sections)
    symbols = _symbols(elf, raw, sections)
    full = any(section.name == ".symtab" for section in sections)
    unwound = _unwound(raw, segments)
    unaudited = headers.unaudited or _unaudited_library(elf, raw, sections)
    return Image(
        **(vars(headers) | {"unaudited": unaudited}),
        path=path,
        texts=texts,
        writable=_writable(segments),
        functions=_functions(symbols if full else symbols + unwound, texts),
        bodies=_bodies(symbols + unwound, texts),
        imports=_imports(elf, raw, sections),
        privileges=privileges(path),
        stubs=_stubs(elf, raw, sections) if headers.machine == "arm64" else {},
        stripped=not full,
    )


def _writable(segments: list) -> tuple[tuple[int, int], ...]:
    """Writable segments, without what becomes read-only once it is relocated."""
    places = [(s, s["p_vaddr"], s["p_vaddr"] + s["p_memsz"]) for s in segments]
    fixed = ((begin, end) for s, begin, end in places if s["p_type"] == "PT_GNU_RELRO")
    begin, end = next(fixed, (0, 0))
    return tuple(
        piece
        for s, low, high in places
        if s["p_type"] == "PT_LOAD" and s["p_flags"] & _PF_W
        for piece in ((low, min(high, begin)), (max(low, end), high))
        if piece[0] < piece[1]
    )


def _is_pie(segments: list) -> bool:
    """Whether DT_FLAGS_1 says "position-independent executable", as static ones without interpreter
    do."""
    flags = (tag.entry.d_val for tag in dynamic_tags(segments) if tag.entry.d_tag == "DT_FLAGS_1")
    return bool(next(flags, 0) & 0x08000000)


def dynamic_tags(segments: Iterable) -> Iterator:
    """What a file asks of the dynamic linker, tag by tag."""
    for segment in segments:
        if segment["p_type"] == "PT_DYNAMIC":
            for count, tag in enumerate(segment.iter_tags()):
                if count > _MOST_TAGS:
                    raise ValueError("its dynamic section has no end")
                yield tag


def _sections(elf: ELFFile) -> list[Section]:
    count = elf.num_sections()
    if count > _MOST_SECTIONS:
        raise ValueError(f"{count} sections")
    return [elf.get_section(i) for i in range(count)]


def _named(sections: list[Section], name: str, *kinds: str) -> Section | None:
    """The first section of a name that is of one of these kinds."""
    found = (s for s in sections if s.name == name and s["sh_type"] in kinds)
    return next(found, None)


def _view(raw: bytes, offset: int, size: int, what: str) -> memoryview:
    if offset + size > len(raw):
        raise ValueError(f"{what} ends beyond the file")
    return memoryview(raw)[offset : offset + size]


def _texts(raw: bytes, segments: list, sections: list[Section]) -> tuple[Text, ...]:
    """The executable sections; the executable segments where a file has shed its section table."""
    found = [
        (s["sh_addr"], s["sh_offset"], s["sh_size"], "a text section")
        for s in sections
        if s["sh_flags"] & _SHF_EXECINSTR
        and s["sh_flags"] & _SHF_ALLOC
        and s["sh_type"] == "SHT_PROGBITS"
        and s["sh_size"]
    ]
    if not found:
        found = [
            (s["p_vaddr"], s["p_offset"], s["p_filesz"], "a text segment")
            for s in segments
            if s["p_type"] == "PT_LOAD" and s["p_flags"] & _PF_X and s["p_filesz"]
        ]
    if len(found) > 1000:
        raise ValueError(f"{len(found)} text sections")
    if sum(size for _, _, size, _ in found) > 2 * len(raw):
        raise ValueError("its text overlaps itself")
    texts = [Text(address, _view(raw, offset, size, what)) for address, offset, size, what in found]
    if any(text.end > HIGHEST for text in texts):
        raise ValueError("its text lies where no program can")
    return tuple(sorted(texts, key=lambda text: text.address))


def _unaudited_library(elf: ELFFile, raw: bytes, sections: list[Section]) -> str:
    """The same of a library, which names no dynamic linker, by the C library that it wants (a name
    in its dynamic strings)."""
    _, names = _table(elf, raw, sections, ".dynsym")
    if b"\0libc.so.6\0" in names:
        return ""
    return "musl" if b"\0libc.musl-" in names else "musl or bionic" * (b"\0libc.so\0" in names)


def _table(
    elf: ELFFile, raw: bytes, sections: list[Section], name: str
) -> tuple[Iterator[SymbolRow], bytes]:
    """The rows of the first symbol table of a name, with the strings that their names are in; in a
    file that has shed its section table those that the dynamic linker uses."""
    section = _named(sections, name, "SHT_SYMTAB", "SHT_DYNSYM")
    if section is None:
        return (iter(()), b"") if sections or name != ".dynsym" else _linked_table(elf, raw)
    data = _view(raw, section["sh_offset"], section["sh_size"], "a symbol table")
    names = b""
    if section["sh_link"] < len(sections):
        strings = sections[section["sh_link"]]
        names = bytes(_view(raw, strings["sh_offset"], strings["sh_size"], "a string table"))
    return symbol_rows(data, elf.elfclass), names


def _tags(elf: ELFFile) -> dict[str, int]:
    return {tag.entry.d_tag: tag.entry.d_val for tag in dynamic_tags(elf.iter_segments())}


def _linked_table(elf: ELFFile, raw: bytes) -> tuple[Iterator[SymbolRow], bytes]:
    """The same by the dynamic section, which does not say where the rows end: at the next table."""
    tags = _tags(elf)
    begin = tags.get("DT_SYMTAB", 0)
    ends = [tags[name] for name in _TABLES if tags.get(name, 0) > begin]
    if not begin or not ends:
        return iter(()), b""
    rows = _linked(elf, raw, begin, min(ends) - begin)
    names = _linked(elf, raw, tags["DT_STRTAB"], tags["DT_STRSZ"])
    return symbol_rows(rows, elf.elfclass), bytes(names)


def _linked(elf: ELFFile, raw: bytes, address: int, size: int) -> memoryview:
    """What the dynamic section names by its address."""
    offset = next(elf.address_offsets(address, size), len(raw) + 1)  # beyond: in no segment
    return _view(raw, offset, size, "a dynamic table")


_TABLES = ("DT_STRTAB", "DT_HASH", "DT_GNU_HASH", "DT_VERSYM", "DT_VERNEED", "DT_REL", "DT_RELA")
"""What linkers place behind the dynamic symbols."""


def _symbols(elf: ELFFile, raw: bytes, sections: list[Section]) -> list[Symbol]:
    """Functions of the symbol table, and of the dynamic one."""
    return [
        Symbol(row.value, row.size, name_at(names, row.name))
        for rows, names in (_table(elf, raw, sections, name) for name in (".symtab", ".dynsym"))
        for row in rows
        if row.kind in (STT_FUNC, STT_GNU_IFUNC) and row.defined
    ]


def _functions(symbols: list[Symbol], texts: tuple[Text, ...]) -> tuple[Symbol, ...]:
    """One function per address, within the text; a name from a symbol table before a made-up
    one."""
    by_address: dict[int, Symbol] = {}
    for symbol in symbols:
        if symbol.name and any(text.address <= symbol.address < text.end for text in texts):
            by_address.setdefault(symbol.address, symbol)
    return tuple(by_address[address] for address in sorted(by_address))


def _bodies(symbols: list[Symbol], texts: tuple[Text, ...]) -> np.ndarray:
    """The union of the extents of those functions that have one."""
    ranges = []
    for symbol in symbols:
        text = next((t for t in texts if t.address <= symbol.address < t.end), None)
        if text is not None and symbol.size:
            ranges.append((symbol.address, min(symbol.address + symbol.size, text.end)))
    merged: list[list[int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], high)
        else:
            merged.append([low, high])
    return np.array(merged, dtype=np.int64).reshape(-1, 2)


def _imports(elf: ELFFile, raw: bytes, sections: list[Section]) -> frozenset[str]:
    """Names of the dynamic symbol table's undefined functions (whose kind an old linker may leave
    open)."""
    rows, names = _table(elf, raw, sections, ".dynsym")
    undefined = (row for row in rows if not row.defined and row.kind in (0, STT_FUNC))
    return frozenset(name for row in undefined if (name := name_at(names, row.name)))


def imported(path: str) -> frozenset[str]:
    """What `Image.imports` has, without the rest. Raises UserError as `load` does."""
    with _whole(path) as (elf, raw):
        return _imports(elf, raw, _sections(elf))


def _unwound(raw: bytes, segments: list) -> list[Symbol]:
    """Functions from the unwind table's index (.eh_frame_hdr in its usual encoding), with their
    sizes."""
    header = next((s for s in segments if s["p_type"] == "PT_GNU_EH_FRAME"), None)
    if header is None:
        return []
    data = _view(raw, header["p_offset"], header["p_filesz"], "the unwind index")
    loaded = header["p_vaddr"] - header["p_offset"]
    return [
        Symbol(start, _unwound_size(raw, at - loaded, start, at), f"function at {start:#x}")
        for start, at in frames.sorted_table(data, header["p_vaddr"])
    ]


def _unwound_size(raw: bytes, place: int, start: int, address: int) -> int:
    """A function's size from its unwind entry at file offset `place`, which is loaded at `address`;
    0: not understood.

    The entry is length, offset of its common part, beginning and size. How the beginning is encoded
    stands in the common part; here each of the usual encodings is tried, and the one that gives the
    known beginning is right."""
    if not 0 <= place <= len(raw) - 24:
        return 0
    short, long = (struct.unpack_from(kind, raw, place + 8)[0] for kind in ("<i", "<q"))
    if address + 8 + short == start or short & 0xFFFFFFFF == start:
        return struct.unpack_from("<I", raw, place + 12)[0]
    if start in (long, address + 8 + long):
        return struct.unpack_from("<Q", raw, place + 16)[0] & (1 << 47) - 1
    return 0


def _stubs(elf: ELFFile, raw: bytes, sections: list[Section]) -> dict[int, str]:
    """For each word that a call stub jumps through, the name of the function it will hold
    (arm64)."""
    calls, tags = _named(sections, ".rela.plt", "SHT_RELA"), {} if sections else _tags(elf)
    if calls is not None:
        data = _view(raw, calls["sh_offset"], calls["sh_size"], "the call stubs")
    elif "DT_JMPREL" in tags:
        data = _linked(elf, raw, tags["DT_JMPREL"], tags["DT_PLTRELSZ"])
    else:
        return {}
    rows, names = _table(elf, raw, sections, ".dynsym")
    table, found = list(rows), {}
    for offset, info, _ in _RELA64.iter_unpack(data[: len(data) - len(data) % _RELA64.size]):
        if info & 0xFFFFFFFF == _JUMP_SLOT and info >> 32 < len(table):
            found[offset] = name_at(names, table[info >> 32].name)
    return found

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
from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from linewright.elf.symbols import Symbol
from linewright.errors import UserError
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
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_SYMBOL = {
    64: np.dtype("<u4, u1, u1, <u2, <u8, <u8"),
    32: np.dtype("<u4, <u4, <u4, u1, u1, <u2"),
}
_SYMBOL[64].names = ("name", "info", "other", "shndx", "value", "size")
_SYMBOL[32].names = ("name", "value", "size", "info", "other", "shndx")
_RELA64 = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_JUMP_SLOT = 1026
"""R_AARCH64_JUMP_SLOT: a call stub's word, with the symbol that it leads to."""
# What a reader of damaged files may raise from its inside; anything else is a fault of ours.
_DAMAGE = (
    ELFError,
    ConstructError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    struct.error,
    OSError,
    MemoryError,
    RecursionError,
)


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
    raw = _read(path)
    with _blamed(path, raw[:4]):
        return _image(path, raw)


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
        kind = {
            b"#!": "a script: name its interpreter instead",
            b"!<": "an archive: name the program linked from it",
        }
        raise UserError(
            f"not an ELF file{', but ' + kind[magic[:2]] if magic[:2] in kind else ''}",
            path,
            ALLOWED,
        )
    try:
        yield
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(
            f"damaged ELF file: {str(error) or type(error).__name__}"[:200], path, ALLOWED
        ) from None


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
        raise UserError(getattr(error, "strerror", None) or str(error), path, ALLOWED) from None


def _read(path: str) -> bytes:
    with _opened(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise UserError(f"larger than {LARGEST >> 30} GiB", path, ALLOWED)
        return file.read()


def _headers(path: str, elf: ELFFile, segments: list) -> ElfHeaders:
    machine, kind = elf["e_machine"], elf["e_type"]
    if (
        machine not in MACHINES
        or not elf.little_endian
        or (elf.elfclass == 32) != (machine == "EM_386")
    ):
        code = (
            f"code for {str(machine).removeprefix('EM_')}, {elf.elfclass}"
            f" bits{'' if elf.little_endian else ', big-endian'}"
        )
        raise UserError(code, path, f"allowed: {', '.join(MACHINES.values())}")
    if kind not in KINDS:
        raise UserError(
            "an object file: name the program linked from it"
            if kind == "ET_REL"
            else f"neither program nor library: {kind}",
            path,
        )
    interpreter = next((s.get_interp_name() for s in segments if s["p_type"] == "PT_INTERP"), "")
    return ElfHeaders(
        machine=MACHINES[machine],
        kind="program" if kind == "ET_EXEC" or interpreter or _is_pie(segments) else "library",
        interpreter=interpreter,
        needs_dynamic_linker=bool(interpreter) or (kind == "ET_DYN" and not _is_pie(segments)),
        unaudited=next(
            (libc for name, libc in UNAUDITED.items() if Path(interpreter).name.startswith(name)),
            "",
        ),
    )


def _image(path: str, raw: bytes) -> Image:
    elf = ELFFile(io.BytesIO(raw))
    segments = list(elf.iter_segments())
    headers = _headers(path, elf, segments)
    sections = _sections(elf)
    texts = _texts(raw, segments, sections)
    symbols = _symbols(elf, raw, sections, (".symtab", ".dynsym"))
    full = any(section.name == ".symtab" for section in sections)
    unwound = _unwound(raw, segments)
    return Image(
        **(
            vars(headers)
            | {"unaudited": headers.unaudited or _unaudited_library(elf, raw, sections)}
        ),
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
    ranges = [
        (s["p_vaddr"], s["p_vaddr"] + s["p_memsz"])
        for s in segments
        if s["p_type"] == "PT_LOAD" and s["p_flags"] & _PF_W
    ]
    for s in segments:
        if s["p_type"] == "PT_GNU_RELRO":
            begin, end = s["p_vaddr"], s["p_vaddr"] + s["p_memsz"]
            ranges = [
                piece
                for low, high in ranges
                for piece in ((low, min(high, begin)), (max(low, end), high))
                if piece[0] < piece[1]
            ]
            break
    return tuple(ranges)


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
    dynamic = _named(sections, ".dynsym", "SHT_DYNSYM")
    _, names = _table(elf, raw, dynamic, sections) if dynamic is not None else (None, b"")
    if b"\0libc.so.6\0" in names:
        return ""
    return (
        "musl" if b"\0libc.musl-" in names else "musl or bionic" if b"\0libc.so\0" in names else ""
    )


def _table(
    elf: ELFFile, raw: bytes, section: Section, sections: list[Section]
) -> tuple[np.ndarray, bytes]:
    """A symbol table as an array, with the strings that its names are in."""
    size = section["sh_size"]
    dtype = _SYMBOL[elf.elfclass]
    data = _view(raw, section["sh_offset"], size - size % dtype.itemsize, "a symbol table")
    strings = sections[section["sh_link"]] if section["sh_link"] < len(sections) else None
    names = (
        bytes(_view(raw, strings["sh_offset"], strings["sh_size"], "a string table"))
        if strings is not None
        else b""
    )
    return np.frombuffer(data, dtype=dtype), names


def _name(names: bytes, at: int) -> str:
    end = names.find(b"\0", at, at + 4096)
    return names[at : end if end >= 0 else at].decode("utf-8", "replace")


def _symbols(
    elf: ELFFile, raw: bytes, sections: list[Section], wanted: tuple[str, ...]
) -> list[Symbol]:
    """Functions of the first table of each wanted name."""
    found: list[Symbol] = []
    for name in wanted:
        section = _named(sections, name, "SHT_SYMTAB", "SHT_DYNSYM")
        if section is None:
            continue
        table, names = _table(elf, raw, section, sections)
        kinds = table["info"] & 15
        keep = ((kinds == _STT_FUNC) | (kinds == _STT_GNU_IFUNC)) & (table["shndx"] != 0)
        found += [
            Symbol(int(s["value"]), int(s["size"]), _name(names, int(s["name"])))
            for s in table[keep]
        ]
    return found


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
    dynamic = _named(sections, ".dynsym", "SHT_DYNSYM")
    if dynamic is None:
        return frozenset()
    table, names = _table(elf, raw, dynamic, sections)
    kinds = table["info"] & 15
    undefined = table[(table["shndx"] == 0) & ((kinds == _STT_FUNC) | (kinds == 0))]
    return frozenset(name for s in undefined if (name := _name(names, int(s["name"]))))


def imported(path: str) -> frozenset[str]:
    """What `Image.imports` has, without the rest. Raises UserError as `load` does."""
    raw = _read(path)
    with _blamed(path, raw[:4]):
        elf = ELFFile(io.BytesIO(raw))
        return _imports(elf, raw, _sections(elf))


def _unwound(raw: bytes, segments: list) -> list[Symbol]:
    """Functions from the unwind table's index (.eh_frame_hdr in its usual encoding), with their
    sizes."""
    header = next((s for s in segments if s["p_type"] == "PT_GNU_EH_FRAME"), None)
    if header is None:
        return []
    data = _view(raw, header["p_offset"], header["p_filesz"], "the unwind index")
    # Version 1; pointer to .eh_frame in 4 relative bytes; count in 4 bytes; entries of two 4-byte
    # offsets from the header.
    if (
        len(data) < 12
        or data[0] != 1
        or data[1] & 15 not in (3, 11)
        or data[2] != 0x03
        or data[3] != 0x3B
    ):
        return []
    count = min(struct.unpack_from("<I", data, 8)[0], (len(data) - 12) // 8)
    entries = (
        np.frombuffer(data, dtype="<i4", count=2 * count, offset=12).astype(np.int64)
        + header["p_vaddr"]
    )
    starts, places = entries[::2], entries[1::2] + (header["p_offset"] - header["p_vaddr"])
    return [
        Symbol(
            int(start),
            _unwound_size(
                raw, int(place), int(start), int(place) + header["p_vaddr"] - header["p_offset"]
            ),
            f"function at {int(start):#x}",
        )
        for start, place in zip(starts, places, strict=False)
    ]


def _unwound_size(raw: bytes, place: int, start: int, address: int) -> int:
    """A function's size from its unwind entry at file offset `place`, which is loaded at `address`;
    0: not understood.

    The entry is length, offset of its common part, beginning and size. How the beginning is encoded
    stands in the common part; here each of the usual encodings is tried, and the one that gives the
    known beginning is right."""
    if not 0 <= place <= len(raw) - 24:
        return 0
    short, long = (
        struct.unpack_from("<i", raw, place + 8)[0],
        struct.unpack_from("<q", raw, place + 8)[0],
    )
    if address + 8 + short == start or short & 0xFFFFFFFF == start:
        return struct.unpack_from("<I", raw, place + 12)[0]
    if start in (long, address + 8 + long):
        return struct.unpack_from("<Q", raw, place + 16)[0] & (1 << 47) - 1
    return 0


def _stubs(elf: ELFFile, raw: bytes, sections: list[Section]) -> dict[int, str]:
    """For each word that a call stub jumps through, the name of the function it will hold
    (arm64)."""
    dynamic = _named(sections, ".dynsym", "SHT_DYNSYM")
    calls = _named(sections, ".rela.plt", "SHT_RELA")
    if dynamic is None or calls is None:
        return {}
    table, names = _table(elf, raw, dynamic, sections)
    size = calls["sh_size"]
    entries = np.frombuffer(
        _view(raw, calls["sh_offset"], size - size % _RELA64.itemsize, "the call stubs"),
        dtype=_RELA64,
    )
    found = {}
    for entry in entries:
        kind, index = int(entry["info"]) & 0xFFFFFFFF, int(entry["info"]) >> 32
        if kind == _JUMP_SLOT and index < len(table):
            found[int(entry["offset"])] = _name(names, int(table[index]["name"]))
    return found

# SPDX-License-Identifier: MIT
"""Where a function's frame lies, by what the file has for unwinders (.eh_frame), or else for
debuggers (.debug_frame)."""

from __future__ import annotations

import bisect
import struct
from functools import lru_cache
from io import BytesIO
from typing import NamedTuple

from elftools.dwarf.callframe import FDE, CallFrameInfo
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile

from linewright.elf.symbols import DAMAGE

_COMMON = 0xFFFFFFFF
"""What an entry of .debug_frame that is common to several functions has in place of a reference to
one (DWARF 5, 6.4.1); as a length it is an escape to 64-bit DWARF, which is not read."""
_FRAME_POINTER = 6
"""Of x86-64, by DWARF's number."""


class FrameTable(NamedTuple):
    """A file's frames."""

    begins: list[int]
    """Addresses of functions, in order."""
    places: list[int]
    """Where each one's entry stands in the section."""
    entries: CallFrameInfo


class Frame(NamedTuple):
    """How the canonical frame address (the stack pointer before the call) is made."""

    register: int
    """By DWARF's number."""
    offset: int
    saves_pointer: bool
    """The caller's frame pointer of x86-64 is on the stack."""


@lru_cache(maxsize=4096)
def frame(path: str, code: int) -> Frame | None:
    """The frame at a file's own address of code; None where the file does not say."""
    try:
        for table in (_for_unwinders(path), _for_debuggers(path)):
            found = table and _frame(table, code)
            if found:
                return found
    except DAMAGE:
        pass
    return None


def _frame(table: FrameTable, code: int) -> Frame | None:
    at = bisect.bisect_right(table.begins, code) - 1
    # The public way reads every entry of the file.
    entry = table.entries._parse_entry_at(table.places[at]) if at >= 0 else None
    if not isinstance(entry, FDE) or code >= table.begins[at] + entry["address_range"]:
        return None
    rows = [row for row in entry.get_decoded().table if row["pc"] <= code]
    rule = rows[-1]["cfa"] if rows else None
    if rule is None or rule.reg is None:
        return None
    return Frame(rule.reg, rule.offset, _FRAME_POINTER in rows[-1])


@lru_cache(maxsize=16)
def _for_unwinders(path: str) -> FrameTable | None:
    with open(path, "rb") as file:
        elf = ELFFile(file)
        header, frames = (elf.get_section_by_name(n) for n in (".eh_frame_hdr", ".eh_frame"))
        if not header or not frames:
            return None
        found = sorted_table(header.data(), header["sh_addr"])
        sized = DWARFStructs(True, 32, elf.elfclass // 8)
        entries = CallFrameInfo(
            BytesIO(frames.data()), frames["sh_size"], frames["sh_addr"], sized, True
        )
        begins = [begin for begin, _ in found]
        return FrameTable(begins, [place - frames["sh_addr"] for _, place in found], entries)


def sorted_table(header: bytes | memoryview, address: int) -> list[tuple[int, int]]:
    """Where functions begin and where their entries are, both loaded, in order, by .eh_frame_hdr at
    its own address as every linker writes it: version 1, numbers of four bytes, those of the table
    relative to that address (Linux Standard Base, core, 10.6.2); else nothing."""
    usual = len(header) >= 12 and (header[0], *header[2:4]) == (1, 0x03, 0x3B)
    if not usual or header[1] & 15 not in (3, 11):
        return []
    count = int.from_bytes(header[8:12], "little")
    rows = struct.iter_unpack("<2i", header[12 : 12 + 8 * min(count, (len(header) - 12) // 8)])
    return [(address + begin, address + place) for begin, place in rows]


@lru_cache(maxsize=16)
def _for_debuggers(path: str) -> FrameTable | None:
    """Go's functions have no others."""
    with open(path, "rb") as file:
        elf = ELFFile(file)
        frames = elf.get_section_by_name(".debug_frame")
        if frames is None or elf.elfclass != 64:
            return None
        data, at, found = frames.data(), 0, []
        while at + 24 <= len(data):
            length, common, begin = struct.unpack_from("<IIQ", data, at)
            if length == _COMMON:
                return None
            if common != _COMMON:
                found.append((begin, at))
            at += 4 + length
        found.sort()
        entries = CallFrameInfo(BytesIO(data), len(data), 0, DWARFStructs(True, 32, 8), False)
        return FrameTable([begin for begin, _ in found], [place for _, place in found], entries)

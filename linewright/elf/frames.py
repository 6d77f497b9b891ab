"""Where a function's frame lies, by what the file has for unwinders (.eh_frame)."""

from __future__ import annotations

import bisect
import struct
from functools import lru_cache
from io import BytesIO
from typing import NamedTuple

from elftools.dwarf.callframe import FDE, CallFrameInfo
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile

_HEADER = b"\x01\x1b\x03\x3b"
"""How every linker writes the sorted table of .eh_frame_hdr: version 1, numbers of four bytes,
those of the table relative to its own address (Linux Standard Base, core, 10.6.2)."""


class FrameTable(NamedTuple):
    """A file's frames."""

    begins: list[int]
    """Addresses of functions, in order."""
    places: list[int]
    """Where each one's entry stands in .eh_frame."""
    entries: CallFrameInfo


def frame_address(path: str, code: int) -> tuple[int, int] | None:
    """The register, by DWARF's number, and the offset that make the canonical frame address (the
    stack pointer before the call) at a file's own address of code; None where it does not say.
    Raises what pyelftools raises of a damaged file."""
    table = _table(path)
    at = bisect.bisect_right(table.begins, code) - 1 if table else -1
    # The public way reads every entry of the file.
    entry = table.entries._parse_entry_at(table.places[at]) if at >= 0 else None
    if not isinstance(entry, FDE) or code >= table.begins[at] + entry["address_range"]:
        return None
    rows = [row for row in entry.get_decoded().table if row["pc"] <= code]
    rule = rows[-1]["cfa"] if rows else None
    return (rule.reg, rule.offset) if rule and rule.reg is not None else None


@lru_cache(maxsize=16)
def _table(path: str) -> FrameTable | None:
    with open(path, "rb") as file:
        elf = ELFFile(file)
        header, frames = (elf.get_section_by_name(n) for n in (".eh_frame_hdr", ".eh_frame"))
        data = header.data() if header and frames else b""
        if not data.startswith(_HEADER):
            return None
        numbers = struct.unpack_from(f"<{2 * int.from_bytes(data[8:12], 'little')}i", data, 12)
        base, sized = header["sh_addr"], DWARFStructs(True, 32, elf.elfclass // 8)
        entries = CallFrameInfo(
            BytesIO(frames.data()), frames["sh_size"], frames["sh_addr"], sized, True
        )
        return FrameTable(
            [base + number for number in numbers[::2]],
            [base + number - frames["sh_addr"] for number in numbers[1::2]],
            entries,
        )

# SPDX-License-Identifier: MIT
"""The part of an ELF file that is needed to run it: most of a static program is debug
information."""

from __future__ import annotations

import io
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile


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

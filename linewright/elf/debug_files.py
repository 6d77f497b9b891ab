# SPDX-License-Identifier: MIT
"""Where the symbols and the debug information of a file are: in it, or where distributions, linkers
and debuginfod's client keep what was stripped from it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from elftools.elf.elffile import ELFFile

DEBUG_FOLDER = Path("/usr/lib/debug")


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

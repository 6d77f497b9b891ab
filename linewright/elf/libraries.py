# SPDX-License-Identifier: MIT
"""The libraries that the dynamic linker loads with a program, found as it finds them, without
running anything."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from linewright.elf import image
from linewright.errors import UserError
from linewright.schema import architecture_of


@dataclass(frozen=True)
class DynamicNeeds(image.ElfHeaders):
    """What an object asks of the dynamic linker."""

    needed: tuple[str, ...]
    search: tuple[str, ...]
    """Folders of DT_RUNPATH, or of DT_RPATH where there is none; ``$ORIGIN`` is filled in."""
    tls_bytes: int
    """Thread-local memory, with what its alignment may add."""


@dataclass(frozen=True)
class LoadedLibraries:
    """A program's libraries in the order in which they are loaded, and the names that were not
    found."""

    objects: tuple[str, ...]
    missing: tuple[str, ...]


_SANITIZERS = {
    "asan": "AddressSanitizer",
    "hwasan": "HWAddressSanitizer",
    "lsan": "LeakSanitizer",
    "tsan": "ThreadSanitizer",
}
_LIBRARY = re.compile(rf"lib(?:clang_rt\.)?({'|'.join(_SANITIZERS)})\b")


def sanitizer(loaded: LoadedLibraries) -> str:
    """That a program has a sanitizer which is a library, in words; such a one ends the program
    where another library comes before it, or takes that one's work for the program's."""
    names = (Path(path).name for path in (*loaded.objects, *loaded.missing))
    for found in filter(None, map(_LIBRARY.match, names)):
        return f"is compiled with {_SANITIZERS[found[1]]}, whose library must be the first"
    return ""


def dynamic(path: str) -> DynamicNeeds:
    """Read what an object asks for. Raises UserError, one line, for a file that is no program or
    library."""
    with image.opened(path) as (elf, headers):
        needed: list[str] = []
        folders: dict[str, str] = {}
        tls = 0
        for segment in elf.iter_segments("PT_TLS"):
            tls = segment["p_memsz"] + max(segment["p_align"], 1) - 1
        for tag in image.dynamic_tags(elf.iter_segments()):
            match tag.entry.d_tag:
                case "DT_NEEDED":
                    needed.append(tag.needed)
                case "DT_RPATH":
                    folders["DT_RPATH"] = tag.rpath
                case "DT_RUNPATH":
                    folders["DT_RUNPATH"] = tag.runpath
        origin = str(Path(path).resolve().parent)
        search = folders.get("DT_RUNPATH", folders.get("DT_RPATH", ""))
        filled = search.replace("$ORIGIN", origin).replace("${ORIGIN}", origin)
        return DynamicNeeds(
            **vars(headers),
            needed=tuple(needed),
            search=tuple(filter(None, filled.split(":"))),
            tls_bytes=tls,
        )


def closure(path: str) -> LoadedLibraries:
    """Everything the program needs, breadth first; what it opens by itself later is not known."""
    first = dynamic(path)
    asked = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    usual = _usual_folders(first.machine)
    objects: dict[str, str] = {}
    missing: dict[str, None] = {}
    queue = [(name, first.search) for name in first.needed]
    for name, search in queue:
        if name in objects or name in missing:
            continue
        found = _find(name, (*asked, *search, *usual), first.machine)
        if found is None:
            missing[name] = None
            continue
        objects[name] = found
        further = dynamic(found)
        queue += [(other, further.search) for other in further.needed]
    return LoadedLibraries(tuple(objects.values()), tuple(missing))


def _find(name: str, folders: tuple[str, ...], machine: str) -> str | None:
    candidates = [Path(name)] if "/" in name else [Path(folder, name) for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            try:
                if image.begin(str(candidate)).machine == machine:
                    return str(candidate)
            except UserError:
                continue  # the dynamic linker, too, goes on to the next folder
    return None


def _usual_folders(machine: str) -> tuple[str, ...]:
    triplet, folder = architecture_of(machine).triplet, architecture_of(machine).library_folder
    return (
        *_configured(Path("/etc/ld.so.conf"), 0),
        *(f"{above}/{triplet}" for above in ("/lib", "/usr/lib")),
        *(f"{above}/{folder}" for above in ("", "/usr")),
        "/lib",
        "/usr/lib",
        f"/usr/{triplet}/lib",  # a cross compiler's
    )


def _configured(path: Path, depth: int) -> list[str]:
    """Folders of the dynamic linker's configuration, and of the files that it includes."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return []
    found: list[str] = []
    for line in (line.partition("#")[0].strip() for line in lines):
        if line.startswith("include ") and depth < 8:
            pattern = line.removeprefix("include ").strip()
            where = Path("/") if pattern.startswith("/") else path.parent
            for included in sorted(where.glob(pattern.lstrip("/"))):
                found += _configured(included, depth + 1)
        elif line.startswith("/"):
            found.append(line)
    return found

# SPDX-License-Identifier: MIT
"""Libraries that the dynamic linker is to load before a program's own: how `LD_PRELOAD` names one
so that what the program starts runs, too, and the programs that cannot have it."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path, PurePath

from linewright.errors import UserError

VARIABLE = "LD_PRELOAD"
_AT_PLATFORM = 15
_SANITIZERS = {
    "asan": "AddressSanitizer",
    "hwasan": "HWAddressSanitizer",
    "lsan": "LeakSanitizer",
    "tsan": "ThreadSanitizer",
}
_LIBRARY = re.compile(rf"lib(?:clang_rt\.)?({'|'.join(_SANITIZERS)})\b")


def check(path: Path | str, where: str) -> None:
    """Refuse a path that the dynamic linker would read as several, or fill in."""
    if any(sign in str(path) for sign in ": $"):
        raise UserError(f"{VARIABLE} cannot name a path with ':', '$' or a space: {path}", where)


def name_of(library: Path) -> str:
    """What to write into the variable. Beside a library is a folder for each name that a dynamic
    linker of glibc may have for its platform, with the library or an empty one (`lw_preloaded` in
    cmake/Linewright.cmake): a child of another architecture loads the empty one, and a child of
    musl, which fills in nothing, finds no file and goes on."""
    here = _platform()
    if here and (library.parent / here / library.name).is_file():
        return str(library.parent / "$PLATFORM" / library.name)
    return str(library)


def _platform() -> str:
    """The kernel's name for this machine; some sandboxes have none."""
    ask = ctypes.CDLL(None).getauxval
    ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
    return (ctypes.string_at(ask(_AT_PLATFORM)) if ask(_AT_PLATFORM) else b"").decode()


def refuse_sanitizer(program: str, where: str) -> None:
    """Refuse a program whose sanitizer is a library, which ends the program where another one comes
    before it, or takes that one's work for the program's. A script says nothing of what it
    starts."""
    from linewright.elf import libraries

    try:
        loaded = libraries.closure(program)
    except UserError:
        return
    names = (PurePath(path).name for path in (*loaded.objects, *loaded.missing))
    for found in filter(None, map(_LIBRARY.match, names)):
        raise UserError(
            f"{program} is compiled with {_SANITIZERS[found[1]]}, whose library must be the first",
            where,
            "allowed: the program compiled without it",
        )

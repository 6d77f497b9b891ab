# SPDX-License-Identifier: MIT
"""Which objects of a program call pthread_rwlock_*: what `linewright run --locks` can replace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from linewright.elf import image, libraries

_BRINGS = re.compile(
    r"(dlm?open|execl[ep]?|execvp?e?|execveat|fexecve|posix_spawnp?|system|popen|syscall)(64)?$"
)
"""What brings other code: a library that is opened, a program that is started."""
_CALL = re.compile(
    r"(__)?(pthread_rwlock_((try|timed|clock)?(rd|wr)lock|unlock|init|destroy))(64)?$"
)


@dataclass(frozen=True)
class LockCalls:
    """A program's calls of the C library's readers-writer locks, and those of the libraries that
    are loaded with it."""

    calls: dict[str, tuple[str, ...]]
    """By the path of the object, the program first: the functions that it calls; objects without
    any are left out."""
    missing: tuple[str, ...]
    """Libraries that were not found."""
    refusal: str
    """Why no other library can stand in for them, in words; empty where one can."""
    alone: bool = False
    """Whether neither calls anything that opens a library or starts a program, so that no other
    code can run in its place or beside it."""


def refusal(headers: image.ElfHeaders) -> str:
    """Why no preloaded library reaches a program, or nothing."""
    if not headers.needs_dynamic_linker:
        return "it is statically linked, so no other library can stand in for its locks"
    if headers.unaudited:
        return f"it is made for {headers.unaudited}, and the library knows the locks of glibc"
    return ""


def of_program(path: str) -> LockCalls:
    """Look through a program or library and what it needs. Raises UserError for a file that is
    none."""
    headers = image.begin(path)
    if why := refusal(headers):
        own = _called(f.name for f in image.load(path).functions)
        return LockCalls({path: own} if own else {}, (), why)
    needed = libraries.closure(path)
    if what := libraries.sanitizer(needed):
        own = _called(image.imported(path))
        return LockCalls({path: own} if own else {}, needed.missing, f"it {what}")
    imports = {p: image.imported(p) for p in (path, *needed.objects)}
    found = {p: _called(names) for p, names in imports.items()}
    brings = any(
        _BRINGS.match(name)
        for p, names in imports.items()
        if not Path(p).name.startswith("libc.so")
        for name in names
    )
    calls = {p: names for p, names in found.items() if names}
    return LockCalls(calls, needed.missing, "", alone=not brings and not needed.missing)


def _called(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({match[2] for name in names if (match := _CALL.match(name))}))

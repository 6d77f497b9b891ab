"""Which objects of a program call pthread_rwlock_*: what `linewright run --locks` can replace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from linewright.elf import image, libraries

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
    found = {p: _called(image.imported(p)) for p in (path, *needed.objects)}
    return LockCalls({p: names for p, names in found.items() if names}, needed.missing, "")


def _called(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({match[2] for name in names if (match := _CALL.match(name))}))

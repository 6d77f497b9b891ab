"""Who takes a readers-writer lock, by the samples at its line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from linewright.elf.outline_helpers import is_helper
from linewright.find.sharing_schema import Site

MOSTLY = 4
"""So many times the writers' share of the samples, at least, where readers dominate."""
_READ, _WRITE = ("rdlock", "lock_shared"), ("wrlock",)

LockUse = Literal["", "readers", "writers", "both"]


def lock_use(sites: Sequence[Site]) -> LockUse:
    """Who takes the lock that the sites are of; empty where they name no readers-writer lock, or
    its unlock alone."""
    read, written = _share(sites, _READ), _share(sites, _WRITE)
    if not read and not written:
        return ""
    if read >= MOSTLY * written:
        return "readers"
    return "writers" if written >= read else "both"


def replaceable(sites: Sequence[Site]) -> bool:
    """Whether the lock is a shared C library's, so that another library can stand in for it."""
    return any(
        "pthread_rwlock" in used_in(s) and s.module.startswith(("libc.so", "libpthread"))
        for s in sites
    )


def _share(sites: Sequence[Site], names: Sequence[str]) -> float:
    return sum(s.share or s.accesses for s in sites if any(n in used_in(s) for n in names))


def used_in(site: Site) -> str:
    """The function that an access is of: of an outline helper (arm64) the one that called it, as
    glibc's locks do there."""
    return site.caller if is_helper(site.function) else site.function

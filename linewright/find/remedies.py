"""What to do about a line, by kind and by what its sites do, and the command that proves or prices it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from linewright.find.schema import Hot, Site

_COUNTING = ("lock add", "lock sub", "lock inc", "lock dec", "lock xadd", "ldadd", "stadd")
_READ_LOCKS = ("rdlock", "lock_shared")
_LOCKS = ("mutex_lock", "mutex_unlock", "wrlock", "rwlock_unlock", "spin_lock", "lll_lock")


def advised(lines: Sequence[Hot], command: Sequence[str], on: str = "local") -> list[Hot]:
    """The lines with a remedy and the next command, for the machine that the program ran `on`."""
    return [msgspec.structs.replace(h, remedy=_remedy(h), next_command=_next(h, command, on)) for h in lines]


def _remedy(hot: Hot) -> str:
    if hot.kind == "false" and hot.one_block:
        return (
            "Separate within the block: its fields or elements share the line (alignas(128) on them); trial --pad"
            " parts blocks only."
        )
    if hot.kind == "false":
        return (
            "Separate: give each thread's bytes a line of their own (alignas(128), or padding); nothing"
            " else has to change."
        )
    if hot.kind != "true":
        if hot.kind_128 in ("true", "false"):
            return "Nothing on 64-byte lines; alignas(128) where lines have 128 bytes or are fetched in pairs."
        return (
            "Nothing: it does not travel."
            if hot.kind == "alone"
            else "The source does not say which bytes are written: no remedy."
        )
    return _for_true_sharing(hot.sites) + _bystanders(hot) + (_POLICY if _switchable(hot) else "")


_POLICY = " Without another build: the form by LINEWRIGHT_ATOMICS, which the trial compares."


def _switchable(hot: Hot) -> bool:
    """Whether outline helpers (arm64) do it: the form of their operation can be set from outside."""
    return any(s.function.startswith("__aarch64_") for s in hot.sites)


def _bystanders(hot: Hot) -> str:
    """What to do for threads that use none of the bytes that others write: to them the line is falsely shared."""
    masks = {t.thread: sum(((1 << size) - 1) << at for at, size in t.bytes) for t in hot.touches}
    writers = {t.thread for t in hot.touches if t.writes}
    alone = [tid for tid, mask in masks.items() if not any(mask & masks[w] for w in writers - {tid})]
    if not alone or hot.threads > len(hot.touches):
        return ""
    one = len(alone) == 1
    return (
        f" Thread{'' if one else 's'} {' '.join(map(str, alone[:4]))}{' and others' if len(alone) > 4 else ''}"
        f" use{'s' if one else ''} other bytes only: move them to a line of their own."
    )


def _for_true_sharing(sites: Sequence[Site]) -> str:
    """Padding cannot help: several threads want the same bytes."""
    functions = " ".join(s.function for s in sites)
    if any(name in functions for name in _READ_LOCKS):
        return "Readers write the lock word. Read-mostly data: SRCU (<linewright/srcu.h>) readers touch no shared line."
    if any(name in functions for name in _LOCKS):
        return "The lock is the line: hold it less often or split it; batch what is done under it."
    if any(s.instruction.startswith(_COUNTING) for s in sites if s.access == "atomic"):
        return "Counting: a per-CPU counter (<linewright/percpu.h>) or batches per thread, summed up when read."
    if any(s.access == "atomic" for s in sites):
        return (
            "The same word is fought for: fewer operations on it, or another form (linewright measure shows what"
            " each costs contended)."
        )
    return "Written by one thread and read by others: write it less often, or let readers keep a copy."


def _next(hot: Hot, command: Sequence[str], on: str) -> str:
    where = "" if on == "local" else f" --on {shlex.quote(on)}"
    program = " ".join(map(shlex.quote, command)) if command else "PROGRAM …"
    if hot.kind == "false" and hot.allocated_in and not hot.one_block:
        return f"linewright trial{where} --pad {shlex.quote(hot.allocated_in)} -- {program}"
    if hot.kind == "false" and hot.object_kind == "heap" and not hot.allocated_in:
        return f"linewright find{where} --heap -- {program}"
    if hot.kind == "true" and _switchable(hot):
        return f"linewright trial{where} -- {program}"
    if hot.kind == "true" and any(s.access == "atomic" for s in hot.sites):
        return f"linewright measure{where}" + (" --plan percpu" if _remedy(hot).startswith("Counting") else "")
    return ""

"""What to do about a line, by kind and by what its sites do, and the command that proves or prices
it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from linewright.elf.outline_helpers import is_helper
from linewright.find.evidence import LINE
from linewright.find.notes import note
from linewright.find.results import APART, Hot, LineFacts, Site, bystanders, is_lock, used_in

_COUNTING = ("lock add", "lock sub", "lock inc", "lock dec", "lock xadd", "ldadd", "stadd")
_REFERENCES = ("_M_release", "_M_add_ref", "shared_ptr", "Arc<", "refcount", "intrusive_ptr")
MOSTLY = 4
"""So many times the writers' share of the samples, at least, where readers dominate."""
_READ, _WRITE = ("rdlock", "lock_shared"), ("wrlock",)

LockUse = Literal["", "readers", "writers", "both"]


def convention(lines: Sequence[Hot], on: str, apart: int | None) -> list[str]:
    """That the advised distance is a convention, where one is advised and none was measured."""
    if apart or not any("alignas" in h.remedy for h in lines):
        return []
    return [note("apart_usual", APART, f"linewright measure{place(on)} --plan spacing")]


_TEXTS = """
stays: Change nothing: one CPU at a time uses the line, so its operations would cost the same
  without sharing.
within: Separate the fields or elements within the block (alignas({apart}) on them); trial --pad
  separates whole blocks only.
false: Separate: give each thread's bytes a line of their own (alignas({apart}), or padding);
  nothing else has to change.
tasks: Separate: give what each task uses a line of its own (alignas({apart}), or padding); nothing
  else has to change.
pairs: Change nothing where lines have 64 bytes; alignas({apart}) where they have 128 or are fetched
  in pairs.
no_pairs: Change nothing: on this machine words {apart} bytes apart do not disturb each other.
in_pairs: Separate by alignas({apart}): on this machine words of neighbouring lines disturb each
  other.
alone: Change nothing: the line does not move between CPUs.
readers: Read under SRCU (<linewright/srcu.h>) what is rarely written, or take a lock whose readers
  write no shared line (<linewright/rwlock.h>): by the samples mostly readers take this lock, and
  each of them writes its word.
replaceable: Without a new build: linewright run --locks gives the program such locks; the trial
  says what that brings.
both: Hold the lock less often, or split it: by the samples readers and writers both take this
  readers-writer lock, and each writes its word.
writers: Hold the lock less often, or split it: by the samples writers take this readers-writer lock
  at least as often as readers, and a lock with cheaper readers would do nothing for them.
lock: Hold the lock less often, split it, or do more under it at a time: the line is the lock
  itself.
references: Hand the object on by reference or move, or give each thread one reference of its own:
  each new pointer changes the shared reference count.
waits: Let the waiting threads sleep (a futex, a condition variable) or look less often: they repeat
  a load until another thread stores, and each load takes the line from its writer.
numbers: Take several numbers at once per thread: the operation's old value is used (a ticket, a
  number, a length). Where it is not needed, count per CPU (<linewright/percpu.h>).
counting: Count per CPU (<linewright/percpu.h>) or in batches per thread, and sum up when reading.
fought: Do fewer operations on the word, or use another form: several threads write it (linewright
  measure shows what each form costs contended).
written: Write it less often, or let readers keep a copy: one thread writes it and others read it.
policy: Without a new build: choose the form by LINEWRIGHT_ATOMICS; the trial compares the forms.
"""
TEXTS = {
    key: " ".join(text.split())
    for key, text in re.findall(r"^(\w+): (.*(?:\n  .*)*)", _TEXTS, re.MULTILINE)
}
"""What to do, by what a line is."""


def remedy(hot: LineFacts, apart: int | None = None) -> str:
    """What to do; `apart`: how many bytes apart threads' words were measured to have to lie."""
    return _remedy(hot, apart).format(apart=apart or APART)


def _remedy(hot: LineFacts, apart: int | None) -> str:
    verdict = hot.verdict
    if verdict.stays or verdict.line_bytes == 128 or verdict.sharing in ("", "false"):
        return TEXTS[_without_true_sharing(hot, apart)]
    key = _for_true_sharing(hot.sites)
    more = [TEXTS["policy"]] if _switchable(hot) else []
    if key == "readers" and replaceable(hot.sites):
        more.append(TEXTS["replaceable"])
    return " ".join([TEXTS[key] + _bystanders(hot), *more])


def _without_true_sharing(hot: LineFacts, apart: int | None) -> str:
    if hot.verdict.stays:
        return "stays"
    if hot.verdict.line_bytes == 128:
        return "pairs" if apart is None else "no_pairs" if apart <= LINE else "in_pairs"
    if hot.verdict.sharing == "false":
        return "within" if hot.one_block else "tasks" if hot.tasks else "false"
    return "alone"


def _switchable(hot: LineFacts) -> bool:
    """Whether outline helpers (arm64) do it: the form of their operation can be set from
    outside."""
    return any(is_helper(s.function) for s in hot.sites)


def _bystanders(hot: LineFacts) -> str:
    """What to do for threads to which the line is falsely shared."""
    alone = bystanders(hot)
    if not alone:
        return ""
    one = len(alone) == 1
    return (
        f" Thread{'' if one else 's'} "
        f"{' '.join(map(str, alone[:4]))}{' and others' if len(alone) > 4 else ''}"
        f" use{'s' if one else ''} other bytes only: move them to a line of their own."
    )


def _for_true_sharing(sites: Sequence[Site]) -> str:
    """Padding cannot help: several threads want the same bytes."""
    functions = " ".join(map(used_in, sites))
    atomics = [s.instruction for s in sites if s.access == "atomic"]
    if use := lock_use(sites):
        return use
    if is_lock(sites):
        return "lock"
    if any(name in functions for name in _REFERENCES):
        return "references"
    if any(s.role == "waits" for s in sites[:2]):
        return "waits"
    if any(s.role == "old value" for s in sites):
        return "numbers"
    if any(instruction.startswith(_COUNTING) for instruction in atomics):
        return "counting"
    return "fought" if atomics else "written"


def place(on: str) -> str:
    """The words of a command line that name the target."""
    return "" if on == "local" else f" --on {shlex.quote(on)}"


def next_command(
    hot: LineFacts, command: Sequence[str], on: str = "local", heap: bool = False
) -> str:
    """The command that proves or prices the remedy, for the machine that the program ran `on`;
    `heap`: names of blocks were asked for already."""
    verdict = hot.verdict
    if verdict.stays or verdict.line_bytes == 128 or not verdict.sharing:
        return ""
    where = place(on)
    program = " ".join(map(shlex.quote, command)) if command else "PROGRAM …"
    if verdict.sharing == "false" and hot.allocated_in and not hot.one_block:
        return f"linewright trial{where} --pad {shlex.quote(hot.allocated_in)} -- {program}"
    if verdict.sharing == "false" and hot.object_kind == "heap" and not (hot.allocated_in or heap):
        return f"linewright find{where} --heap -- {program}"
    if verdict.sharing == "false":
        return ""
    if lock_use(hot.sites) == "readers" and replaceable(hot.sites):
        return f"linewright trial{where} --locks -- {program}"
    if _switchable(hot):
        return f"linewright trial{where} -- {program}"
    if any(s.access == "atomic" for s in hot.sites):
        return f"linewright measure{where}" + (
            " --plan percpu" if _for_true_sharing(hot.sites) == "counting" else ""
        )
    return ""


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

# SPDX-License-Identifier: MIT
"""What all that was seen of a line comes to, and what follows from it: the one place that decides.
Texts, the guard and prices ask it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from linewright.elf.outline_helpers import is_helper

if TYPE_CHECKING:
    from linewright.find.results import Hot, Site, Touch

SHARED = ("true", "false")
"""Kinds of lines that several threads use and one of them writes."""
SELDOM_AT_ONCE = 0.2
"""Of the time in which any of a line's threads ran, the part in which two of them did, below which
nothing follows from their not meeting: turns that a lock or a busy machine makes look the same."""
SEEN = 0.1
"""Of a line's samples or accesses, what a role takes at least to decide the remedy."""
MOSTLY = 4
"""So many times the writers' share of the samples, at least, where readers dominate."""
_LOCKS = (
    *("mutex_lock", "mutex_unlock", "spin_lock", "lll_lock", "sync.(*Mutex)", "sync.(*RWMutex)"),
    *("LWLock", "rwlock_unlock", "rdlock", "lock_shared", "wrlock", "GOMP_critical_"),
    *("mutex::futex::Mutex", "rwlock::futex::RwLock", "omp_set_lock", "omp_unset_lock"),
)
_LOCK_TYPES = re.compile(
    r"\bsync\.(RW)?Mutex\b|\bpthread_(mutex|rwlock|spinlock)_t\b|\bstd::\w*mutex\b|\b(Mutex|RwLock)<"
)
_EXCHANGES = ("lock cmpxchg", "cas")
_COUNTING = ("lock add", "lock sub", "lock inc", "lock dec", "lock xadd", "ldadd", "stadd")
_REFERENCES = re.compile(
    r"^<?(alloc::sync::(Arc|Weak)<|std::(__)?shared_ptr<|__gnu_cxx::__(exchange_and|atomic)_add)"
    r"|_M_release|_M_add_ref|refcount|intrusive_ptr"
)
"""Functions that count references; the two of libstdc++'s atomicity.h do nothing else."""
_REFERENCE_FIELDS = ("_M_use_count", "_M_weak_count", ".strong", ".weak", "ref_count", "refcount")
_READ = ("rdlock", "lock_shared", "sync.(*RWMutex).RLock", "RwLock>::read", "RwLock::read")
_WRITE = ("wrlock", "RwLock>::write", "RwLock::write")
_ONE_OPERATION = re.compile(
    r"^<?(std::(__)?atomic|core::(sync::atomic|intrinsics)|(sync|internal/runtime)/atomic\.)"
)
"""Functions that are one atomic operation: what it is for says who calls them."""
_RELEASES = re.compile("[uU]nlock|[rR]elease")
_HELD_UP = re.compile("lock_wait|lock_?[sS]low|_contended")
"""Of a lock's functions, those that give it up, and those in which a thread waits for it."""
_RUST = re.compile(r"^<?(std::sys|alloc::sync|core::sync)::|\.rs:\d+$")
_GO = re.compile(r"^(internal/)?sync\.\(\*|\.go:\d+$")

LockUse = Literal["", "readers", "writers", "both"]


class Verdict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of a line."""

    answer: Literal["moves", "by_turns", "one_cpu", "alone", "undecided", "not_seen"]
    """``moves``: CPUs use it at the same time; ``by_turns``: one CPU for a while, then another;
    ``one_cpu``: several threads, one CPU; ``alone``: no two threads share it; ``undecided``:
    shared, and not known whether it moves; ``not_seen``: shared, and the source does not say on
    which CPU."""
    because: Literal["", "samples", "seldom_at_once", "lock"] = ""
    """Why it is undecided: too few ``samples``; one CPU at a time used it, but its threads were
    ``seldom_at_once`` on any; or the turns are those of a ``lock``, which makes threads wait."""
    sharing: Literal["", "true", "false", "mixed", "lock"] = ""
    """How threads share it; empty where none do. ``mixed``: several want the same bytes, and others
    use other bytes only; ``lock``: truly, and the bytes are a lock."""
    line_bytes: Literal[64, 128] = 64
    """128: it is shared only where neighbouring lines of 64 bytes move together."""
    advice: tuple[str, ...] = ()
    """What to do, by the names of `line_words.ADVICE`."""
    next: Literal["", "pad", "heap", "locks", "forms", "measure", "measure_counters"] = ""
    """The kind of command that proves or prices it; empty where there is none."""

    @property
    def stays(self) -> bool:
        """One CPU at a time is shown to use it: there is no contention to end."""
        return self.answer in ("by_turns", "one_cpu")

    @property
    def travels(self) -> bool:
        """It may move between CPUs as a line of 64 bytes."""
        return self.line_bytes == 64 and self.answer in ("moves", "undecided", "not_seen")


def verdict_of(line: Hot) -> Verdict:
    """The verdict of all that was seen."""
    wide = line.kind not in SHARED and line.kind_128 in SHARED
    kind = line.kind_128 if wide else line.kind
    if kind not in SHARED:
        return Verdict(answer="alone", advice=("alone",))
    sharing, answer, because = kind, line.movement.answer if line.movement else "not_seen", ""
    if kind == "true" and not wide:
        mixed = bystanders(line.touches, line.threads)
        sharing = "lock" if is_lock(line) else "mixed" if mixed else "true"
    seldom = line.at_once is None or line.at_once < SELDOM_AT_ONCE
    if answer == "open":
        one_cpu = seldom and line.movement is not None and line.movement.cpus == 1
        answer, because = "undecided", "seldom_at_once" if one_cpu else "samples"
    elif answer in ("by_turns", "one_cpu"):
        held_up = not seldom or any(_HELD_UP.search(used_in(site)) for site in line.sites)
        because = "seldom_at_once" if seldom else ""
        because = "lock" if sharing == "lock" and held_up else because
        answer = "undecided" if because else answer
    advice, step = ("stays",), ""
    if answer not in ("by_turns", "one_cpu"):
        advice, step = (("pairs",), "") if wide else _followed(line, sharing)
    return Verdict(
        answer=answer,
        because=because,
        sharing=sharing,
        line_bytes=128 if wide else 64,
        advice=advice,
        next=step,
    )


def _followed(line: Hot, sharing: str) -> tuple[tuple[str, ...], str]:
    """What to do about a line that may travel, and what proves it."""
    if sharing == "false":
        block = line.objects[0] if line.objects else None
        if line.one_block:
            return ("within",), ""
        step = "" if block is None or block.kind != "heap" else "pad" if block.site else "heap"
        return ("tasks" if line.tasks else "false",), step
    key = _for_true_sharing(line)
    advice = (key, *(["beside"] if bystanders(line.touches, line.threads) else ()))
    if any(is_helper(s.function) for s in line.sites):
        advice, step = (*advice, "policy"), "forms"  # outline helpers: set from outside
    elif any(s.access == "atomic" for s in line.sites):
        step = "measure_counters" if key == "counting" else "measure"
    else:
        step = ""
    c_library = ("libc.so", "libpthread")  # shared, so that another library can stand in for it
    if key == "readers" and any(
        "pthread_rwlock" in used_in(s) and s.module.startswith(c_library) for s in line.sites
    ):
        return (*advice, "replaceable"), "locks"
    what = line.objects[0] if line.objects else None
    if what is not None and what.kind == "heap" and not what.site and not line.fields:
        return advice, "heap"  # what is shared has no name yet
    return advice, step


def _for_true_sharing(line: Hot) -> str:
    """Padding cannot help: several threads want the same bytes."""
    sites = line.sites
    all_ = sum(s.share or s.accesses for s in sites)
    often = [s for s in sites if (s.share or s.accesses) >= SEEN * all_]
    shares: Counter[str] = Counter()
    for s in sites:
        shares[s.role] += s.share or s.accesses  # that of a loop is in several instructions
    roles = {role for role, share in shares.items() if share >= SEEN * all_}
    atomics = [s.instruction for s in sites if s.access == "atomic"]
    if use := lock_use(sites):
        return use
    if is_lock(line):
        return "lock"
    counted = any(f.name.endswith(_REFERENCE_FIELDS) for f in line.fields)
    if atomics and (counted or any(_REFERENCES.search(used_in(site)) for site in sites)):
        return "references"
    if "zero" in roles:
        raised = any(s.access == "atomic" and s.role != "zero" for s in sites)
        return "counted_uses" if raised else "countdown"
    if roles & {"retries", "waits"}:  # a sequence lock's readers wait, too, while one writes
        return "retries" if any(s.role == "retries" for s in sites) else "waits"
    if any(s.instruction.startswith(_EXCHANGES) for s in often):
        return "fought"  # a lock's word, say: added to, and taken where it had a certain value
    one = line.member is not None and line.member.shown
    writers = line.member.writers if one else sum(t.writes for t in line.touches)
    if writers == 1:  # copies for each thread would end nothing
        return "written"
    if "old value" in roles:
        return "numbers"
    if any(instruction.startswith(_COUNTING) for instruction in atomics):
        return "counting"
    return "fought" if atomics else "several"


def bystanders(touches: Sequence[Touch], threads: int) -> list[int]:
    """Threads that use none of the bytes that others write: to them a truly shared line is falsely
    shared. None where not all `threads` are listed."""
    masks = {t.thread: sum(((1 << size) - 1) << at for at, size in t.bytes) for t in touches}
    writers = {t.thread for t in touches if t.writes}
    if threads > len(touches):
        return []
    return [
        tid
        for tid, mask in masks.items()
        if not any(
            mask & masks[other] for other in masks if other != tid and {tid, other} & writers
        )
    ]


def is_lock(line: Hot) -> bool:
    """Whether the functions that use it are a lock's, or the field that threads contend for is by
    its type, or its instructions are a spin lock's: an exchange takes it, and a load waits until
    that may succeed, or the exchange itself."""
    sites = line.sites
    waits = [site for site in sites if site.role == "waits"]
    taken = any(s.role == "takes" or s.instruction.startswith(_EXCHANGES) for s in sites)
    spins = bool(waits) and (taken or any(s.access == "atomic" for s in waits))
    named = any(name in used_in(site) for site in sites for name in _LOCKS)
    return spins or typed_lock(line) or named


def typed_lock(line: Hot) -> bool:
    """Whether the field that threads contend for is a lock by its type."""
    return line.member is not None and bool(_LOCK_TYPES.search(line.member.declared))


def lock_users(line: Hot) -> tuple[list[int], list[int]]:
    """Threads that are seen to have held a lock of the line, since they give it up, and to have
    waited for it."""
    found: dict[re.Pattern[str], dict[int, None]] = {_RELEASES: {}, _HELD_UP: {}}
    for site in line.sites if line.verdict.sharing == "lock" else ():
        if any(name in used_in(site) for name in _LOCKS):
            for function, threads in found.items():
                threads |= dict.fromkeys(site.threads if function.search(used_in(site)) else ())
    return list(found[_RELEASES]), list(found[_HELD_UP])


def own_language(line: Hot) -> Literal["", "rust", "go"]:
    """What a line's code is written in where that is not C or C++, by the field that threads
    contend for, the sources and the standard library's functions."""
    if line.member is not None:
        return line.member.language if line.member.language in ("rust", "go") else ""
    said = [text for s in line.sites for text in (s.source, s.function, *s.inlined)]
    return next((k for k, of in (("rust", _RUST), ("go", _GO)) if any(map(of.search, said))), "")


def waits_at(line: Hot) -> bool:
    """Whether threads wait there for what another one does, not only for the line itself."""
    waits = any(site.role in ("waits", "retries") for site in line.sites)
    return waits or line.verdict.sharing == "lock"


def lock_use(sites: Sequence[Site]) -> LockUse:
    """Who takes the lock that the sites are of; empty where they name no readers-writer lock, or
    its unlock alone."""
    read, written = _share(sites, _READ), _share(sites, _WRITE)
    if not read and not written:
        return ""
    if read >= MOSTLY * written:
        return "readers"
    return "writers" if written >= read else "both"


def _share(sites: Sequence[Site], names: Sequence[str]) -> float:
    return sum(s.share or s.accesses for s in sites if any(n in used_in(s) for n in names))


def used_in(site: Site) -> str:
    """The function that an access is of, by itself or inlined; of an outline helper (arm64) the one
    that called it, as glibc's locks do there."""
    alone = site.caller and not site.inlined and _ONE_OPERATION.match(site.function)
    if is_helper(site.function) or alone:
        return site.caller
    return next((f for f in site.inlined if not _ONE_OPERATION.match(f)), site.function)

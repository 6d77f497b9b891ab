"""What `linewright find` says of a run, whatever its source was: one JSON document, and the
reading of it from a file."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from linewright.elf.outline_helpers import is_helper
from linewright.errors import UserError
from linewright.find.stream import U64, AnyLine, Source
from linewright.records import bounded
from linewright.schema import Estimate, Interval

SHARED = ("true", "false")
"""Kinds of lines that several threads use and one of them writes."""
_LOCKS = (
    *("mutex_lock", "mutex_unlock", "spin_lock", "lll_lock"),
    *("rwlock_unlock", "rdlock", "lock_shared", "wrlock"),
)
_MARK = b'"linewright_find_result"'
_MOST_BYTES = 64 << 20
APART = 128

"""Bytes that what threads use is kept apart by where none were measured: the convention."""

Share = Annotated[float, Meta(ge=0, le=1)]

SharingKind = Literal["true", "false", "alone", "read"]

"""``true``: several threads on the same bytes, one of them at least writes; ``false``: on other
bytes of the line; ``alone``: one thread; ``read``: several threads, and no write was seen."""

Certainty = Literal["exact", "sampled", "watched"]

"""``exact``: every access of that run; ``sampled``: locked operations, decoded; ``watched``:
confirmed by watchpoints."""


class Site(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An instruction that touches the line."""

    instruction: str
    """Mnemonic, as Capstone writes it; empty where the source does not say."""
    module: str
    """File name without its folder; empty for code without a file."""
    function: str
    offset: U64
    """Address within the file's own address space; that of the process where there is no file."""
    source: str = ""
    """``file:line``, empty without debug information."""
    caller: str = ""
    """First function on the stack that is not of a system library, for a site that is."""
    access: Literal["read", "write", "atomic"]
    role: Literal["", "waits", "old value"] = ""
    """``waits``: a load that a short loop repeats until it reads something else; ``old value``: an
    atomic addition whose old value the code behind it uses."""
    share: Share
    """Of the program's samples."""
    accesses: U64 = 0
    """Exact source: how many."""
    movement: Movement | None = None
    """By the CPUs of its own samples: an instruction may use a line that others move on one CPU at
    a time."""


class Touch(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thread's bytes of the line."""

    thread: U64
    name: str
    bytes: list[tuple[int, int]]
    """Offset in the line and length."""
    writes: bool
    reads: bool


class FieldBytes(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A field of the object on the line, by the debug information of the code that uses it."""

    offset: int
    """In the line; below 0 where it begins before it."""
    bytes: U64
    name: str
    """``shard[2].s.hits``."""


class LayoutAdvice(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The type behind a falsely shared line, before and after each thread's fields get lines of
    their own."""

    type: str
    bytes_before: U64
    bytes_after: U64
    count: U64
    """Elements of the array."""
    aligned: list[str]
    """Fields that begin a line of their own; empty where the whole element does."""
    starts: list[U64] = []
    """Where they begin in an element."""
    offset: int = 0
    """In the line: where the object begins."""
    bytes_apart: U64 = APART
    """What threads' bytes are separated by."""

    def at(self, bytes_apart: int) -> LayoutAdvice:
        """The same with another distance."""
        ends = [0, *self.starts, self.bytes_before]
        after = sum(-(-(end - begin) // bytes_apart) * bytes_apart for begin, end in pairwise(ends))
        return msgspec.structs.replace(self, bytes_after=after, bytes_apart=bytes_apart)


class ThreadShare(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of its own time a thread spends at a line."""

    thread: U64
    name: str
    share: Estimate
    """Of the thread's own samples."""
    plain: Share
    """Of these, the part at plain accesses."""


class Movement(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether a line moves between CPUs, by those of neighbouring samples (movement.py)."""

    answer: Literal["moves", "by_turns", "one_cpu", "open"]
    """``moves``: CPUs use it at the same time; ``by_turns``: one CPU for a while, then another;
    ``one_cpu``: one CPU only; ``open``: too few samples to tell, or to tell contention from turns
    of a millisecond."""
    samples: U64
    cpus: U64
    changes: Estimate | None = None
    """Changes of CPU between neighbouring samples, over their number in random order; None where
    all samples are of one CPU."""
    close: Estimate | None = None
    """Pairs of samples of two CPUs less than `close_ns` apart, over their number if the CPUs used
    the line independently; None where there are too few pairs."""
    close_ns: U64 = 0


class Tasks(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whether the threads that use a line's bytes do so at one time, by neighbouring samples
    (moved_tasks.py)."""

    answer: Literal["tasks", "threads", "open"]
    """``tasks``: one thread after another, as where a runtime moves tasks between them that each
    have their own bytes; ``threads``: at one time; ``open``: too few samples to tell."""
    pairs: U64
    """Neighbouring samples of two threads."""
    ratio: Estimate
    """Those of them at which one thread writes what the other uses, over their number if each were
    any of its thread's uses."""
    within_ns: U64
    """How far apart they are at most: tasks that are moved more often look like ``threads``."""
    parts: list[list[tuple[int, int]]]
    """Bytes that code uses together, apart from others: offsets and lengths."""


class Ceiling(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an end of the contention could bring, at most. Of plain accesses it is an estimate
    (docs/results/find.md, "Ceilings", has what planted fixes gained beside it)."""

    gain: Estimate
    """Share of the CPU time of all threads, if every thread does the same work as before."""
    slowed_thread: U64 = 0
    most_slowed: Share = 0.0
    """The upper end for the thread that the line holds up most, of its own time: so much where that
    thread decides how long the program takes."""
    form: str = ""
    """Of the atomic operation with a price; empty where there is none. `biased_rwlock`: the gain is
    what a readers-writer lock whose readers write no shared line would save; `alone_ns` is then the
    cost of its readers, and `contended_ns` that of pthread_rwlock_t's, both beside a second CPU."""
    alone_ns: Interval | None = None
    contended_ns: Interval | None = None
    """Both reach over all launches; with n of them, that interval covers the median with a
    confidence of 1 - 2 / 2^n."""
    plain: Share = 0.0
    """Of the line's time, what is at plain accesses. They have no price: the gain's lower end does
    not count their time; its upper end counts all time of the functions that make them, since that
    is where their stalls surface."""


class Verdict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all that was seen of a line comes to."""

    answer: Literal["moves", "by_turns", "one_cpu", "alone", "undecided", "not_seen"]
    """``moves``: CPUs use it at the same time; ``by_turns``: one CPU for a while, then another;
    ``one_cpu``: several threads, one CPU; ``alone``: no two threads share it; ``undecided``:
    shared, and too few samples to tell whether it moves; ``not_seen``: shared, and the source does
    not say on which CPU."""
    sharing: Literal["", "true", "false", "mixed", "lock"] = ""
    """How threads share it; empty where none do. ``mixed``: several want the same bytes, and others
    use other bytes only; ``lock``: truly, and the bytes are a lock."""
    line_bytes: Literal[64, 128] = 64
    """128: it is shared only where neighbouring lines of 64 bytes move together."""

    @property
    def stays(self) -> bool:
        """One CPU at a time uses it: there is no contention to end."""
        return self.answer in ("by_turns", "one_cpu")

    @property
    def travels(self) -> bool:
        """It may move between CPUs as a line of 64 bytes."""
        return self.line_bytes == 64 and self.answer in ("moves", "undecided", "not_seen")


class LineFacts(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of the program, and what was seen of it."""

    address: U64
    pid: U64
    line_bytes: Literal[64, 128]
    kind: SharingKind
    kind_128: SharingKind
    """The same judged on 128 bytes: two neighbouring lines move together on some machines."""
    certainty: Certainty
    object: str
    """Variable and offset, heap block by the site that allocated it, stack, thread-local, or
    mapping."""
    object_kind: Literal[
        "static", "heap", "stack", "thread_local", "shared_mapping", "mapping", "unknown"
    ]
    allocated_in: str = ""
    """Of a heap block: the function that allocated it, as `linewright trial --pad` takes it."""
    one_block: bool = False
    """All bytes that are touched lie in one heap block: padding, which parts blocks, cannot part
    them."""
    share: Estimate | None
    """Of the program's samples; None where the source counts no time."""
    estimated: bool = False
    """The share counts samples within three instructions of plain accesses: other instructions may
    have taken some, and a stall that surfaces later is not counted."""
    reach: Estimate | None = None
    """The part of the samples in the functions that make its plain accesses, and their callers;
    None without such accesses."""
    lines: U64 = 1
    """How many lines this is: a table of which each line is met seldom, summed up."""
    movement: Movement | None = None
    """None where the source does not say on which CPU a sample was taken."""
    tasks: Tasks | None = None
    """Where several threads use the same bytes, and others too: if those are ``tasks``, the line is
    falsely shared by them."""
    fields: list[FieldBytes] = []
    """What lies on the line; empty where no debug information says."""
    advised: LayoutAdvice | None = None
    touches: list[Touch]
    threads: U64
    """All that touch it; `touches` lists the first ones."""
    slowed: list[ThreadShare] = []
    """The threads that samples at the line are of, as many as `touches` lists."""
    sites: list[Site]
    accesses: U64 = 0
    verdict: Verdict | None = None
    """What it comes to, always made of the rest: results of before 27 November 2026 have none."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "verdict", _verdict_of(self))


class Hot(LineFacts, frozen=True, kw_only=True):
    """One line with what follows from the facts: what its contention costs at most, and what to
    do."""

    ceiling: Ceiling | None = None
    remedy: str = ""
    next_command: str = ""


class HelperCall(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A place that an outline helper of arm64 is called from."""

    helper: str
    module: str
    function: str
    offset: U64
    """Of the call, in the module's own addresses."""
    source: str
    """``file:line``, empty without debug information."""
    count: U64
    """Atomic operations: calls, and where the helper runs an LL/SC loop its rounds."""


class Result(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one run found."""

    linewright_find_result: Literal[2]
    source: Source
    program: str
    arch: str
    seconds: float
    samples: U64
    lost: U64
    threads: U64
    lines: list[Hot]
    bytes_apart: U64 | None = None
    """How far apart threads' words have to lie, as plan ``spacing`` measured it on this machine;
    None where no record decides it, and the convention of 128 is advised."""
    alone: list[Hot]
    """Lines that one thread's atomics take time on: nothing travels, the operation itself costs."""
    helpers: list[HelperCall] = []
    """Of arm64 programs under the emulator: every call of an outline helper that was made, on
    whatever line, the most frequent first."""
    overhead: float | None
    """Estimated share of the program's time that finding took in its own threads."""
    beside_s: float | None = None
    """CPU time of sampler and command while the program ran, in seconds: it is the program's loss
    where all CPUs are in use.  None where it is not known."""
    blind: list[str]
    """What this source cannot see, always."""
    notes: list[str] = []
    exit_code: int | None = None
    document: dict[str, Any] = {}
    """What is said of it, as ``linewright_document`` of every command."""


def _verdict_of(line: LineFacts) -> Verdict:
    """The one place that decides."""
    wide = line.kind not in SHARED and line.kind_128 in SHARED
    kind = line.kind_128 if wide else line.kind
    if kind not in SHARED:
        return Verdict(answer="alone")
    sharing = kind
    if kind == "true" and not wide:
        sharing = "lock" if is_lock(line.sites) else "mixed" if bystanders(line) else "true"
    moves = line.movement.answer if line.movement else "not_seen"
    answer = "undecided" if moves == "open" else moves
    return Verdict(answer=answer, sharing=sharing, line_bytes=128 if wide else 64)


def bystanders(line: LineFacts) -> list[int]:
    """Threads that use none of the bytes that others write: to them a truly shared line is falsely
    shared. None where not all threads are listed."""
    masks = {t.thread: sum(((1 << size) - 1) << at for at, size in t.bytes) for t in line.touches}
    writers = {t.thread for t in line.touches if t.writes}
    if line.threads > len(line.touches):
        return []
    return [
        tid
        for tid, mask in masks.items()
        if not any(
            mask & masks[other] for other in masks if other != tid and {tid, other} & writers
        )
    ]


def is_lock(sites: Sequence[Site]) -> bool:
    """Whether the functions that use it are a lock's."""
    return any(name in used_in(site) for site in sites for name in _LOCKS)


def used_in(site: Site) -> str:
    """The function that an access is of: of an outline helper (arm64) the one that called it, as
    glibc's locks do there."""
    return site.caller if is_helper(site.function) else site.function


def schemas() -> dict[str, dict]:
    """JSON Schema of a stream's lines and of a result."""
    return {"find_line": msgspec.json.schema(AnyLine), "find": msgspec.json.schema(Result)}


def is_result(path: str) -> bool:
    """Whether a file begins as such a result does, of whatever version; an unreadable one is
    none."""
    try:
        with open(path, "rb") as file:
            return file.read(256).lstrip()[1:].lstrip().startswith(_MARK)
    except OSError:
        return False


def read(path: str) -> Result:
    """The result in a file. UserError for one that is damaged, of another version, or far too
    large."""
    expected = "expected what `linewright find --json` prints"
    data = bounded.read(path, _MOST_BYTES, expected)
    try:
        return msgspec.json.decode(data, type=Result)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UserError(f"no result of find: {error}", path, expected) from None

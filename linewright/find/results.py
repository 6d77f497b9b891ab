# SPDX-License-Identifier: MIT
"""What `linewright find` found in a run, whatever its source was, as data without words: one JSON
document, and the reading of it from a file."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from linewright.errors import UserError
from linewright.find.line_verdict import Verdict, verdict_of
from linewright.find.stream import U64, AnyLine, Source
from linewright.records import bounded
from linewright.schema import Estimate, Interval

_MARK = b'"linewright_find_result"'
_MOST_BYTES = 64 << 20
BIASED = "biased_rwlock"
"""The form of a ceiling that cheaper readers of a lock would bring."""
APART = 128
"""Bytes that what threads use is kept apart by where none were measured: the convention."""
FENCES = ("lock or", "lock add")
"""What compilers write a full fence as on x86, with 0 on the thread's own stack."""

GUARDED = 0.02
"""Share of the time that a new line may not take without being named: a run that could have missed
one cannot tell."""

Share = Annotated[float, Meta(ge=0, le=1)]

Role = Literal["", "waits", "retries", "old value", "takes", "zero"]
"""What an access is for: `Site.role` has what they mean."""
SharingKind = Literal["true", "false", "alone", "read"]
"""``true``: several threads on the same bytes, one of them at least writes; ``false``: on other
bytes of the line; ``alone``: one thread; ``read``: several threads, and no write was seen."""

Certainty = Literal["exact", "sampled", "watched"]
"""``exact``: every access of that run; ``sampled``: locked operations, decoded; ``watched``:
confirmed by watchpoints."""
ObjectKind = Literal[
    "static", "heap", "stack", "thread_local", "shared_mapping", "mapping", "unknown"
]


class Remark(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What must be known of a run before it is believed, or what a source cannot see."""

    kind: str
    """A name of `line_words.NOTES`."""
    values: list[str | int | float] = []
    """What the words have places for."""


def note(kind: str, *values: str | int | float) -> Remark:
    """One remark with its figures."""
    return Remark(kind=kind, values=list(values))


BLIND: dict[Source, tuple[Remark, ...]] = {
    "timer": (note("unmet_stores"), note("in_kernel"), note("rare")),
    "signal": (note("plain"), note("unsignalled"), note("in_kernel"), note("rare")),
    "exact": tuple(map(note, ("exact_time", "not_executed", "between_processes", "by_kernel"))),
}
"""What a source of evidence cannot see."""


def readable(name: str) -> str:
    """The name of a program as text: bytes of it that are no UTF-8 are shown as such."""
    return os.fsencode(name).decode("utf-8", "replace")


class CodeName(Struct, frozen=True, forbid_unknown_fields=True):
    """What an address of code is called."""

    module: str
    function: str
    source: str


class Object(Struct, frozen=True, forbid_unknown_fields=True):
    """What lies at an address: of every kind the parts that say which one it is."""

    kind: ObjectKind
    offset: U64 = 0
    """Of the address in it; of what has no name the address itself."""
    symbol: str = ""
    """The variable; empty where none is known there."""
    file: str = ""
    """The file's name, of static data, of a thread's copy of it, and of a shared mapping."""
    thread: U64 = 0
    size: U64 = 0
    """Bytes of a block or mapping."""
    start: U64 = 0
    """Where a variable or block begins."""
    allocator: CodeName | None = None
    """Of a block: the allocating call."""
    caller: CodeName | None = None
    """And the call of its function, where it is known."""
    site: str = ""
    """Of a block: the allocating function, as `linewright trial --pad` takes it."""
    allocated: tuple[U64, ...] = ()
    """Of a block: the return addresses of both calls."""


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
    inlined: list[str] = []
    """The functions that were inlined there, innermost first."""
    role: Role = ""
    """``waits``: a load, or an exchange, that a short loop repeats until it finds something else;
    ``retries``: a load that is repeated until what it read is of use: a sequence that no writer
    changed meanwhile, a cell whose turn has come; ``old value``: an atomic addition whose old value
    the code behind it uses; ``takes``: an exchange whose old value is used, as a spin lock's;
    ``zero``: an atomic subtraction after which something is done if zero is left."""
    share: Share
    """Of the program's samples."""
    accesses: U64 = 0
    """Exact source: how many."""
    movement: Movement | None = None
    """By the CPUs of its own samples: an instruction may use a line that others move on one CPU at
    a time."""
    threads: list[U64] = []
    """Of one line the threads with several samples there, those with most first."""


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
    share: Share = 0.0
    """Of the line's samples, or where every access is seen of its accesses."""


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
    bytes_apart: U64 = APART
    """What threads' bytes are separated by."""
    language: Literal["c", "c++", "rust", "go", ""] = ""
    """Of `members`; empty where they are not known."""
    members: list[str] = []
    """How these fields are declared; of a whole element its first one."""
    own_name: str = ""
    """The type's within its scope; empty where elements are no structure."""

    def at(self, bytes_apart: int) -> LayoutAdvice:
        """The same with another distance."""
        ends = [0, *self.starts, self.bytes_before]
        after = sum(-(-(end - begin) // bytes_apart) * bytes_apart for begin, end in pairwise(ends))
        return msgspec.structs.replace(self, bytes_after=after, bytes_apart=bytes_apart)


class ContendedMember(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The field that threads contend for, as it is written."""

    language: Literal["c", "c++", "rust", "go"]
    type: str
    """Of what it is in; empty where that is no structure."""
    name: str
    declared: str
    """Its declaration, with ``@`` in place of the name."""
    following: str = ""
    """That of the next member, where threads use others on this line, too."""
    shown: bool = True
    """That it is this one; False: one of several that threads share, and no use of the line that
    decides tells which."""
    writers: U64
    """Threads that write it, of those that were seen."""


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
    (movement.py)."""

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
    """What an end of the contention of the line's atomic operations could bring, at most. Plain
    accesses have no price (docs/results/find.md, "Ceilings", has what planted fixes gained)."""

    gain: Estimate
    """Share of the CPU time of all threads, if every thread does the same work as before: the upper
    end is all that the line's atomic operations take, and where threads wait for each other that
    waiting; value and lower end are at the prices."""
    slowed_thread: U64 = 0
    most_slowed: Share = 0.0
    """The upper end for the thread that the line holds up most, of its own time: so much where that
    thread decides how long the program takes."""
    form: str
    """Of the atomic operation. `BIASED`: the gain is what a readers-writer lock whose readers write
    no shared line would save; `alone_ns` is then the cost of its readers, and `contended_ns` that
    of pthread_rwlock_t's, both beside a second CPU."""
    alone_ns: Interval
    contended_ns: Interval
    """Both reach over all launches; with n of them, that interval covers the median with a
    confidence of 1 - 2 / 2^n."""
    plain: Share = 0.0
    """Of the line's time, what is at plain accesses and no part of the gain."""


class Hot(Struct, forbid_unknown_fields=True, kw_only=True):
    """One line of the program, what was seen of it and what that comes to."""

    address: U64
    pid: U64
    line_bytes: Literal[64, 128]
    kind: SharingKind
    kind_128: SharingKind
    """The same judged on 128 bytes: two neighbouring lines move together on some machines."""
    certainty: Certainty
    objects: list[Object]
    """What lies at the bytes that are used, in their order."""
    type: str = ""
    """Of a table of many objects: their type, where it is known."""
    used_fields: list[str] = []
    """And their fields that are used."""
    identity: list[str] = []
    """What it is called in every build, for the guard: of the variables, allocating functions or
    functions that use it, each with its kind."""
    one_block: bool = False
    """All bytes that are touched lie in one heap block: padding, which parts blocks, cannot part
    them."""
    share: Estimate | None
    """Of the program's samples; None where the source counts no time."""
    estimated: bool = False
    """The share counts samples within three instructions of plain accesses: other instructions may
    have taken some, and a stall that surfaces later is not counted."""
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
    member: ContendedMember | None = None
    """None where the debug information does not say, or where not two threads use it."""
    touches: list[Touch]
    threads: U64
    """All that touch it; `touches` lists the first ones."""
    slowed: list[ThreadShare] = []
    """The threads that samples at the line are of, as many as `touches` lists."""
    sites: list[Site]
    accesses: U64 = 0
    at_once: Share | None = None
    """Of the time in which any of its threads ran, the part in which two or more of them did, at
    least; None where no time is counted."""
    ceiling: Ceiling | None = None
    """What an end of its contention could bring: filled in when the prices are known."""
    verdict: Verdict | None = None
    """What it comes to, always made of the rest."""

    def __post_init__(self) -> None:
        self.verdict = verdict_of(self)


WaitAnswer = Literal["preempted", "turn", "asleep", "running", "handed", "undecided"]
"""What keeps the thread that has a word, or whose turn it is: it is ``preempted``; it is the one
that is next in a queue, and was preempted there (``turn``); it is
``asleep``, for something else; it is ``running``; or it is none, and the word is ``handed`` on."""


class Wait(Struct, forbid_unknown_fields=True, kw_only=True):
    """A word that threads wait for in a loop (waiting.py): of the samples there, the parts at
    which the thread that they wait for was away from its CPU or ran."""

    answer: WaitAnswer
    """What holds for most of these samples, whatever the unknown ones are."""
    samples: U64
    share: Estimate | None
    """Of the program's samples."""
    preempted: Share
    turn: Share = 0.0
    asleep: Share
    off: Share
    """It was one of several that were off their CPUs, preempted or asleep."""
    running: Share
    handed: Share
    open: Share
    """Not known."""
    what: Object | None = None
    where: CodeName | None = None
    """The load."""


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


class Unsure(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A line that no two threads were seen to use at one time, and that they may share for all that
    few samples, or watchpoints that never came to it, tell."""

    identity: list[str]
    """As a line's."""
    samples: U64
    """At its atomic operations, or near its plain accesses."""
    atomics: bool = False
    """Its operations are atomic, of which samples tell: many of one thread are that thread's."""


class Against(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a result compares with an earlier one, or with a program none of whose lines travels."""

    baseline: str = ""
    """The file; empty without one."""
    new: list[U64]
    """Places in `Result.lines` of those that are new."""
    least: Share = 0.0
    """Share of the time from which 999 of 1000 such runs call a new line new; 0 where every access
    is seen."""
    unsure: list[U64] = []
    """Places in `Result.unsure` of those that may be new and take much."""
    samples_wanted: U64 = 0
    """Samples that a run needs to name such a line; 0 where this one has them."""
    baseline_wanted: U64 = 0
    """The same of the baseline."""
    turns: Share = 1.0
    """How often the run's threads took turns, by its samples, over how often the baseline's did."""

    @property
    def tells(self) -> bool:
        """A new line that takes GUARDED of the time is named, or was."""
        return bool(self.new) or (self.least <= GUARDED and not self.unsure)


class Result(Struct, forbid_unknown_fields=True, kw_only=True):
    """What one run found."""

    linewright_find_result: Literal[3] = 3
    source: Source
    program: str
    arch: str
    seconds: float
    samples: U64
    lost: U64 = 0
    threads: U64
    lines: list[Hot]
    """All that are shared, those that may travel first, then by cost."""
    seldom: list[str] = []
    """Identities of lines that were met, and too seldom to tell whether threads share them."""
    unsure: list[Unsure] = []
    """Lines that no two threads were seen to use at one time."""
    turns: U64 = 0
    """Samples, in the order of time, that are of another thread than the one before."""
    met: list[str] | None = None
    """Identities of all lines that were met, also by one thread; None where every access is
    seen."""
    command: list[str] = []
    """The program as it was started; empty where it ran already."""
    on: str = "local"
    """The machine that it ran on."""
    heap: bool = False
    """Names of blocks were asked for."""
    bytes_apart: U64 | None = None
    """How far apart threads' words have to lie, as plan ``spacing`` measured it on this machine;
    None where no record decides it, and the convention of 128 is advised."""
    waits: list[Wait] = []
    """Where every CPU is sampled, the words that threads wait for in loops, by the time there."""
    alone: list[Hot] = []
    """Lines that one thread's atomics take time on: nothing travels, the operation itself costs."""
    helpers: list[HelperCall] = []
    """Of arm64 programs under the emulator: every call of an outline helper that was made, on
    whatever line, the most frequent first."""
    overhead: float | None = None
    """Estimated share of the program's time that finding took in its own threads."""
    beside_s: float | None = None
    """CPU time of sampler and command while the program ran, in seconds: it is the program's loss
    where all CPUs are in use.  None where it is not known."""
    blind: list[Remark]
    """What this source cannot see, always."""
    notes: list[Remark] = []
    """What limits this run."""
    against: Against | None = None
    exit_code: int | None = None
    """Of the program, 128 + N where signal N ended it; None where it did not end by itself."""
    document: dict[str, Any] = {}
    """What is said of it, as ``linewright_document`` of every command."""


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

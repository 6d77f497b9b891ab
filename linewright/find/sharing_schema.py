"""The one definition of what a source of samples writes and of what `linewright find` says; the C++
side is checked against it.

Addresses are those of the process; times are CLOCK_MONOTONIC in nanoseconds.  A stream is JSON
lines, each with its ``type``; a result is one JSON document whatever its source was."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from linewright.schema import Estimate, Interval

VERSION = 1
APART = 128
"""Bytes that what threads use is kept apart by where none were measured: the convention."""
U64 = Annotated[int, Meta(ge=0)]
"""An unsigned 64-bit number. msgspec cannot state the upper bound; the C++ side does."""
Share = Annotated[float, Meta(ge=0, le=1)]

Source = Literal["timer", "signal", "exact"]
"""``timer``: perf_event_open; ``signal``: the preloaded library; ``exact``: the emulator's
plugin."""
Arch = Literal["x86_64", "i386", "arm64"]
SharingKind = Literal["true", "false", "alone", "read"]
"""``true``: several threads on the same bytes, one of them at least writes; ``false``: on other
bytes of the line; ``alone``: one thread; ``read``: several threads, and no write was seen."""
Certainty = Literal["exact", "sampled", "watched"]
"""``exact``: every access of that run; ``sampled``: locked operations, decoded; ``watched``:
confirmed by watchpoints."""


class Line(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """What all lines of a stream have in common."""


class Start(Line, frozen=True, kw_only=True, tag="start"):
    """The first line: what is sampled, how."""

    linewright_find: Literal[1]
    source: Source
    arch: Arch
    scope: Literal["program", "tasks", "machine"]
    """``machine``: one event for each CPU, since there were too many threads for one event each."""
    pid: U64
    period_ns: U64
    """CPU time between samples of a thread; 0 where every access is seen."""
    kernel: bool
    """Samples inside the kernel are among the samples."""
    cpus: U64
    other_run: bool = False
    """Another probe, trial or sampler was running on this machine when this one began."""
    left_out: U64
    """Threads that are not sampled, for want of file descriptors."""
    sample_ns: U64 = 0
    hit_ns: U64 = 0
    arm_ns: U64 = 0
    watch_switch_ns: U64 = 0
    """What a sample, a watchpoint's hit, the setting of one and a change of tasks with one cost
    the program here, as far as the sampler could measure it at its start."""
    watch_wait_ns: U64 = 0
    """The same of each millisecond in which a watchpoint waits: some CPUs copy slower then."""
    measured: bool = False
    """False: some of them are assumed."""
    command: list[str]
    time_ns: U64


class Map(Line, frozen=True, kw_only=True, tag="map"):
    """A mapping that came into being, or that was there at the start."""

    time_ns: U64
    pid: U64
    start: U64
    length: U64
    offset: U64
    device: U64
    """Major number above 32 bits of minor number."""
    inode: U64
    path: str
    executable: bool
    writable: bool
    shared: bool


class Task(Line, frozen=True, kw_only=True, tag="task"):
    """A thread or process that was found, started, took a name, executed a program, or ended."""

    time_ns: U64
    event: Literal["found", "start", "name", "exec", "exit"]
    pid: U64
    tid: U64
    parent: U64 = 0
    """Parent process; of a thread, its own process."""
    name: str = ""


class Sample(Line, frozen=True, kw_only=True, tag="sample"):
    """One tick of a thread's CPU timer."""

    time_ns: U64
    pid: U64
    tid: U64
    ip: U64
    """The next instruction to run: the one before it is what took the time."""
    cpu: U64 | None = None
    """None where the source does not say."""
    kernel: bool = False
    bits: Literal[0, 32, 64] = 0
    registers: list[U64] = []
    """General registers by perf's numbers: x86-64 ax bx cx dx si di bp sp ip flags r8–r15; arm64
    x0–x30 sp pc."""
    chain: list[U64] = []
    """Stack by frame pointers, innermost first; where there are none, what stood in that
    register."""
    top: list[U64] = []
    """Words from the stack pointer on."""


class Tick(Line, frozen=True, kw_only=True, tag="tick"):
    """One tick of a CPU's timer while another program ran there, or none."""

    time_ns: U64
    cpu: U64


class Code(Line, frozen=True, kw_only=True, tag="code"):
    """A page of code as it lay in the process."""

    pid: U64
    address: U64
    bytes: str
    """Hexadecimal."""


class ThreadBlock(Line, frozen=True, kw_only=True, tag="thread"):
    """Where a thread's own data lie; not of every thread. A later line of a thread says more than
    an earlier one."""

    pid: U64
    tid: U64
    pointer: U64
    """The thread pointer: %fs, or tpidr_el0."""
    blocks: list[U64] = []
    """Its copy of each module's thread-local data, that of module 1 first; 0 for one that it has
    none of yet."""


class LinkMap(Line, frozen=True, kw_only=True, tag="module"):
    """A module that the dynamic linker has loaded, the program first: the first words of its own
    entry. glibc's symbols for debuggers say which of them is the module's number."""

    pid: U64
    path: str
    """Of the program, as its mappings have it; empty for libraries, whose dynamic section's address
    (word 2) leads to a mapping."""
    words: list[U64]
    """None of a statically linked program, whose number is 1."""


class Watch(Line, frozen=True, kw_only=True, tag="watch"):
    """What came of one watchpoint."""

    id: U64
    tid: U64
    address: U64
    length: U64
    reads: bool
    """Reads as well as writes were watched."""
    outcome: Literal["hit", "silent", "gone", "busy", "refused"]
    after_ns: U64
    ip: U64 = 0
    """The instruction after the access; 0, and no registers, where the kernel made it."""
    registers: list[U64] = []


class Access(Line, frozen=True, kw_only=True, tag="access"):
    """Exact source: one instruction's accesses to one line by one thread."""

    pid: U64
    tid: U64
    line: U64
    """Address divided by 64."""
    ip: U64
    """The accessing instruction itself."""
    caller: U64 = 0
    """The call instruction that the thread ran last before an atomic one: of an outline helper or a
    lock, its caller."""
    reads: U64
    writes: U64
    atomics: U64
    """Of the writes, those by an atomic instruction."""
    mask: U64
    """One bit for each byte of the line that was touched."""
    written: U64
    """The same, written."""
    first: U64
    """Window of the first access; a window is 2**20 accesses of the whole program long."""
    last: U64
    takeovers: U64
    """Accesses that took the line over from another thread, in the emulator's order."""


class Atomic(Line, frozen=True, kw_only=True, tag="atomic"):
    """Exact source, arm64: an atomic instruction, on whatever line, by the call that led there."""

    pid: U64
    ip: U64
    caller: U64
    """The call instruction that the thread ran last."""
    count: U64


class End(Line, frozen=True, kw_only=True, tag="end"):
    """The last line of a source that came to its end."""

    samples: U64
    kernel: U64 = 0
    lost: U64 = 0
    throttled: U64 = 0
    watch_hits: U64 = 0
    watch_armed: U64 = 0
    watch_cost_ns: U64 = 0
    sample_cost_ns: U64 = 0
    """Of all samples together, in the program's threads."""
    switches: U64 = 0
    switch_cost_ns: U64 = 0
    """Changes of tasks at which timers were set anew, and what that cost; none where every CPU is
    sampled."""
    cpu_ns: U64 = 0
    """CPU time of a program that was started, with that inside the kernel; 0 of a joined one."""
    own_cpu_ns: U64 = 0
    """CPU time of the sampler, beside the program."""
    elapsed_ns: U64 = 0
    ending: str = ""
    exit_code: U64 = 0


class Failure(Line, frozen=True, kw_only=True, tag="failure"):
    """Why there is nothing more: the request was wrong (2), the run broke off (3), or
    perf_event_open is refused (4)."""

    why: str
    code: Literal[2, 3, 4]


AnyLine = (
    Start
    | Map
    | Task
    | Sample
    | Tick
    | Code
    | ThreadBlock
    | LinkMap
    | Watch
    | Access
    | Atomic
    | End
    | Failure
)


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


class Hot(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of the program, and what is known of it."""

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
    ceiling: Ceiling | None = None
    remedy: str = ""
    next_command: str = ""

    @property
    def stays(self) -> bool:
        """Shown to be used by one CPU at a time: there is no contention to end."""
        return self.movement is not None and self.movement.answer in ("by_turns", "one_cpu")


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


def schemas() -> dict[str, dict]:
    """JSON Schema of a stream's lines and of a result."""
    return {"find_line": msgspec.json.schema(AnyLine), "find": msgspec.json.schema(Result)}

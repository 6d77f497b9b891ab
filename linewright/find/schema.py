"""The one definition of what a source of samples writes and of what `linewright find` says; the C++ side is checked
against it.

Addresses are those of the process; times are CLOCK_MONOTONIC in nanoseconds.  A stream is JSON lines, each with its
``type``; a result is one JSON document whatever its source was.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from linewright.schema import Estimate, Interval

VERSION = 1
U64 = Annotated[int, Meta(ge=0)]
"""An unsigned 64-bit number. msgspec cannot state the upper bound; the C++ side does."""
Share = Annotated[float, Meta(ge=0, le=1)]

Arch = Literal["x86_64", "i386", "arm64"]
Kind = Literal["true", "false", "alone", "read", "unknown"]
"""``true``: several threads on the same bytes, one of them at least writes; ``false``: on other bytes of the line;
``alone``: one thread; ``read``: several threads, and no write was seen; ``unknown``: it travels, and an imported text
does not say which bytes are written."""
Certainty = Literal["exact", "sampled", "watched", "imported"]
"""``exact``: every access of that run; ``sampled``: locked operations, decoded; ``watched``: confirmed by watchpoints;
``imported``: as another tool says."""


class Line(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """What all lines of a stream have in common."""


class Start(Line, frozen=True, kw_only=True, tag="start"):
    """The first line: what is sampled, how."""

    linewright_find: Literal[1]
    source: Literal["timer", "signal", "exact"]
    """``timer``: perf_event_open; ``signal``: the preloaded library; ``exact``: the emulator's plugin."""
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
    """What a sample, a watchpoint's hit and the setting of one cost here, as far as the sampler could measure it at its
    start."""
    measured: bool = False
    """False: some of the three are assumed."""
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
    cpu: U64 = 0
    kernel: bool = False
    bits: Literal[0, 32, 64] = 0
    registers: list[U64] = []
    """General registers by perf's numbers: x86-64 ax bx cx dx si di bp sp ip flags r8–r15; arm64 x0–x30 sp pc."""
    chain: list[U64] = []
    """Stack by frame pointers, innermost first; where there are none, what stood in that register."""
    top: list[U64] = []
    """Words from the stack pointer on."""


class Code(Line, frozen=True, kw_only=True, tag="code"):
    """A page of code as it lay in the process."""

    pid: U64
    address: U64
    bytes: str
    """Hexadecimal."""


class ThreadBlock(Line, frozen=True, kw_only=True, tag="thread"):
    """Where a thread's own data lie; not of every thread. A later line of a thread says more than an earlier one."""

    pid: U64
    tid: U64
    pointer: U64
    """The thread pointer: %fs, or tpidr_el0."""
    blocks: list[U64] = []
    """Its copy of each module's thread-local data, that of module 1 first; 0 for one that it has none of yet."""


class LinkMap(Line, frozen=True, kw_only=True, tag="module"):
    """A module that the dynamic linker has loaded, the program first: the first words of its own entry. glibc's
    symbols for
    debuggers say which of them is the module's number."""

    pid: U64
    path: str
    """Of the program, as its mappings have it; empty for libraries, whose dynamic section's address (word 2) leads to a
    mapping."""
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
    """The instruction after the access."""
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
    """The call instruction that the thread ran last before an atomic one: of an outline helper or a lock, its
    caller."""
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
    elapsed_ns: U64 = 0
    ending: str = ""
    exit_code: U64 = 0


class Failure(Line, frozen=True, kw_only=True, tag="failure"):
    """Why there is nothing more: the request was wrong (2), the run broke off (3), or perf_event_open is refused
    (4)."""

    why: str
    code: Literal[2, 3, 4]


AnyLine = Start | Map | Task | Sample | Code | ThreadBlock | LinkMap | Watch | Access | Atomic | End | Failure


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
    share: Share
    """Of the program's samples."""
    accesses: U64 = 0
    """Exact and imported sources: how many."""


class Touch(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One thread's bytes of the line."""

    thread: U64
    name: str
    bytes: list[tuple[int, int]]
    """Offset in the line and length."""
    writes: bool
    reads: bool


class Slowed(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of its own time a thread spends at a line."""

    thread: U64
    name: str
    share: Estimate
    """Of the thread's own samples."""
    plain: Share
    """Of these, the part at plain accesses."""


class Ceiling(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What an end of the contention could bring, at most."""

    gain: Estimate
    """Share of the CPU time of all threads, if every thread does the same work as before."""
    slowed_thread: U64 = 0
    most_slowed: Share = 0.0
    """The upper end for the thread that the line holds up most, of its own time: so much where that thread decides
    how long the
    program takes."""
    form: str
    alone_ns: Interval
    contended_ns: Interval
    """Both reach over all launches; with n of them, that interval covers the median with a confidence of 1 - 2 /
    2^n."""
    plain: Share = 0.0
    """Of the line's time, what is at plain accesses. They have no price: the gain's upper end counts their time in
    full, its lower end not at all."""


class Hot(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of the program, and what is known of it."""

    address: U64
    pid: U64
    line_bytes: Literal[64, 128]
    kind: Kind
    kind_128: Kind
    """The same judged on 128 bytes: two neighbouring lines move together on some machines."""
    certainty: Certainty
    object: str
    """Variable and offset, heap block by the site that allocated it, stack, thread-local, or mapping."""
    object_kind: Literal["static", "heap", "stack", "thread_local", "shared_mapping", "mapping", "unknown"]
    allocated_in: str = ""
    """Of a heap block: the function that allocated it, as `linewright trial --pad` takes it."""
    one_block: bool = False
    """All bytes that are touched lie in one heap block: padding, which parts blocks, cannot part them."""
    share: Estimate | None
    """Of the program's samples; None where the source counts no time."""
    at_most: bool = False
    """The share is an upper bound: samples near plain accesses, which other instructions may have taken."""
    touches: list[Touch]
    threads: U64
    """All that touch it; `touches` lists the first ones."""
    slowed: list[Slowed] = []
    """The threads that samples at the line are of, as many as `touches` lists."""
    sites: list[Site]
    accesses: U64 = 0
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
    source: str
    """``timer``, ``signal``, ``exact``, or the layout of an imported file."""
    program: str
    arch: str
    seconds: float
    samples: U64
    lost: U64
    threads: U64
    lines: list[Hot]
    alone: list[Hot]
    """Lines that one thread's atomics take time on: nothing travels, the operation itself costs."""
    helpers: list[HelperCall] = []
    """Of arm64 programs under the emulator: every call of an outline helper that was made, on whatever line, the most
    frequent first."""
    overhead: float | None
    """Estimated share of the program's time that finding took."""
    blind: list[str]
    """What this source cannot see, always."""
    notes: list[str] = []
    exit_code: int | None = None


def schemas() -> dict[str, dict]:
    """JSON Schema of a stream's lines and of a result."""
    return {"find_line": msgspec.json.schema(AnyLine), "find": msgspec.json.schema(Result)}

# SPDX-License-Identifier: MIT
"""The one definition of what a source of samples writes, and the reading of it: what a cut-off,
damaged or foreign stream comes to. The C++ side is checked against it.

Addresses are those of the process; times are CLOCK_MONOTONIC in nanoseconds.  A stream is JSON
lines, each with its ``type``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal, NoReturn

import msgspec
from msgspec import Meta, Struct

from linewright.errors import RunError, UserError

U64 = Annotated[int, Meta(ge=0)]

"""An unsigned 64-bit number. msgspec cannot state the upper bound; the C++ side does."""

Source = Literal["timer", "signal", "exact"]

"""``timer``: perf_event_open; ``signal``: the preloaded library; ``exact``: the emulator's
plugin."""

Arch = Literal["x86_64", "i386", "arm64"]


class Line(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """What all lines of a stream have in common."""


class SpaceLine(Line, frozen=True, kw_only=True):
    """A line that says something of address spaces."""


class Start(Line, frozen=True, kw_only=True, tag="start"):
    """The first line: what is sampled, how."""

    linewright_find: Literal[1]
    source: Source
    arch: Arch
    scope: Literal["program", "tasks", "machine"]
    """``machine``: one event for each CPU, where that is allowed; else events of the ``program``
    that was started, or of the ``tasks`` that ran already."""
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
    recorded_switch_ns: U64 = 0
    """What a sample, a watchpoint's hit, the setting of one, a change of tasks with one and one
    that is recorded (0 where none are) cost the program here, as far as the sampler could measure
    that at its start."""
    watch_wait_ns: U64 = 0
    """The same of each millisecond in which a watchpoint waits: some CPUs copy slower then."""
    measured: bool = False
    """False: some of them are assumed."""
    command: list[str]
    time_ns: U64


class Map(SpaceLine, frozen=True, kw_only=True, tag="map"):
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


class Task(SpaceLine, frozen=True, kw_only=True, tag="task"):
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


class Off(Line, frozen=True, kw_only=True, tag="off"):
    """A thread left its CPU; only where every CPU is sampled. One of those within 100 us."""

    time_ns: U64
    pid: U64
    tid: U64
    preempted: bool
    """It could have gone on: the kernel gave the CPU to another."""


class Code(SpaceLine, frozen=True, kw_only=True, tag="code"):
    """A page of code as it lay in the process."""

    pid: U64
    address: U64
    bytes: str
    """Hexadecimal."""


class ThreadBlock(SpaceLine, frozen=True, kw_only=True, tag="thread"):
    """Where a thread's own data lie; not of every thread. A later line of a thread says more than
    an earlier one."""

    pid: U64
    tid: U64
    pointer: U64
    """The thread pointer: %fs, or tpidr_el0."""
    blocks: list[U64] = []
    """Its copy of each module's thread-local data, that of module 1 first; 0 for one that it has
    none of yet."""


class LinkMap(SpaceLine, frozen=True, kw_only=True, tag="module"):
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
    bytes: U64
    """Of all reads and writes together."""
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
    switches_recorded: U64 = 0
    switch_cost_ns: U64 = 0
    """Changes of the program's tasks, and those that were recorded where every CPU is sampled; what
    it cost to set timers anew there, or to record and to look for events."""
    recorded_until_ns: U64 = 0
    """Until when all changes of tasks were recorded, where that ended for their number or the want
    of an event; 0: it did not end."""
    cpu_ns: U64 = 0
    """CPU time of a program that was started, with that inside the kernel; 0 of a joined one."""
    own_cpu_ns: U64 = 0
    """CPU time of the sampler, beside the program."""
    beside_ns: U64 = 0
    """CPU time of all programs of the machine but the sampler; 0 where it is not known."""
    elapsed_ns: U64 = 0
    ending: str = ""
    """``exit``, or the signal that ended the program; empty of a joined one."""
    exit_code: U64 = 0
    """128 + N of signal N."""
    stopped: bool = False
    """The sampler ended the program before its time."""


class Failure(Line, frozen=True, kw_only=True, tag="failure"):
    """Why there is nothing more: the request was wrong (2), the run broke off (3), or
    perf_event_open is refused (4)."""

    why: str
    code: Literal[2, 3, 4]


AnyLine = (Start | Map | Task | Sample | Tick | Off | Code | ThreadBlock | LinkMap | Watch
           | Access | Atomic | End | Failure)  # fmt: skip

LONGEST = 1 << 22
"""Bytes of one line; no source writes one that long."""


class StreamError(RunError):
    """A stream that no source of ours wrote, or that something wrote into; what came before it
    holds."""


class SamplingRefusal(RunError):
    """perf_event_open is not allowed here; the text names the setting."""


def fail(line: Failure) -> NoReturn:
    """Raise what a failure of the sampler means here."""
    if line.code == 2:
        raise UserError(
            line.why, "find", "allowed: a program that can be run, or --pid of a running process"
        )
    raise {4: SamplingRefusal}.get(line.code, RunError)(line.why)


_decoder = msgspec.json.Decoder(AnyLine)


def parse(line: bytes, number: int = 0) -> AnyLine:
    """One line, checked. StreamError for one that no source of ours writes."""
    if len(line) > LONGEST:
        raise StreamError(f"line {number} of the sampler is {len(line)} bytes long")
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise StreamError(f"line {number} of the sampler: {error}") from None


def read(lines: Iterable[bytes]) -> Iterator[AnyLine]:
    """Every whole line; a last one that a kill cut off is left out."""
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\n"):
            yield parse(line, number)

# SPDX-License-Identifier: MIT
"""A sampled run: reads the sampler's lines and asks for watchpoints meanwhile, judges what was
gathered, and completes the result with prices."""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import PurePath

from linewright.errors import RunError
from linewright.find import stream
from linewright.find.addresses import Addresses, HeapTable, Names, Stacks
from linewright.find.decode import POINTER, STACK_POINTER, Decoder
from linewright.find.evidence import Evidence, LineEvidence, collect, collect_near
from linewright.find.line_prices import Prices
from linewright.find.line_verdict import SELDOM_AT_ONCE
from linewright.find.mapped_files import Files
from linewright.find.movement import mark_task_bytes
from linewright.find.results import BLIND, Remark, Result, note, readable
from linewright.find.shared_lines import SharedLines
from linewright.find.space import PAGE, Spaces
from linewright.find.waiting import waits_of
from linewright.find.watching import Watcher
from linewright.numbers import at_most, percent

ASK_EVERY = 64
"""Samples between looks for lines to watch."""
FIRST_ASK = 100
"""Samples before the first look: what is hot is known by then."""
SHOW_EVERY_S = 0.5
AHEAD = 0.03
"""Share of one CPU's time, at most, that goes to decoding while the program runs: what is left of
thousands of places is decoded when it has ended, and delays the answer."""
FEW_CPUS = 0.75
"""CPUs left by other programs, less than which two threads can hardly run at once on."""


class SamplerOutput:
    """Everything that one run of the sampler said."""

    def __init__(self, start: stream.Start, files: Files) -> None:
        self.start, self.spaces = start, Spaces(files)
        if start.command:
            self.spaces.began_s = time.time() - 1
        self.lines = LineEvidence(self.spaces)
        self.decoder = Decoder(start.arch, self.spaces)
        self.stacks = Stacks(self.spaces)
        self.watcher = Watcher(self.spaces, self.decoder, self.lines)
        self.end: stream.End | None = None
        self.samples: list[stream.Sample] = []
        self.ticks: list[tuple[int, int]] = []
        """Time and CPU of every tick, where each CPU has one timer: the program's samples and those
        of whatever else ran."""
        self.offs: list[stream.Off] = []
        self.ended: dict[int, int] = {}
        """When threads left their CPUs, and when they ended."""
        self.places: set[tuple[int, int, int]] = set()
        """Process, address and bits of the code that was met."""
        self.waiting: deque[tuple[int, int, int]] = deque()
        """Of it what is not decoded yet, in order."""
        self._heard: dict[int, tuple[int, bool]] = {}
        """When each process was last heard of, and whether it went on then; CPUs' buffers are read
        one after another, so that an end may come before its beginning."""
        self.ahead_ns = self.reading_ns = 0
        """CPU time that went to decoding so far; and of this process, where it ran on the program's
        machine, until the stream's end."""
        self.ended_by: signal.Signals | None = None
        """The signal by which the user ended it before its time."""
        self.damaged = ""
        """Why the stream ends early, if it does."""

    @property
    def recorded_until_ns(self) -> int:
        """Until when every change of tasks was reported."""
        if self.end is None or self.end.lost:
            return 0
        return self.end.recorded_until_ns or self.start.time_ns + self.end.elapsed_ns

    @property
    def exit_code(self) -> int | None:
        """Of a program that ended by itself; 128 + N where signal N ended it."""
        by_itself = self.end is not None and self.end.ending and not self.end.stopped
        return self.end.exit_code if by_itself else None

    def left(self) -> int:
        """A process that goes on after the program's end, or 0."""
        went_on = (pid for pid, (_, there) in self._heard.items() if there)
        return next((pid for pid in went_on if pid != self.start.pid), 0)

    @property
    def failure(self) -> str:
        """How a program that ended by itself failed; empty where it did not."""
        if not self.exit_code:
            return ""
        return f"exit code {self.exit_code}" if self.end.ending == "exit" else self.end.ending

    def take(self, line: stream.AnyLine) -> list[str]:
        """Put a line where it belongs; returns what follows from it for the sampler to do."""
        match line:
            case stream.Sample():
                self.samples.append(line)
                self.spaces.process_of[line.tid] = line.pid
                if self.start.scope == "machine":
                    self.ticks.append((line.time_ns, line.cpu))
                self._add_pointer(line.pid, line.tid, line.registers)
                if not line.kernel and line.bits:
                    self.watcher.sample(line)
                    pointer = line.registers[STACK_POINTER[self.start.arch]]
                    self.stacks.sample(line.pid, line.tid, pointer)
                    self._decode_ahead(line)
            case stream.Tick():
                self.ticks.append((line.time_ns, line.cpu))
            case stream.Off():
                self.offs.append(line)
            case stream.SpaceLine():
                self.spaces.take(line)
                if isinstance(line, stream.Code):
                    self.decoder.forget(line.pid, line.address // PAGE)
                if isinstance(line, stream.Task):
                    if line.event == "exit":
                        self.ended[line.tid] = line.time_ns
                    if line.tid == line.pid:
                        said = line.time_ns, line.event != "exit"
                        self._heard[line.pid] = max(said, self._heard.get(line.pid, said))
            case stream.Watch():
                self._add_pointer(self.spaces.process_of.get(line.tid, 0), line.tid, line.registers)
                return self.watcher.outcome(line)
            case stream.End():
                self.end = line
            case stream.Failure():
                stream.fail(line)
            case _:
                raise stream.StreamError(
                    f"the sampler wrote a {type(line).__name__} line, which no live run has"
                )
        return []

    def _decode_ahead(self, sample: stream.Sample) -> None:
        """Decode the places that were met first, as far as time allows."""
        place = (sample.pid, sample.ip, sample.bits)
        if place not in self.places:
            self.places.add(place)
            self.waiting.append(place)
        allowed_ns = AHEAD * (sample.time_ns - self.start.time_ns)
        while self.waiting and self.ahead_ns < allowed_ns:
            began_ns, place = time.thread_time_ns(), self.waiting.popleft()
            if self.decoder.sure(*place) is None:
                self.decoder.close(*place)
            self.ahead_ns += time.thread_time_ns() - began_ns

    def _add_pointer(self, pid: int, tid: int, registers: list[int]) -> None:
        """The thread pointer behind the general registers, where the decoder expects it."""
        block = self.spaces.threads.get(pid, {}).get(tid)
        if block is not None and len(registers) == POINTER:
            registers.append(block.pointer)


def gather(
    lines: stream.Iterable[bytes],
    send=lambda request: None,
    watch: bool = True,
    files: Files | None = None,
    show: Callable[[SamplerOutput], None] = lambda gathered: None,
) -> SamplerOutput:
    """Read a stream to its end.  `send` gets requests for watchpoints as they become worth while,
    `show` now and then what there is."""
    parsed = stream.read(lines)
    first = next(parsed, None)
    if isinstance(first, stream.Failure):
        stream.fail(first)
    if not isinstance(first, stream.Start):
        raise RunError(
            "the sampler wrote nothing" if first is None else "the sampler's first line is no start"
        )
    gathered, next_s = SamplerOutput(first, files or Files()), 0.0
    try:
        for line in parsed:
            if time.monotonic() >= next_s:
                show(gathered)
                next_s = time.monotonic() + SHOW_EVERY_S
            for request in gathered.take(line):
                send(request)
            count = len(gathered.samples)
            if (
                watch
                and isinstance(line, stream.Sample)
                and count >= FIRST_ASK
                and count % ASK_EVERY == 0
            ):
                for request in gathered.watcher.requests():
                    send(request)
    except stream.StreamError as error:
        gathered.damaged = str(error)
    return gathered


def findings_of(
    gathered: SamplerOutput,
    program: str,
    heap: HeapTable | None = None,
    notes: Sequence[Remark] = (),
) -> Result:
    """Judge everything that a live run saw; `conclude` completes it."""
    gathered.samples.sort(key=lambda s: s.time_ns)
    gathered.spaces.store.look_anew()
    if heap is not None:
        gathered.lines.split_by_heap_block(heap.owners)
    collect(gathered.samples, gathered.decoder, gathered.lines)
    perhaps_shared = _perhaps_shared(gathered)
    mark_task_bytes(gathered.lines, gathered.decoder)
    addresses = Addresses(gathered.spaces, gathered.stacks, heap)
    start, end = gathered.start, gathered.end
    if heap is not None:
        gathered.lines.drop_unclear()
        gathered.lines.drop(lambda pid, address: heap.is_table(gathered.spaces.find(pid, address)))
    found = SharedLines(
        addresses,
        gathered.lines,
        gathered.decoder,
        gathered.samples,
        gathered.ticks,
        start.period_ns,
        perhaps_shared,
    )
    lines = found.shared()
    return Result(
        source=start.source,
        program=readable(PurePath(program).name),
        arch=start.arch,
        seconds=end.elapsed_ns / 1e9 if end else 0.0,
        samples=len(gathered.samples),
        lost=end.lost if end else 0,
        threads=len({s.tid for s in gathered.samples}),
        lines=lines,
        seldom=found.seldom_identities(),
        unsure=found.unsure(),
        turns=sum(one.tid != two.tid for one, two in pairwise(gathered.samples)),
        met=found.met(gathered.watcher.suspected()),
        waits=waits_of(gathered, addresses),
        alone=found.alone(),
        overhead=_overhead(gathered),
        beside_s=end and (end.own_cpu_ns + gathered.reading_ns) / 1e9,
        blind=[*BLIND[start.source], *_unknown_pointers(gathered)],
        notes=[
            *notes,
            *_notes(gathered, found.at_once()),
            *_unlisted(addresses.code, gathered),
            *addresses.code.untyped(),
        ],
        exit_code=gathered.exit_code,
    )


def _perhaps_shared(gathered: SamplerOutput) -> list[Evidence]:
    """Lines that watchpoints should have told of and did not, with the samples near their plain
    accesses."""
    counted = LineEvidence(gathered.spaces)
    for e in gathered.watcher.perhaps_shared():
        line = counted.at(e.pid, e.address)
        line.threads, line.sites = e.threads, Counter(e.sites)
    collect_near(gathered.samples, gathered.decoder, counted, set(counted.known))
    return list(counted.known.values())


def conclude(
    found: Result,
    command: Sequence[str] = (),
    on: str = "local",
    heap: bool = False,
    prices: Prices | None = None,
    notes: Sequence[Remark] = (),
) -> Result:
    """What was found, with each line's ceiling, and what commands that follow are made of: `on`
    names the machine, `heap`: names of blocks were asked for. `notes` are of the prices, or say why
    there are none."""
    near = None if prices is None else prices.distance
    for hot in found.lines:
        hot.ceiling = None if prices is None else prices.ceiling(hot, found.arch)
    found.command = list(map(readable, command))
    found.on, found.heap = readable(on), heap
    found.bytes_apart = near.needed if near else None
    measured = [note("apart_measured", near.needed, at_most(near.within))] if near else []
    found.notes = [*found.notes, *measured, *notes]
    return found


def _unlisted(names: Names, gathered: SamplerOutput) -> list[Remark]:
    """How code that was compiled at run time gets names; known when all is named."""
    kinds = {"java": "libjvm.so", "javascript": "node"}
    return [
        note(kind, pid)
        for kind, file in kinds.items()
        for pid in [p for p in sorted(names.unlisted) if gathered.spaces.has_file(p, file)][:1]
    ]


def _unknown_pointers(gathered: SamplerOutput) -> list[Remark]:
    """What follows from thread pointers that were not found."""
    threads = gathered.spaces.threads
    without = {
        s.tid for s in gathered.samples if not s.kernel and s.tid not in threads.get(s.pid, {})
    }
    arch = {"x86_64": ""}.get(gathered.start.arch, f"_{gathered.start.arch}")
    return [note(f"unknown_pointers{arch}", len(without))] if without else []


def _overhead(gathered: SamplerOutput) -> float | None:
    """What samples, watchpoints and timers that were set anew cost the program's threads, over the
    CPU time that the samples stand for or that the kernel counted."""
    end, period_ns = gathered.end, gathered.start.period_ns
    if end is None or not period_ns:
        return None
    busy_ns = max(len(gathered.samples) * period_ns, end.cpu_ns)
    cost_ns = end.sample_cost_ns + end.watch_cost_ns + end.switch_cost_ns
    return cost_ns / busy_ns if busy_ns else None


def _few_cpus(gathered: SamplerOutput) -> str:
    """How many other programs left, where those are few, and of how many; empty where they are not,
    or where the program may have used more CPU time than is known."""
    start, end = gathered.start, gathered.end
    if end is None or not end.beside_ns or start.left_out or gathered.left():
        return ""
    sampled_ns = (len(gathered.samples) + end.lost) * start.period_ns
    others_ns = end.beside_ns - max(end.cpu_ns, sampled_ns) - gathered.reading_ns
    left = start.cpus - others_ns / end.elapsed_ns
    return f"{max(0.0, left):.1f} of {start.cpus}" if left < FEW_CPUS else ""


def _notes(gathered: SamplerOutput, at_once: float | None) -> list[Remark]:
    """What the reader must know of this run before believing it; of the time in which threads ran,
    several did for the part `at_once`."""
    start, end, watcher = gathered.start, gathered.end, gathered.watcher
    by_timer, several = start.source == "timer", len({s.tid for s in gathered.samples}) > 1
    seldom = several and at_once is not None and at_once < SELDOM_AT_ONCE
    one_cpu = several and len({s.cpu for s in gathered.samples if s.cpu is not None}) == 1
    found = {
        "ended_by": gathered.ended_by and gathered.ended_by.name,
        "damaged": gathered.damaged,
        "failed": gathered.failure,
        "ending": end and end.stopped and end.ending,
        "went_on": end and end.ending and not end.stopped and gathered.left(),
        "left_out": start.left_out,
        "assumed_cost": by_timer and not start.measured,
        "lost": end and end.lost,
        "throttled": end and end.throttled,
        "refused": watcher.refused,
        "refused_all": watcher.refused and not watcher.answered,
        "unwatched": watcher.unwatched,
        "user_time": by_timer and not start.kernel,
        "other_run": start.other_run,
        "no_sample": not gathered.samples,
        "one_cpu": one_cpu,
        "few_cpus": seldom and not one_cpu and _few_cpus(gathered),
        "never_at_once": seldom and percent(at_once, False),
    }
    return [note(kind, *[value] * (value is not True)) for kind, value in found.items() if value]

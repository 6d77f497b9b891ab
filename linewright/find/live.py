# SPDX-License-Identifier: MIT
"""Reads the sampler's lines, asks for watchpoints, gives back everything for the judgement."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable

from linewright.errors import RunError
from linewright.find import stream
from linewright.find.addresses import Stacks
from linewright.find.decode import POINTER, STACK_POINTER, Decoder
from linewright.find.evidence import LineEvidence
from linewright.find.mapped_files import Files
from linewright.find.space import PAGE, Spaces
from linewright.find.watching import Watcher

ASK_EVERY = 64
"""Samples between looks for lines to watch."""
FIRST_ASK = 100
"""Samples before the first look: what is hot is known by then."""
SHOW_EVERY_S = 0.5
AHEAD = 0.03
"""Share of one CPU's time, at most, that goes to decoding while the program runs: what is left of
thousands of places is decoded when it has ended, and delays the answer."""


class SamplerOutput:
    """Everything that one run of the sampler said."""

    def __init__(self, start: stream.Start, files: Files) -> None:
        self.start, self.spaces = start, Spaces(files)
        if start.command:
            self.spaces.began_s = time.time() - 1
        self.lines = LineEvidence(self.spaces)
        self.decoder = Decoder(start.arch, self.spaces)
        self.stacks = Stacks(self.spaces, STACK_POINTER[start.arch])
        self.watcher = Watcher(self.spaces, self.decoder, self.lines, start.arch)
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
        self.damaged, self.lost = "", False
        """Why the stream ends early, if it does, and whether a lost connection is the reason."""

    @property
    def tasks_told_ns(self) -> int:
        """Until when every change of tasks was reported."""
        if self.end is None or self.end.lost:
            return 0
        return self.end.tasks_told_ns or self.start.time_ns + self.end.elapsed_ns

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
                if self.start.scope == "machine":
                    self.ticks.append((line.time_ns, line.cpu))
                self._add_pointer(line.pid, line.tid, line.registers)
                if not line.kernel and line.bits:
                    self.watcher.sample(line)
                    self.stacks.sample(line.pid, line.tid, line.registers)
                    self._decode_ahead(line)
                self.spaces.process_of[line.tid] = line.pid
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

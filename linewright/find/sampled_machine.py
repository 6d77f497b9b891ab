# SPDX-License-Identifier: MIT
"""The machine that `linewright find` samples a program on: this one, or another over ssh or behind
a command; and the sampler that runs there. What reads and judges its lines is imported when it has
started, and measures what it costs: that takes as long. The program begins when both are ready."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

from linewright.errors import LinewrightError
from linewright.find.results import note
from linewright.run import probe_questions, programs
from linewright.run.place import LOST, open_place
from linewright.run.process import Interrupts, end, start
from linewright.run.programs import find_preload, finder
from linewright.units import duration_text

if TYPE_CHECKING:
    from linewright.find.addresses import HeapTable
    from linewright.find.mapped_files import Files
    from linewright.find.sources import SamplerOutput
    from linewright.find.space import Spaces

find_sampler = finder("linewright-find", "find")


class SamplerPlace:
    """Where the program is, the sampler, and what the sampler loads into it; ends with `close`.

    The program prints to `output`, without one to our standard output."""

    def __init__(
        self,
        on: str,
        output: TextIO | None = None,
        show: Callable[[SamplerOutput], None] = lambda gathered: None,
    ) -> None:
        self.on, self._output, self._show, self._stack = on, output, show, ExitStack()
        self._place = open_place(on)
        self._stack.callback(self._place.close)
        try:
            self._sampler = self._place.put(find_sampler)
            if self._place.far:
                folder = tempfile.TemporaryDirectory(prefix="linewright-find-")
                self._local = self._stack.enter_context(folder)
        except BaseException:
            self.close()
            raise

    @cached_property
    def cpus(self) -> int:
        """How many there are."""
        if not self._place.far:
            return os.cpu_count() or 1
        return len(probe_questions.read_topology(self._place.answer("--topology")).cpus)

    @cached_property
    def files(self) -> Files:
        """The files that programs there have mapped."""
        from linewright.find.mapped_files import Files, RemoteFiles

        return RemoteFiles(self._place.look, self._local) if self._place.far else Files()

    @cached_property
    def cpu_model(self) -> str:
        """By the name that records have."""
        return probe_questions.read_context(self._place.answer("--context")).cpu_model

    @property
    def environment(self) -> Mapping[str, str]:
        """Of programs there, as far as it is known."""
        return {} if self._place.far else os.environ

    def run(self, arguments: Sequence[str], program: Sequence[str], watch: bool) -> SamplerOutput:
        """Run the sampler, and that the program with our standard output (or another one) and
        error: here with our input too, elsewhere with an empty one."""
        place, words = self._place, [*arguments, *(["--", *program] if program else [])]
        talk = self._talk_there if place.far else self._talk_here
        with Interrupts() as interrupts, ExitStack() as stack:
            process, lines, send = talk(words, stack)
            stack.enter_context(interrupts.answered_by(send.stop))
            began_ns = time.process_time_ns()
            try:
                import_module("linewright.find.result_document")
                from linewright.find import sources

                if not place.far:  # the probe here takes 0.1 s to answer
                    threading.Thread(target=self._ask_ahead, daemon=True).start()
                known = self.files
                send("\n")  # the sampler waits for a request
                gathered = sources.gather(lines, send, watch, known, self._show)
                gathered.reading_ns = 0 if place.far else time.process_time_ns() - began_ns
                gathered.ended_by = interrupts.caught
            finally:
                send.close()  # a sampler that is still there ends for it, or as no reader is left
                lines.close()
                code = process.wait()
        if gathered.end is None:
            lost = place.far and code == LOST
            there = " there" if place.far else ""
            gathered.damaged = (
                gathered.damaged
                or (lost and place.link.lost)
                or f"the sampler{there} ended with {code} before its last line"
            )
        return gathered

    def _talk_here(self, words: Sequence[str], stack: ExitStack) -> _Talk:
        receive, to = os.pipe()
        commands, send = os.pipe()
        given = [self._sampler, "--to", str(to), "--commands", str(commands), *words]
        process = subprocess.Popen(given, pass_fds=(to, commands), stdout=self._output)
        os.close(to)
        os.close(commands)
        return process, stack.enter_context(os.fdopen(receive, "rb")), _Sender(send)

    def _talk_there(self, words: Sequence[str], stack: ExitStack) -> _Talk:
        """Lines and requests have pipes of their own there, since the program has the standard
        streams."""
        place = self._place
        lines, commands = (shlex.quote(f"{place.folder}/{name}") for name in ("lines", "commands"))
        place.look(f"rm -f {lines} {commands} && mkfifo {lines} {commands}")
        line = shlex.join([self._sampler, "--to", "4", "--commands", "5", *words])
        to = f"{line} </dev/null 4>{lines} 5<>{commands}"
        held = place.run_until_input_closes(to, to=commands)
        process = start(held, own_session=True, stdout=self._output, stderr=None)
        reading = place.shell(f"exec cat {lines}")
        reader = start(reading, own_session=True, stdin=subprocess.DEVNULL, stderr=None)
        stack.callback(end, reader)
        send = _Sender(os.dup(process.stdin.fileno()))
        process.stdin.close()
        return process, reader.stdout, send

    def _ask_ahead(self) -> None:
        with suppress(LinewrightError):  # which is said where the answer is wanted
            self._place.answer("--context")

    def library(self, part: str) -> str:
        """The path there of a library that is loaded into programs."""
        path = self._place.put(lambda arch: find_preload(part, arch))
        programs.check(path, "TMPDIR there" if self._place.far else "find")
        return path if self._place.far else programs.name_of(Path(path))

    def refuse_sanitizer(self, program: str, where: str) -> None:
        """Refuse a program here that no library can be loaded into before its own."""
        if not self._place.far:
            programs.refuse_sanitizer(shutil.which(program) or program, where)

    def rings(self) -> str:
        """An empty folder there for the rings of the fall-back."""
        return self._make("rings", "mkdir -p rings")

    def table(self) -> str:
        """An empty table there for heap blocks."""
        from linewright.find import addresses

        if not self._place.far:
            return self._stack.enter_context(addresses.empty_table())
        return self._make(
            "heap", f"dd if=/dev/null of=heap bs=1 count=0 seek={addresses.HEAP_BYTES} 2>/dev/null"
        )

    def _make(self, name: str, script: str) -> str:
        self._place.look(f"cd {shlex.quote(self._place.folder)} && {script}")
        return f"{self._place.folder}/{name}"

    def blocks(self, table: str, spaces: Spaces) -> HeapTable:
        """What stands in the table at the end."""
        from linewright.find import addresses

        copy = str(Path(self._local, "heap")) if self._place.far else table
        found = addresses.HeapTable(copy, spaces, mapped=table)
        try:
            if self._place.far:
                Path(copy).write_bytes(self._place.fetch(table))
            found.read()
        except LinewrightError as error:
            found.notes.append(note("unread", str(error)))
        return found

    def held_back_s(self, pid: int | None) -> float:
        """How long CPU quotas have kept a process's threads, or ours, from their CPUs so far."""
        return self._place.quota(pid).held_back_s

    def name_of(self, pid: int) -> str:
        """What a process is called, with its number."""
        with suppress(LinewrightError):
            said = self._place.look(f"cat /proc/{pid}/comm").decode("utf-8", "replace").strip()
            return f"{said} ({pid})" if said else f"process {pid}"
        return f"process {pid}"

    def close(self) -> None:
        self._stack.close()


class _Sender:
    """Writes requests without ever holding up the reading: the sampler reads them when it can."""

    def __init__(self, fd: int) -> None:
        self._file = os.fdopen(fd, "wb", buffering=0)
        os.set_blocking(fd, False)
        self._left = b""

    def __call__(self, request: str) -> None:
        self._left += request.encode()
        try:
            written = self._file.write(self._left)
            self._left = self._left[written or 0 :]
        except (BlockingIOError, BrokenPipeError, ValueError):
            return

    def stop(self) -> None:
        """Ask for the end, from a signal's handler: requests that are not sent yet go, one that was
        cut off is none, and what does not fit now goes with the next ones."""
        self._left = b"\nstop\n"
        self("")

    def close(self) -> None:
        self._file.close()


_Talk = tuple[subprocess.Popen, BinaryIO, _Sender]
"""The sampler, the lines that it writes, and what takes requests to it."""


class SamplingProgress(ExitStack):
    """Time and samples so far, shown while it is entered, on standard error if that is a terminal:
    of a process that runs already one redrawn line, of a program that is started, which may print
    there too, a line every few seconds."""

    def __init__(
        self, started: bool, seconds: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._started, self._seconds, self._clock = started, seconds, clock
        self._began, self._display, self._text = clock(), None, ""

    def show(self, gathered: SamplerOutput) -> None:
        """What there is; the display is imported when the sampler is at work, which is not to wait
        for it."""
        if not sys.stderr.isatty():
            return
        if self._display is None:
            self._began = self._clock()
            from linewright.show import progress

            lines = progress.ProgressLines(self)
            self._display = self.enter_context(lines if self._started else progress.fitting(self))
        self._display.show(gathered)

    def take(self, gathered: SamplerOutput) -> None:
        """A step of the meter that the display asks."""
        of = f" of {duration_text(self._seconds)}" if self._seconds else ""
        self._text = (
            f"sampling: {duration_text(self.elapsed_s)}{of}, {len(gathered.samples):,} samples"
        )

    @property
    def share(self) -> float:
        return min(1.0, self.elapsed_s / self._seconds) if self._seconds else 0.0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

    def text(self) -> str:
        return self._text

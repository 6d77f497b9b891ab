"""Runs the sampler on a program or process, here or elsewhere. What reads and judges its lines is
imported when it has started, and measures what it costs: that takes as long. The program begins
when both are ready."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, TextIO

from linewright.run.interrupts import Interrupts
from linewright.run.place import LOST, Place
from linewright.run.process import end, start

if TYPE_CHECKING:
    from linewright.find.live import SamplerOutput
    from linewright.find.mapped_files import Files


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


def run(
    place: Place,
    sampler: str,
    arguments: Sequence[str],
    program: Sequence[str],
    watch: bool,
    files: Callable[[], Files],
    output: TextIO | None = None,
) -> SamplerOutput:
    """Run the sampler at a place, and that the program with our standard output (or another one)
    and error: here with our input too, elsewhere with an empty one."""
    words = [*arguments, *(["--", *program] if program else [])]
    talk = _talk_there if place.far else _talk_here
    with Interrupts() as interrupts, ExitStack() as stack:
        process, lines, send = talk(place, sampler, words, stack, output)
        stack.enter_context(interrupts.answered_by(send.stop))
        began_ns = time.process_time_ns()
        try:
            for room in ("sources", "line_prices", "remedies", "result_document"):
                import_module(f"linewright.find.{room}")
            from linewright.find import live

            known = files()
            send("\n")  # the sampler waits for a request
            gathered = live.gather(lines, send, watch, known)
            gathered.reading_ns = 0 if place.far else time.process_time_ns() - began_ns
            gathered.ended_by = interrupts.caught
        finally:
            send.close()  # a sampler that is still there ends for it
            code = process.wait()
    if gathered.end is None:
        gathered.lost = place.far and code == LOST
        there = " there" if place.far else ""
        gathered.damaged = (
            gathered.damaged
            or (gathered.lost and place.link.lost)
            or f"the sampler{there} ended with {code} before its last line"
        )
    return gathered


_Talk = tuple[subprocess.Popen, BinaryIO, _Sender]
"""The sampler, the lines that it writes, and what takes requests to it."""


def _talk_here(
    place: Place, sampler: str, words: Sequence[str], stack: ExitStack, output: TextIO | None
) -> _Talk:
    receive, to = os.pipe()
    commands, send = os.pipe()
    given = [sampler, "--to", str(to), "--commands", str(commands), *words]
    process = subprocess.Popen(given, pass_fds=(to, commands), stdout=output)
    os.close(to)
    os.close(commands)
    return process, stack.enter_context(os.fdopen(receive, "rb")), _Sender(send)


def _talk_there(
    place: Place, sampler: str, words: Sequence[str], stack: ExitStack, output: TextIO | None
) -> _Talk:
    """Lines and requests have pipes of their own there, since the program has the standard
    streams."""
    lines, commands = (shlex.quote(f"{place.folder}/{name}") for name in ("lines", "commands"))
    place.look(f"rm -f {lines} {commands} && mkfifo {lines} {commands}")
    line = shlex.join([sampler, "--to", "4", "--commands", "5", *words])
    held = place.run_until_input_closes(f"{line} </dev/null 4>{lines} 5<>{commands}", to=commands)
    process = start(held, own_session=True, stdout=output, stderr=None)
    reader = start(
        place.shell(f"exec cat {lines}"), own_session=True, stdin=subprocess.DEVNULL, stderr=None
    )
    stack.callback(end, reader)
    send = _Sender(os.dup(process.stdin.fileno()))
    process.stdin.close()
    return process, reader.stdout, send

"""Runs the sampler on a program or process: reads its lines, asks for watchpoints, gives back everything for the
judgement."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from linewright.errors import RunError, UserError
from linewright.find import stream
from linewright.find.decode import POINTER, STACK_POINTER, Decoder
from linewright.find.evidence import Lines
from linewright.find.files import Files
from linewright.find.objects import Stacks
from linewright.find.schema import AnyLine, Code, End, Failure, LinkMap, Map, Sample, Start, Task, ThreadBlock, Watch
from linewright.find.space import Spaces
from linewright.find.stream import Damaged
from linewright.find.watching import Watcher
from linewright.target.local import LOST
from linewright.target.process import die_with_parent, end
from linewright.target.remote.place import Copied

ASK_EVERY = 64
"""Samples between looks for lines to watch."""
FIRST_ASK = 100
"""Samples before the first look: what is hot is known by then."""


class Refused(RunError):
    """perf_event_open is not allowed here; the text names the setting."""


def fail(line: Failure) -> None:
    """Raise what a failure of the sampler means here."""
    if line.code == 2:
        raise UserError(line.why, "find", "allowed: a program that can be run, or --pid of a running process")
    raise {4: Refused}.get(line.code, RunError)(line.why)


@dataclass
class Gathered:
    """Everything that one run of the sampler said."""

    start: Start
    files: Files = field(default_factory=Files)
    end: End | None = None
    spaces: Spaces = field(init=False)
    samples: list[Sample] = field(default_factory=list)
    lines: Lines = field(init=False)
    decoder: Decoder = field(init=False)
    stacks: Stacks = field(init=False)
    watcher: Watcher = field(init=False)
    damaged: str = ""
    """Why the stream ends early; empty where it does not."""
    lost: bool = False
    """It ends early because the connection to the machine was lost."""

    def __post_init__(self) -> None:
        self.spaces = Spaces(self.files)
        self.lines = Lines(self.spaces)
        self.decoder = Decoder(self.start.arch, self.spaces)
        self.stacks = Stacks(self.spaces, STACK_POINTER[self.start.arch])
        self.watcher = Watcher(self.spaces, self.decoder, self.lines, self.start.arch)

    def take(self, line: AnyLine) -> list[str]:
        """Put a line where it belongs; returns what follows from it for the sampler to do."""
        match line:
            case Sample():
                self.samples.append(line)
                self._add_pointer(line.pid, line.tid, line.registers)
                if not line.kernel and line.bits:
                    self.watcher.sample(line)
                    self.stacks.sample(line.pid, line.tid, line.registers)
                self.spaces.process_of[line.tid] = line.pid
            case Map():
                self.spaces.mapping(line)
            case Task():
                self.spaces.task(line)
            case Code():
                self.spaces.code(line)
            case ThreadBlock():
                self.spaces.threads[line.pid][line.tid] = line
            case LinkMap():
                self.spaces.modules[line.pid].append(line)
            case Watch():
                self._add_pointer(self.spaces.process_of.get(line.tid, 0), line.tid, line.registers)
                return self.watcher.outcome(line)
            case End():
                self.end = line
            case Failure():
                fail(line)
            case _:
                raise Damaged(f"the sampler wrote a {type(line).__name__} line, which no live run has")
        return []

    def _add_pointer(self, pid: int, tid: int, registers: list[int]) -> None:
        """The thread pointer behind the general registers, where the decoder expects it."""
        block = self.spaces.threads.get(pid, {}).get(tid)
        if block is not None and len(registers) == POINTER:
            registers.append(block.pointer)


def gather(
    lines: stream.Iterable[bytes], send=lambda request: None, watch: bool = True, files: Files | None = None
) -> Gathered:
    """Read a stream to its end.  `send` gets requests for watchpoints as they become worth while."""
    parsed = stream.read(lines)
    first = next(parsed, None)
    if isinstance(first, Failure):
        fail(first)
    if not isinstance(first, Start):
        raise RunError("the sampler wrote nothing" if first is None else "the sampler's first line is no start")
    gathered = Gathered(first, files or Files())
    try:
        for line in parsed:
            for request in gathered.take(line):
                send(request)
            count = len(gathered.samples)
            if watch and isinstance(line, Sample) and count >= FIRST_ASK and count % ASK_EVERY == 0:
                for request in gathered.watcher.requests():
                    send(request)
    except Damaged as error:
        gathered.damaged = str(error)
    return gathered


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
        except (BlockingIOError, BrokenPipeError):
            return

    def close(self) -> None:
        self._file.close()


def run(sampler: Path, arguments: Sequence[str], program: Sequence[str], watch: bool) -> Gathered:
    """Run the sampler, which runs the program on our own standard streams."""
    receive, to = os.pipe()
    commands, send = os.pipe()
    command = [str(sampler), "--to", str(to), "--commands", str(commands), *arguments]
    if program:
        command += ["--", *program]
    process = subprocess.Popen(command, pass_fds=(to, commands))
    os.close(to)
    os.close(commands)
    with os.fdopen(receive, "rb") as lines:
        gathered, code = _converse(process, lines, _Sender(send), watch, Files())
    if gathered.end is None:
        gathered.damaged = gathered.damaged or f"the sampler ended with {code} before its last line"
    return gathered


def _converse(process: subprocess.Popen, lines, sender: _Sender, watch: bool, files: Files) -> tuple[Gathered, int]:
    try:
        gathered = gather(lines, sender, watch, files)
    finally:
        sender.close()  # a sampler that is still there ends for it
        code = process.wait()
    return gathered, code


# Lines and requests have pipes of their own, since the program has the standard streams; its input is empty. The end of
# our input, also when the connection is lost, ends the sampler, and that the program.
SCRIPT = (
    'f=%s; exec 3<&0 4>"$f/lines"; "$f/sampler" --to 4 --commands 5 %s </dev/null 3<&- 5<>"$f/commands" & p=$!; exec'
    " 4>&-; "
    '{ cat <&3 >"$f/commands"; kill $p; } >/dev/null 2>&1 & w=$!; exec 3<&-; wait $p; s=$?; kill $w 2>/dev/null; exit'
    " $s"
)


def run_there(place: Copied, arguments: Sequence[str], program: Sequence[str], watch: bool, files: Files) -> Gathered:
    """The same on another machine, whose folder holds the sampler already, with its program's output as our own."""
    folder = shlex.quote(place.folder)
    place.look(f"cd {folder} && rm -f lines commands && mkfifo lines commands")
    words = shlex.join([*arguments, *(["--", *program] if program else [])])
    held = {"start_new_session": True, "preexec_fn": die_with_parent()}
    process = subprocess.Popen(place.shell(SCRIPT % (folder, words)), stdin=subprocess.PIPE, **held)
    reader = subprocess.Popen(
        place.shell(f"exec cat {folder}/lines"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **held
    )
    sender = _Sender(os.dup(process.stdin.fileno()))
    process.stdin.close()
    try:
        gathered, code = _converse(process, reader.stdout, sender, watch, files)
    finally:
        end(reader)
    if gathered.end is None:
        gathered.lost = code == LOST
        why = place.tether.lost if gathered.lost else f"the sampler there ended with {code} before its last line"
        gathered.damaged = gathered.damaged or why
    return gathered

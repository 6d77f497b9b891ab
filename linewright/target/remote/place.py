"""A place elsewhere that holds a copy of the probe: prepared once, asked, and cleared away with the connection."""

from __future__ import annotations

import io
import re
import secrets
import selectors
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from linewright import __version__
from linewright.architectures import PROBED, of_machine
from linewright.errors import RunError, UserError, one_line
from linewright.target import probe
from linewright.target.local import LOST, Tether
from linewright.target.process import die_with_parent
from linewright.target.programs import NAME, find_probe_for
from linewright.target.remote.transport import Behind, Transport, last_line, run

PREPARE_S = 60.0
"""Longest wait for a first answer: starting a container or a batch job takes its time."""
CLOSE_S = 15.0
"""Longest wait for the folder's removal."""
COPY_S = 600.0
"""Longest wait for the copy of the probe, a few megabytes, and its first answers."""
THERE = b"linewright-there "
ANSWER = b"linewright-answer\n"
BEGIN = b"linewright-begin"
QUESTIONS = ("--version", "--list-forms", "--topology", "--context")

# The first folder that programs may be started from. It goes when this script's input ends, which is also how it learns
# that the connection was lost.
KEEP = (
    'for t in "${TMPDIR:-/tmp}" /dev/shm /var/tmp "$HOME"; do d="$t/linewright-%s"; '
    'mkdir -m 700 "$d" 2>/dev/null && cd "$d" || continue; '
    'echo "exit 0" >try && chmod 700 try && ./try && break; cd /; rm -rf "$d"; d=; done 2>/dev/null; '
    'cd "${d:-/nowhere}" 2>/dev/null || { echo "no folder there in which a program can be started" >&2; exit 2; }; '
    'd=$(pwd); trap "" HUP; echo "linewright-there $(uname -m) $d"; cat >/dev/null; cd /; rm -rf "$d"'
)
# The plan comes by length, and the end of the input is the request to stop. Descriptor 3, because the input of what
# runs in the background is empty.
HELD = "& p=$!; { cat <&3; kill $p; } >/dev/null 2>&1 & w=$!; exec 3<&-; wait $p; s=$?; kill $w 2>/dev/null; exit $s"
RUN = (
    "cd %s || exit; echo " + BEGIN.decode() + '; read -r n; head -c "$n" >plan || exit; exec 3<&0; '
    f"./{NAME} <plan 3<&- {HELD}"
)


class Answers(NamedTuple):
    """What the probe says without measuring, as bytes."""

    version: bytes
    forms: bytes
    topology: bytes
    context: bytes


class Place(Protocol):
    """Where a copy of the probe can be asked and run."""

    name: str
    answers: Answers
    tether: Tether | None

    def ask(self, option: str) -> list[str]:
        """The command that asks the probe there one question."""
        ...

    def run(self) -> list[str]:
        """The command that runs a plan there."""
        ...

    def program(self, find: Callable[[str], Path], words: Sequence[str], environment: dict[str, str]) -> list[str]:
        """The command that runs another static program there, found by its architecture; the end of the input ends
        it."""
        ...

    def close(self) -> None: ...


class Copied:
    """A folder on another machine with the probe in it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.name = transport.name
        self.tether = Tether(begin=BEGIN, lost=f"the connection to {transport.name} was lost")
        self._errors = tempfile.TemporaryFile()
        self._keeper: subprocess.Popen | None = None
        try:
            machine, self.folder = self._make_folder()
            self.arch = of_machine(machine)
            if not self.arch:
                raise UserError(
                    f"no probe for architecture {machine!r}", self.name, f"there is one for {', '.join(PROBED)}"
                )
            self.answers = self._copy(find_probe_for(self.arch))
        except BaseException:
            self.close()
            raise

    def _make_folder(self) -> tuple[str, str]:
        """Architecture and folder, from the script that goes on running as long as the folder is needed."""
        command = self._transport.shell(KEEP % secrets.token_hex(8))
        self._keeper = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            preexec_fn=die_with_parent(),
        )
        said = _until(self._keeper, THERE, PREPARE_S)
        found = re.search(rb"^linewright-there (\S+) (.+)\n", said, re.MULTILINE)
        if found is None:
            raise NoShell(self._why() or "no answer", self.name, "a POSIX shell is needed there")
        return one_line(found[1].decode("utf-8", "replace")), found[2].decode("utf-8", "surrogateescape")

    def _why(self) -> str:
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace")
        return self._transport.reason(said) or last_line(said)

    def _copy(self, path: Path) -> Answers:
        questions = (
            f"for q in {' '.join(QUESTIONS)}; do echo {ANSWER.decode().strip()}; ./{NAME} $q </dev/null || exit; done"
        )
        return checked(Answers(*self.send(path, NAME, f" && {questions}").split(ANSWER)[1:]), self.name)

    def send(self, path: Path, name: str, then: str = "") -> bytes:
        """Copy a program or library into the folder and run more of a script; what that prints."""
        script = f"cd {shlex.quote(self.folder)} && cat >{name} && chmod 700 {name}{then}"
        try:
            done = run(self.shell(script), loadable(path), COPY_S)
        except subprocess.TimeoutExpired:
            raise UserError(f"copying a program took longer than {COPY_S:g} s", self.name) from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace")
            why = self._transport.reason(said) or probe.error_text(done.stderr) or probe.exit_text(done.returncode)
            what = (
                "the connection was lost" if done.returncode == LOST else "the probe cannot be copied there or started"
            )
            raise UserError(f"{what}: {why}", self.name)
        return done.stdout

    def ask(self, option: str) -> list[str]:
        return self._transport.shell(f"cd {shlex.quote(self.folder)} && exec ./{NAME} {option}")

    def run(self) -> list[str]:
        return self._transport.shell(RUN % shlex.quote(self.folder))

    def shell(self, script: str) -> list[str]:
        """The command here that runs a script there, in the folder that a login begins in."""
        return self._transport.shell(script)

    def look(self, script: str) -> bytes:
        """What a short script prints there. RunError where it fails or the connection is lost."""
        try:
            done = run(self.shell(script), b"", COPY_S)
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.name}: no answer in {COPY_S:g} s") from None
        if done.returncode == LOST:
            raise RunError(self.tether.lost)
        if done.returncode != 0:
            raise RunError(f"{self.name}: {last_line(done.stderr.decode('utf-8', 'replace'))}")
        return done.stdout

    def programs(self) -> list[str]:
        """The command that runs programs there on request (probe/programs.hpp)."""
        return self.shell(f"exec {shlex.quote(self.folder)}/{NAME} --programs")

    def program(self, find: Callable[[str], Path], words: Sequence[str], environment: dict[str, str]) -> list[str]:
        self.send(find(self.arch), "program")
        assigned = [f"{name}={value}" for name, value in environment.items()]
        line = shlex.join(["env", *assigned, "./program", *words])
        return self._transport.shell(f"cd {shlex.quote(self.folder)} || exit; exec 3<&0; {line} </dev/null 3<&- {HELD}")

    def close(self) -> None:
        """End the script that keeps the folder, which removes it, and the connection."""
        if self._keeper is not None:
            self._keeper.stdin.close()
            try:
                self._keeper.wait(CLOSE_S)
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                self._keeper.wait()
            self._keeper.stdout.close()
        self._errors.close()
        self._transport.close()


class NoShell(UserError):
    """Nothing there ran a shell script."""


class Emulated:
    """A command that runs a program of this machine's files, as an emulator does: no copy, no shell."""

    tether = None

    def __init__(self, behind: Behind, arch: str, path: Path) -> None:
        self.name = behind.name
        self._behind, self._arch = behind, arch
        self._command = [*behind.words, str(path)]
        said = [run(self.ask(option), b"", PREPARE_S) for option in QUESTIONS[:1]]
        if said[0].returncode != 0:
            raise NoShell(last_line(said[0].stderr.decode("utf-8", "replace")), self.name)
        said += [run(self.ask(option), b"", COPY_S) for option in QUESTIONS[1:]]
        self.answers = checked(Answers(*(answer.stdout for answer in said)), self.name)

    def ask(self, option: str) -> list[str]:
        return [*self._command, option]

    def run(self) -> list[str]:
        return self._command

    def program(self, find: Callable[[str], Path], words: Sequence[str], environment: dict[str, str]) -> list[str]:
        return [*self._behind.words, str(find(self._arch)), *words]

    def close(self) -> None:
        pass


def behind(text: str) -> Place:
    """The place behind a command: through a shell there, else as an emulator of one of the probes here."""
    command = Behind(text)
    try:
        return Copied(command)
    except NoShell as refusal:
        for arch, path in _probes_here():
            try:
                return Emulated(command, arch, path)
            except (NoShell, subprocess.TimeoutExpired):
                continue
        raise refusal


def _probes_here() -> Iterable[tuple[str, Path]]:
    for arch in PROBED:
        try:
            yield arch, find_probe_for(arch)
        except UserError:
            continue


def checked(answers: Answers, name: str) -> Answers:
    """The same, once the probe is known to be this version's."""
    version = one_line(answers.version.decode("utf-8", "replace"))
    if version != f"{NAME} {__version__}":
        raise UserError(
            f"the probe there is {version!r}, this is linewright {__version__}",
            name,
            "build the probes of this version",
        )
    return answers


def loadable(path: Path) -> bytes:
    """The part of a static program that is needed to run it: debug information is most of the file."""
    data = path.read_bytes()
    try:
        image = ELFFile(io.BytesIO(data))
        end = max(segment["p_offset"] + segment["p_filesz"] for segment in image.iter_segments())
    except (ELFError, ValueError):
        return data  # a script
    return without_sections(data[: max(end, image["e_ehsize"])])


def without_sections(data: bytes) -> bytes:
    """The beginning of an ELF file, whose header points to no section any more: they lie behind what is left of it."""
    # e_shoff, e_shnum and e_shstrndx are cleared (ELF specification, ELF header).
    head = bytearray(data)
    shoff, width, shnum = (40, 8, 60) if data[4] == 2 else (32, 4, 48)
    head[shoff : shoff + width] = bytes(width)
    head[shnum : shnum + 4] = bytes(4)
    return bytes(head)


def _until(process: subprocess.Popen, mark: bytes, timeout_s: float) -> bytes:
    """Standard output up to the end of the line that begins with a mark, or what there was until the end or the
    time."""
    said, end = b"", time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not re.search(rb"^" + re.escape(mark) + rb".*\n", said, re.MULTILINE):
            if not selector.select(max(0.0, end - time.monotonic())):
                break
            data = process.stdout.read1(65536)
            if not data:
                break
            said += data
    return said

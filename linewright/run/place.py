# SPDX-License-Identifier: MIT
"""A machine on which programs run: this one, one that a transport leads to, or an emulator of one
behind a command."""

from __future__ import annotations

import gzip
import platform
import re
import secrets
import selectors
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from linewright import __version__, wings
from linewright.errors import LinewrightError, RunError, UserError, one_line
from linewright.run import probe_questions
from linewright.run.process import Interrupts, end_of_input, start
from linewright.run.programs import NAME, find_probe
from linewright.run.transport import Ssh, Transport, last_line, run
from linewright.schema import PROBED, architecture_of_machine

PREPARE_S = 60.0
"""Longest wait for a first answer: starting a container or a batch job takes its time."""
CLOSE_S = 15.0
"""Longest wait for the folder's removal."""
COPY_S = 600.0
"""Longest wait for the copy of a program, a few megabytes, and its first answers."""
LOST = 255
"""Exit code of ssh for a connection that failed or was lost."""
THERE = b"linewright-there "
ANSWER = b"linewright-answer\n"
BEGIN = b"linewright-begin"
QUESTIONS = ("--version", "--list-forms", "--topology", "--context")

# The first folder that programs may be started from. It goes when this script's input ends, which
# is also how it learns that the connection was lost.
KEEP = (
    'for t in "${TMPDIR:-/tmp}" /dev/shm /var/tmp "$HOME"; do d="$t/linewright-%s"; '
    'mkdir -m 700 "$d" 2>/dev/null && cd "$d" || continue; '
    'echo "exit 0" >try && chmod 700 try && ./try && break; cd /; rm -rf "$d"; d=; done '
    "2>/dev/null; "
    'cd "${d:-/nowhere}" 2>/dev/null || { echo "no folder there in which a program can be '
    'started" >&2; exit 2; }; '
    'd=$(pwd); trap "" HUP; echo "linewright-there $(uname -m) $d"; cat >/dev/null; cd /; rm '
    '-rf "$d"'
)
# The end of the input is the request to stop, and comes when the connection is lost, too.
# Descriptor 3, because the input of what runs in the background is empty.
HELD = (
    "%s exec 3<&0; %s 3<&- & p=$!; { cat <&3 >%s; kill $p; } >/dev/null 2>&1 & w=$!; exec 3<&-; "
    "wait $p; s=$?; kill $w 2>/dev/null; exit $s"
)
PLAN = f'echo {BEGIN.decode()}; read -r n; head -c "$n" >plan || exit;'
"""The plan comes by its length."""


_QUOTA = """while IFS=: read -r _ controllers path; do group="/sys/fs/cgroup/$controllers$path"
cat "$group/cpu.stat" 2>/dev/null
echo quota $(cat "$group/cpu.max" 2>/dev/null ||
cat "$group/cpu.cfs_quota_us" "$group/cpu.cfs_period_us" 2>/dev/null)
done </proc/{}/cgroup; true"""
"""Of version 2, whose line names no controllers, and of version 1."""


class Quota(NamedTuple):
    """What CPU quotas of a control group allow, and have done since it was made."""

    cpus: float | None = None
    """As many CPUs' time; None where there is none, or nothing tells."""
    held_back_s: float = 0.0
    """How long threads were kept from their CPUs, all CPUs together."""


class InputLink(Struct, frozen=True):
    """How a program elsewhere is held through its standard input: it gets the plan's length on a
    line and the plan, and is asked to stop by the end of the input, which also comes when the
    connection is lost."""

    begin: bytes
    """The line of its output before which everything is talk of a login shell."""
    lost: str
    """What is said when the connection was lost, which is exit code `LOST`."""


class NoShell(UserError):
    """Nothing there ran a shell script."""


class Place:
    """A machine on which programs run: copied there, run with streams of this command's, ended with
    it.

    Behind a `transport` to a shell, programs are copied into `folder`, which goes with `close` or
    with the connection, and end with their input. Here, and under an emulator (a transport that
    knows no shell, with a `probe_path` of this machine's), this machine's files are run, and
    signals end them.
    """

    link: InputLink | None = None

    def __init__(
        self, transport: Transport | None = None, probe_path: Path | None = None, arch: str = ""
    ) -> None:
        self._transport = transport
        self.name = transport.name if transport else "local"
        self.far = transport is not None and probe_path is None
        """Its files are not this machine's."""
        self._answers: dict[str, bytes] = {}
        self._keeper: subprocess.Popen | None = None
        self._errors = tempfile.TemporaryFile()
        if not self.far:
            self.arch = arch or architecture_of_machine(platform.machine())
            self._probe_path = probe_path
            return
        self.link = InputLink(begin=BEGIN, lost=f"the connection to {self.name} was lost")
        try:
            machine, self.folder = self._make_folder()
            self.arch = architecture_of_machine(machine)
            if not self.arch:
                known = f"there is one for {', '.join(PROBED)}"
                raise UserError(f"no probe for architecture {machine!r}", self.name, known)
            self._copy_probe()
        except BaseException:
            self.close()
            raise

    @cached_property
    def probe(self) -> str:
        """The path there of linewright-probe."""
        return f"{self.folder}/{NAME}" if self.far else str(self._probe_path or find_probe())

    @cached_property
    def folder(self) -> str:
        """A folder there that goes with `close`; elsewhere it holds the programs, too."""
        self._temporary = tempfile.TemporaryDirectory(prefix="linewright-")
        return self._temporary.name

    def _make_folder(self) -> tuple[str, str]:
        """Architecture and folder, from the script that goes on running as long as the folder is
        needed."""
        script = KEEP % secrets.token_hex(8)
        self._keeper = start(self.shell(script), own_session=True, stderr=self._errors)
        said = _until(self._keeper, THERE, PREPARE_S)
        found = re.search(rb"^linewright-there (\S+) (.+)\n", said, re.MULTILINE)
        if found is None:
            self._errors.seek(0)
            errors = self._errors.read().decode("utf-8", "replace")
            if lost := self._transport.reason(errors):
                raise UserError(lost, self.name)
            answer = last_line(errors) or "no answer"
            raise NoShell(answer, self.name, "a POSIX shell is needed there")
        folder = found[2].decode("utf-8", "surrogateescape")
        return one_line(found[1].decode("utf-8", "replace")), folder

    def _copy_probe(self) -> None:
        questions = (
            f"for q in {' '.join(QUESTIONS)}; do echo {ANSWER.decode().strip()}; "
            f"./{NAME} $q </dev/null || exit; done"
        )
        said = self._copy(find_probe(self.arch), NAME, f" && {questions}")
        self._answers = dict(zip(QUESTIONS, said.split(ANSWER)[1:], strict=True))
        self.check_version()

    def check_version(self) -> None:
        """UserError where the probe there is not this version's."""
        version = one_line(self.answer("--version").decode("utf-8", "replace"))
        if version != f"{NAME} {__version__}":
            what = f"the probe there is {version!r}, this is linewright {__version__}"
            raise UserError(what, self.name, "build the probes of this version")

    def put(self, find: Callable[[str], Path]) -> str:
        """The path there of a program or library, which `find` finds here by its architecture."""
        path = find(self.arch)
        if not self.far:
            return str(path)
        self._copy(path, path.name)
        return f"{self.folder}/{path.name}"

    def _copy(self, path: Path, name: str, then: str = "") -> bytes:
        """Copy a file into the folder and run more of a script; what that prints."""
        from linewright.elf.symbols import loadable  # pyelftools comes with it

        quoted = shlex.quote(name)
        script = f"cd {shlex.quote(self.folder)} && cat >{quoted} && chmod 700 {quoted}{then}"
        try:
            done = run(self.shell(script), loadable(path), COPY_S)
        except subprocess.TimeoutExpired:
            raise UserError(f"copying a program took longer than {COPY_S:g} s", self.name) from None
        if done.returncode != 0:
            why = self._transport.reason(done.stderr.decode("utf-8", "replace"))
            why = why or probe_questions.error_text(done.stderr)
            why = why or probe_questions.exit_text(done.returncode)
            what = "the probe cannot be copied there or started"
            what = "the connection was lost" if done.returncode == LOST else what
            raise UserError(f"{what}: {why}", self.name)
        return done.stdout

    def shell(self, script: str) -> list[str]:
        """The command here that runs a script there, in the folder that a login begins in."""
        return self._transport.shell(script) if self._transport else ["sh", "-c", script]

    def look(self, script: str) -> bytes:
        """What a short script prints there. RunError where it fails or the connection is lost."""
        try:
            done = run(self.shell(script), b"", COPY_S)
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.name}: no answer in {COPY_S:g} s") from None
        if self.link and done.returncode == LOST:
            raise RunError(self.link.lost)
        if done.returncode != 0:
            raise RunError(f"{self.name}: {last_line(done.stderr.decode('utf-8', 'replace'))}")
        return done.stdout

    def quota(self, pid: int | None = None) -> Quota:
        """Of a process there, or of what is started there."""
        try:
            said = self.look(_QUOTA.format(pid or "self")).decode("utf-8", "replace")
        except LinewrightError:
            return Quota()
        stands = dict(re.findall(r"^throttled_(usec|time) (\d+)$", said, re.MULTILINE))
        allowed = re.findall(r"^quota ([0-9]+) ([1-9][0-9]*)$", said, re.MULTILINE)
        return Quota(
            min((int(time) / int(of) for time, of in allowed), default=None),
            int(stands.get("usec", 0)) / 1e6 + int(stands.get("time", 0)) / 1e9,
        )

    def fetch(self, path: str) -> bytes:
        """What a file there holds."""
        return unpacked(self.look(packed(shlex.quote(path))))

    def answer(self, option: str) -> bytes:
        """What the probe there answers to an option; asked once."""
        if option not in self._answers:
            self._answers[option] = probe_questions.ask(self.ask, option)
        return self._answers[option]

    def ask(self, option: str) -> list[str]:
        """The command here that runs the probe there with an option."""
        return self.command([self.probe, option])

    def command(self, words: Sequence[str]) -> list[str]:
        """The command here that runs a program there, with its three standard streams."""
        if self.far:
            return self.shell(f"exec {shlex.join(words)}")
        return [*(self._transport.words if self._transport else ()), *words]

    def run_until_input_closes(
        self, line: str, before: str = "", to: str = "/dev/null"
    ) -> list[str]:
        """The command that runs a line of a script elsewhere, behind another, until our input ends;
        what comes on that is written `to` a file there."""
        return self.shell(HELD % (before, line, to))

    def plan(self) -> list[str]:
        """The command that runs a plan there, which comes on its standard input."""
        if not self.far:
            return self.command([self.probe])
        return self.run_until_input_closes(f"./{NAME} <plan", f"{self._enter()} {PLAN}")

    def _enter(self) -> str:
        return f"cd {shlex.quote(self.folder)} || exit;"

    def call(
        self, find: Callable[[str], Path], words: Sequence[str], environment: Mapping[str, str]
    ) -> int:
        """Run another static program there, with this process's output as its own; its exit
        code."""
        command = [self.put(find), *words]
        if self.far:
            assigned = [f"{name}={value}" for name, value in environment.items()]
            line = shlex.join(["env", *assigned, *command])
            command = self.run_until_input_closes(f"{line} </dev/null", self._enter())
        else:
            command = self.command(command)
        with Interrupts() as interrupts:
            process = start(command, own_session=True, stdout=None, stderr=None)

            def stop() -> None:
                process.stdin.close() if self.far else process.terminate()

            with interrupts.answered_by(stop):
                code = process.wait()
                process.stdin.close()
        if interrupts.caught:
            raise RunError(f"stopped by {interrupts.caught.name}")
        if self.link and code == LOST:
            raise RunError(self.link.lost)
        return code

    def close(self) -> None:
        """Remove the folder, by ending the script that keeps it, and end the connection."""
        if self._keeper is not None:
            end_of_input(self._keeper, CLOSE_S)
        elif "folder" in self.__dict__:
            self._temporary.cleanup()
        self._errors.close()
        if self._transport:
            self._transport.close()


def open_place(on: str | None, shell: bool = True) -> Place:
    """The machine that ``--on`` names; another one, where no other run is measuring.

    With `shell` an emulator will not do. UserError where it cannot be reached.
    """
    if on in (None, "local"):
        return Place()
    scheme, _, rest = on.partition(":")
    if scheme not in transports():
        allowed = "allowed: local, ssh://USER@HOST:PORT, 'exec:COMMAND'"
        raise UserError(f"no machine {on!r}", "--on", allowed)
    place = _reach(transports()[scheme](rest), shell)
    if probe_questions.read_context(place.answer("--context")).other_probe:
        place.close()
        allowed = "one at a time: each would disturb the other"
        raise UserError("another run is measuring there", place.name, allowed)
    return place


def transports() -> dict[str, Callable[[str], Transport]]:
    """Ways to another machine, by the part of ``--on`` before the first colon."""
    return {"ssh": Ssh, "exec": Transport, **wings.transports()}


def _reach(transport: Transport, shell: bool) -> Place:
    """The place behind a transport: through a shell there, else as an emulator of one of the probes
    here."""
    try:
        return Place(transport)
    except NoShell as refusal:
        for arch, path in () if shell or not transport.may_emulate else _probes_here():
            place = Place(transport, path, arch)
            try:
                place.answer("--version")
            except (RunError, UserError):
                continue
            place.check_version()
            return place
        raise refusal


def _probes_here() -> Iterable[tuple[str, Path]]:
    for arch in PROBED:
        try:
            yield arch, find_probe(arch)
        except UserError:
            continue


def packed(name: str) -> str:
    """A script that prints a file, compressed where the machine can; `name` is quoted already."""
    return f"if command -v gzip >/dev/null 2>&1; then gzip -1c <{name}; else cat <{name}; fi"


def unpacked(data: bytes) -> bytes:
    """What `packed` printed of: no file that is fetched begins as compressed ones do."""
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def _until(process: subprocess.Popen, mark: bytes, timeout_s: float) -> bytes:
    """Standard output up to the end of the line that begins with a mark, or what there was until
    the end or the time."""
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

# SPDX-License-Identifier: MIT
"""Every access of a program under qemu-user: which lines are shared is exact for that run, how
often they move is not shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from linewright.elf import image, inspection
from linewright.elf.outline_helpers import is_helper
from linewright.elf.symbols import module
from linewright.errors import RunError, UserError
from linewright.find import stream
from linewright.find.addresses import Addresses, FileAddress, Names, Stacks
from linewright.find.decode import Decoder
from linewright.find.evidence import LINE, LineEvidence, LinePlace, SiteKey, bytes_in
from linewright.find.results import BLIND, HelperCall, Result, note, readable
from linewright.find.shared_lines import FEWEST_TAKEOVERS, SharedLines
from linewright.find.space import Spaces

EMULATORS = {"x86_64": "qemu-x86_64", "arm64": "qemu-aarch64"}
SELDOM = 1e-3
"""Of the accesses to a line, those of an instruction below which it is left out."""
ARM64_LIBRARIES = "/usr/aarch64-linux-gnu"
"""Where Debian keeps the arm64 C library that arm64 programs run with on other hosts."""
EMULATOR_NEEDED = "needed: Debian 12's qemu-user; elsewhere: docs/guide/find.md#which-qemu-user"
"""Newer packages of that name, of Debian and Ubuntu, have no plugins: they are no help."""


class ExactRun:
    """What the plugin wrote of every process of one run."""

    def __init__(self) -> None:
        self.spaces = Spaces()
        self.lines = LineEvidence(self.spaces)
        self.arch = "x86_64"
        self.accesses = 0
        self.threads: set[int] = set()
        self.complete = False
        self._accesses: dict[LinePlace, list[stream.Access]] = defaultdict(list)
        self.atomics: Counter[tuple[int, int, int]] = Counter()
        """Of arm64: by process, atomic instruction and the call that led there."""

    def take(self, lines: stream.Iterable[bytes]) -> None:
        """One process's file."""
        for line in stream.read(lines):
            match line:
                case stream.Start():
                    self.arch = line.arch
                case stream.SpaceLine():
                    self.spaces.take(line)
                    if isinstance(line, stream.Task):
                        self.threads.add(line.tid)
                        if line.name in EMULATORS.values():  # a thread that has taken none
                            del self.spaces.names[line.tid]
                case stream.Access():
                    self._access(line)
                case stream.Atomic():
                    self.atomics[line.pid, line.ip, line.caller] += line.count
                case stream.End():
                    self.accesses += line.samples
                    self.complete = True
                case stream.Failure():
                    raise RunError(line.why)

    def _access(self, line: stream.Access) -> None:
        evidence = self.lines.at(line.pid, line.line * LINE)
        self._accesses[evidence.place].append(line)
        access = "atomic" if line.atomics else "write" if line.writes else "read"
        key = SiteKey(line.pid, line.ip, access, "", line.caller)
        evidence.sites[key] += line.reads + line.writes
        evidence.bytes_of[key] |= line.mask

    def weigh(self) -> None:
        """Give each line's threads the bytes that they use: what an instruction does there once or
        a few times, as one that sets a table up or sums it up at the end, moves nothing that
        matters."""
        for place, accesses in self._accesses.items():
            of_instruction: Counter[int] = Counter()
            for line in accesses:
                of_instruction[line.ip] += line.reads + line.writes
            least = max(FEWEST_TAKEOVERS, SELDOM * of_instruction.total())
            often = [line for line in accesses if of_instruction[line.ip] >= least]
            evidence = self.lines.known[place]
            evidence.accesses, evidence.moved = of_instruction.total(), _moved(accesses)
            evidence.used_at = _uses(accesses)
            for line in often or accesses:
                thread = evidence.thread(line.tid)
                thread.written |= line.written
                thread.read |= line.mask if not line.writes else line.mask & ~line.written
                thread.saw(line.first), thread.saw(line.last)


def _moved(accesses: Sequence[stream.Access]) -> int:
    """How often a line changed hands as far as that was seen, or at most as often between processes
    as the second of them made accesses: each is watched by itself."""
    of_process: Counter[int] = Counter()
    for line in accesses:
        of_process[line.pid] += line.reads + line.writes
    second = sorted(of_process.values())[-2:-1]
    return max([sum(line.takeovers for line in accesses), *second])


def _uses(accesses: Sequence[stream.Access]) -> Counter[int]:
    """How often each byte of a line is used, where each instruction of a thread uses all of its
    bytes alike."""
    uses: Counter[int] = Counter()
    for line in accesses:
        each = line.bytes / max(1, line.mask.bit_count())
        uses.update(dict.fromkeys(bytes_in(line.mask), each))
    return uses


def run(plugin: Path, command: Sequence[str], output: TextIO | None = None) -> tuple[ExactRun, int]:
    """Run a program under the emulator; what every process of it accessed, and its exit code. It
    prints to `output`, without one to our standard output."""
    program = shutil.which(command[0])
    if program is None:
        allowed = "allowed: the path of a program, or its name in PATH"
        raise UserError(f"cannot run {command[0]}: no such program", "find", allowed)
    arch = _arch_of(program)
    emulator = shutil.which(EMULATORS[arch])
    if emulator is None:
        raise UserError(f"{EMULATORS[arch]} is missing", "--exact", EMULATOR_NEEDED)
    found = ExactRun()
    whole = os.path.realpath(program)
    found.spaces.store.lies_at(readable(whole), whole)
    with tempfile.TemporaryDirectory(prefix="linewright-find-") as folder:
        options = ["-plugin", f"{plugin},to={folder}/accesses"]
        foreign = arch == "arm64" and os.uname().machine != "aarch64"
        if foreign and "QEMU_LD_PREFIX" not in os.environ:
            options += ["-L", ARM64_LIBRARIES]
        done = subprocess.run([emulator, *options, program, *command[1:]], stdout=output)
        for path in sorted(Path(folder).iterdir()):
            with path.open("rb") as lines:
                found.take(lines)
    if not found.complete:
        said = subprocess.run([emulator, "--help"], capture_output=True, text=True)
        if "-plugin" not in said.stdout:
            what = f"{emulator} was built without plugins"
            raise UserError(what, "--exact", EMULATOR_NEEDED)
        raise RunError(
            f"{emulator} ended with {done.returncode} and left no accesses: the program was "
            "killed, or this QEMU does not load the plugin, as 7.2 does"
        )
    return found, done.returncode if done.returncode >= 0 else 128 - done.returncode


def _arch_of(program: str) -> str:
    """The architecture that an ELF program is for, by its header."""
    with suppress(UserError):
        arch = image.begin(program).machine
        if arch in EMULATORS:
            return arch
    what = f"{program} is no 64-bit program for x86-64 or arm64"
    raise UserError(what, "--exact", "a script's interpreter can be named")


def findings_of(found: ExactRun, command: Sequence[str], exit_code: int) -> Result:
    """Judge everything that the emulated run did."""
    found.weigh()
    addresses = Addresses(found.spaces, Stacks(found.spaces))
    judged = SharedLines(addresses, found.lines, Decoder(found.arch, found.spaces))
    lines, seldom = judged.shared(), len(judged.seldom)
    notes = [
        *([note("failed", f"exit code {exit_code}")] if exit_code else []),
        note("exact_order"),
        *([note("exact_seldom", seldom, FEWEST_TAKEOVERS)] if seldom else []),
        *addresses.code.untyped(),
    ]
    return Result(
        source="exact",
        program=readable(os.path.basename(command[0])),
        command=list(map(readable, command)),
        arch=found.arch,
        seconds=0.0,
        samples=found.accesses,
        threads=len(found.threads),
        lines=lines,
        seldom=judged.seldom_identities(),
        blind=list(BLIND["exact"]),
        notes=notes,
        helpers=_helpers(found, addresses.code),
        exit_code=exit_code,
    )


def _helpers(found: ExactRun, names: Names) -> list[HelperCall]:
    """Calls of outline helpers by place, whichever process made them."""
    counts: Counter[tuple[FileAddress, str]] = Counter()
    example: dict[FileAddress, tuple[int, int]] = {}
    for (pid, ip, caller), number in found.atomics.items():
        helper = _helper(names.where(pid, ip), names.name(pid, ip).function)
        if helper:
            where = names.where(pid, caller)
            counts[where, helper] += number
            example.setdefault(where, (pid, caller))
    names.prepare(example.values())
    return [
        HelperCall(
            helper=helper,
            module=named.module,
            function=named.function,
            offset=where.address,
            source=named.source,
            count=number,
        )
        for (where, helper), number in counts.most_common()
        for named in [names.name(*example[where])]
    ]


def _helper(where: FileAddress, function: str) -> str:
    """The outline helper that an address lies in, by its symbol or in a stripped file by its code;
    empty for none."""
    if is_helper(function) or not where.path or not module(where.path).stripped:
        return function if is_helper(function) else ""
    return next(
        (name for name, begin, end in _bodies(where.path) if begin <= where.address < end), ""
    )


@lru_cache(maxsize=64)
def _bodies(path: str) -> list[tuple[str, int, int]]:
    """Helpers of a file: name, begin and end."""
    try:
        return [(body.name, body.address, body.end) for body in inspection.helper_bodies(path)]
    except UserError:
        return []

# SPDX-License-Identifier: MIT
"""Where the program of a trial runs: on this machine, or on another over ssh or behind a
command."""

from __future__ import annotations

import os
import shlex
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from linewright.errors import RunError, UserError
from linewright.run import programs
from linewright.run.place import open_place
from linewright.run.programs import AUDIT, RWLOCK, find_audit, find_preload, find_rwlock
from linewright.trial import interposed_locks
from linewright.trial.runner import Helper, Runs
from linewright.trial.switching import (
    CHANGED,
    IGNORE,
    TLS_LEAST,
    Warn,
    find_program,
    switched,
    tls_room,
    warn_unswitched,
)
from linewright.trial.trial_file import FOLDER

if TYPE_CHECKING:
    from linewright.run.process import Interrupts
    from linewright.trial.trial_file import Session, TrialSetting

HEAP = "liblinewright_find_heap.so"
FINDERS: dict[str, Callable[[str], Path]] = {
    AUDIT: find_audit,
    HEAP: lambda arch: find_preload("heap", arch),
    RWLOCK: find_rwlock,
}
"""What finds each library here by the architecture of the machine that it is for."""
AT_PAGESZ, AT_RSEQ_FEATURE_SIZE = 6, 27
"""Fields of the auxiliary vector, of words of 8 bytes."""
# A shell's own `command -v` names its built-in commands, which are not what would be run.
FIND = (
    'p=%s; case $p in */*) ;; *) IFS=:; for d in $PATH; do test -f "$d/$p" && test -x "$d/$p" '
    "&& p=$d/$p && break; "
    'done ;; esac; test -f "$p" && test -x "$p" && readlink -f "$p"'
)


class TrialPlace:
    """A machine that a trial's program runs on."""

    def __init__(self, on: str | None, warn: Warn = IGNORE) -> None:
        self.name, self._warn = on or "local", warn
        self._place = open_place(on)
        self._more: dict[str, str] = {}
        self.quota = self._place.quota
        try:
            self._helper = Helper(self._place)
        except BaseException:
            self._place.close()
            raise
        self.machine: str = self._helper.about["arch"]
        """As ``uname -m`` says it."""

    def check(self, settings: Sequence[TrialSetting]) -> None:
        """Refuse a setting that can change nothing on the kernel there."""
        for setting in settings:
            asked = setting.environment.get("LINEWRIGHT_WAIT", "").split(",")
            if "slice" in asked and lacks_slices(self._place.look("cat /proc/self/auxv")):
                what = f"not available on this kernel: time slice extensions ({setting.name})"
                raise UserError(what, "trial", "allowed: Linux 7.0 or later on x86")

    def facts(self) -> dict[str, Any]:
        """The fields of a session that describe the machine and its boot."""
        return dict(self._helper.about)

    def find(self, program: str) -> str:
        """The program's path there; UserError without one."""
        if not self._place.far or not program:
            return find_program(program)
        try:
            return os.fsdecode(self._place.look(FIND % shlex.quote(program))).strip()
        except RunError as error:
            if str(error) == self._place.link.lost:
                raise
            raise UserError(f"no such program on {self.name}: {program}", "PROGRAM") from None

    def switched(self, values: Sequence[str], program: str) -> list[dict[str, str]]:
        """On arm64: for each setting of the atomics what the environment must say, with the
        auditing library."""
        if self._place.far:
            programs.check(self._place.folder, self.name, "LD_AUDIT")
            # Nothing is known of the libraries of a program there, so the room is what most
            # programs need.
            given, room = {}, TLS_LEAST
        else:
            path = find_program(program)
            warn_unswitched(path, self._warn)
            given, room = dict(os.environ), tls_room(path, self._warn)
        library = self._library(AUDIT)
        found = (switched(dict(given), value, library, room, self._warn) for value in values)
        return [{name: environment[name] for name in CHANGED} for environment in found]

    def _library(self, name: str) -> Path:
        """A library as a setting's environment names it; UserError where it was not built."""
        path = FINDERS[name](self._place.arch)
        return Path(FOLDER, name) if self._place.far else path

    def padded(self, sites: list[str], program: str) -> list[TrialSetting]:
        """The baseline and a setting for each site whose heap blocks get lines of their own."""
        from linewright.trial import heap_padding

        library, path = programs.name_of(self._library(HEAP)), self.find(program)
        before = {} if self._place.far else os.environ
        with self._file(path) as file:  # read for its symbols; blocks are found by its name
            programs.refuse_sanitizer(file, "--pad")
            return heap_padding.settings(sites, file, library, before)

    @contextmanager
    def _file(self, path: str) -> Iterator[str]:
        """A program's file as one that is here, under the same name."""
        if not self._place.far:
            yield path
            return
        with tempfile.TemporaryDirectory(prefix="linewright-") as folder:
            copy = Path(folder, PurePosixPath(path).name)
            copy.write_bytes(self._place.fetch(path))
            yield str(copy)

    def interposed(self, program: str) -> list[dict[str, str]]:
        """What the environment must say without and with other readers-writer locks; UserError
        where the program cannot have them."""
        with self._file(self.find(program)) as file:
            arch = interposed_locks.arch_of(file)
            if not self._place.far:
                interposed_locks.check_calls(file, self._warn)
                return interposed_locks.settings(find_rwlock(arch), os.environ)
        if arch not in ("", self._place.arch):
            what = f"{program} is made for {arch}, and {self.name} is {self._place.arch}"
            raise UserError(what, "--locks")
        programs.check(self._place.folder, self.name)
        return interposed_locks.settings(self._library(RWLOCK), {})

    @contextmanager
    def watched(self) -> Iterator[Callable[[Sequence[TrialSetting]], list[str]]]:
        """For the time of a trial with such settings, the library marks each in which it found a
        block; gives a function from settings to the names of those in which none came."""
        from linewright.trial import heap_padding

        seen = f"{self._place.folder}/seen"
        self._place.look(f"mkdir -p {shlex.quote(seen)}")
        self._more = {heap_padding.SEEN: seen}
        yield lambda some: heap_padding.unseen(
            some, self._place.look(f"ls {shlex.quote(seen)}").decode().split()
        )

    def runs(self, session: Session, interrupts: Interrupts, limit_s: float | None) -> Runs:
        for command in [session.command, *(s.command for s in session.settings if s.command)]:
            self.find(command[0])
        values = [value for setting in session.settings for value in setting.environment.values()]
        for name in FINDERS:  # a trial that is gone on with needs them as a new one does
            if any(f"{FOLDER}/{name}" in value for value in values):
                self._place.put(FINDERS[name])
        return Runs(self._helper, session.command, session.metric, interrupts, limit_s, self._more)

    def close(self) -> None:
        self._helper.close()
        self._place.close()


def lacks_slices(vector: bytes) -> bool:
    """Whether a program's auxiliary vector shows that its kernel has no time slice extensions; one
    of another width shows nothing."""
    found = dict(struct.iter_unpack("<QQ", vector[: len(vector) // 16 * 16]))
    return AT_PAGESZ in found and found.get(AT_RSEQ_FEATURE_SIZE, 0) <= 32

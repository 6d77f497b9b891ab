"""Where the program of a trial runs: on this machine, or on another over ssh or behind a command."""

from __future__ import annotations

import os
import platform
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol

from linewright.commands.run import (
    CHANGED,
    LIBRARY,
    TLS_LEAST,
    find_library,
    find_program,
    switched,
    tls_room,
    warn_unswitched,
)
from linewright.errors import RunError, UserError
from linewright.trial.files import FOLDER

if TYPE_CHECKING:
    from linewright.target.interrupts import Interrupts
    from linewright.trial.elsewhere import Helper
    from linewright.trial.files import Named, Session
    from linewright.trial.runner import Runs


HEAP = "liblinewright_find_heap.so"
# A shell's own `command -v` names its built-in commands, which are not what would be run.
FIND = (
    'p=%s; case $p in */*) ;; *) IFS=:; for d in $PATH; do test -f "$d/$p" && test -x "$d/$p" && p=$d/$p && break; '
    'done ;; esac; test -f "$p" && test -x "$p" && readlink -f "$p"'
)


class Where(Protocol):
    """A machine that a trial's program runs on."""

    name: str
    machine: str
    """As ``uname -m`` says it."""

    def facts(self) -> dict[str, Any]:
        """The fields of a session that describe the machine and its boot."""
        ...

    def find(self, program: str) -> str:
        """The program's path there; UserError without one."""
        ...

    def switched(self, values: Sequence[str], program: str) -> list[dict[str, str]]:
        """On arm64: for each setting of the atomics what the environment must say, with the auditing library."""
        ...

    def padded(self, sites: list[str], program: str) -> list[Named]:
        """The baseline and a setting for each site whose heap blocks get lines of their own."""
        ...

    def watched(self) -> Any:
        """For the time of a trial with such settings; gives a function from settings to the names of those in which no
        block came."""
        ...

    def runs(self, session: Session, interrupts: Interrupts, limit_s: float | None) -> Runs: ...

    def close(self) -> None: ...


def where(on: str | None) -> Where:
    """The machine that ``--on`` names."""
    return Here() if on in (None, "local") else There(on)


class Here:
    """This machine."""

    name = "local"

    def __init__(self) -> None:
        self.machine = platform.machine()

    def facts(self) -> dict[str, Any]:
        from linewright.target.here import here

        return here()

    def find(self, program: str) -> str:
        return find_program(program)

    def switched(self, values: Sequence[str], program: str) -> list[dict[str, str]]:
        path = find_program(program)
        warn_unswitched(path)
        library, room = find_library(), tls_room(path)
        return [_changed(switched(dict(os.environ), value, False, library, room)) for value in values]

    def padded(self, sites: list[str], program: str) -> list[Named]:
        from linewright.target.programs import find_preload
        from linewright.trial import pad

        return pad.settings(sites, find_program(program), str(find_preload("heap")), os.environ.get("LD_PRELOAD", ""))

    def watched(self):
        from linewright.trial import pad

        return pad.watched()

    def runs(self, session: Session, interrupts: Interrupts, limit_s: float | None) -> Runs:
        from linewright.trial import runner

        program = find_program(session.command[0])
        return runner.Process(program, session.command, session.metric, interrupts, limit_s)

    def close(self) -> None:
        pass


class There:
    """Another machine, by a copy of the probe that is removed by `close` or with the connection."""

    def __init__(self, on: str) -> None:
        from linewright.target.remote.target import open_machine
        from linewright.trial.elsewhere import Helper

        self._place = open_machine(on)
        self.name = on
        self._more: dict[str, str] = {}
        try:
            self._helper: Helper = Helper(self._place)
        except BaseException:
            self._place.close()
            raise
        self.machine = self._helper.about["arch"]

    def facts(self) -> dict[str, Any]:
        return dict(self._helper.about)

    def find(self, program: str) -> str:
        if not program:
            raise UserError("no program named", "PROGRAM")
        try:
            return os.fsdecode(self._place.look(FIND % shlex.quote(program))).strip()
        except RunError as error:
            if str(error) == self._place.tether.lost:
                raise
            raise UserError(f"no such program on {self.name}: {program}", "PROGRAM") from None

    def switched(self, values: Sequence[str], program: str) -> list[dict[str, str]]:
        if ":" in self._place.folder or "$" in self._place.folder:
            raise UserError(f"LD_AUDIT cannot name a path with ':' or '$': {self._place.folder}", self.name)
        self._own(LIBRARY)
        # Nothing is known of the libraries of a program there, so the room is what most programs need.
        return [_changed(switched({}, value, False, Path(FOLDER, LIBRARY), TLS_LEAST)) for value in values]

    def _own(self, name: str) -> Path:
        """The file here that a setting's environment names in the folder there; UserError where it was not built."""
        from linewright.target.programs import find_audit_for, find_preload_for

        if name == LIBRARY:
            return find_audit_for(self._place.arch, find_library)
        return find_preload_for("heap", self._place.arch)

    def padded(self, sites: list[str], program: str) -> list[Named]:
        from linewright.trial import pad

        self._own(HEAP)
        path = self.find(program)
        with tempfile.TemporaryDirectory(prefix="linewright-") as folder:
            copy = Path(folder, PurePosixPath(path).name)  # read for its symbols; blocks are found by its name
            copy.write_bytes(self._place.look(f"cat {shlex.quote(path)}"))
            return pad.settings(sites, str(copy), f"{FOLDER}/{HEAP}", "")

    @contextmanager
    def watched(self) -> Iterator[Callable[[Sequence[Named]], list[str]]]:
        from linewright.trial import pad

        seen = f"{self._place.folder}/seen"
        self._place.look(f"mkdir -p {shlex.quote(seen)}")
        self._more = {pad.SEEN: seen}
        yield lambda some: pad.unseen(some, self._place.look(f"ls {shlex.quote(seen)}").decode().split())

    def runs(self, session: Session, interrupts: Interrupts, limit_s: float | None) -> Runs:
        from linewright.trial.elsewhere import Elsewhere

        values = [value for setting in session.settings for value in setting.environment.values()]
        for name in (LIBRARY, HEAP):  # a trial that is gone on with needs them as a new one does
            if any(f"{FOLDER}/{name}" in value for value in values):
                self._place.send(self._own(name), name)
        return Elsewhere(self._helper, session.command, session.metric, interrupts, limit_s, self._more)

    def close(self) -> None:
        self._helper.close()
        self._place.close()


def _changed(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in CHANGED}

"""A trial's runs on another machine: a helper there starts and times the program, so that no connection is in the
figures."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

import msgspec

from linewright.errors import RunError, UserError
from linewright.target.interrupts import Interrupts
from linewright.target.local import LOST
from linewright.target.probe import error_text
from linewright.target.process import die_with_parent
from linewright.target.remote.place import Copied
from linewright.trial.files import FOLDER
from linewright.trial.runner import MOST_OUTPUT, Interrupted, Outcome, Runs

FIRST = b'{"linewright_programs":1,'
"""How the helper's first line begins (probe/programs.hpp); what comes before it is talk of a login shell."""
CLOSE_S = 15.0


class Lost(Interrupted):
    """The connection ended: no further run is possible."""


class Helper:
    """The probe of another machine as a helper that runs programs; `about` is what it says of that machine."""

    def __init__(self, place: Copied) -> None:
        self.place = place
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            place.programs(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is ours to pass on: ssh would die of it
            preexec_fn=die_with_parent(),
        )
        line = b"talk"
        while line and not line.startswith(FIRST):
            line = self._process.stdout.readline()
        if not line:
            why = self.why()
            self.close()
            raise RunError(why)
        self.about: dict[str, Any] = msgspec.json.decode(line)
        del self.about["linewright_programs"]

    def start(self, request: Mapping[str, Any]) -> None:
        """Have a program started; `answer` waits for its end."""
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise Lost from None

    def end(self, how: str) -> None:
        """``end`` or ``kill`` the program that runs; for signal handlers, so it is written past every buffer."""
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), how.encode() + b"\n")

    def answer(self) -> tuple[dict[str, Any], bytes]:
        """What the program took, and its output."""
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise Lost
        found = msgspec.json.decode(line)
        output = self._process.stdout.read(found.get("output_bytes", 0))
        if len(output) < found.get("output_bytes", 0):
            raise Lost
        return found, output

    def why(self) -> str:
        """Why nothing more comes."""
        code = self._process.wait()
        self._errors.seek(0)
        said = error_text(self._errors.read())
        if code == LOST:
            return self.place.tether.lost + (f": {said}" if said else "")
        return f"{self.place.name}: the helper there ended" + (f": {said}" if said else f" with {code}")

    def kill(self) -> None:
        """End the connection; the program there is then killed."""
        self._process.kill()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()


class Elsewhere(Runs):
    """Runs a command by a helper on another machine; called once per run, ended by signals as `Process` is."""

    def __init__(
        self,
        helper: Helper,
        command: list[str],
        metric: str,
        interrupts: Interrupts,
        limit_s: float | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(command, metric, interrupts, limit_s)
        self._helper, self._more = helper, dict(more or {})

    def __call__(self, environment: Mapping[str, str]) -> Outcome:
        if self._interrupts.caught:
            raise Interrupted
        folder = self._helper.place.folder
        changed = {name: value.replace(FOLDER, folder) for name, value in {**environment, **self._more}.items()}
        request = {
            "command": self._command, "environment": changed, "limit_s": self._limit_s or 0,
            "output": MOST_OUTPUT + 1 if self._pattern else 0,
        }  # fmt: skip
        try:
            self._helper.start(request)
            found, output = self._wait()
        except Lost:
            self.lost = "" if self._interrupts.caught else self._helper.why()
            raise
        if self._interrupts.caught:
            raise Interrupted
        if "errno" in found:
            why = os.strerror(found["errno"])
            raise UserError(f"cannot run {self._command[0]} on {self._helper.place.name}: {why}", "PROGRAM")
        if found["late"]:
            return self._late(found["wall_s"])
        return self._outcome(found, io.BytesIO(output), io.BytesIO(found["errors"].encode()))

    def _wait(self) -> tuple[dict[str, Any], bytes]:
        def pass_on() -> None:
            count = self._interrupts.count
            self._helper.kill() if count > 2 else self._helper.end("kill" if count > 1 else "end")

        self._interrupts.on_signal = pass_on
        try:
            if self._interrupts.caught:  # it came before the line above
                pass_on()
            return self._helper.answer()
        finally:
            self._interrupts.on_signal = lambda: None

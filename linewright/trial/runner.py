# SPDX-License-Identifier: MIT
"""One run of the user's program, here or elsewhere: its environment, its metric, and what it did
when it failed."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from linewright.errors import RunError, UserError, one_line
from linewright.run.place import LOST, Place
from linewright.run.probe_questions import error_text, exit_text
from linewright.run.process import Interrupts, end_of_input, start
from linewright.run.transport import last_line
from linewright.trial.trial_file import FOLDER, TrialSetting

METRICS = {"wall": "s", "cpu": "s", "maxrss": "bytes"}
"""Metrics that the system gives, and their units; anything else is a regular expression on the
program's output."""
FIRST = b'{"linewright_programs":1,'
"""How the helper's first line begins; what comes before it is talk of a login shell."""
CLOSE_S = 15.0
"""Longest wait for the helper's end."""
MOST_OUTPUT = 16 * 1024 * 1024
"""Bytes of standard output that are searched."""
NO_MATCH = "nothing in its output fits the metric's expression"


class Interruption(Exception):
    """The run was ended, by the user or with a connection: it is no result and is not kept."""


class ConnectionLoss(Interruption):
    """The connection ended: no further run is possible."""


@dataclass(frozen=True)
class RunOutcome:
    """What one run gave; `value` is None where it failed, and `reason` then says why."""

    value: float | None
    reason: str
    wall_s: float
    cpu_s: float
    maxrss_bytes: int
    exit_code: int | None
    threads: int = 0


Runner = Callable[[TrialSetting], RunOutcome]
"""Runs the program once under a setting."""


def compile_metric(text: str) -> re.Pattern[bytes] | None:
    """None for a metric of the system's, else the expression that finds the figure in the
    output."""
    if text in METRICS:
        return None
    allowed = (
        f"allowed: {', '.join(METRICS)}, or a regular expression whose first group is a "
        "number in the program's output"
    )
    try:
        pattern = re.compile(text.encode(), re.MULTILINE)
    except (re.error, UnicodeEncodeError, OverflowError, RecursionError) as error:
        what = f"not a regular expression: {text!r}: {error}"
        raise UserError(what, "--metric", allowed) from None
    if not pattern.groups:
        raise UserError(f"no group in {text!r}", "--metric", allowed)
    return pattern


def figure(pattern: re.Pattern[bytes], output: bytes) -> tuple[float | None, str]:
    """The first match's first group as a number, or why there is none."""
    match = pattern.search(output)
    if not match or match[1] is None:
        return None, NO_MATCH
    text = match[1].decode("utf-8", "replace").strip()
    try:
        return _positive(float(text))
    except ValueError:
        return None, f"not a number in its output: {one_line(text[:40])!r}"


def _positive(value: float) -> tuple[float | None, str]:
    if not math.isfinite(value) or value <= 0:
        return None, f"the metric is {value:g}; only figures above 0 can be compared"
    return value, ""


class Helper:
    """The probe of a machine as a helper that runs programs there (probe/programs.hpp), so that no
    connection is in their figures; `about` is what it says of that machine."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._errors = tempfile.TemporaryFile()
        # In a session of its own: Ctrl-C is ours to pass on, and ssh would die of it.
        self._process = start(place.ask("--programs"), own_session=True, stderr=self._errors)
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
            raise ConnectionLoss from None

    def end(self, how: str) -> None:
        """``end`` or ``kill`` the program that runs; for signal handlers, so it is written past
        every buffer."""
        with suppress(OSError):
            os.write(self._process.stdin.fileno(), how.encode() + b"\n")

    def answer(self) -> tuple[dict[str, Any], bytes]:
        """What the program took, and its output."""
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ConnectionLoss
        found = msgspec.json.decode(line)
        output = self._process.stdout.read(found.get("output_bytes", 0))
        if len(output) < found.get("output_bytes", 0):
            raise ConnectionLoss
        return found, output

    def why(self) -> str:
        """Why nothing more comes."""
        code = self._process.wait()
        self._errors.seek(0)
        said = error_text(self._errors.read())
        if code == LOST and self.place.link:
            return self.place.link.lost + (f": {said}" if said else "")
        how = f": {said}" if said else f" with {code}"
        return f"{self.place.name}: the helper there ended{how}"

    def kill(self) -> None:
        """End the connection; the program there is then killed."""
        self._process.kill()

    def close(self) -> None:
        end_of_input(self._process, CLOSE_S)
        self._errors.close()


class Runs:
    """A command that a helper runs; called once per run.  The caller's `Interrupts` end the program
    with a first signal politely, with a second one at once, and with a third the helper."""

    lost = ""
    """Why no further run is possible, where it was not the user who ended this one."""

    def __init__(
        self,
        helper: Helper,
        command: list[str],
        metric: str,
        interrupts: Interrupts,
        limit_s: float | None = None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        """`more` is put into every run's environment; `FOLDER` in one is the helper's folder."""
        self._helper, self._command, self._metric = helper, command, metric
        self._pattern = compile_metric(metric)
        self._interrupts, self._limit_s, self._more = interrupts, limit_s, dict(more or {})
        self._counted: set[int] = {0}

    def __call__(self, setting: TrialSetting) -> RunOutcome:
        if self._interrupts.caught:
            raise Interruption
        place = self._helper.place
        command, changed = setting.command or self._command, {**setting.environment, **self._more}
        if place.far:
            changed = {name: text.replace(FOLDER, place.folder) for name, text in changed.items()}
        request = {
            "command": command, "environment": changed, "limit_s": self._limit_s or 0,
            "output": MOST_OUTPUT + 1 if self._pattern else 0,
            "threads": setting.threads not in self._counted,
        }  # fmt: skip
        self._counted.add(setting.threads)  # once: counting takes a CPU's time
        try:
            self._helper.start(request)
            found, output = self._wait()
        except ConnectionLoss:
            self.lost = "" if self._interrupts.caught else self._helper.why()
            raise
        if self._interrupts.caught:
            raise Interruption
        if "errno" in found:
            there = f" on {place.name}" if place.far else ""
            why = os.strerror(found["errno"])
            raise UserError(f"cannot run {command[0]}{there}: {why}", "PROGRAM")
        return self._outcome(found, output)

    def _wait(self) -> tuple[dict[str, Any], bytes]:
        def pass_on() -> None:
            count = self._interrupts.count
            self._helper.kill() if count > 2 else self._helper.end("kill" if count > 1 else "end")

        with self._interrupts.answered_by(pass_on):
            return self._helper.answer()

    def _outcome(self, found: Mapping[str, Any], output: bytes) -> RunOutcome:
        """By what the helper measured."""
        if found["late"]:
            took = found["wall_s"]
            after = f"{took:.1f} s" if took >= 1 else f"{took * 1e3:.0f} ms"
            reason = f"longer than its limit: ended after {after}"
            return RunOutcome(None, reason, took, 0.0, 0, None, found["threads"])
        code = os.waitstatus_to_exitcode(found["status"])
        wall_s, cpu_s, maxrss = found["wall_s"], found["cpu_s"], found["maxrss_bytes"]
        if code:
            said = last_line(found["errors"])[:120]
            value, reason = None, exit_text(code) + (f": {said}" if said else "")
        else:
            value, reason = self._value(wall_s, cpu_s, maxrss, output)
        return RunOutcome(value, reason, wall_s, cpu_s, maxrss, code, found["threads"])

    def _value(
        self, wall_s: float, cpu_s: float, maxrss: int, output: bytes
    ) -> tuple[float | None, str]:
        if self._pattern is None:
            return _positive({"wall": wall_s, "cpu": cpu_s, "maxrss": float(maxrss)}[self._metric])
        with self._interrupts.answered_by(self._leave):
            value, reason = figure(self._pattern, output[:MOST_OUTPUT])
        if reason == NO_MATCH and len(output) > MOST_OUTPUT:
            reason = (
                f"nothing in the first {MOST_OUTPUT // 2**20} MiB of its output fits the "
                "metric's expression"
            )
        return value, reason

    def _leave(self) -> None:
        """End the search of an expression, which can take for ever to find nothing."""
        self._interrupts.answer = lambda: None  # a second one must not raise on the way out
        raise Interruption

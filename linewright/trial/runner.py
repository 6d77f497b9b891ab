"""One run of the user's program: its environment, its metric, and what it did when it failed."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from linewright.errors import UserError, one_line
from linewright.target.interrupts import Interrupts

METRICS = {"wall": "s", "cpu": "s", "maxrss": "bytes"}
"""Metrics that the system gives, and their units; anything else is a regular expression on the program's output."""
LAUNCHER = str(Path(__file__).with_name("launch.py"))
MOST_OUTPUT = 16 * 1024 * 1024
"""Bytes of standard output that are searched."""
MOST_ROUNDS = 100
"""Times that a program's processes are looked for and killed: one may start another meanwhile."""
NO_MATCH = "nothing in its output fits the metric's expression"
TAIL = 4096
"""Bytes of standard error that are searched for a failed run's last line."""


class Interrupted(Exception):
    """The run was ended, by the user or with a connection: it is no result and is not kept."""


@dataclass(frozen=True)
class Outcome:
    """What one run gave; `value` is None where it failed, and `reason` then says why."""

    value: float | None
    reason: str
    wall_s: float
    cpu_s: float
    maxrss_bytes: int
    exit_code: int | None


Runner = Callable[[Mapping[str, str]], Outcome]
"""Runs the program once with these changes to the environment."""


def compile_metric(text: str, where: str = "--metric") -> re.Pattern[bytes] | None:
    """None for a metric of the system's, else the expression that finds the figure in the output."""
    if text in METRICS:
        return None
    allowed = (
        f"allowed: {', '.join(METRICS)}, or a regular expression whose first group is a number in the program's output"
    )
    try:
        pattern = re.compile(text.encode(), re.MULTILINE)
    except (re.error, UnicodeEncodeError, OverflowError, RecursionError) as error:
        raise UserError(f"not a regular expression: {text!r}: {error}", where, allowed) from None
    if not pattern.groups:
        raise UserError(f"no group in {text!r}", where, allowed)
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


class Runs:
    """A command that is run, and what its runs come to, wherever that is."""

    lost = ""
    """Why no further run is possible, where it was not the user who ended this one."""

    def __init__(self, command: list[str], metric: str, interrupts: Interrupts, limit_s: float | None = None) -> None:
        self._command, self._metric = command, metric
        self._pattern = compile_metric(metric)
        self._interrupts, self._limit_s = interrupts, limit_s

    def _late(self, took: float) -> Outcome:
        return Outcome(None, f"longer than --limit: ended after {took:.1f} s", took, 0.0, 0, None)

    def _outcome(self, found: Mapping[str, Any], output: BinaryIO, errors: BinaryIO) -> Outcome:
        """Of a run that came to its end, by what its launcher measured."""
        code = os.waitstatus_to_exitcode(found["status"])
        wall_s, cpu_s, maxrss = found["wall_s"], found["cpu_s"], found["maxrss_bytes"]
        value, reason = (None, _failure(code, errors)) if code else self._value(wall_s, cpu_s, maxrss, output)
        return Outcome(value, reason, wall_s, cpu_s, maxrss, code)

    def _value(self, wall_s: float, cpu_s: float, maxrss: int, output: BinaryIO) -> tuple[float | None, str]:
        if self._pattern is None:
            return _positive({"wall": wall_s, "cpu": cpu_s, "maxrss": float(maxrss)}[self._metric])
        output.seek(0)
        text = output.read(MOST_OUTPUT + 1)
        with self._interruptible():
            value, reason = figure(self._pattern, text[:MOST_OUTPUT])
        if reason == NO_MATCH and len(text) > MOST_OUTPUT:
            reason = f"nothing in the first {MOST_OUTPUT // 2**20} MiB of its output fits the metric's expression"
        return value, reason

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """An expression can take for ever to find nothing: a signal ends the search."""

        def leave() -> None:
            self._interrupts.on_signal = lambda: None
            raise Interrupted

        self._interrupts.on_signal = leave
        try:
            if self._interrupts.caught:  # it came before the line above
                raise Interrupted
            yield
        finally:
            self._interrupts.on_signal = lambda: None


class Process(Runs):
    """Runs a command here; called once per run.  The caller's `Interrupts` end the program with a first signal politely
    and with a second one at once."""

    def __init__(
        self, program: str, command: list[str], metric: str, interrupts: Interrupts, limit_s: float | None = None
    ) -> None:
        super().__init__(command, metric, interrupts, limit_s)
        self._program = program

    def __call__(self, environment: Mapping[str, str]) -> Outcome:
        if self._interrupts.caught:
            raise Interrupted
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            return self._run(environment, output, errors)

    def _run(self, environment: Mapping[str, str], output: BinaryIO, errors: BinaryIO) -> Outcome:
        started = time.perf_counter()
        receive, send = os.pipe()
        launcher = [
            sys.executable,
            "-I",
            "-S",
            LAUNCHER,
            str(send),
            json.dumps(dict(environment)),
            self._program,
            *self._command,
        ]
        with os.fdopen(receive, "rb") as report:
            try:
                process = subprocess.Popen(
                    launcher,
                    stdin=subprocess.DEVNULL,
                    stdout=output if self._pattern else subprocess.DEVNULL,
                    stderr=errors,
                    process_group=0,
                    pass_fds=(send,),
                )
            except OSError as error:
                raise UserError(f"cannot run {self._program}: {error.strerror}", "PROGRAM") from None
            finally:
                os.close(send)
            late = self._wait(process)
            text = report.read()
        if self._interrupts.caught:
            raise Interrupted
        took = time.perf_counter() - started
        if late:
            return self._late(took)
        if not text:
            return Outcome(None, _failure(process.returncode, errors), took, 0.0, 0, None)
        found = json.loads(text)
        if "errno" in found:
            raise UserError(f"cannot run {self._program}: {os.strerror(found['errno'])}", "PROGRAM")
        return self._outcome(found, output, errors)

    def _wait(self, process: subprocess.Popen) -> bool:
        """Wait for the launcher, passing the user's signals on; whether the limit ended it."""
        self._interrupts.on_signal = lambda: _end(process.pid, self._interrupts.count > 1)
        if self._interrupts.caught:  # it came before the line above
            _end(process.pid, False)
        try:
            process.wait(self._limit_s)
            return False
        except subprocess.TimeoutExpired:
            _end(process.pid, True)
            process.wait()
            return True
        finally:
            self._interrupts.on_signal = lambda: None


def _end(launcher: int, at_once: bool) -> None:
    """End the program and what it started, in whatever process group (`timeout` and shells make their own).

    Politely, or at once and then again until nothing is left: what goes on running would be timed with the next runs.
    The launcher goes last, since its children are found through it.
    """
    number = signal.SIGKILL if at_once else signal.SIGTERM
    for _ in range(MOST_ROUNDS if at_once else 1):
        found = _descendants(launcher)
        for pid in found:
            _signal(os.kill, pid, number)
            _signal(
                os.kill, pid, signal.SIGCONT
            )  # one that is stopped (it asked the terminal, say) would never hear the other
        if not found:
            break
    _signal(os.killpg, launcher, number)


def _signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    """It may be gone already, or another user's."""
    with suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def _descendants(pid: int) -> list[int]:
    """Living children of a process, their children and so on, by the parents that /proc names."""
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        if state != b"Z":
            children.setdefault(int(parent), []).append(int(entry))
    found = [pid]
    for known in found:
        found += children.get(known, [])
    return found[1:]


def _failure(code: int, errors: BinaryIO) -> str:
    how = f"exit code {code}" if code > 0 else f"ended by {_signal_name(-code)}"
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - TAIL))
    lines = [line for line in errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return f"{how}: {one_line(lines[-1])[:120]}" if lines else how


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

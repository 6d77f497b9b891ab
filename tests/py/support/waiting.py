# SPDX-License-Identifier: MIT
"""Waiting for what other processes do: as long as they are about it, however slow the machine.

A test that gives up when a clock has passed fails on a loaded machine. These wait on while anything
that the test started runs or waits for a CPU, and fail when what is awaited has ended, or when all
of it has slept for five minutes in sum.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ASLEEP_S = 300.0
"""Far more than any pause that a program or a test makes on purpose."""
LOOK_S = 1.0
"""A look reads all of /proc, so that what is soon over has none."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_known: set[tuple[int, str]] = set()
"""Process ids with start times: whatever this process was once seen to have started, also when the
process between them has ended since."""


def wait_for(condition: Callable[[], object], *awaited: subprocess.Popen, said=str) -> None:
    """Return as soon as the condition holds. `awaited` are processes without which it cannot come
    to hold; `said()` is added to the message of a failure."""
    patience = _Patience()
    while not condition():
        for process in awaited:
            if process.poll() is not None and not condition():
                raise AssertionError(f"it ended with {process.returncode} before: {said()}")
        patience.spend(said)
        time.sleep(0.02)
    _started()  # who is there now is known, should its parent be ended next


def finish(process: subprocess.Popen, input: str | bytes | None = None) -> tuple:
    """Standard output and standard error of a process, once it has ended; what stands still is
    killed."""
    patience = _Patience()
    while True:
        try:
            return process.communicate(input, timeout=LOOK_S)
        except subprocess.TimeoutExpired:  # nothing is lost: the next call goes on
            input = None
            try:
                patience.spend()
            except AssertionError:
                process.kill()
                raise


def run(command, input: str | bytes | None = None, *, check=False, **options):
    """As subprocess.run(), with its output captured as text."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    if input is not None:
        given["stdin"] = subprocess.PIPE
    process = subprocess.Popen(command, **(given | options))
    out, error = finish(process, input)
    assert process.returncode == 0 or not check, (process.returncode, error)
    return subprocess.CompletedProcess(command, process.returncode, out, error)


def lives(pid: int) -> bool:
    """Whether a process has not ended; one that is only not yet waited for has."""
    return _stat(f"/proc/{pid}/stat")[:1] not in ([], ["Z"])


def cpu_s(pid: int) -> float:
    """CPU time of a process so far; nothing when it has ended."""
    return sum(ticks for _, ticks in _threads(pid)) / TICKS_PER_S


class _Patience:
    """What is left of the time that may be slept."""

    def __init__(self) -> None:
        self.left_s, self._ticks, self._looked = ASLEEP_S, 0, time.monotonic()

    def spend(self, said: Callable[[], str] = str) -> None:
        now = time.monotonic()
        passed_s = now - self._looked
        if passed_s < LOOK_S:
            return
        found = _started()
        ticks = sum(number for _, states in found for _, number in states)
        wanted = any(state in "RD" for _, states in found for state, _ in states)
        used_s = (ticks - self._ticks) / TICKS_PER_S
        self._ticks, self._looked = ticks, now
        if wanted or used_s > 0.1 * passed_s:
            return
        self.left_s -= passed_s
        if self.left_s < 0:
            who = ", ".join(f"{pid} ({_words(pid)})" for pid, _ in found) or "nothing"
            raise AssertionError(f"all asleep for {ASLEEP_S:.0f} s: {who}. {said()}")


def _started() -> list[tuple[int, list[tuple[str, int]]]]:
    """Processes that this one started, directly or not: state and ticks of CPU time of each of
    their threads. Those that have ended and are not waited for are left out."""
    fields = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        if found := _stat(f"/proc/{entry}/stat"):
            fields[int(entry)] = found
    ours = {os.getpid()}
    while more := {pid for pid, stat in fields.items() if int(stat[1]) in ours} - ours:
        ours |= more
    _known.update((pid, fields[pid][19]) for pid in ours - {os.getpid()} if pid in fields)
    _known.intersection_update((pid, stat[19]) for pid, stat in fields.items())
    alive = [(pid, fields[pid]) for pid, _ in sorted(_known) if fields[pid][0] != "Z"]
    return [(pid, _threads(pid)) for pid, _ in alive]


def _threads(pid: int) -> list[tuple[str, int]]:
    try:
        found = [_stat(f"/proc/{pid}/task/{task}/stat") for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
    return [(stat[0], int(stat[11]) + int(stat[12])) for stat in found if stat]


def _stat(path: str) -> list[str]:
    """The fields of proc(5)'s stat from the third on: state, parent …; none when it is gone."""
    try:
        return Path(path).read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()[:80]
    except OSError:
        return "gone"

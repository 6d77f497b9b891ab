# SPDX-License-Identifier: MIT
"""Runs one `linewright measure` for each machine, a bounded number at a time; what is done is
remembered in the folder."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from linewright import __version__
from linewright.errors import BAD_REQUEST, DONE, RunError, UserError, one_line
from linewright.fleet.hosts import Host
from linewright.run.probe_questions import exit_text
from linewright.run.process import Interrupts, die_with_parent

STATE = "fleet.json"
PREFIX = "linewright: "
_SHARE = re.compile(r"^\s*([0-9]{1,3})%[, ]")


class MeasureOutcome(Struct, frozen=True):
    """How one machine's measurement ended: ``done``, or ``failed`` with the line that said why."""

    state: str
    reason: str = ""
    code: int = 0


class State(Struct, kw_only=True):
    """What a folder's file remembers: the options that all machines share, and what became of each
    target."""

    linewright_fleet: int = 1
    tool_version: str = __version__
    options: list[str]
    outcomes: dict[str, MeasureOutcome] = {}


class Member(Struct):
    """One machine while the fleet runs."""

    host: Host
    file: Path
    process: subprocess.Popen | None = None
    started: float = 0.0
    share: float = 0.0
    said: bytes = b""
    last: str = ""
    late: bool = False


class FleetRun:
    """The machines of one folder. `changed` is called with a line whenever one ends; `share` and
    `running` say how far it is."""

    def __init__(
        self, hosts: Sequence[Host], folder: Path, options: Sequence[str], resume: bool
    ) -> None:
        self.folder = folder
        self.members = [Member(host, folder / f"{host.name}.jsonl") for host in hosts]
        self.state = _open_folder(folder, list(options), resume)
        known, before = {host.target for host in hosts}, self.state.outcomes
        self.state.outcomes = {target: o for target, o in before.items() if target in known}
        self.waiting = deque(member for member in self.members if not self._is_done(member))
        self.running: list[Member] = []

    def _is_done(self, member: Member) -> bool:
        outcome = self.state.outcomes.get(member.host.target)
        return outcome is not None and outcome.state == "done" and member.file.exists()

    @property
    def ended(self) -> int:
        return len(self.members) - len(self.waiting) - len(self.running)

    @property
    def share(self) -> float:
        return (self.ended + sum(member.share for member in self.running)) / len(self.members)

    @property
    def failed(self) -> dict[str, MeasureOutcome]:
        return {target: o for target, o in self.state.outcomes.items() if o.state != "done"}

    @property
    def files(self) -> dict[Host, Path]:
        """Record files that hold something, in the order of the machines."""
        return {member.host: member.file for member in self.members if member.file.exists()}

    def run(
        self, jobs: int, limit_s: float, changed: Callable[[str], None], tick: Callable[[], None]
    ) -> None:
        """Measure what is left. Raises RunError when a signal ends it; every record is kept."""
        with Interrupts() as interrupts, selectors.DefaultSelector() as selector:
            try:
                with interrupts.answered_by(lambda: self._stop(interrupts)):
                    while self.running or (self.waiting and not interrupts.caught):
                        while self.waiting and len(self.running) < jobs and not interrupts.caught:
                            self._start(self.waiting.popleft(), selector)
                        for key, _ in selector.select(timeout=0.5):
                            self._hear(key.data, selector, changed)
                        self._end_late(limit_s)
                        tick()
            finally:
                self._kill()
            if interrupts.caught:
                reached = f"{self.ended} of {len(self.members)} machines were reached"
                raise RunError(f"stopped by {interrupts.caught.name}; {reached}")

    def _start(self, member: Member, selector: selectors.BaseSelector) -> None:
        where = ["--resume" if member.file.exists() else "--output", str(member.file)]
        measure = ["-m", "linewright", "measure", "--format", "none", "--on"]
        member.process = subprocess.Popen(
            [sys.executable, *measure, member.host.target, *where, *self.state.options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is passed on by us, once
            preexec_fn=die_with_parent(),
        )
        member.started = time.monotonic()
        selector.register(member.process.stderr, selectors.EVENT_READ, member)
        self.running.append(member)

    def _hear(
        self, member: Member, selector: selectors.BaseSelector, changed: Callable[[str], None]
    ) -> None:
        """Take what a machine's run says; when it has ended, remember how."""
        stream = member.process.stderr
        data = os.read(stream.fileno(), 1 << 16)
        if data:
            *lines, member.said = (member.said + data).split(b"\n")
            for line in lines:
                self._take(member, line.decode("utf-8", "replace"))
            return
        selector.unregister(stream)
        stream.close()
        self._ended(member, member.process.wait(), changed)

    def _ended(self, member: Member, code: int, changed: Callable[[str], None]) -> None:
        """Remember how a machine's run ended, and say it."""
        self.running.remove(member)
        member.share = 1.0
        took = f"{time.monotonic() - member.started:.0f} s"
        outcome, how = MeasureOutcome("done"), f"done in {took}"
        if code != DONE:
            late = "took longer than its budget allows, and was ended" if member.late else ""
            outcome = MeasureOutcome("failed", late or member.last or exit_text(code), code)
            how = f"failed after {took}: {outcome.reason}"
        self.state.outcomes[member.host.target] = outcome
        self._remember()
        changed(f"{self.ended} of {len(self.members)}: {member.host.target} {how}")

    def _take(self, member: Member, line: str) -> None:
        share = _SHARE.match(line)
        if share:
            member.share = max(member.share, min(1.0, int(share[1]) / 100))
        elif line.startswith(PREFIX):
            said = one_line(line.removeprefix(PREFIX))
            member.last = said.removeprefix(f"{member.host.target}: ")

    def _end_late(self, limit_s: float) -> None:
        """A machine that answers no more must not keep the others from being measured."""
        for member in self.running:
            late_s = time.monotonic() - member.started - limit_s
            if late_s > 60:
                member.process.kill()
            elif late_s > 0 and not member.late:
                member.late = True
                member.process.send_signal(signal.SIGTERM)

    def _stop(self, interrupts: Interrupts) -> None:
        asked = signal.SIGKILL if interrupts.count > 2 else signal.SIGTERM
        for member in self.running:
            member.process.send_signal(asked)

    def _kill(self) -> None:
        """Leave no process behind, whatever stopped the loop."""
        for member in self.running:
            with contextlib.suppress(OSError):
                member.process.kill()
            member.process.wait()

    def _remember(self) -> None:
        """Write the state under another name and rename it: a kill leaves the old one or the new
        one."""
        path = self.folder / STATE
        beside, text = path.with_suffix(".part"), msgspec.json.encode(self.state)
        try:
            beside.write_bytes(msgspec.json.format(text, indent=1) + b"\n")
            os.replace(beside, path)
        except OSError as error:
            raise RunError(f"{path}: {error.strerror}") from None


def _open_folder(folder: Path, options: list[str], resume: bool) -> State:
    """The folder's state: of a run that is gone on with, or a new one in a new or empty folder."""
    path = folder / STATE
    try:
        if path.exists() and resume:
            state = msgspec.json.decode(path.read_bytes(), type=State)
            if state.options != options:
                what = f"{folder} was begun with {shlex.join(state.options) or 'no options'}"
                allowed = "the same options go on with it; others need another folder"
                raise UserError(what, "--resume", allowed)
            return state
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            allowed = "name a folder that is empty or does not exist"
            raise UserError(f"{folder} is not empty", "--output", allowed)
    except msgspec.DecodeError as error:
        raise UserError(str(error), str(path), "expected what linewright measure wrote") from None
    except OSError as error:
        what = f"cannot use {folder}: {error.strerror}"
        raise UserError(what, "--output", "name a folder that can be written") from None
    return State(options=options)


def incomplete(failed: dict[str, MeasureOutcome], count: int, go_on: str) -> RunError:
    """What is said where some machines have no, or not all, records."""
    reasons = "; ".join(f"{target}: {o.reason}" for target, o in list(failed.items())[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return RunError(f"{len(failed)} of {count} machines failed ({reasons}{more}); {go_on}")


def refusal(outcomes: dict[str, MeasureOutcome]) -> UserError | None:
    """The one reason, where every machine's run was refused as a wrong request for the same one."""
    reasons = {outcome.reason for outcome in outcomes.values()}
    if len(reasons) == 1 and all(outcome.code == BAD_REQUEST for outcome in outcomes.values()):
        return UserError(reasons.pop())
    return None

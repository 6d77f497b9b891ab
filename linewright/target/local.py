"""This machine as a target, and the conversation with a program that runs a plan."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from linewright.errors import RunError, UserError
from linewright.records.files import decode_line
from linewright.schema import Context, Plan, Record
from linewright.target import probe
from linewright.target.estimate import cells_s
from linewright.target.interrupts import Interrupts
from linewright.target.probe import Form, Topology
from linewright.target.process import end, start
from linewright.target.programs import NAME, find_probe

LEAST_BUDGET_S = 0.001
"""What a launch gets when earlier ones used up everything: the probe still gives every cell one window."""
STOP_PATIENCE_S = 15.0
"""Longest wait for a probe that was asked to stop: above the longest window that a plan may ask for."""


class Progress(Struct, frozen=True):
    """How far one launch is, in windows and cells."""

    launch: int
    id: str
    windows_done: int
    windows_total: int
    cells_done: int
    cells_total: int


Event = Context | Record | Progress
Done = Collection[tuple[str, int]]
"""(cell id, launch) pairs that need not run again."""


class Target(Protocol):
    """A place that runs plans. Questions raise UserError or RunError; `run` yields what it has before it raises.

    `close` gives back what the target holds elsewhere: a connection, a copy of the probe.
    """

    name: str

    def forms(self) -> list[Form]: ...
    def topology(self) -> Topology: ...
    def context(self) -> Context: ...
    def check(self, plan: Plan) -> None: ...
    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]: ...
    def close(self) -> None: ...


class Tether(Struct, frozen=True):
    """How a program elsewhere is held through its standard input: it gets the plan's length on a line and the plan, and
    is asked to stop by the end of the input, which also comes when the connection is lost."""

    begin: bytes
    """The line of its output before which everything is talk of a login shell."""
    lost: str
    """What is said when the connection was lost, which is exit code `LOST`."""


LOST = 255
"""Exit code of ssh for a connection that failed or was lost."""


class LocalTarget:
    """This machine, by running linewright-probe once per launch; each question is asked once."""

    name = "local"

    def __init__(self, probe_path: Path | None = None) -> None:
        self.probe_path = probe_path or find_probe()
        self.forms = cache(lambda: probe.forms(self.probe_path))
        self.topology = cache(lambda: probe.topology(self.probe_path))
        self.context = cache(lambda: probe.context(self.probe_path))

    def check(self, plan: Plan) -> None:
        probe.check(self.probe_path, plan)

    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]:
        return in_turn(plan, done, lambda launch, held: launch_program([self.probe_path], launch, held))

    def close(self) -> None:
        pass


def in_turn(plan: Plan, done: Done, run: Callable[[Plan, Interrupts], Iterator[Event]]) -> Iterator[Event]:
    """Every launch runs every cell, so that forms can be compared in pairs; each gets its share of the time left."""
    began = time.monotonic()
    waiting = deque(launch_plans(plan, done))
    with Interrupts() as interrupts:
        while waiting:
            left_s = plan.budget_s - (time.monotonic() - began)
            share = cells_s(plan, waiting[0].cells) / sum(cells_s(plan, launch.cells) for launch in waiting)
            launch = msgspec.structs.replace(waiting.popleft(), budget_s=max(LEAST_BUDGET_S, left_s * share))
            yield from run(launch, interrupts)


def launch_plans(plan: Plan, done: Done) -> list[Plan]:
    """For each launch of a plan that still has something to run, that part of the plan."""
    left = {
        launch: [cell for cell in plan.cells if (cell.id, launch) not in done]
        for launch in range(plan.launch, plan.launch + plan.launches)
    }
    return [msgspec.structs.replace(plan, cells=cells, launch=launch) for launch, cells in left.items() if cells]


def launch_program(
    command: Sequence[str | Path],
    plan: Plan,
    interrupts: Interrupts,
    program: str = NAME,
    tether: Tether | None = None,
) -> Iterator[Event]:
    """Run a plan by one program; its lines become events as they come. Ends with RunError when cells are missing.

    `program` is what messages call it. With a `tether` the command only leads to a program elsewhere.
    """
    if interrupts.caught:
        raise RunError(f"stopped by {interrupts.caught.name} before launch {plan.launch}")
    process = start(command, own_session=tether is not None)  # Ctrl-C is ours to pass on: ssh would die of it
    interrupts.on_signal = lambda: _stop(process, interrupts, tether)
    conversation = _Conversation(plan, program, tether)
    try:
        _send(process, msgspec.json.encode(plan), tether)
        if interrupts.caught:
            _stop(process, interrupts, tether)
        for name, data in _chunks(process, interrupts):
            yield from conversation.take(name, data)
        code = process.wait()
    finally:
        interrupts.on_signal = lambda: None
        end(process)
    conversation.finish(code, interrupts)


def _stop(process: subprocess.Popen, interrupts: Interrupts, tether: Tether | None) -> None:
    """Ask the probe to write what it has and end; the third request does not ask."""
    if process.poll() is not None:
        return
    if interrupts.count > 2:
        process.kill()
    elif tether is None:
        process.terminate()
    else:
        with contextlib.suppress(
            OSError, RuntimeError
        ):  # RuntimeError: the signal came while the plan was being written
            process.stdin.close()


def _send(process: subprocess.Popen, data: bytes, tether: Tether | None) -> None:
    """Write the plan; a probe that died before reading it is found out by its exit code."""
    try:
        process.stdin.write(data if tether is None else b"%d\n%s" % (len(data), data))
        process.stdin.flush()
        if tether is None:
            process.stdin.close()
    except (BrokenPipeError, ValueError):  # ValueError: a signal closed it meanwhile
        pass


def _chunks(process: subprocess.Popen, interrupts: Interrupts) -> Iterator[tuple[str, bytes]]:
    """Pieces of standard output and standard error as they come, until both end."""
    deadline = None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, "stdout")
        selector.register(process.stderr, selectors.EVENT_READ, "stderr")
        while selector.get_map():
            for key, _ in selector.select(timeout=0.5):
                data = os.read(key.fd, 1 << 20)
                if not data:
                    selector.unregister(key.fileobj)
                yield key.data, data
            if interrupts.caught and process.poll() is None:
                deadline = deadline or time.monotonic() + STOP_PATIENCE_S
                if time.monotonic() > deadline:
                    process.kill()


class _Conversation:
    """What one program has said so far."""

    def __init__(self, plan: Plan, program: str, tether: Tether | None) -> None:
        self.plan = plan
        self.program = program
        self._tether = tether
        self._begun = tether is None
        self.missing = {cell.id for cell in plan.cells}
        self.last_cell = ""
        self.errors = b""
        self._rest = {"stdout": b"", "stderr": b""}
        self._lines = 0
        self._context_id = ""

    def take(self, name: str, data: bytes) -> Iterator[Event]:
        """Events of the whole lines that a piece completes."""
        *lines, self._rest[name] = (self._rest[name] + data).split(b"\n")
        for line in lines:
            if name == "stdout" and not self._begun:
                self._begun = line == self._tether.begin
            elif line.strip():
                yield from self._result(line) if name == "stdout" else self._remark(line)

    def _result(self, line: bytes) -> Iterator[Event]:
        self._lines += 1
        try:
            value = decode_line(line, f"{self.program}, line {self._lines} of its output")
        except UserError as error:
            raise RunError(str(error)) from None
        if isinstance(value, Context):
            self._context_id = value.context_id
        elif value.context_id != self._context_id or value.id not in self.missing:
            raise RunError(
                f"{self.program}, line {self._lines} of its output: a record of a cell that the plan"
                f" does not have: {value.id}"
            )
        else:
            self.missing.discard(value.id)
        yield value

    def _remark(self, line: bytes) -> Iterator[Event]:
        message = probe.stderr_message(line.decode("utf-8", "replace"))
        progress = message.get("progress") if message else None
        if not isinstance(progress, dict):
            self.errors = (self.errors + line + b"\n")[-65536:]
            return
        self.last_cell = str(progress.get("id", ""))
        counts = [progress.get(key) for key in ("done", "total", "cells_done", "cells")]
        if all(isinstance(count, int) for count in counts):
            yield Progress(self.plan.launch, self.last_cell, *counts)

    def finish(self, code: int, interrupts: Interrupts) -> None:
        """Raise unless the launch is complete, saying where it stopped."""
        where = f"launch {self.plan.launch}" + (f", at {self.last_cell}" if self.last_cell and self.missing else "")
        if interrupts.caught:
            raise RunError(f"stopped by {interrupts.caught.name} in {where}")
        said = probe.error_text(self.errors)
        if self._tether is not None and code == LOST:
            raise RunError(f"{self._tether.lost} in {where}" + (f": {said}" if said else ""))
        if code == 2:
            raise UserError(said or f"{self.program} refused the plan")
        if code != 0:
            raise RunError(f"{self.program} {probe.exit_text(code)} in {where}" + (f": {said}" if said else ""))
        if self.missing:
            raise RunError(f"{self.program} ended without {len(self.missing)} of its cells in {where}")

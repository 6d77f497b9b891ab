# SPDX-License-Identifier: MIT
"""The launches of a plan, one after the other, and the conversation with the program that runs
one."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from linewright.errors import RunError, UserError
from linewright.plans.estimate import cells_s
from linewright.records.files import decode_line
from linewright.run import probe_questions
from linewright.run.place import LOST, InputLink
from linewright.run.process import Interrupts, end, start
from linewright.run.programs import NAME
from linewright.schema import Context, Plan, Record, Situation
from linewright.target import Done, Event, Progress

LEAST_BUDGET_S = 0.001
"""What a launch gets when earlier ones used up everything: the probe still gives every cell one
window."""
STOP_PATIENCE_S = 15.0
"""Longest wait for a probe that was asked to stop: above the longest window that a plan may ask
for."""


def in_turn(
    plan: Plan, done: Done, run: Callable[[Plan, Interrupts], Iterator[Event]]
) -> Iterator[Event]:
    """Every launch runs every cell, so that forms can be compared in pairs; each gets its share of
    the time left.  `done` may grow between two launches."""
    began, last = time.monotonic(), -1
    with Interrupts() as interrupts:
        while waiting := [each for each in launch_plans(plan, done) if each.launch > last]:
            left_s = plan.budget_s - (time.monotonic() - began)
            times = [cells_s(plan, each.cells) for each in waiting]
            budget_s = max(LEAST_BUDGET_S, left_s * times[0] / sum(times))
            last = waiting[0].launch
            yield from run(msgspec.structs.replace(waiting[0], budget_s=budget_s), interrupts)


def launch_plans(plan: Plan, done: Done) -> list[Plan]:
    """For each launch of a plan that still has something to run, that part of the plan."""
    left = (
        (launch, [cell for cell in plan.cells if (cell.id, launch) not in done])
        for launch in range(plan.launch, plan.launch + plan.launches)
    )
    replace = msgspec.structs.replace
    return [replace(plan, cells=cells, launch=launch) for launch, cells in left if cells]


def measured_together(plan: Plan, records: Iterable[Record], beyond: Done) -> Done:
    """The (cell id, launch) pairs that need not run again: those of launches that measured a cell
    with all cells that it may be compared with, which only pair up within one launch.

    `beyond`: pairs that the plan's looks left out."""
    kept = {"ok": set(beyond), "unavailable": set()}
    for r in records:
        kept.get(r.status, set()).add((r.id, r.launch))
    known = kept["ok"] | kept["unavailable"]
    together: dict[Situation, list[str]] = {}
    for cell in plan.cells:
        own = cell.situation.without("lines", "width_bits", "params", "work")
        together.setdefault(own, []).append(cell.id)
    return {
        (i, launch)
        for ids in together.values()
        for launch in range(plan.launch, plan.launch + plan.launches)
        if all((i, launch) in known for i in ids)
        for i in ids
        if (i, launch) in kept["ok"]
    }


def launch_program(
    command: Sequence[str | Path],
    plan: Plan,
    interrupts: Interrupts,
    program: str = NAME,
    link: InputLink | None = None,
) -> Iterator[Event]:
    """Run a plan by one program; its lines become events as they come. Ends with RunError when
    cells are missing.

    `program` is what messages call it. With a `link` the command only leads to a program
    elsewhere."""
    if interrupts.caught:
        raise RunError(f"stopped by {interrupts.caught.name} before launch {plan.launch}")
    # Ctrl-C is ours to pass on: ssh would die of it.
    process = start(command, own_session=link is not None)
    conversation = _Conversation(plan, program, link)
    try:
        with interrupts.answered_by(lambda: _stop(process, interrupts, link)):
            _send(process, msgspec.json.encode(plan), link)
            for name, data in _chunks(process, interrupts):
                yield from conversation.take(name, data)
            code = process.wait()
    finally:
        end(process)
    conversation.finish(code, interrupts)


def _stop(process: subprocess.Popen, interrupts: Interrupts, link: InputLink | None) -> None:
    """Ask the probe to write what it has and end; the third request does not ask."""
    if process.poll() is not None:
        return
    if interrupts.count > 2:
        process.kill()
    elif link is None:
        process.terminate()
    else:
        # RuntimeError: the signal came while the plan was being written.
        with contextlib.suppress(OSError, RuntimeError):
            process.stdin.close()


def _send(process: subprocess.Popen, data: bytes, link: InputLink | None) -> None:
    """Write the plan; a probe that died before reading it is found out by its exit code."""
    try:
        process.stdin.write(data if link is None else b"%d\n%s" % (len(data), data))
        process.stdin.flush()
        if link is None:
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

    def __init__(self, plan: Plan, program: str, link: InputLink | None) -> None:
        self.plan = plan
        self.program = program
        self._link = link
        self._begun = link is None
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
                self._begun = line == self._link.begin
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
            where = f"{self.program}, line {self._lines} of its output"
            raise RunError(f"{where}: a record of a cell that the plan does not have: {value.id}")
        else:
            self.missing.discard(value.id)
        yield value

    def _remark(self, line: bytes) -> Iterator[Event]:
        message = probe_questions.stderr_message(line.decode("utf-8", "replace"))
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
        at = f", at {self.last_cell}" if self.last_cell and self.missing else ""
        where = f"launch {self.plan.launch}{at}"
        if interrupts.caught:
            raise RunError(f"stopped by {interrupts.caught.name} in {where}")
        said = probe_questions.error_text(self.errors)
        why = f": {said}" if said else ""
        if self._link is not None and code == LOST:
            raise RunError(f"{self._link.lost} in {where}{why}")
        if code == 2:
            raise UserError(said or f"{self.program} refused the plan")
        if code != 0:
            raise RunError(f"{self.program} {probe_questions.exit_text(code)} in {where}{why}")
        if self.missing:
            missing = f"{len(self.missing)} of its cells"
            raise RunError(f"{self.program} ended without {missing} in {where}")

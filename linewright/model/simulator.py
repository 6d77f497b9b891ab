# SPDX-License-Identifier: MIT
"""linewright-model as a server: many machines and plans through one process, for draws and for
calibration."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from msgspec import Struct

from linewright.errors import RunError, UserError
from linewright.run.probe_questions import error_text, exit_text
from linewright.run.process import end, start
from linewright.run.programs import finder
from linewright.schema import Plan

MODEL = "linewright-model"
find_model = finder(MODEL, "model")


class Figures(Struct, frozen=True):
    """What one simulated cell came to, in ns per operation."""

    p50: float
    low: float
    """Fastest window."""
    high: float
    """Slowest window."""
    modes: list[tuple[float, float]]
    """Self-sustaining modes, fastest first: ns and share of the batches. More than one: the cell is
    metastable; none: the timed thread starved."""
    events: int
    starved: bool = False

    @property
    def metastable(self) -> bool:
        return len(self.modes) > 1


class _Reply(Struct):
    cells: list[Figures]


class Simulator(AbstractContextManager):
    """A running linewright-model. `ask` runs a plan on a resolved machine."""

    def __init__(
        self, program: Path, *, windows: int = 12, ops: int = 2000, published_harness: bool = False
    ) -> None:
        options = ["--serve", "--windows", str(windows), "--ops", str(ops)]
        if published_harness:
            options.append("--published-harness")
        self._process = start([program, *options])
        self._answer = msgspec.json.Decoder(_Reply)

    def ask(self, resolved: dict, plan: Plan) -> list[Figures]:
        """The figures of every cell, in the plan's order. UserError when the machine or the plan is
        refused."""
        request = json.dumps(
            {"machine": resolved, "plan": msgspec.to_builtins(plan)}, separators=(",", ":")
        )
        try:
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if line:
            return self._answer.decode(line).cells
        code = self._process.wait()
        said = error_text(self._process.stderr.read())
        if code == 2:
            raise UserError(said)
        raise RunError(f"linewright-model: {said or exit_text(code)}")

    def __exit__(self, *failure: object) -> None:
        end(self._process)  # it holds nothing that could be lost

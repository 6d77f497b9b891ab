# SPDX-License-Identifier: MIT
"""A simulated machine as a target: ``--on model:NAME`` runs a plan on a described machine."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import msgspec

from linewright.analysis.summary import MISSED
from linewright.errors import UserError
from linewright.model import machine_file, story
from linewright.model.ensemble import DRAWS, Band, Sweep, bands, misses_of, run_sweep, share
from linewright.model.machine_file import Machine, need
from linewright.model.simulator import MODEL, find_model
from linewright.plans.definition import Parameter, values_of
from linewright.run.launches import launch_plans, launch_program
from linewright.run.process import Interrupts
from linewright.run.registry import ProgramTarget
from linewright.schema import Context, DrawnCosts, Plan, Record
from linewright.show.output import note
from linewright.target import Done, Event
from linewright.units import duration_text
from linewright.wings import need_extra

HARNESSES = ("probe", "published")
SETTINGS = (
    Parameter("draws", "count", None, "draws of the constants", 0, 999_999),
    Parameter("scheduler", "text", None, "the Dask scheduler that has them run"),
)
LEAST_DRAWS = 20
LAUNCH_DRAWS = 10
"""Draws that take as long as a launch, which has three times the windows with three times the
operations."""
MOST_KEPT = 100
"""Draws that a record keeps, of however many a band is made: ratios of cells are taken in them."""
CLUSTER_PARTS = 16
"""Tasks that a sweep is given to a cluster in: enough to keep its processes busy, each with several
draws."""


class ModelTarget(ProgramTarget):
    """A described machine, by running linewright-model on it."""

    simulates = True

    def __init__(self, machine: Machine, harness: str = "probe", named: str = "") -> None:
        self.machine = machine
        self.recorded = f"simulated:{named or machine.name}"
        self.count = DRAWS
        self.scheduler: str | None = None
        self.program = find_model()
        self.published_harness = harness == "published"
        self._file = tempfile.NamedTemporaryFile("w", suffix=".json", prefix="linewright-machine-")
        self._file.write(json.dumps(machine_file.resolve(machine), separators=(",", ":")))
        self._file.flush()
        published = ["--published-harness"] if self.published_harness else []
        self.command = [self.program, "--machine", self._file.name, *published]
        super().__init__(f"model:{machine.name}", self.command)

    def close(self) -> None:
        self._file.close()

    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]:
        """Each launch is the plan with other random numbers; bands come from draws of the
        constants."""
        rows = self._rows(plan)
        misses = [misses_of(self.machine, cell) for cell in plan.cells]
        ids = [cell.id for cell in plan.cells]
        drawn = [
            DrawnCosts(ns=[round(row[at].p50, 4) for row in rows[:MOST_KEPT]], misses=own)
            for at, own in enumerate(misses)
        ]
        of_cell = dict(zip(ids, zip(bands(rows, misses), drawn, strict=True), strict=True))
        with Interrupts() as interrupts:
            for launch in launch_plans(plan, done):
                for event in launch_program(self.command, launch, interrupts, MODEL):
                    if isinstance(event, Context):
                        event = msgspec.structs.replace(event, target=self.recorded)
                    yield self._with_band(event, of_cell) if isinstance(event, Record) else event
        for line in story.limits(self.machine, plan.cells, MISSED):
            note(line)

    def take_settings(self, pairs: Sequence[str]) -> None:
        """What ``--set`` says of the draws of the constants that bands come from."""
        values = values_of(SETTINGS, pairs, "a model")
        draws, scheduler = values["draws"], values["scheduler"]
        least = f"at least {LEAST_DRAWS}: percentiles are read from them"
        need(draws is None or draws >= LEAST_DRAWS, f"{draws} draws", "--set draws", least)
        if scheduler is not None:
            need_extra("fleet", "--set scheduler")
        self.count = draws or self.count
        self.scheduler = scheduler

    def _say_duration(self, plan: Plan) -> None:
        """How long the plan will take, by one draw of it."""
        began = time.monotonic()
        share(Sweep(self.machine, plan, 1, self.published_harness), 0, 1)
        draws = 0 if self.scheduler else (self.count - 1) / (os.cpu_count() or 1)
        needed_s = (time.monotonic() - began) * (draws + LAUNCH_DRAWS * plan.launches)
        note(f"simulating takes about {duration_text(needed_s)} on this machine")

    def _rows(self, plan: Plan) -> list:
        self._say_duration(plan)
        sweep = Sweep(self.machine, plan, self.count, self.published_harness)
        with executor(self.scheduler) as run:
            return run_sweep(sweep, run, CLUSTER_PARTS if self.scheduler else os.cpu_count() or 1)

    def _with_band(self, record: Record, of_cell: dict[str, tuple[Band, DrawnCosts]]) -> Record:
        if record.status == "unavailable":
            return record  # the model lacks what the cell needs, whatever the constants
        band, drawn = of_cell[record.id]
        own = [record.issue.median_ns] if record.issue else []
        ends = {"p05_ns": min([band.p05, *own]), "p95_ns": max([band.p95, *own])}
        metrics = record.metrics | ends | {"p50_ns": band.p50}
        edited = ["edited"] if machine_file.edited(self.machine) else []
        near = None if edited else story.nearest(self.machine, record.cell)
        if near is not None:
            metrics["calibrated_distance"] = near[1]
        flags = [*record.flags, *edited]
        return msgspec.structs.replace(record, metrics=metrics, flags=flags, drawn=drawn)


def open_model(rest: str) -> ModelTarget:
    """The target that ``model:NAME`` or ``model:NAME:published`` names: a calibrated machine."""
    target = described(rest)
    what = f"model:{rest} is not calibrated: it is an example for `linewright model explain`"
    allowed = ", ".join(f"model:{name}" for name in machine_file.calibrated())
    figure = f"{what}, and no plan has a figure there"
    need(target.machine.calibrated, figure, "--on", f"allowed: {allowed}")
    return target


def described(rest: str) -> ModelTarget:
    """The same for any described machine."""
    name, _, harness = rest.partition(":")
    known, where = f"allowed: {', '.join(HARNESSES)}", "--on model:NAME:HARNESS"
    need(not harness or harness in HARNESSES, f"no harness {harness!r}", where, known)
    named = f"allowed: {', '.join(machine_file.known())}"
    need(name, "no machine named", "--on model:NAME", named)
    return ModelTarget(machine_file.find(name), harness or "probe", rest)


ANSWER_S = 10
"""A scheduler that does not answer meanwhile is none."""


def executor(scheduler: str | None) -> Executor:
    """What runs a task on each CPU, or as many at once as the cluster behind a scheduler's address
    has; tasks wait for programs that they start, so that threads of this process do for them."""
    if scheduler is None:
        return ThreadPoolExecutor(os.cpu_count())
    from distributed import Client

    try:
        return Client(scheduler, timeout=ANSWER_S).get_executor()
    except (OSError, ValueError, TimeoutError) as error:
        allowed = "the address that dask scheduler prints"
        raise UserError(f"no scheduler answers: {error}", "--set scheduler", allowed) from None

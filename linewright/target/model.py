"""A simulated machine as a target: ``--on model:NAME`` runs a plan on a described machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import cache

import msgspec

from linewright.errors import UserError
from linewright.model import machine_file
from linewright.model.cluster import executor
from linewright.model.ensemble import BOUND_DRAWS, DRAWS, Band, Sweep, bands, orderings, run_sweep
from linewright.model.machine_file import Machine
from linewright.model.story import nearest
from linewright.output.console import remark
from linewright.schema import Cell, Plan, Record
from linewright.target import probe
from linewright.target.interrupts import Interrupts
from linewright.target.local import Done, Event, launch_plans, launch_program
from linewright.target.programs import MODEL, find_model

HARNESSES = ("probe", "published")
LEAST_DRAWS = 20
CLUSTER_PARTS = 16
"""Tasks that a sweep is given to a cluster in: enough to keep its processes busy, each with several draws."""


class ModelTarget:
    """A described machine, by running linewright-model on it."""

    def __init__(self, machine: Machine, harness: str = "probe") -> None:
        self.machine = machine
        self.count = DRAWS if machine.calibrated else BOUND_DRAWS
        self.scheduler: str | None = None
        self.name = f"model:{machine.name}"
        self.program = find_model()
        self.published_harness = harness == "published"
        self._file = tempfile.NamedTemporaryFile("w", suffix=".json", prefix="linewright-machine-")
        self._file.write(machine_file.resolved_json(machine))
        self._file.flush()
        self.command = [self.program, "--machine", self._file.name]
        if self.published_harness:
            self.command.append("--published-harness")
        self.forms = cache(lambda: probe.forms(self.command))
        self.topology = cache(lambda: probe.topology(self.command))
        self.context = cache(lambda: probe.context(self.command))

    def check(self, plan: Plan) -> None:
        probe.check([*self.command], plan)

    def close(self) -> None:
        self._file.close()

    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]:
        """Each launch is the plan with other random numbers; bands come from draws of the constants."""
        rows = self._rows(plan)
        of_cell = {cell.id: band for cell, band in zip(plan.cells, bands(rows), strict=True)}
        with Interrupts() as interrupts:
            for launch in launch_plans(plan, done):
                for event in launch_program(self.command, launch, interrupts, MODEL):
                    yield self._with_band(event, of_cell) if isinstance(event, Record) else event
        if not self.machine.calibrated:
            for line in ordering_text(self.machine, plan, rows):
                remark(line)

    def sweep(self, draws: int | None, scheduler: str | None) -> None:
        """How many draws of the constants bands come from, and the Dask scheduler that has them run; None as it is."""
        if draws is not None and draws < LEAST_DRAWS:
            raise UserError(f"{draws} draws", "--draws", f"at least {LEAST_DRAWS}: percentiles are read from them")
        self.count = draws or self.count
        self.scheduler = scheduler

    def _rows(self, plan: Plan) -> list:
        sweep = Sweep(self.machine, plan, self.count, self.published_harness)
        with executor(None, self.scheduler, programs=True) as run:
            return run_sweep(sweep, run, CLUSTER_PARTS if self.scheduler else os.cpu_count() or 1)

    def _with_band(self, record: Record, of_cell: dict[str, Band]) -> Record:
        if record.status == "unavailable":
            return record  # the model lacks what the cell needs, whatever the constants
        band = of_cell[record.id]
        if not self.machine.calibrated:
            return bounds_only(record, band, self.machine)
        metrics = record.metrics | {"p05_ns": band.p05, "p50_ns": band.p50, "p95_ns": band.p95}
        near = nearest(self.machine, record.cell)
        if near is not None:
            metrics["calibrated_distance"] = near[1]
        return msgspec.structs.replace(record, metrics=metrics)


def bounds_only(record: Record, band: Band, machine: Machine) -> Record:
    """What may be said of a cell on a machine that no measurement pins: two bounds, and no time of its own."""
    empty = Record(
        linewright_record=record.linewright_record,
        context_id=record.context_id,
        id=record.id,
        cell=record.cell,
        plan=record.plan,
        launch=record.launch,
        status="unavailable",
    )
    return msgspec.structs.replace(
        empty,
        reason=f"bounds only: {band.low:.3g} to {band.high:.3g} ns; machine {machine.name} is not calibrated",
        flags=["simulated", "bounds_only"],
        metrics={"bound_low_ns": band.low, "bound_high_ns": band.high},
    )


def ordering_text(machine: Machine, plan: Plan, rows: list) -> list[str]:
    """The order of the forms at each point, as far as the constants' bounds decide it."""
    lines = [f"Order of the forms on {machine.name}, fastest first; forms between commas are not told apart:"]
    for cell, groups in orderings(plan, rows):
        lines.append(f"  {_point_text(cell)}: {' < '.join(', '.join(group) for group in groups)}")
    return lines if len(lines) > 1 else []


def _point_text(cell: Cell) -> str:
    work = f"work {cell.work_iters}" if cell.work_iters else "back to back"
    beside = {"none": "alone", "placebo": "beside a placebo"}.get(
        cell.contender, f"{cell.threads} threads, contender spacing {cell.contender_iters}"
    )
    return f"{beside}, {work}"


def open_model(rest: str) -> ModelTarget:
    """The target that ``model:NAME`` or ``model:NAME:published`` names."""
    name, _, harness = rest.partition(":")
    if harness and harness not in HARNESSES:
        raise UserError(f"no harness {harness!r}", "--on model:NAME:HARNESS", f"allowed: {', '.join(HARNESSES)}")
    if not name:
        raise UserError("no machine named", "--on model:NAME", f"allowed: {', '.join(machine_file.known())}")
    return ModelTarget(machine_file.find(name), harness or "probe")

"""`linewright calibrate`: fit a described machine's constants to a table or to records, and say what the data pin."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import typer

from linewright.errors import DONE
from linewright.model import machine_file
from linewright.output.console import note
from linewright.output.file import check_new, write

ORDER = 61
POSTERIOR_STEPS = 300
"""Steps of each walker: some minutes for a published table."""


def calibrate(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Published table (.csv) or record file of the machine.")],
    start: Annotated[str, typer.Option("--from", help="Machine, or machine file, to begin with.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Machine file to write.")],
    title: Annotated[
        str | None, typer.Option(help="Title of the machine in the file.", show_default="that of --from")
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="Cells to fit: a shell glob; repeatable.")] = None,
    moved: Annotated[
        bool,
        typer.Option(
            "--moved",
            help="A hypervisor moved the CPUs: handoffs in two groups are pairs under one last-level"
            " cache and under two.",
        ),
    ] = False,
    cross_validate: Annotated[
        bool, typer.Option("--cross-validate/--no-cross-validate", help="Fit again without each form and work length.")
    ] = True,
    steps: Annotated[
        int,
        typer.Option(min=0, max=100_000, help="Steps of the posterior's sampling; 0 takes a Gaussian in its place."),
    ] = POSTERIOR_STEPS,
    jobs: Annotated[int | None, typer.Option(help="Simulators at once.", min=1, show_default="CPUs")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler that runs the fits (pip: linewright\\[cluster]).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing machine file.")] = False,
) -> int:
    """Fit constants to measurements; report what is pinned, what is not, and how left-out cells are predicted."""
    # NumPy and what needs it are heavy: `linewright --help` must stay quick.
    from linewright.model import cluster, observations
    from linewright.target.model import CLUSTER_PARTS, ModelTarget

    check_new(output, force)
    machine = machine_file.find(start, "--from")
    found = observations.read(data, ModelTarget(machine).forms(), moved)
    parts = CLUSTER_PARTS if scheduler else jobs or os.cpu_count() or 1
    with cluster.executor(jobs, scheduler, programs=True) as run:
        asked = _Asked(only or (), Path(data).name, cross_validate, steps, parts)
        result, text = _fitted(machine, found, asked, run)
    write(output, machine_file.to_toml(_named(result, Path(output), title)))
    print("\n".join(text))
    note(f"the machine is in {output}")
    return DONE


class _Asked(NamedTuple):
    """What a calibration was asked to do."""

    only: Sequence[str]
    table: str
    cross_validate: bool
    steps: int
    """Of the posterior's chain; 0 takes a Gaussian."""
    parts: int
    """In which half of the walkers is simulated at once."""


def _fitted(
    machine: machine_file.Machine, found: list, asked: _Asked, executor: Executor
) -> tuple[machine_file.Machine, list[str]]:
    """The machine with constants fitted to observations, and the report."""
    from linewright.model import calibration, calibration_report, posterior
    from linewright.model.simulator import Simulator
    from linewright.records import select
    from linewright.target.programs import find_model

    program = find_model()
    with Simulator(program, windows=6, ops=1000) as simulator:
        wanted = {cell.id for cell in select.choose([o.cell for o in found], asked.only)}
        reasons = [
            reason if o.cell.id in wanted else "not among the cells to fit"
            for o, reason in zip(found, calibration.obstacles(machine, found, simulator), strict=True)
        ]
        fitting = [not reason for reason in reasons]
        used = [o for o, good in zip(found, fitting, strict=True) if good]
        with Simulator(program, windows=6, ops=400) as quicker:
            fit = calibration.fit(machine, used, quicker, note)
        if asked.steps:
            fit = posterior.sample(fit, machine, used, executor, asked.parts, note, asked.steps)
        folds = _folds(executor, machine, found, fitting, program) if asked.cross_validate else []
        source = f"`linewright calibrate` with {len(used)} cells of {asked.table}, {_today()}"
        result = calibration.fitted(machine, fit, used, source, "")
        figures = calibration.compare(result, found, simulator)
    text = calibration_report.lines(found, reasons, figures, fit, folds)
    return calibration_report.with_summary(result, found, fitting, figures, folds), text


def _named(machine: machine_file.Machine, path: Path, title: str | None) -> machine_file.Machine:
    """The machine under its file's name."""
    named = msgspec.structs.replace(machine, title=title or machine.title)
    return machine_file.renamed(named, path.name.removesuffix(".toml"))


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _folds(executor: Executor, machine: machine_file.Machine, found: list, fitting: list[bool], program: Path) -> list:
    from linewright.model import calibration

    keys = calibration.fold_keys(found, fitting)
    waiting = [executor.submit(calibration.fold, machine, found, fitting, key, value, program) for key, value in keys]
    folds = []
    for number, future in enumerate(waiting, start=1):
        folds.append(future.result())
        note(f"cross-validation: {number} of {len(waiting)}, without {folds[-1].left_out}")
    return folds

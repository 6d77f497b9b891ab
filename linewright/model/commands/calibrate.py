# SPDX-License-Identifier: MIT
"""`linewright model calibrate`: fit a described machine's constants to records, and say
what the data pin."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from linewright.commands._options import set_option
from linewright.errors import DONE
from linewright.model import machine_file
from linewright.model.commands.machines import machines_named
from linewright.plans.definition import Parameter, values_of, word
from linewright.show.output import check_new, note, write
from linewright.wings import need_extra

ORDER = 31
PARAMETERS = (
    Parameter(
        "steps", "count", 300,
        "steps of each walker of the posterior, some minutes for a published table; 0 takes a "
        "Gaussian in its place", 0, 100_000,
    ),
    word(
        "moved", "no yes", "a hypervisor moved the CPUs: handoffs in two groups are pairs under "
        "one last-level cache and under two",
    ),
    Parameter("scheduler", "text", None, "address of a Dask scheduler that runs the fits"),
)  # fmt: skip
"""What ``--set`` takes."""

CalibrateSetOption = set_option(PARAMETERS)


def calibrate(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Record file of the machine."),
    ],
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="Machine, or machine file, to begin with.",
            autocompletion=machines_named,
        ),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="Machine file to write.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Cells to fit: a shell glob; repeatable.")
    ] = None,
    settings: CalibrateSetOption = None,
) -> int:
    """Fit constants to measurements; report what is pinned, what is not, and how left-out cells are
    predicted."""
    # NumPy and what needs it are heavy: `linewright --help` must stay quick.
    from linewright.model import observations
    from linewright.model.simulated_target import CLUSTER_PARTS, ModelTarget, executor

    need_extra("calibration", "model calibrate")
    values = values_of(PARAMETERS, settings or (), "model calibrate")
    scheduler = values["scheduler"]
    if scheduler is not None:
        need_extra("fleet", "--set scheduler")
    check_new(output)
    machine = machine_file.find(start, "--from")
    found = observations.read(data, ModelTarget(machine).forms(), values["moved"] == "yes")
    parts = CLUSTER_PARTS if scheduler else os.cpu_count() or 1
    with executor(scheduler) as run:
        table, steps = Path(data).name, values["steps"]
        result, text = _fitted(machine, found, only or (), table, steps, parts, run)
    named = machine_file.renamed(result, Path(output).name.removesuffix(".toml"))
    write(output, machine_file.to_toml(named))
    print("\n".join(text))
    note(f"the machine is in {output}")
    return DONE


def _fitted(
    machine: machine_file.Machine,
    found: list,
    only: Sequence[str],
    table: str,
    steps: int,
    parts: int,
    executor: Executor,
) -> tuple[machine_file.Machine, list[str]]:
    """The machine with constants fitted to observations, and the report. `steps` are the chain's,
    of which half of the walkers are simulated at once, in `parts`."""
    from linewright.model import calibration, calibration_report, posterior
    from linewright.model.simulator import Simulator, find_model
    from linewright.records import store

    program = find_model()
    with Simulator(program, windows=6, ops=1000) as simulator:
        wanted = {cell.id for cell in store.choose([o.cell for o in found], only)}
        obstacles = calibration.obstacles(machine, found, simulator)
        reasons = [
            reason if o.cell.id in wanted else "not_asked"
            for o, reason in zip(found, obstacles, strict=True)
        ]
        fitting = [not reason for reason in reasons]
        used = [o for o, good in zip(found, fitting, strict=True) if good]
        with Simulator(program, windows=6, ops=400) as quicker:
            fit = calibration.fit(machine, used, quicker, note)
        if steps:
            fit = posterior.sample(fit, machine, used, executor, parts, note, steps)
        folds = _folds(executor, machine, found, fitting, program)
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        source = f"`linewright model calibrate` with {len(used)} cells of {table}, {today}"
        result = calibration.fitted(machine, fit, used, source, "")
        figures = simulator.ask(machine_file.resolve(result), calibration.plan_of(found))
        never = [o for o, reason in zip(found, reasons, strict=True) if reason and not o.unsteady]
        if never:
            folds.append(calibration.unseen(result, never, calibration_report.NEVER, simulator))
    result = msgspec.structs.replace(result, misses=calibration.misses(folds))
    text = calibration_report.lines(result, found, reasons, figures, fit, folds)
    return calibration_report.with_summary(result, found, reasons, figures, folds), text


def _folds(
    executor: Executor,
    machine: machine_file.Machine,
    found: list,
    fitting: list[bool],
    program: Path,
) -> list:
    from linewright.model import calibration

    given = (calibration.fold, machine, found, fitting)
    keys = calibration.fold_keys(found, fitting)
    waiting = [executor.submit(*given, key, value, program) for key, value in keys]
    folds = []
    for number, future in enumerate(waiting, start=1):
        folds.append(future.result())
        note(f"cross-validation: {number} of {len(waiting)}, without {folds[-1].left_out}")
    return folds

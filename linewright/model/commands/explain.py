# SPDX-License-Identifier: MIT
"""`linewright model explain`: the story of one simulated cell, and its Chrome trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from linewright.commands._options import targets_named
from linewright.errors import DONE, UserError
from linewright.run.probe_questions import answered
from linewright.schema import Plan, Record
from linewright.show.output import check_folder, check_new, note, write

if TYPE_CHECKING:
    from linewright.model.simulated_target import ModelTarget

ORDER = 32


def explain(
    cell: Annotated[
        str,
        typer.Argument(
            metavar="CELL", help="Id of a cell, as records and `measure --dry-run` show it."
        ),
    ],
    on: Annotated[
        str,
        typer.Option(help="The simulated machine: model:NAME.", autocompletion=targets_named),
    ],
    trace: Annotated[
        str | None,
        typer.Option(help="Write a Chrome trace of 60 operations here; it opens in Perfetto."),
    ] = None,
) -> int:
    """Say what happens in one cell on a simulated machine: where its time goes, its modes, who
    starves, which constants the answer hangs on."""
    from linewright.model import story
    from linewright.model.simulated_target import described  # NumPy comes with it
    from linewright.model.simulator import MODEL, Simulator

    scheme, _, rest = on.partition(":")
    if scheme != "model":
        allowed = "model:NAME; only the model sees where a cell's time goes"
        raise UserError(f"{on} is not simulated", "--on", allowed)
    target = described(rest)
    plan = Plan(linewright_plan=2, name="explain", launches=1, cells=[story.cell_of(cell)])
    target.check(plan)
    if trace is not None:
        _check_trace(target, trace)
    with Simulator(target.program, windows=4, ops=600) as simulator:
        record = next(event for event in target.run(plan) if isinstance(event, Record))
        if target.machine.calibrated or record.status == "unavailable":
            said = story.sentences(target.machine, record)
        else:
            said = story.bounds(target.machine, plan.cells[0], simulator)
        if record.status == "ok":  # else there is no answer that could hang on anything
            said += story.tornado(target.machine, plan.cells[0], simulator)
    print("\n".join(said))
    if trace is not None:
        command, asked = [*target.command, "--trace"], msgspec.json.encode(plan)
        write(trace, answered(command, MODEL, asked, None).stdout, "--trace")
        note(f"the trace is in {trace}")
    return DONE


def _check_trace(target: ModelTarget, path: str) -> None:
    """Refuse a trace before anything is explained."""
    check_new(path, "--trace")
    check_folder(path, "--trace")
    if not target.machine.calibrated:
        why = "its times would be bare nanoseconds"
        raise UserError("no trace without calibration", "--trace", why)

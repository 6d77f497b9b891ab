"""`linewright explain`: the story of one simulated cell, and its Chrome trace."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from linewright.errors import BAD_REQUEST, DONE, RunError, UserError
from linewright.model import story
from linewright.output.console import note
from linewright.output.file import check_new, write
from linewright.schema import Plan, Record
from linewright.target.probe import error_text
from linewright.target.registry import open_target

if TYPE_CHECKING:
    from linewright.target.model import ModelTarget

ORDER = 62


def explain(
    cell: Annotated[
        str, typer.Argument(metavar="CELL", help="Id of a cell, as records and `measure --dry-run` show it.")
    ],
    on: Annotated[str, typer.Option(help="The simulated machine: model:NAME.")],
    trace: Annotated[
        str | None, typer.Option(help="Write a Chrome trace of 60 operations here; it opens in Perfetto.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing trace.")] = False,
) -> int:
    """Say what happens in one cell on a simulated machine: where its time goes, its modes, who starves."""
    from linewright.target.model import ModelTarget  # NumPy comes with it

    target = open_target(on)
    if not isinstance(target, ModelTarget):
        raise UserError(f"{on} is not simulated", "--on", "model:NAME; only the model sees where a cell's time goes")
    plan = Plan(linewright_plan=2, name="explain", launches=1, cells=[story.cell_of(cell)])
    target.check(plan)
    record = next(event for event in target.run(plan) if isinstance(event, Record))
    for sentence in story.sentences(target.machine, record):
        print(sentence)
    if trace is not None:
        _write_trace(target, plan, trace, force)
    return DONE


def _write_trace(target: ModelTarget, plan: Plan, path: str, force: bool) -> None:
    check_new(path, force, "--trace")
    if not target.machine.calibrated:
        raise UserError("no trace without calibration", "--trace", "its times would be bare nanoseconds")
    answer = subprocess.run([*target.command, "--trace"], input=msgspec.json.encode(plan), capture_output=True)
    if answer.returncode == BAD_REQUEST:
        raise UserError(error_text(answer.stderr))
    if answer.returncode:
        raise RunError(f"linewright-model: {error_text(answer.stderr)}")
    write(path, answer.stdout, "--trace")
    note(f"the trace is in {path}")

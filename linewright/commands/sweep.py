# SPDX-License-Identifier: MIT
"""`linewright sweep`: the futex benchmarks' shapes over thread counts, in the published table's
form."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from linewright.commands._options import set_option
from linewright.commands.workload import kinds_named
from linewright.errors import DONE, UserError, cannot_write
from linewright.plans.definition import Parameter, values_of
from linewright.records import bounded
from linewright.run.programs import find_workload
from linewright.show.output import console_for, note

if TYPE_CHECKING:
    from linewright.trial.workload_sweep import SweepRun

ORDER = 42
PROGRAMS = ("futex-hash", "futex-wake", "futex-wake-parallel", "futex-requeue", "futex-lock-pi")
PARAMETERS = (
    Parameter(
        "threads", "counts", None, "numbers of threads, 1 and every CPU if not said", 1, 1024
    ),
    Parameter("runs", "count", 10, "rounds, each with every setting once", 1, 1000),
    Parameter("duration", "duration", "500ms", "length of each run"),
)
"""What ``--set`` takes."""
WORKLOADS = typer.Argument(
    metavar="WORKLOAD…",
    help="Which; any workload will do.",
    show_default=" ".join(PROGRAMS),
    autocompletion=kinds_named,
)

SweepSetOption = set_option(PARAMETERS)


def sweep(
    programs: Annotated[list[str] | None, WORKLOADS] = None,
    settings: Annotated[
        str,
        typer.Option(
            help="Of LINEWRIGHT_ATOMICS, separated by /; NAME:SETTING gives it a name, such as the "
            "boot's option, on or off."
        ),
    ] = "default/prefetch",
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File for the runs; those of another boot that are in it are compared with, and "
            "their setting is the baseline.",
        ),
    ] = None,
    more: SweepSetOption = None,
) -> int:
    """Run workloads with several numbers of threads under each setting, and say what differs, with
    intervals."""
    from linewright.say.trial_document import name_alone, sweep_document, too_few
    from linewright.show.terminal import print_tables
    from linewright.trial import workload_sweep as engine

    values = values_of(PARAMETERS, more or (), "sweep")
    asked = engine.SweepPlan(
        _once(programs or PROGRAMS, "workload", "WORKLOAD"),
        values["threads"] or sorted({1, len(os.sched_getaffinity(0))}),
        _settings(settings),
        values["runs"],
        f"{1e3 * values['duration']:g}ms",
    )
    earlier = _earlier(output, asked.settings)
    workload, rounds = find_workload(), asked.rounds

    def show(done: int, of: int) -> None:
        if done % (of // rounds) == 0:
            note(f"{done // (of // rounds)} of {rounds} rounds")

    with _appended(output) as stream:
        samples = engine.run(asked, workload, show)
        stream.write(engine.written(samples, heading=not earlier))
    every = [*earlier, *samples]
    print_tables(sweep_document(every), console_for(sys.stdout))
    seen = len({s.setting for s in every})
    if text := too_few(rounds, seen, "--set runs="):
        note(text)
    if earlier:
        note(
            "the settings ran at different times: what a boot or an hour changes is in no interval"
        )
    elif seen > 1 and (machine := os.uname().machine) != "aarch64":
        note(name_alone(machine))
    return DONE


def _appended(path: str | None) -> TextIO:
    """The file of ``--output``, opened before anything runs."""
    try:
        return open(path or os.devnull, "a", encoding="utf-8")
    except OSError as error:
        raise cannot_write(path, error, "--output") from None


def _earlier(path: str | None, settings: Iterable[str]) -> list[SweepRun]:
    """The runs that the file holds already, of other settings."""
    from linewright.trial import workload_sweep as engine

    if path is None or not os.path.exists(path) or not os.path.getsize(path):
        return []
    earlier = engine.read(bounded.read_text(path), path)
    if taken := {s.setting for s in earlier} & set(settings):
        raise UserError(f"setting {min(taken)} is in {path} already", "--settings", "another name")
    return earlier


def _once(words: list[str], what: str, where: str) -> list[str]:
    if not all(words) or len(set(words)) < len(words):
        raise UserError(f"not a list of {what}s: {'/'.join(words)!r}", where, f"each {what} once")
    return words


def _settings(text: str) -> dict[str, str]:
    """The settings by their names."""
    pairs = [word.strip().rpartition(":") for word in text.split("/")]
    values = _once([value for *_, value in pairs], "setting", "--settings")
    return dict(zip((name or value for name, _, value in pairs), values, strict=True))

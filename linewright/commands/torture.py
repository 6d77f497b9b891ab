# SPDX-License-Identifier: MIT
"""`linewright torture`: a stress test of a part of the library, and a count of the errors it
found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from linewright.commands._options import set_option, words_of
from linewright.errors import DIFFERENT, DONE, RunError, UserError
from linewright.plans.definition import Parameter, values_of
from linewright.run.probe_questions import error_text, exit_text
from linewright.run.programs import find_torture
from linewright.say.words import in_english

ORDER = 43
PARAMETERS = (
    Parameter("seconds", "count", 10, "how long; 0: the directed cases only", 0, 86_400),
    Parameter("readers", "count", 4, "threads that read", 1, 128),
    Parameter("updaters", "count", 2, "threads that replace objects and wait for readers", 1, 64),
    Parameter(
        "flavour",
        "word",
        "all",
        "which flavour",
        choices=("all", "normal", "fast", "fast_updown"),
    ),
    Parameter("without", "word", None, "deny one system call", choices=("membarrier", "rseq")),
    Parameter("words", "word", None, "where readers count", choices=("thread", "cpu")),
    Parameter("fork", "word", "yes", "fork now and then, and go on", choices=("yes", "no")),
    Parameter("seed", "count", 1, "seed of the threads' choices", 0, 2**32 - 1),
)
"""By the names of the program's options."""
GRACE_S = 300
"""Beyond the asked time, before a run counts as stuck: threads end, the last grace periods pass."""


class TortureCounts(Struct, frozen=True, kw_only=True):
    """What linewright-torture counted; times of day are not in it, so that runs compare."""

    torture: str
    fast_flavours: str
    """How readers of the fast flavours counted, and what ended their grace periods."""
    reads: int
    reads_in_handlers: int
    readers_handed_on: int
    grace_periods: int
    callbacks: int
    domains: int
    """Made and ended beside the four that readers use."""
    forks: int
    errors: int


TortureSetOption = set_option(PARAMETERS)


def torture(
    subject: Annotated[
        str, typer.Argument(metavar="srcu", help="What to torture.", show_default=False)
    ],
    settings: TortureSetOption = None,
) -> int:
    """Run readers, updaters, signals, forks and delays against SRCU; exit code 1 when a reader saw
    a freed object."""
    if subject != "srcu":
        raise UserError(f"not known: {subject}", "SUBJECT", "allowed: srcu")
    values = values_of(PARAMETERS, settings or (), "torture")
    request = words_of({f"--{name}": value for name, value in values.items()})
    outcome = _run(find_torture(), [subject, *request], values["seconds"] + GRACE_S)
    _print(outcome)
    return DIFFERENT if outcome.errors else DONE


def _run(program: Path, request: list[str], limit_s: int) -> TortureCounts:
    try:
        done = subprocess.run([program, *request], capture_output=True, timeout=limit_s)
    except OSError as error:
        raise UserError(f"cannot run {program}: {error.strerror}", program.name) from None
    except subprocess.TimeoutExpired:
        raise RunError(
            f"{program.name} did not end within {limit_s} s: a grace period is stuck"
        ) from None
    if done.returncode not in (0, 1):
        said = error_text(done.stderr)
        if done.returncode == 2:
            raise UserError(said)
        raise RunError(
            f"{program.name} {exit_text(done.returncode)}" + (f": {said}" if said else "")
        )
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    try:
        outcome = msgspec.json.decode(done.stdout, type=TortureCounts)
    except msgspec.DecodeError as error:
        raise RunError(f"{program.name} answered with something unexpected: {error}") from None
    if bool(outcome.errors) != bool(done.returncode):
        raise RunError(f"{program.name} {exit_text(done.returncode)} with {outcome.errors} errors")
    return outcome


def _print(outcome: TortureCounts) -> None:
    from linewright.errors import one_line

    print(one_line(outcome.fast_flavours.split("; 0 readers")[0]))
    for name in TortureCounts.__struct_fields__[2:]:
        print(f"{getattr(outcome, name):>12}  {in_english(name)}")

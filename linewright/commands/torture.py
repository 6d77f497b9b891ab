"""`linewright torture`: a stress test of a part of the library, and a count of the errors it found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from linewright.commands._options import check_range, words_of
from linewright.errors import DIFFERENT, DONE, RunError, UserError
from linewright.target.probe import error_text, exit_text
from linewright.target.programs import find_torture

ORDER = 80
SUBJECTS = ("srcu",)
FLAVOURS = ("all", "normal", "signal_safe", "fast", "fast_updown")
GRACE_S = 300
"""Beyond the asked time, before a run counts as stuck: threads end, the last grace periods pass."""


class Outcome(Struct, frozen=True, kw_only=True):
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


def torture(
    subject: Annotated[str, typer.Argument(metavar="srcu", help="What to torture.", show_default=False)],
    seconds: Annotated[int, typer.Option(help="How long; 0: the directed cases only.")] = 10,
    readers: Annotated[int, typer.Option(help="Threads that read.")] = 4,
    updaters: Annotated[int, typer.Option(help="Threads that replace objects and wait for readers.")] = 2,
    flavour: Annotated[str, typer.Option(help="Which flavour: all, normal, signal_safe, fast, fast_updown.")] = "all",
    without: Annotated[str | None, typer.Option(help="Deny the program one system call: membarrier or rseq.")] = None,
    words: Annotated[str | None, typer.Option(help="Where readers count: thread or cpu.")] = None,
    fork: Annotated[bool, typer.Option("--fork/--no-fork", help="Fork now and then, and go on in the child.")] = True,
    seed: Annotated[
        int, typer.Option(help="Seed of the threads' choices; how threads interleave is up to the machine.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> int:
    """Run readers, updaters, signals, forks and delays against SRCU; exit code 1 when a reader saw a freed object."""
    _one_of(subject, SUBJECTS, "SUBJECT")
    _one_of(flavour, FLAVOURS, "--flavour")
    check_range(seconds, 0, 86400, "--seconds")
    check_range(readers, 1, 128, "--readers")
    check_range(updaters, 1, 64, "--updaters")
    check_range(seed, 0, 2**32 - 1, "--seed")
    request = {
        "--seconds": seconds,
        "--readers": readers,
        "--updaters": updaters,
        "--flavour": flavour,
        "--seed": seed,
        "--fork": "yes" if fork else "no",
        "--words": _one_of(words, ("thread", "cpu"), "--words"),
        "--without": _one_of(without, ("membarrier", "rseq"), "--without"),
    }
    outcome = _run(find_torture(), [subject, *words_of(request)], seconds + GRACE_S)
    if as_json:
        sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")
    else:
        _print(outcome)
    return DIFFERENT if outcome.errors else DONE


def _one_of(value: str | None, allowed: tuple[str, ...], where: str) -> str | None:
    if value is not None and value not in allowed:
        raise UserError(f"not known: {value}", where, "allowed: " + ", ".join(allowed))
    return value


def _run(program: Path, request: list[str], limit_s: int) -> Outcome:
    try:
        done = subprocess.run([program, *request], capture_output=True, timeout=limit_s)
    except OSError as error:
        raise UserError(f"cannot run {program}: {error.strerror}", program.name) from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{program.name} did not end within {limit_s} s: a grace period is stuck") from None
    if done.returncode not in (0, 1):
        said = error_text(done.stderr)
        if done.returncode == 2:
            raise UserError(said)
        raise RunError(f"{program.name} {exit_text(done.returncode)}" + (f": {said}" if said else ""))
    sys.stderr.write(done.stderr.decode("utf-8", "replace"))
    try:
        outcome = msgspec.json.decode(done.stdout, type=Outcome)
    except msgspec.DecodeError as error:
        raise RunError(f"{program.name} answered with something unexpected: {error}") from None
    if bool(outcome.errors) != bool(done.returncode):
        raise RunError(f"{program.name} {exit_text(done.returncode)} with {outcome.errors} errors")
    return outcome


def _print(outcome: Outcome) -> None:
    from linewright.errors import one_line

    print(one_line(outcome.fast_flavours.split("; 0 readers")[0]))
    for name in Outcome.__struct_fields__[2:]:
        print(f"{getattr(outcome, name):>12}  {name.replace('_', ' ')}")

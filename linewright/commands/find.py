"""`linewright find`: which cache lines of a program travel, what that costs, and what to do about it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from linewright import units
from linewright.errors import DONE, UserError
from linewright.output.console import note

ORDER = 34
MOST_PER_SECOND = 4000
"""Samples a second over all CPUs: what the command reads without falling behind."""


def register(app: typer.Typer) -> None:
    app.command("find", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})(find)


def find(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- PROGRAM [ARGS…]", help="The program and its arguments.", show_default=False),
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", help="Sample this running process and its descendants.", show_default=False)
    ] = None,
    how_long: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Stop after this time: 15s, 2m. A program started here is then ended.",
            show_default="15s for --pid",
        ),
    ] = None,
    overhead: Annotated[
        str, typer.Option(help="What finding may cost the program: half for samples, half for watchpoints.")
    ] = "2%",
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Confirm candidates by watchpoints.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Find the cache lines of a program that travel between its threads, without performance counters."""
    _one_source(command, pid)
    share = units.fraction(overhead, "--overhead")
    seconds = units.duration_s(how_long, "--for") if how_long else (15.0 if pid else None)
    result = _live(command or [], pid, seconds, share, watch)
    _print(result, as_json)
    return DONE


def _one_source(command: list[str] | None, pid: int | None) -> None:
    if bool(command) == (pid is not None):
        what = "a program and --pid" if command else "no program named"
        raise UserError(what, "find", "one of: linewright find -- PROGRAM [ARGS…], --pid PID")
    if pid is not None and not 1 <= pid <= 2**22:
        raise UserError(f"no process number: {pid}", "--pid", "allowed: 1 to 4194304")


def _live(command: list[str], pid: int | None, seconds: float | None, share: float, watch: bool):
    """Sample a program or process and judge what was seen."""
    from linewright.find import live, sources
    from linewright.target.programs import find_sampler

    sampler = find_sampler()
    arguments = [f"--period-us={period_us(share):g}", f"--watch-share={share / 2:g}"]
    arguments += [f"--pid={pid}"] if pid else []
    arguments += [f"--for={seconds:g}"] if seconds else []
    gathered = live.run(sampler, arguments, command, watch)
    return sources.result_of(gathered, command[0] if command else _name(pid))


def _name(pid: int | None) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return f"{file.read().strip()} ({pid})"
    except OSError:
        return f"process {pid}"


def period_us(share: float) -> float:
    """CPU time between samples: half of the overhead allowed, and never more samples than the command can read."""
    from linewright.find.sources import SAMPLE_NS

    by_cost = SAMPLE_NS / 1000 / (share / 2)
    by_reading = 1e6 * (os.cpu_count() or 1) / MOST_PER_SECOND
    # Not a multiple of the kernel's tick: a program that works in ticks would be met at one place only.
    return max(by_cost, by_reading, 997.0)


def _print(result, as_json: bool) -> None:
    import msgspec

    from linewright.find import screen
    from linewright.output.console import console_for

    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")
    else:
        screen.show(result, console_for(sys.stdout))
    sys.stdout.flush()
    if result.exit_code:
        note(f"the program ended with exit code {result.exit_code}")

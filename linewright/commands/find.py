"""`linewright find`: which cache lines of a program travel, what that costs, and what to do about it."""

from __future__ import annotations

import glob
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from linewright import units
from linewright.errors import DONE, RunError, UserError
from linewright.output.console import note

if TYPE_CHECKING:
    from linewright.find.live import Gathered
    from linewright.find.machine import Machine
    from linewright.find.schema import Result

ORDER = 34
CONTEXT = {"ignore_unknown_options": False, "allow_interspersed_args": False}
MOST_PER_SECOND = 4000
"""Samples a second over all CPUs: what the command reads without falling behind."""

SIGNAL_NS = 4_000
"""Assumed cost of a sample by a signal, for planning alone: the page states what the handlers took."""


OnOption = Annotated[
    str | None,
    typer.Option("--on", help="Where to sample: ssh://USER@HOST:PORT or 'exec:COMMAND'.", show_default="local"),
]


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
    heap: Annotated[
        bool,
        typer.Option("--heap/--no-heap", help="Name heap blocks by the allocating call, through an interposed malloc."),
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Run the program under qemu-user and see every access; arm64 programs too.")
    ] = False,
    prices: Annotated[
        str | None,
        typer.Option(
            help="Record file with this machine's prices, or a simulated one's; 'measure' takes 20 s.",
            show_default="results/*.jsonl",
        ),
    ] = None,
    on: OnOption = None,
    perf_text: Annotated[
        str | None,
        typer.Option(
            "--import", help="Read the text of perf c2c, perf script or perf mem instead.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Find the cache lines of a program that travel between its threads, without performance counters."""
    if on in (None, "local"):
        on = "local"
    elif perf_text is not None or exact:
        raise UserError("--import and --exact work here alone", "--on", "a program or --pid is sampled elsewhere")
    if perf_text is not None:
        if command or pid or exact or heap:
            raise UserError("--import stands alone", "find", "allowed beside it: --json")
        return _print(_remedied(_imported(perf_text), []), as_json)
    _one_source(command, pid)
    share = units.fraction(overhead, "--overhead")
    seconds = units.duration_s(how_long, "--for") if how_long else (15.0 if pid else None)
    if heap and pid:
        raise UserError("--heap with --pid", "find", "malloc can be interposed only in a program that is started")
    if exact:
        return _print(_remedied(_exact(command, pid, how_long), command or []), as_json)
    return _sampled(_Request(command or [], pid, seconds, share, watch, heap), on, prices, as_json)


def _sampled(request: _Request, on: str, prices: str | None, as_json: bool) -> int:
    import msgspec

    from linewright.find import machine

    with closing(machine.Here() if on == "local" else machine.There(on)) as there:
        gathered, result = _live(request, there)
        result = _remedied(_priced(result, prices, there), request.command, on)
        _print(msgspec.structs.replace(result, notes=[*result.notes, *there.notes()]), as_json)
    if gathered.lost:
        raise RunError(gathered.damaged)
    return DONE


def _one_source(command: list[str] | None, pid: int | None) -> None:
    if bool(command) == (pid is not None):
        what = "a program and --pid" if command else "no program named"
        raise UserError(what, "find", "one of: linewright find -- PROGRAM [ARGS…], --pid PID")
    if pid is not None and not 1 <= pid <= 2**22:
        raise UserError(f"no process number: {pid}", "--pid", "allowed: 1 to 4194304")


def _imported(path: str):
    from linewright.find import imported, perf_text

    return imported.result_of(perf_text.read(path), path)


def _exact(command: list[str] | None, pid: int | None, how_long: str | None):
    from linewright.find import exact
    from linewright.target.programs import find_preload

    if pid or how_long or not command:
        raise UserError(
            "--exact takes a program, from its start to its end", "find", "linewright find --exact -- PROGRAM [ARGS…]"
        )
    found, exit_code = exact.run(find_preload("exact"), command)
    return exact.result_of(found, os.path.basename(command[0]), exit_code)


class _Request(NamedTuple):
    """What is sampled and how; `share` is the overhead allowed."""

    command: list[str]
    pid: int | None
    seconds: float | None
    share: float
    watch: bool
    heap: bool

    def arguments(self, cpus: int) -> list[str]:
        """The sampler's options."""
        options = [
            f"--period-us={period_us(cpus):g}",
            f"--sample-share={self.share / 2:g}",
            f"--watch-share={self.share / 2:g}",
        ]
        options += [f"--pid={self.pid}"] if self.pid else []
        return options + ([f"--for={self.seconds:g}"] if self.seconds else [])


def _live(request: _Request, there: Machine) -> tuple[Gathered, Result]:
    """Sample a program or process and judge what was seen."""
    from linewright.find import live

    preload, environment, table = [], [], None
    if request.heap:
        table = there.table()
        preload.append(there.library("heap"))
        environment.append(f"LINEWRIGHT_FIND_HEAP={table}")
    given = request.arguments(there.cpus)
    try:
        gathered = there.run(
            given + _environment(environment, preload, there.preloaded), request.command, request.watch
        )
        return gathered, _judged(request, gathered, there, table, [])
    except live.Refused as refused:
        if request.pid:
            raise RunError(
                f"{refused}; a running process cannot be sampled otherwise: start the program with find"
            ) from None
        said = f"{refused}. Sampled by CPU timers and a signal handler in a preloaded library instead."
    rings = there.rings()
    preload.append(there.library("timer"))
    environment += [
        f"LINEWRIGHT_FIND_RINGS={rings}",
        f"LINEWRIGHT_FIND_PERIOD_NS={signal_period_ns(request.share, there.cpus):.0f}",
    ]
    given += [f"--signals={rings}", *_environment(environment, preload, there.preloaded)]
    gathered = there.run(given, request.command, False)
    return gathered, _judged(request, gathered, there, table, [said])


def _environment(assignments: list[str], preload: list[str], before: str) -> list[str]:
    """Options that set the program's environment; libraries that it preloads anyway stay, behind ours."""
    if preload:
        assignments = [*assignments, f"LD_PRELOAD={':'.join([*preload, *([before] if before else [])])}"]
    return [f"--env={text}" for text in assignments]


def _judged(request: _Request, gathered: Gathered, there: Machine, table: str | None, notes: list[str]) -> Result:
    from linewright.find import sources

    heap = None
    if table is not None:
        heap = there.blocks(table, gathered.spaces)
        if heap.dropped:
            notes.append(f"{heap.dropped} heap blocks found no place in the table and have no name.")
    name = request.command[0] if request.command else _name(there.name_of(request.pid), request.pid)
    return sources.result_of(gathered, name, heap, notes)


def _priced(result: Result, named: str | None, there: Machine) -> Result:
    """The result with ceilings, where its source counts time."""
    import msgspec

    from linewright.find import prices

    lines, notes = result.lines, list(result.notes)
    if not lines or lines[0].share is None:
        return result
    if named == "measure":
        known, said = there.measured(prices.forms_of(lines, result.arch))
    else:
        paths = [named] if named else sorted(glob.glob("results/*.jsonl"))
        known, said = prices.from_files(paths, there.cpu_model, named=named is not None)
    lines = prices.priced(lines, known, result.arch) if known else lines
    return msgspec.structs.replace(result, lines=lines, notes=notes + ([said] if said else []))


def _remedied(result: Result, command: list[str], on: str = "local") -> Result:
    import msgspec

    from linewright.find import remedies

    return msgspec.structs.replace(result, lines=remedies.advised(result.lines, command, on))


def _name(name: str, pid: int) -> str:
    return f"{name} ({pid})" if name else f"process {pid}"


def period_us(cpus: int) -> float:
    """CPU time between samples, at least: never more samples than the command can read.  The sampler lengthens it where
    samples cost more than their share."""
    by_reading = 1e6 * cpus / MOST_PER_SECOND
    # Not a multiple of the kernel's tick: a program that works in ticks would be met at one place only.
    return max(by_reading, 997.0)


def signal_period_ns(share: float, cpus: int) -> float:
    """The same for the fall-back, whose signals cannot be tried out beforehand; what they took is measured as they
    run."""
    return max(SIGNAL_NS / (share / 2), period_us(cpus) * 1000)


def _print(result: Result, as_json: bool) -> int:
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
    return DONE

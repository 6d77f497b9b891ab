# SPDX-License-Identifier: MIT
"""`linewright find`: which cache lines of a program travel, what that costs, and what to do about
it."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TextIO

import typer

from linewright import units
from linewright.commands._options import AsJson, Elsewhere, ProgramArgument
from linewright.errors import INCOMPLETE, RunError, UserError
from linewright.show.output import note

if TYPE_CHECKING:
    from linewright.find.results import Result

ORDER = 10
CONTEXT = {"ignore_unknown_options": False, "allow_interspersed_args": False}
_option = partial(typer.Option, show_default=False)


def find(
    command: ProgramArgument = None,
    pid: Annotated[
        int | None, _option("--pid", help="Sample this running process and its descendants.")
    ] = None,
    how_long: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Stop after this time: 15s, 2m. A program started here is then ended.",
            show_default="15s for --pid",
        ),
    ] = None,
    heap: Annotated[
        bool,
        typer.Option(
            "--heap", help="Name heap blocks by the allocating call, through an interposed malloc."
        ),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Run the program under qemu-user and see every access; arm64 programs too.",
        ),
    ] = False,
    prices: Annotated[
        str | None,
        typer.Option(
            help="Record file with this machine's prices, or a simulated one's.",
            show_default="results/*.jsonl",
        ),
    ] = None,
    on: Elsewhere = None,
    as_json: AsJson = False,
    output: Annotated[
        str | None,
        _option(
            "--output",
            "-o",
            help="Write the result here: JSON, or by the ending .xml (JUnit) or .sarif.",
        ),
    ] = None,
    baseline: Annotated[
        str | None, _option(help="Result of an earlier run (-o): say which lines are new.")
    ] = None,
    fail_new: Annotated[
        bool,
        typer.Option(
            "--fail-new",
            help="Exit 1 where lines are new; without --baseline, where any line travels.",
        ),
    ] = False,
) -> int:
    """Find the cache lines of a program that travel between its threads, without performance
    counters."""
    on = "local" if on is None else on
    usage = "one of: linewright find -- PROGRAM [ARGS…], --pid PID"
    folder = os.path.dirname(output or "") or "."
    for refused, *said in (
        (exact and on != "local",
         "--exact works here alone", "--on", "a program or --pid is sampled elsewhere"),
        (os.path.isdir(output or ""), "Is a directory", output, "expected a file to write"),
        (not os.path.isdir(folder),
         "No such directory", output, "expected a file in a folder that exists"),
        (command and pid is not None, "a program and --pid", "find", usage),
        (not command and pid is None, "no program named", "find", usage),
        (pid is not None and not 1 <= pid <= 2**22,
         f"no process number: {pid}", "--pid", "allowed: 1 to 4194304"),
        (exact and bool(heap or prices), "--exact knows neither heap blocks nor time", "find",
         "leave --heap and --prices out"),
        (heap and pid, "--heap with --pid", "find",
         "malloc can be interposed only in a program that is started"),
        (exact and (pid or how_long), "--exact takes a program, from its start to its end", "find",
         "linewright find --exact -- PROGRAM [ARGS…]"),
    ):  # fmt: skip
        if refused:
            raise UserError(*said)
    if prices is not None and not Path(prices).is_fifo():
        from linewright.records import files

        next(iter(files.Reader(prices)))  # refused before the program runs
    seconds = units.duration_s(how_long, "--for") if how_long else (15.0 if pid else None)
    before = None
    if baseline:
        # NumPy comes with it, for which the sampler would wait.
        from linewright.find import guard, results

        before = results.read(baseline)
        guard.refuse(before, baseline, command[0] if command else "", exact)
    show = _Shown(as_json, output, before, baseline, fail_new)
    if exact:
        from linewright.find.exact import findings_of, run
        from linewright.run.programs import find_preload

        seen, code = run(find_preload("exact"), command, show.beside)
        return show(findings_of(seen, command, code))
    from linewright.find.sampled_machine import SamplerPlace, SamplingProgress
    from linewright.find.sampling import SampleRequest, sampled

    request = SampleRequest(command or [], pid, seconds, heap)
    progress = SamplingProgress(bool(command), seconds)
    with closing(SamplerPlace(on, show.beside, progress.show)) as there:
        with progress:
            gathered, found = sampled(request, there, prices)
        code = show(found)
    if gathered.damaged:
        raise RunError(gathered.damaged)
    if gathered.ended_by:
        raise RunError(f"ended by {gathered.ended_by.name}; what was seen until then is shown")
    return code


class _Shown(NamedTuple):
    """How a result is given out, and held against an earlier one."""

    as_json: bool
    output: str | None
    before: Result | None
    named: str | None
    fail_new: bool

    @property
    def beside(self) -> TextIO | None:
        """Where a program prints whose output would be taken for ours."""
        return sys.stderr if self.as_json else None

    def __call__(self, result: Result) -> int:
        import msgspec

        from linewright.find import guard
        from linewright.find.result_document import document
        from linewright.show.output import answer_beside, console_for, print_json
        from linewright.show.terminal import print_tables

        new = []
        if self.fail_new or self.before:
            result.against = guard.against(result, self.before, self.named or "")
            new = [result.lines[at] for at in result.against.new]
        said = document(result)
        result.document = msgspec.to_builtins(said)
        code = guard.exit_code(result, new, self.fail_new)
        why = guard.why_not(result) if code == INCOMPLETE else ""
        unwritten = None
        try:
            if self.output:
                guard.write(self.output, result, new, why)
        except UserError as error:  # the disk is full: what was found is shown nevertheless
            unwritten = error
        with answer_beside():
            if self.as_json:
                print_json(result)
            else:
                print_tables(said, console_for(sys.stdout))
        if unwritten:
            raise unwritten
        if result.exit_code:
            note(f"the program ended with exit code {result.exit_code}")
        if self.fail_new and os.environ.get("GITHUB_ACTIONS"):
            print(*guard.annotations(new, why), sep="\n", file=sys.stderr)
        return code

"""`linewright compare`: runs held against a baseline, cell by cell; trial files setting by setting."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from linewright import units
from linewright.commands._options import Only
from linewright.errors import DIFFERENT, DONE, UserError
from linewright.output.console import note
from linewright.output.file import write

ORDER = 25
FORMATS = ("table", "json", "csv")

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="BASELINE FILE",
        help="Record files, or trial files; the first is the baseline of all others.",
        show_default=False,
    ),
]
FailAbove = Annotated[
    str | None,
    typer.Option(
        "--fail-above",
        metavar="PERCENT",
        help="Exit 1 only where a cell is shown to be more than this worse: 5%.",
        show_default="any difference",
    ),
]
Undecided = Annotated[
    str, typer.Option(help="What --fail-above makes of cells that are not shown to be within it: pass or fail.")
]
Unlike = Annotated[
    bool, typer.Option("--unlike", help="Compare even though machine, kernel, probe or settings differ.")
]
Format = Annotated[str, typer.Option("--format", help="table, json or csv.")]
Every = Annotated[bool, typer.Option("--all", help="Every cell, those without a difference too.")]
Html = Annotated[
    str | None, typer.Option("--html", metavar="FILE", help="Write the comparison as one self-contained page too.")
]
Measure = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--measure",
        metavar="A_COMMAND B_COMMAND",
        help="Run two commands in turns and compare their records; each writes one launch to {output}.",
        show_default=False,
    ),
]
Launches = Annotated[int, typer.Option(help="Turns of --measure.")]
Directory = Annotated[str | None, typer.Option(help="Folder for the records of --measure.", show_default="results")]


def compare(
    files: Files = None,
    measure: Measure = None,
    launches: Launches = 8,
    directory: Directory = None,
    fail_above: FailAbove = None,
    undecided: Undecided = "fail",
    unlike: Unlike = False,
    form: Format = "table",
    every: Every = False,
    html: Html = None,
    only: Only = None,
) -> int:
    """Say cell by cell what differs between runs, corrected for many comparisons; exit code 1 if anything does."""
    if form not in FORMATS:
        raise UserError(f"no format {form!r}", "--format", f"allowed: {', '.join(FORMATS)}")
    if undecided not in ("pass", "fail"):
        raise UserError(f"not a decision: {undecided!r}", "--undecided", "allowed: pass, fail")
    limit = units.share(fail_above, "--fail-above") if fail_above is not None else None
    # Large files take minutes: what is found is not to be lost then.
    if html is not None and not Path(html).parent.is_dir():
        raise UserError(f"cannot write {html}: no such directory", "--html", "name a file in a directory that exists")
    paths = files or []
    if measure is not None:
        paths = _measured(measure, paths, launches, directory or "results")
    return answer(
        paths,
        form,
        every,
        html,
        allow_unlike=unlike,
        fail_above=limit,
        only=only or (),
        undecided_fails=undecided == "fail",
    )


def answer(
    paths: Sequence[str],
    form: str,
    every: bool = False,
    html: str | None = None,
    allow_unlike: bool = True,
    **options: Any,
) -> int:
    """Compare record files, print what is found and write it as a page; the exit code."""
    from linewright.compare import files as compare_files  # imports SciPy, which takes longer than a refusal may

    found = compare_files.compare(paths, compare_files.Options(allow_unlike, **options), note)
    if html is not None:
        from linewright.compare.page import page

        write(html, page(found), "--html")
    _print(found, form, every)
    return DIFFERENT if found.failed else DONE


def _measured(commands: tuple[str, str], files: list[str], launches: int, directory: str) -> list[str]:
    """The two record files that running both commands in turns gives."""
    from linewright.compare import in_turns

    if files:
        raise UserError("--measure and files contradict each other", "compare", "commands to run, or files to read")
    words = [in_turns.checked(command, "--measure") for command in commands]
    count = in_turns.checked_launches(launches)
    return in_turns.measure(words, in_turns.new_folder(directory), count, note)


def _print(found, form: str, every: bool) -> None:
    from linewright.compare import comparison

    if form == "json":
        sys.stdout.buffer.write(comparison.as_json(found))
    elif form == "csv":
        sys.stdout.write(comparison.as_csv(found))
    else:
        from linewright.output.comparison_table import show
        from linewright.output.console import console_for

        show(found, console_for(sys.stdout), every)
    sys.stdout.flush()

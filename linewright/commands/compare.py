"""`linewright compare`: runs held against a baseline, cell by cell; trial files setting by setting."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from linewright import units
from linewright.errors import DIFFERENT, DONE, UserError
from linewright.output.console import note

ORDER = 25
FORMATS = ("table", "json", "csv")


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="BASELINE FILE…",
            help="Record files, or trial files; the first is the baseline of all others.",
            show_default=False,
        ),
    ],
    fail_above: Annotated[
        str | None,
        typer.Option(
            "--fail-above",
            metavar="PERCENT",
            help="Exit 1 only where a cell is certainly more than this worse: 5%.",
            show_default="any difference",
        ),
    ] = None,
    unlike: Annotated[
        bool, typer.Option("--unlike", help="Compare even though machine, kernel, probe or settings differ.")
    ] = False,
    form: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    every: Annotated[bool, typer.Option("--all", help="List the cells without a difference too.")] = False,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write the comparison as one self-contained page too."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Cells whose id, or parts of it, fit a shell glob; repeatable.")
    ] = None,
) -> int:
    """Say cell by cell what differs between runs, with intervals and corrected for many comparisons; exit 1 if anything does."""
    if form not in FORMATS:
        raise UserError(f"no format {form!r}", "--format", f"allowed: {', '.join(FORMATS)}")
    limit = units.share(fail_above, "--fail-above") if fail_above is not None else None
    if (
        html is not None and not Path(html).parent.is_dir()
    ):  # large files take minutes: what is found is not to be lost then
        raise UserError(f"cannot write {html}: no such directory", "--html", "name a file in a directory that exists")
    from linewright.compare import comparison
    from linewright.compare import files as compare_files

    found = compare_files.compare(files, compare_files.Options(unlike, limit, only or ()), note)
    if html is not None:
        from linewright.compare.page import page

        _write(html, page(found))
    if form == "json":
        sys.stdout.buffer.write(comparison.as_json(found))
    elif form == "csv":
        sys.stdout.write(comparison.as_csv(found))
    else:
        from linewright.output.comparison_table import show
        from linewright.output.console import console_for

        show(found, console_for(sys.stdout), every)
    sys.stdout.flush()
    return DIFFERENT if found.failing else DONE


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "--html", "name a file that can be written") from None

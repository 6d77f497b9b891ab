# SPDX-License-Identifier: MIT
"""`linewright show`: the result of record files, without measuring."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from linewright.commands._options import AsJson, Every, Only, Records, require
from linewright.errors import DONE, UserError
from linewright.show.console import note
from linewright.show.formats import (
    FORMATS,
    PARQUET,
    View,
    asked_format,
    check_folder,
    check_new,
    form_and_view,
    written,
)
from linewright.wings import need_extra

ORDER = 1


def show(
    files: Records,
    every: Every = False,
    why: Annotated[
        str | None,
        typer.Option(metavar="CELL", help="Windows, launches, modes and controls of one cell."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="table, plain (line by line, for screen readers), csv, one line per cell, or "
            "parquet, the same with types.",
        ),
    ] = "table",
    as_json: AsJson = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write; - is standard output.")
    ] = "-",
    only: Only = None,
) -> int:
    """Show the result of one or several record files, or write it for other tools."""
    form, view = form_and_view(asked_format(form, as_json, "show", (*FORMATS, PARQUET)), every, why)
    if form == PARQUET:
        if output == "-" and sys.stdout.isatty():
            raise UserError("Parquet is no text", "--output", "name a file with -o")
        need_extra("parquet", "--format parquet")
    if output != "-":
        check_new(output)
        check_folder(output)
    from linewright.analysis import loading
    from linewright.commands import _result_formats as result_formats
    from linewright.records import store

    with store.Store(files, note, only or ()) as stored:
        stored.read()
        require(len(stored), files, "show")
        contexts = list(stored.contexts.values())
        summaries = loading.summarised(stored).summaries
        with written(output):
            if view == View.WHY:
                result_formats.show_why(why, summaries, stored)
            else:
                result_formats.show_summaries(summaries, contexts, form, view)
    return DONE

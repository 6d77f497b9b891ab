# SPDX-License-Identifier: MIT
"""`linewright export`: record files in the shapes that other tools read."""

from __future__ import annotations

import os
import sys
from typing import Annotated, BinaryIO

import typer

from linewright.commands._options import Only, Records, require
from linewright.errors import DONE, RunError, UserError, choice
from linewright.show.console import note
from linewright.show.new_file import open_new
from linewright.wings import need_extra

ORDER = 27
FORMATS = ("csv", "parquet")


def export(
    files: Records,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="csv, one line per cell, or parquet, the same with types.",
        ),
    ] = "csv",
    out: Annotated[
        str, typer.Option("--output", "-o", help="File to write; - is standard output.")
    ] = "-",
    only: Only = None,
) -> int:
    """Write the results of record files for other tools."""
    choice("format", form, "--format", FORMATS)
    if form == "parquet":
        if out == "-" and sys.stdout.isatty():
            raise UserError("Parquet is no text", "--output", "name a file with -o")
        need_extra("parquet", "--format parquet")
    data = _exported(form, files, only or ())  # whatever refuses the request does so before a file
    with _open(out) as stream:
        try:
            stream.write(data)
            stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise RunError(f"{out}: {error.strerror or error}") from None
    return DONE


def _exported(form: str, files: list[str], only: list[str]) -> bytes:
    from linewright.analysis import loading
    from linewright.say import cell_rows
    from linewright.show.export_files import csv_of, parquet_of

    loaded = loading.load(files, note, only)
    require(len(loaded.summaries), files, "export")
    contexts = list(loaded.contexts.values())
    rows = cell_rows.of_cells(loaded.summaries)
    return csv_of(rows).encode() if form == "csv" else parquet_of(contexts, rows)


def _open(path: str) -> BinaryIO:
    if path == "-":
        return os.fdopen(os.dup(1), "wb")
    return open_new(path)

"""`linewright export`: record files in the shapes that other tools read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from linewright import extras
from linewright.commands._options import Only, Records, require
from linewright.errors import DONE, RunError, UserError, choice, contradiction
from linewright.show.console import note
from linewright.show.new_file import open_new

if TYPE_CHECKING:
    from linewright.records.store import Store

ORDER = 27
FORMATS = ("csv", "parquet", "google-benchmark")


def export(
    files: Records,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="csv, one line per cell; parquet, the same with types; google-benchmark, JSON as "
            "Google Benchmark writes it.",
        ),
    ] = "csv",
    out: Annotated[
        str, typer.Option("--output", "-o", help="File to write; - is standard output.")
    ] = "-",
    windows: Annotated[
        bool,
        typer.Option(
            "--windows", help="One row per timed window instead of one per cell (CSV, Parquet)."
        ),
    ] = False,
    only: Only = None,
) -> int:
    """Write the results of record files for other tools."""
    choice("format", form, "--format", FORMATS)
    google, parquet = form == "google-benchmark", form == "parquet"
    if windows and google:
        raise contradiction(
            "--windows", f"--format {form}", "export", "that format knows repetitions only"
        )
    if parquet and out == "-" and sys.stdout.isatty():
        raise UserError("Parquet is no text", "--output", "name a file with -o")
    from linewright.records import store

    if parquet:
        extras.need("parquet", "--format parquet")
    with store.Store(files, note, only or ()) as stored:
        write = (
            _windows(stored, files, parquet) if windows else _cells(stored, files, google, parquet)
        )
        with _open(out) as stream:
            try:
                write(stream)
                stream.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                raise RunError(f"{out}: {error.strerror or error}") from None
    return DONE


Write = Callable[[BinaryIO], object]
"""Writes the export; everything that can refuse the request has run before."""


def _windows(stored: Store, files: list[str], as_parquet: bool) -> Write:
    from linewright.show.export import csv, parquet, rows

    stored.read()
    require(len(stored), files, "export")
    flat = rows.of_windows(stored.contexts, stored.records())
    if as_parquet:
        return lambda stream: parquet.write(
            stream, rows.WINDOW_COLUMNS, flat, list(stored.contexts.values())
        )
    return lambda stream: csv.write(stream, rows.WINDOW_COLUMNS, flat)


def _cells(stored: Store, files: list[str], google: bool, as_parquet: bool) -> Write:
    from linewright.analysis import loading
    from linewright.show.export import csv, google_benchmark, parquet, rows

    loaded = loading.load_from(stored)
    require(len(loaded.summaries), files, "export")
    contexts = list(loaded.contexts.values())
    if google:
        made = google_benchmark.of_cells(contexts, loaded.summaries)
        return lambda stream: stream.write(made)
    flat = rows.of_cells(loaded.summaries)
    columns = rows.column_types(flat)
    if as_parquet:
        return lambda stream: parquet.write(stream, columns, flat, contexts)
    return lambda stream: csv.write(stream, columns, flat)


def _open(path: str) -> BinaryIO:
    if path == "-":
        return os.fdopen(os.dup(1), "wb")
    return open_new(path)

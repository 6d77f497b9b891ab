"""`linewright export`: record files in the shapes that other tools read."""

from __future__ import annotations

import os
import sys
from typing import Annotated, BinaryIO

import typer

from linewright.errors import DONE, RunError, UserError
from linewright.output import console as output

ORDER = 27


def register(app: typer.Typer) -> None:
    app.command("export")(export)


def export(
    files: Annotated[list[str], typer.Argument(metavar="RECORDS…", help="Record files.", show_default=False)],
    google: Annotated[bool, typer.Option("--google-benchmark", help="JSON as Google Benchmark writes it.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line per cell.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="The same, as Parquet (needs pyarrow).")] = False,
    out: Annotated[str, typer.Option("--output", "-o", help="File to write; - is standard output.")] = "-",
    windows: Annotated[
        bool, typer.Option("--windows", help="One row per timed window instead of one per cell (CSV, Parquet).")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Cells whose id, or parts of it, fit a shell glob; repeatable.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> int:
    """Write the results of record files for other tools."""
    if google + as_csv + parquet != 1:
        raise UserError("name one format", "export", "--google-benchmark, --csv or --parquet")
    if windows and google:
        raise UserError(
            "--windows and --google-benchmark contradict each other", "export", "that format knows repetitions only"
        )
    if parquet and out == "-" and sys.stdout.isatty():
        raise UserError("Parquet is no text", "--output", "name a file with -o")
    from linewright.output import export as shapes
    from linewright.records import store

    if parquet:
        shapes.require_parquet()
    with store.Store(files, output.note, only or ()) as stored:
        if windows:
            stored.read()
            _some(len(stored), files)
            contexts, columns, flat = (
                stored.contexts,
                shapes.WINDOW_COLUMNS,
                shapes.window_rows(stored.contexts, stored.records()),
            )
        else:
            loaded = store.load_from(stored)
            _some(len(loaded.summaries), files)
            contexts = loaded.contexts
            columns, flat = shapes.cell_rows(loaded.summaries)
        made = shapes.google_benchmark(list(contexts.values()), loaded.summaries) if google else b""
        with _open(out, force) as stream:
            try:
                if google:
                    stream.write(made)
                elif as_csv:
                    shapes.write_csv(stream, columns, flat)
                else:
                    shapes.write_parquet(stream, columns, flat, list(contexts.values()))
                stream.flush()
            except BrokenPipeError:
                raise
            except OSError as error:
                raise RunError(f"{out}: {error.strerror or error}") from None
    return DONE


def _some(count: int, files: list[str]) -> None:
    if not count:
        raise UserError("no finished cell to export", files[0], "the run ended before its first block of cells did")


def _open(path: str, force: bool) -> BinaryIO:
    if path == "-":
        return os.fdopen(os.dup(1), "wb")
    try:
        return open(path, "wb" if force else "xb")
    except FileExistsError:
        raise UserError(f"{path} exists", "--output", "--force replaces it") from None
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}", "--output", "name a file that can be written"
        ) from None

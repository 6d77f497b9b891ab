"""`linewright show`: the result of record files, without measuring."""

from __future__ import annotations

from typing import Annotated

import typer

from linewright.errors import DONE, UserError
from linewright.output.console import note
from linewright.output.formats import check_format

ORDER = 20


def register(app: typer.Typer) -> None:
    app.command("show")(show)


def show(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Record files.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    only: Annotated[
        list[str] | None, typer.Option(help="Cells whose id, or parts of it, fit a shell glob; repeatable.")
    ] = None,
) -> int:
    """Show the result of one or several record files."""
    check_format(form)
    from linewright.analysis import loading
    from linewright.output import result
    from linewright.records import store

    if form == "published":
        with store.Store(files, note, only or ()) as stored:
            stored.read()
            _require(len(stored), files)
            result.show_records(list(stored.contexts.values()), list(stored.records()), form)
        return DONE
    loaded = loading.load(files, note, only or ())
    _require(len(loaded.summaries), files)
    result.show_summaries(loaded.summaries, list(loaded.contexts.values()), form)
    return DONE


def _require(count: int, files: list[str]) -> None:
    if not count:
        raise UserError("no finished cell to show", files[0], "the run ended before its first block of cells did")

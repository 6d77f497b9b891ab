"""`linewright show`: the result of record files, without measuring."""

from __future__ import annotations

from typing import Annotated

import typer

from linewright.commands._options import Every, Only, Records, require
from linewright.errors import DONE
from linewright.output.console import note
from linewright.output.formats import View, check_format, view_of

ORDER = 20

PlainOption = Annotated[bool, typer.Option("--plain", help="The screen line by line, for screen readers.")]
FormatOption = Annotated[str, typer.Option("--format", help="table, json or csv.")]


def show(
    files: Records,
    every: Every = False,
    why: Annotated[
        str | None, typer.Option(metavar="CELL", help="Windows, launches, modes and controls of one cell.")
    ] = None,
    matrix: Annotated[
        str | None, typer.Option(metavar="OPERATION", help="A heat map of one operation: contention by work.")
    ] = None,
    plain: PlainOption = False,
    form: FormatOption = "table",
    only: Only = None,
) -> int:
    """Show the result of one or several record files."""
    check_format(form)
    view = view_of(form, every, plain, why, matrix)
    from linewright.analysis import loading
    from linewright.output import result
    from linewright.records import store

    if form == "published":
        with store.Store(files, note, only or ()) as stored:
            stored.read()
            require(len(stored), files, "show")
            result.show_records(list(stored.contexts.values()), list(stored.records()), form)
        return DONE
    with store.Store(files, note, only or ()) as stored:
        loaded = loading.load_from(stored)
        require(len(loaded.summaries), files, "show")
        contexts = list(loaded.contexts.values())
        if view == View.WHY:
            result.show_why(why, loaded.summaries, stored)
        elif view == View.MATRIX:
            result.show_matrix(matrix, loaded.summaries, contexts)
        else:
            result.show_summaries(loaded.summaries, contexts, form, view)
    return DONE

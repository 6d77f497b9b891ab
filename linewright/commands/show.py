# SPDX-License-Identifier: MIT
"""`linewright show`: the result of record files, without measuring."""

from __future__ import annotations

from typing import Annotated

import typer

from linewright.commands._options import Every, Only, Records, require
from linewright.errors import DONE
from linewright.show.console import note
from linewright.show.formats import View, form_and_view

ORDER = 20

FormatOption = Annotated[
    str,
    typer.Option("--format", help="table, plain (line by line, for screen readers), json or csv."),
]


def show(
    files: Records,
    every: Every = False,
    why: Annotated[
        str | None,
        typer.Option(metavar="CELL", help="Windows, launches, modes and controls of one cell."),
    ] = None,
    form: FormatOption = "table",
    only: Only = None,
) -> int:
    """Show the result of one or several record files."""
    form, view = form_and_view(form, every, why)
    from linewright.analysis import loading
    from linewright.commands import _result_formats as result_formats
    from linewright.records import store

    with store.Store(files, note, only or ()) as stored:
        stored.read()
        require(len(stored), files, "show")
        contexts = list(stored.contexts.values())
        summaries = loading.summarised(stored).summaries
        if view == View.WHY:
            result_formats.show_why(why, summaries, stored)
        else:
            result_formats.show_summaries(summaries, contexts, form, view)
    return DONE

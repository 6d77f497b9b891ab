"""`linewright show`: the result of record files, without measuring."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from linewright import output, records
from linewright.errors import DONE, UserError
from linewright.patterns import choose
from linewright.schema import Context, Record

ORDER = 20


def register(app: typer.Typer) -> None:
    app.command("show")(show)


def show(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Record files.", show_default=False)],
    form: Annotated[str, typer.Option("--format", help="table, json or csv.")] = "table",
    only: Annotated[Optional[list[str]], typer.Option(help="Cells whose id, or parts of it, fit a shell glob; repeatable.")] = None,
) -> int:
    """Show the result of one or several record files."""
    output.check_format(form)
    contexts: list[Context] = []
    rows: list[Record] = []
    for path in files:
        some_contexts, some_rows = records.read(path, output.note)
        contexts += some_contexts
        rows += some_rows
    if only and rows:
        cells = {row.id: row.cell for row in rows}
        wanted = {cell.id for cell in choose(list(cells.values()), only)}
        rows = [row for row in rows if row.id in wanted]
    if not rows:
        raise UserError("no finished cell to show", files[0], "the run ended before its first block of cells did")
    output.show(contexts, rows, form)
    return DONE

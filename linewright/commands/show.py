# SPDX-License-Identifier: MIT
"""`linewright show`: the result of record files, without measuring."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from linewright.commands._options import AsJson, Every, Only, Records
from linewright.errors import DONE, UserError, nothing_finished
from linewright.show.output import (
    FORMATS,
    PARQUET,
    asked_format,
    check_folder,
    check_new,
    console_for,
    csv_of,
    note,
    parquet_of,
    print_json,
    written,
)
from linewright.wings import need_extra

if TYPE_CHECKING:
    from linewright.analysis import Summary
    from linewright.records.store import Store
    from linewright.schema import Context

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
    formats = (*FORMATS, PARQUET)
    form = asked_format(form, as_json, "show", formats, every, why is not None)
    if form == PARQUET:
        if output == "-" and sys.stdout.isatty():
            raise UserError("Parquet is no text", "--output", "name a file with -o")
        need_extra("parquet", "--format parquet")
    if output != "-":
        check_new(output)
        check_folder(output)
    from linewright.analysis import loading
    from linewright.records import store

    with store.Store(files, note, only or ()) as stored:
        stored.read()
        if not len(stored):
            raise nothing_finished(files[0], "show")
        contexts = list(stored.contexts.values())
        summaries = loading.summarised(stored).summaries
        with written(output):
            if form == "why":
                show_why(why, summaries, stored)
            else:
                show_summaries(summaries, contexts, form)
    return DONE


MOST_NAMED = 8
"""Cells that a refusal names before it counts the rest."""


def show_summaries(summaries: Sequence[Summary], contexts: Sequence[Context], form: str) -> None:
    """Print summaries in a format: ``csv``, ``parquet``, ``json``, ``plain``, every cell for
    ``all``, or one screen."""
    from linewright.say import cell_rows
    from linewright.say.machine_document import documents, for_programs
    from linewright.show import plain
    from linewright.show.terminal import print_cells, print_documents

    if form == "csv":
        sys.stdout.write(csv_of(cell_rows.of_cells(summaries)))
    elif form == PARQUET:
        sys.stdout.buffer.write(parquet_of(contexts, cell_rows.of_cells(summaries)))
    elif form == "json":
        print_json(for_programs(summaries, contexts))
    elif form == "all":
        print_cells(documents(summaries, contexts, "cells"), console_for(sys.stdout))
    elif form == "plain":
        lines = plain.lines(documents(summaries, contexts))
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    else:
        print_documents(documents(summaries, contexts), console_for(sys.stdout))
    sys.stdout.flush()


def show_why(wanted: str, summaries: Sequence[Summary], stored: Store) -> None:
    """Print what stands behind the one cell that `wanted` names, an id or parts of one; UserError
    unless it is one."""
    from linewright.analysis.machine_answers import machines_with_answers
    from linewright.records.store import matches
    from linewright.say.cell_tables import cell_document
    from linewright.show.terminal import print_tables

    same = [s for s in summaries if s.id == wanted]
    found = same or [s for s in summaries if matches(s.id, wanted)]
    if not found:
        allowed = "linewright show --format csv FILE lists every cell's id"
        raise UserError(f"no cell fits {wanted!r}", "--why", allowed)
    names = list(dict.fromkeys(s.id for s in found))
    if len(names) > 1:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        allowed = f"one of: {', '.join(names[:MOST_NAMED])}{more}"
        raise UserError(f"{len(names)} cells fit {wanted!r}", "--why", allowed)
    console = console_for(sys.stdout)
    records = {machine: rows for machine, rows in stored.groups() if rows[0].id == names[0]}
    for number, summary in enumerate(found):
        if number:
            console.print()
        beside = [s for s in summaries if s.machine_id == summary.machine_id]
        (machine,) = machines_with_answers(beside, stored.contexts)
        own = records[summary.machine_id]
        print_tables(cell_document(summary, own, machine), console)
    sys.stdout.flush()

# SPDX-License-Identifier: MIT
"""The result of records in the format asked for: for people, or as text for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from linewright.analysis import Summary
from linewright.analysis.machine_answers import machines_with_answers
from linewright.errors import UserError
from linewright.records.store import Store, matches
from linewright.say import cell_document, cell_rows
from linewright.say.machine_document import documents, for_programs
from linewright.schema import Context
from linewright.show import plain
from linewright.show.console import console_for, print_json
from linewright.show.formats import PARQUET, View, csv_of, parquet_of
from linewright.show.terminal import print_documents
from linewright.show.text_tables import print_cells, print_tables

MOST_NAMED = 8
"""Cells that a refusal names before it counts the rest."""


def show_summaries(
    summaries: Sequence[Summary], contexts: Sequence[Context], form: str, view: View = View.SCREEN
) -> None:
    """Print summaries as CSV, Parquet, JSON or, in the format ``table``, as `view` says."""
    if form == "csv":
        sys.stdout.write(csv_of(cell_rows.of_cells(summaries)))
    elif form == PARQUET:
        sys.stdout.buffer.write(parquet_of(contexts, cell_rows.of_cells(summaries)))
    elif form == "json":
        print_json(for_programs(summaries, contexts))
    elif view == View.ALL:
        console = console_for(sys.stdout)
        print_cells(documents(summaries, contexts, "cells"), console)
    elif view == View.PLAIN:
        sys.stdout.write(
            "".join(f"{line}\n" for line in plain.lines(documents(summaries, contexts)))
        )
    else:
        print_documents(documents(summaries, contexts), console_for(sys.stdout))
    sys.stdout.flush()


def show_why(wanted: str, summaries: Sequence[Summary], stored: Store) -> None:
    """Print what stands behind the one cell that `wanted` names, an id or parts of one; UserError
    unless it is one."""
    found = [s for s in summaries if s.id == wanted] or [
        s for s in summaries if matches(s.id, wanted)
    ]
    if not found:
        raise UserError(
            f"no cell fits {wanted!r}",
            "--why",
            "linewright show --format csv FILE lists every cell's id",
        )
    if len({s.id for s in found}) > 1:
        names = list(dict.fromkeys(s.id for s in found))
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        raise UserError(
            f"{len(names)} cells fit {wanted!r}",
            "--why",
            f"one of: {', '.join(names[:MOST_NAMED])}{more}",
        )
    console = console_for(sys.stdout)
    records = {
        (machine, rows[0].id): rows
        for machine, rows in stored.groups()
        if rows[0].id == found[0].id
    }
    for number, summary in enumerate(found):
        if number:
            console.print()
        (machine,) = machines_with_answers(
            [s for s in summaries if s.machine_id == summary.machine_id], stored.contexts
        )
        own = records[(summary.machine_id, summary.id)]
        said = cell_document.document(summary, own, stored.contexts, machine)
        print_tables(said, console)
    sys.stdout.flush()

"""The result of records in the format asked for: for people, or as text for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from linewright.analysis import Summary, summarise
from linewright.output import tables
from linewright.output.console import console_for
from linewright.output.export import csv, json, published
from linewright.schema import Context, Record


def show_records(contexts: Sequence[Context], records: Sequence[Record], form: str) -> None:
    """Print records in one of `linewright.output.formats.FORMATS`, summarised unless the format wants every window."""
    if form != "published":
        show_summaries(summarise(contexts, records), contexts, form)
        return
    wide = all(record.plan == "wide" for record in records)
    sys.stdout.write(published.wide_as_csv(contexts, records) if wide else published.as_csv(records))
    sys.stdout.flush()


def show_summaries(summaries: Sequence[Summary], contexts: Sequence[Context], form: str) -> None:
    """Print summaries as a table, CSV or JSON."""
    if form == "csv":
        sys.stdout.write(csv.of_cells(summaries))
    elif form == "json":
        sys.stdout.buffer.write(json.of_cells(summaries, contexts))
    else:
        tables.print_result(summaries, contexts, console_for(sys.stdout))
    sys.stdout.flush()

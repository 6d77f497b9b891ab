"""What commands print: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from linewright.errors import UserError, one_line
from linewright.output.table import FORMATS
from linewright.schema import Context, Record

if TYPE_CHECKING:
    from linewright.analysis import Summary


def note(text: str) -> None:
    """One line on standard error."""
    remark(f"linewright: {one_line(text)}")


def remark(line: str) -> None:
    """A line on standard error as it is; when nobody reads there any more, what we are doing goes on all the same."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def check_format(name: str) -> str:
    """A result format, or UserError naming the allowed ones."""
    if name not in FORMATS:
        raise UserError(f"no format {name!r}", "--format", f"allowed: {', '.join(FORMATS)}")
    return name


def show(contexts: Sequence[Context], records: Sequence[Record], form: str) -> None:
    """Print records in one of the formats, summarised unless the format wants every window."""
    if form == "published":
        from linewright.output import published

        wide = all(record.plan == "wide" for record in records)
        sys.stdout.write(published.wide_as_csv(contexts, records) if wide else published.as_csv(records))
        sys.stdout.flush()
        return
    from linewright.analysis import summarise

    show_summaries(summarise(contexts, records), contexts, form)


def show_summaries(summaries: Sequence[Summary], contexts: Sequence[Context], form: str) -> None:
    from linewright.output import table

    if form == "csv":
        sys.stdout.write(table.as_csv(summaries))
    elif form == "json":
        sys.stdout.buffer.write(table.as_json(summaries, contexts))
    else:
        table.print_result(summaries, contexts, table.console_for(sys.stdout))
    sys.stdout.flush()

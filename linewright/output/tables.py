"""Everything that was measured, as tables: the context, one table per operation, what is missing, flags, verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from linewright.analysis import Summary, cache_fit, reader_cost, verdict
from linewright.errors import one_line
from linewright.output.cache_table import print_cache
from linewright.output.columns import legend
from linewright.output.counter_table import print_counters
from linewright.output.machine import describe
from linewright.output.marks import Marks, print_missing
from linewright.output.operation_table import COLUMNS, SIMULATED, is_simulated, print_operations
from linewright.output.reader_table import print_readers
from linewright.schema import Context


def print_result(summaries: Sequence[Summary], contexts: Sequence[Context], console: Console) -> None:
    """Print each machine's tables, then what columns and flags mean, then the verdict."""
    marks = Marks()
    plain = False
    for machine in dict.fromkeys(summary.machine_id for summary in summaries):
        own = [summary for summary in summaries if summary.machine_id == machine]
        known = [context for context in contexts if context.machine_id == machine]
        for line in describe(known):
            console.print(Text(line))
        console.print()
        # Cache maintenance and readers have tables of their own, since other columns tell their cells apart.
        common = [s for s in own if not cache_fit.concerns(s.cell) and not reader_cost.concerns(s.cell)]
        plain = print_operations(common, console, marks) or plain
        print_cache(own, known[0].line_bytes if known else 64, console)
        print_readers(own, console, marks.of)
        print_counters(own, console)
        print_missing(own, console)
    columns = (*COLUMNS, *(SIMULATED if any(is_simulated(s) for s in summaries) else ()))
    for line in legend(columns) if plain else ():
        console.print(Text(line))
    marks.explain(console)
    console.print()
    for sentence in verdict(summaries, contexts):
        console.print(Text(one_line(sentence)))

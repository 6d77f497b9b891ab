"""Tables of plan `cache`: terms per instruction and state, savings over entry size, the published experiment's layout."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from linewright.analysis import cache_fit
from linewright.analysis.intervals import Estimate
from linewright.analysis.summary import Summary

PUBLISHED = {"map": "-64.61", "unmap": "-66.60"}
"""Change in percent that was posted to the kernel's list for an arm64 phone."""


def print_cache(summaries: Sequence[Summary], line_bytes: int, console: Console) -> None:
    """Everything that can be said of the cache cells among the summaries; nothing when there are none."""
    passes = [s for s in summaries if cache_fit.concerns(s.cell)]
    if not passes:
        return
    for table in (_terms(passes, line_bytes), _savings(passes), _published(passes)):
        if table.row_count:
            console.print(table)
            console.print()


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=None, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    return table


def _interval(value: Estimate | None, digits: int = 2) -> str:
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]" if value else "-"


def _terms(passes: Sequence[Summary], line_bytes: int) -> Table:
    table = _table(
        "cache maintenance, fitted: ns per line, per entry and per wait",
        ("instruction, state, alignment", "ns/line", "ns/entry", "ns/wait", "lists", "worst miss %"),
    )
    for fit in cache_fit.fits(passes, line_bytes):
        table.add_row(
            f"{fit.group.form} {fit.group.state} +{fit.group.align_bytes}", _interval(fit.per_line), _interval(fit.per_entry, 1),
            _interval(fit.per_wait, 1), str(fit.cells), f"{fit.worst_percent:.0f}",
        )  # fmt: skip
    return table


def _savings(passes: Sequence[Summary]) -> Table:
    table = _table(
        "one wait for the list against a wait behind each entry",
        ("instruction, state, alignment", "entry bytes", "entries", "each us", "once us", "saved %"),
    )
    for saving in cache_fit.savings(passes):
        group = saving.group
        table.add_row(
            f"{group.form} {group.state} +{group.align_bytes}", str(saving.entry_bytes), str(saving.entries),
            f"{saving.each_ns / 1e3:.2f}", f"{saving.once_ns / 1e3:.2f}", _interval(saving.percent, 1),
        )  # fmt: skip
    return table


def _published(passes: Sequence[Summary]) -> Table:
    columns = ("10 MB in 2560 entries of 4 KiB", "each us", "once us", "change %", "published, arm64 phone")
    table = _table("the published experiment: map is for the device, unmap for the CPU", columns)
    for name, each, once, change in cache_fit.published_layout(passes):
        table.add_row(name, f"{each:.1f}", f"{once:.1f}", _interval(change, 2), PUBLISHED[name.split()[0]])
    return table

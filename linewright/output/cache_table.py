"""Tables of plan `cache`: cost terms per instruction, savings over entry size, the published experiment's layout."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from linewright.analysis import cache_fit
from linewright.analysis.summary import Summary
from linewright.output.columns import Column, print_table, table
from linewright.schema import Estimate

PUBLISHED = {"map": "-64.61", "unmap": "-66.60"}
"""Change in percent that was posted to the kernel's list for an arm64 phone."""


def _interval(value: Estimate | None, digits: int = 2) -> str:
    return f"{value.value:.{digits}f} [{value.low:.{digits}f}, {value.high:.{digits}f}]" if value else "-"


def _group(row: cache_fit.Fit | cache_fit.Saving) -> str:
    return f"{row.group.form} {row.group.state} +{row.group.align_bytes}"


_TERMS = (
    Column("instruction, state, alignment", _group, text=True),
    Column("ns/line", lambda fit: _interval(fit.per_line)),
    Column("ns/entry", lambda fit: _interval(fit.per_entry, 1)),
    Column("ns/wait", lambda fit: _interval(fit.per_wait, 1)),
    Column("lists", lambda fit: str(fit.cells)),
    Column("worst miss", lambda fit: f"{fit.worst_percent:.0f}", "%"),
)
_SAVINGS = (
    Column("instruction, state, alignment", _group, text=True),
    Column("entry", lambda saving: str(saving.entry_bytes), "bytes"),
    Column("entries", lambda saving: str(saving.entries)),
    Column("each", lambda saving: f"{saving.each_ns / 1e3:.2f}", "us"),
    Column("once", lambda saving: f"{saving.once_ns / 1e3:.2f}", "us"),
    Column("saved", lambda saving: _interval(saving.percent, 1), "%"),
)
_PUBLISHED = (
    Column("10 MB in 2560 entries of 4 KiB", lambda row: row[0], text=True),
    Column("each", lambda row: f"{row[1]:.1f}", "us"),
    Column("once", lambda row: f"{row[2]:.1f}", "us"),
    Column("change", lambda row: _interval(row[3]), "%"),
    Column("published, arm64 phone", lambda row: PUBLISHED[row[0].split()[0]]),
)


def print_cache(summaries: Sequence[Summary], line_bytes: int, console: Console) -> None:
    """Print the tables of the cache-maintenance cells among the summaries; nothing when there are none."""
    passes = [s for s in summaries if cache_fit.concerns(s.cell)]
    if not passes:
        return
    for title, columns, rows in (
        ("cache maintenance, fitted: ns per line, per entry and per wait", _TERMS, cache_fit.fits(passes, line_bytes)),
        ("one wait for the whole list against one wait after each entry", _SAVINGS, cache_fit.savings(passes)),
        (
            "the published experiment: map is for the device, unmap for the CPU",
            _PUBLISHED,
            cache_fit.published_layout(passes),
        ),
    ):
        print_table(table(title, columns, rows), console)

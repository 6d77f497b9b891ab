"""Performance counters of the measured cells as a table, where there are any."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linewright.analysis.summary import Summary
from linewright.compare.comparison import unique_labels

_METRIC = re.compile(r"(timed|others)_(?:([a-z0-9_]+)_per_op|(ghz|counted_share))")
MULTIPLEXED = 0.99
"""Share of the time below which counters took turns and their figures are scaled up."""


def counted(metrics: dict[str, float]) -> dict[tuple[str, str], float]:
    """Counters among a cell's metrics, by group of threads and event (``ghz`` and ``counted_share`` besides)."""
    found = ((_METRIC.fullmatch(name), value) for name, value in metrics.items())
    return {(match[1], match[2] or match[3]): value for match, value in found if match}


def print_counters(summaries: Sequence[Summary], console: Console) -> None:
    """Events per operation of the timed thread and of its contenders; nothing where no cell was counted."""
    cells = [(s, c) for s in summaries if (c := counted(s.metrics))]
    if not cells:
        return
    labels = unique_labels([s.cell for s, _ in cells])
    columns = sorted(
        {key for _, c in cells for key in c if key[1] != "counted_share"},
        key=lambda key: (key[0] != "timed", key[1] == "ghz", key[1]),
    )
    table = Table(
        title=Text("counters, per operation"), title_justify="left", box=None, padding=(0, 2, 0, 0), pad_edge=False
    )
    table.add_column("", overflow="fold", min_width=12)
    for group, event in columns:
        text = "GHz" if event == "ghz" else event
        table.add_column(f"{text}, others" if group == "others" else text, justify="right")
    partial = False
    for s, c in cells:
        mark = "*" if min(c.get((group, "counted_share"), 1.0) for group in ("timed", "others")) < MULTIPLEXED else ""
        partial = partial or bool(mark)
        table.add_row(labels[s.id] + mark, *(_text(c.get(key)) for key in columns))
    console.print(table)
    if partial:
        console.print(Text("*  the counters took turns with others: scaled up from the time that they had"))
    console.print()


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"

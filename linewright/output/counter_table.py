"""Performance counters of the measured cells as a table, where there are any."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from linewright.analysis.summary import Summary
from linewright.output.columns import Column, table
from linewright.output.labels import unique_labels

_METRIC = re.compile(r"(timed|others)_(?:([a-z0-9_]+)_per_op|(ghz|counted_share))")
MULTIPLEXED = 0.99
"""Share of the time below which counters took turns and their figures are scaled up."""

Key = tuple[str, str]
"""Group of threads and event."""


class _Line(NamedTuple):
    label: str
    counters: dict[Key, float]

    @property
    def scaled(self) -> bool:
        return min(self.counters.get((group, "counted_share"), 1.0) for group in ("timed", "others")) < MULTIPLEXED


def counted(metrics: dict[str, float]) -> dict[Key, float]:
    """Counters among a cell's metrics, by group of threads and event (``ghz`` and ``counted_share`` besides)."""
    found = ((_METRIC.fullmatch(name), value) for name, value in metrics.items())
    return {(match[1], match[2] or match[3]): value for match, value in found if match}


def print_counters(summaries: Sequence[Summary], console: Console) -> None:
    """Print events per operation of the timed thread and of its contenders; nothing where no cell was counted."""
    cells = [(s, counters) for s in summaries if (counters := counted(s.metrics))]
    if not cells:
        return
    labels = unique_labels([s.cell for s, _ in cells])
    lines = [_Line(labels[s.id], counters) for s, counters in cells]
    keys = sorted(
        {key for line in lines for key in line.counters if key[1] != "counted_share"},
        key=lambda key: (key[0] != "timed", key[1] == "ghz", key[1]),
    )
    name = Column("", lambda line: line.label + ("*" if line.scaled else ""), text=True, fold_at=12)
    console.print(table("counters, per operation", (name, *map(_column, keys)), lines, space=2))
    if any(line.scaled for line in lines):
        console.print(Text("*  The counters took turns with others; these figures are scaled up from their share."))
    console.print()


def _column(key: Key) -> Column[_Line]:
    group, event = key
    heading = ("GHz" if event == "ghz" else event) + (", others" if group == "others" else "")
    return Column(heading, _value_of(key), fold_at=len("others"))


def _value_of(key: Key) -> Callable[[_Line], str]:
    return lambda line: f"{line.counters[key]:.4g}" if key in line.counters else "–"

# SPDX-License-Identifier: MIT
"""Every cell of a machine as charts draw it: its names, figures and marks, each made once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from linewright.analysis import reader_cost
from linewright.analysis.questions import ORDERS
from linewright.analysis.summary import Summary
from linewright.say.cost_words import doubt_mark
from linewright.say.phrases import modes_text
from linewright.say.words import in_english
from linewright.schema import Cell, Interval

DrawnCell = tuple[Cell, dict[str, Any]]
"""A cell, and what charts draw of it by name: words, figures and marks."""
LARGEST = 1e300
"""Twice or ten times as much is still a number."""


def cell_figures(summaries: Iterable[Summary]) -> list[DrawnCell]:
    """Every cell that has figures; JSON values only."""
    return [(s.cell, _drawn(s)) for s in summaries if s.has_figures]


def _drawn(s: Summary) -> dict[str, Any]:
    cell = s.cell
    return {
        "operation": cell.operation,
        "form": cell.form,
        "order_place": ORDERS.index(cell.order) if cell.order in ORDERS else len(ORDERS),
        "contention": cell.situation.sharers,
        "work": cell.work_iters,
        "apart": s.placement_class,
        "cpus": s.cpus,
        "status": s.status,
        **interval("ns", s.issue),
        **interval("exposed", s.exposed),
        "p99": rounded(s.batch.p99_ns if s.batch else None),
        "rate": rounded(s.total_mops) if s.total_mops > 0 else None,
        "jain": rounded(s.fairness) if s.equal_loops else None,
        "mark": doubt_mark(s),
        "remark": _remark(s),
        "launches": s.launches,
        **(_readers(cell) if reader_cost.concerns(cell) else {}),
    }


def _readers(cell: Cell) -> dict[str, Any]:
    """Of a cell with readers how many there are, how long they stay, and who updates."""
    return {
        "readers": reader_cost.readers_of(cell),
        "updater": reader_cost.updater_of(cell),
        "delay": reader_cost.delay_of(cell),
    }


def rounded(value: float | None) -> float | None:
    """Five significant digits, and nothing for what is no number (JSON knows no NaN) or too large
    to reckon with."""
    return None if value is None or not abs(value) < LARGEST else float(f"{value:.5g}")


def interval(name: str, value: Interval | None) -> dict[str, float | None]:
    """``NAME``, ``NAME_low`` and ``NAME_high``; bounds of no confidence are left out."""
    low, high = (value.low_ns, value.high_ns) if value and value.confidence > 0 else (None, None)
    middle = value.median_ns if value else None
    return {f"{name}{end}": rounded(ns) for end, ns in zip(ENDS, (middle, low, high), strict=True)}


ENDS = ("", "_low", "_high")
"""What stands behind a figure's name: of its middle, and of the ends of its interval."""


def _remark(s: Summary) -> str:
    """What a tooltip adds: groups of launches, status, flags."""
    said = [f"metastable: {modes_text(s.modes)}"] if s.metastable else []
    said += [f"{s.status}: {s.reason}"] if s.status != "ok" else []
    return "; ".join(said + [in_english(flag) for flag in s.flags if flag != "metastable"])

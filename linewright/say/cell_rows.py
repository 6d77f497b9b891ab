# SPDX-License-Identifier: MIT
"""Every cell as one row: for programs flat, with units in the column names; for charts its names,
figures and marks, each made once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from linewright.analysis import reader_cost
from linewright.analysis.questions import ORDERS
from linewright.analysis.summary import Summary
from linewright.numbers import cpu_text
from linewright.say.phrases import doubt_mark, modes_text
from linewright.say.words import in_english
from linewright.schema import Cell, Interval

_CELL = ("operation", "form", "width_bits", "order", "contender", "contender_iters", "work_iters")


def of_cells(summaries: Iterable[Summary]) -> list[dict[str, object]]:
    """One row per cell and machine; an absent figure is None."""
    return [_identity(s) | intervals(s) | _percentiles(s) | _rest(s) for s in summaries]


def _identity(s: Summary) -> dict[str, object]:
    c = s.cell
    return {
        "machine_id": s.machine_id,
        "id": s.id,
        **{name: getattr(c, name) for name in (*_CELL, "placement")},
        "placement_class": s.placement_class,
        "lines": c.lines,
        "threads": c.threads,
        "params": " ".join(f"{key}={c.params[key]}" for key in sorted(c.params)),
        "status": s.status,
        "reason": s.reason,
        "launches": s.launches,
        "clusters": s.clusters or None,
        "launch_span_s": s.launch_span_s,
        "promise": s.promise,
    }


def intervals(s: Summary) -> dict[str, object]:
    """The three costs, each with the ends of its interval."""
    row: dict[str, object] = {}
    for name in ("issue", "exposed", "completion"):
        interval = getattr(s, name) if s.has_figures else None
        for end in ("median_ns", "low_ns", "high_ns"):
            row[f"{name}_{end}"] = getattr(interval, end) if interval else None
    return row


def _percentiles(s: Summary) -> dict[str, object]:
    return {
        f"{name}_{figure}": getattr(part, figure) if part else None
        for name, part in (("batch", s.batch), ("small_batch", s.small))
        for figure in ("p50_ns", "p95_ns", "p99_ns", "max_ns")
    }


def _rest(s: Summary) -> dict[str, object]:
    return {
        "total_mops": s.total_mops if s.has_figures else None,
        "fairness": s.fairness if s.has_figures else None,
        "lines_spread": s.lines_spread if s.has_figures else None,
        "windows": s.windows,
        "discarded_windows": s.discarded,
        "stop": s.stop,
        "cpus": cpu_text(s.cpus),
        "modes_ns": " ".join(f"{mode.median_ns:.6g}:{mode.share:.6g}" for mode in s.modes),
        "thread_ns": " ".join(f"{ns:.6g}" for ns in s.thread_ns),
        "thread_ticks": " ".join(f"{ticks:.6g}" for ticks in s.thread_ticks),
        "metrics": " ".join(f"{name}={value:.6g}" for name, value in s.metrics.items()),
        "flags": " ".join(s.flags),
    }


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

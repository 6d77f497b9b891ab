# SPDX-License-Identifier: MIT
"""Flat rows of results, one per cell, with units in the column names."""

from __future__ import annotations

from collections.abc import Iterable

from linewright.analysis.summary import Summary
from linewright.units import cpu_text

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

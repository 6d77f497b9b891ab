"""Flat rows of results, units in the column names: one per cell, or one per timed window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from linewright.analysis.summary import Summary
from linewright.schema import Cell, Context, Record
from linewright.units import cpu_text

ROWS_AT_ONCE = 50_000
"""Windows that are held before they are written."""
WINDOW_COLUMNS: dict[str, type] = {
    "machine_id": str,
    "context_id": str,
    "launch": int,
    "id": str,
    "operation": str,
    "form": str,
    "width_bits": int,
    "contender": str,
    "contender_iters": int,
    "work_iters": int,
    "threads": int,
    "status": str,
    "window": int,
    "line": int,
    "window_ns": float,
    "baseline_ns": float,
}

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


def of_windows(
    contexts: Mapping[str, Context], records: Iterable[Record]
) -> Iterator[dict[str, object]]:
    """Every kept window of every record, as it was measured."""
    for r in records:
        fixed = {"machine_id": contexts[r.context_id].machine_id}
        fixed |= {
            name: getattr(r, name)
            for name in WINDOW_COLUMNS
            if name in ("context_id", "launch", "id", "status")
        }
        fixed |= {
            name: getattr(r.cell, name) for name in WINDOW_COLUMNS if name in Cell.__struct_fields__
        }
        for index, value in enumerate(r.window_ns):
            line = r.window_line[index] if r.window_line else None
            empty = r.baseline_ns[index] if index < len(r.baseline_ns) else None
            yield fixed | {"window": index, "line": line, "window_ns": value, "baseline_ns": empty}


def column_types(flat: Sequence[dict[str, object]]) -> dict[str, type]:
    """What all values of each column are; an empty column of times is one of numbers."""
    return {name: _type([row[name] for row in flat], name) for name in flat[0]}


def _type(values: Iterable[object], name: str) -> type:
    seen = {type(value) for value in values if value is not None}
    if not seen:
        return float if name.endswith("_ns") else str
    return seen.pop() if len(seen) == 1 else float if seen == {int, float} else str


def batches(flat: Iterable[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    """The rows in lists of at most `ROWS_AT_ONCE`."""
    batch: list[dict[str, object]] = []
    for row in flat:
        batch.append(row)
        if len(batch) >= ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch

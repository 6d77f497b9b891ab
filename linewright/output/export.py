"""Results in the shapes of other tools: Google Benchmark's JSON, CSV, Parquet; one row per cell, or one per timed window."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from linewright.errors import UserError
from linewright.output.table import csv_text, has_figures, rows
from linewright.schema import Context, Record

if TYPE_CHECKING:
    from linewright.analysis import Summary

ROWS_AT_ONCE = 50_000
"""Windows that are held before they are written."""
WINDOW_COLUMNS = {
    "machine_id": str, "context_id": str, "launch": int, "id": str, "operation": str, "form": str, "width_bits": int, "contender": str,
    "contender_iters": int, "work_iters": int, "threads": int, "status": str, "window": int, "line": int, "window_ns": float, "empty_ns": float,
}  # fmt: skip


def google_benchmark(contexts: Sequence[Context], summaries: Sequence[Summary]) -> bytes:
    """The JSON that Google Benchmark's ``--benchmark_out`` writes, schema version 1, for tools that read it.

    A repetition is what comparisons take as independent: a launch, or a line where a cell ran in one launch; its time
    is the median of its windows.  The pinned timed thread is on its CPU all the time (windows in which it was not are
    discarded), so CPU time and real time are one.
    """
    machines = {context.machine_id for context in contexts}
    if len(machines) > 1:
        raise UserError(
            f"records of {len(machines)} machines or kernels",
            "--google-benchmark",
            "that format describes one: export one at a time",
        )
    entries: list[dict] = []
    for family, summary in enumerate(summaries):
        entries += _entries(summary, family)
    shape = {"context": _context(contexts[0]), "benchmarks": entries}
    return msgspec.json.format(msgspec.json.encode(shape), indent=2) + b"\n"


def _context(c: Context) -> dict:
    """Google Benchmark's own fields first, as far as they are known, then what else tells machines apart."""
    return {
        "date": _date(c.started_utc), "host_name": c.machine_id, "executable": f"linewright {c.plan}", "num_cpus": len(c.cpus),
        "mhz_per_cpu": round(1000 / c.cycle_ns) if c.cycle_ns > 0 else 0, "cpu_scaling_enabled": c.governor not in ("", "performance"),
        "caches": [], "load_avg": [], "library_build_type": "release", "library_version": f"linewright {c.tool_version}", "json_schema_version": 1,
        "cpu_model": c.cpu_model, "arch": c.arch, "kernel": c.kernel, "governor": c.governor, "virtualised": c.virtualised,
        "emulated": str(c.emulated).lower(), "compiler": c.compiler, "target": c.target,
    }  # fmt: skip


def _date(utc: str) -> str:
    """With the offset that Google Benchmark writes; as it is where it is no time."""
    try:
        return datetime.strptime(utc, "%Y-%m-%dT%H:%M:%SZ").isoformat() + "+00:00"
    except ValueError:
        return utc


def _entries(s: Summary, family: int) -> Iterator[dict]:
    values = s.unit_ns if has_figures(s) else []
    common = {"family_index": family, "per_family_instance_index": 0, "run_name": s.id}
    if s.status != "ok" or not values:
        yield {
            "name": s.id, **common, "run_type": "iteration", "repetitions": 1, "repetition_index": 0, "threads": s.cell.threads,
            "error_occurred": True, "error_message": f"{s.status}: {s.reason or 'no windows'}", "iterations": 0,
            "real_time": 0.0, "cpu_time": 0.0, "time_unit": "ns",
        }  # fmt: skip
        return
    operations = s.thread_ops[0] if s.thread_ops else 0
    iterations = max(1, operations if s.unit == "launch" else operations // len(values))
    rate = {"items_per_second": s.total_mops * 1e6} if s.total_mops > 0 else {}
    for index, value in enumerate(values):
        yield {
            "name": s.id, **common, "run_type": "iteration", "repetitions": len(values), "repetition_index": index,
            "threads": s.cell.threads, "iterations": iterations, "real_time": value, "cpu_time": value, "time_unit": "ns", **rate,
        }  # fmt: skip
    for name, value in _aggregates(values).items():
        yield {
            "name": f"{s.id}_{name}", **common, "run_type": "aggregate", "repetitions": len(values), "threads": s.cell.threads,
            "aggregate_name": name, "aggregate_unit": "percentage" if name == "cv" else "time", "iterations": len(values),
            "real_time": value, "cpu_time": value, "time_unit": "ns", **(_intervals(s) if name == "median" else {}),
        }  # fmt: skip


def _aggregates(values: Sequence[float]) -> dict[str, float]:
    """The four that Google Benchmark computes, for two repetitions or more."""
    if len(values) < 2:
        return {}
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    return {"mean": mean, "median": statistics.median(values), "stddev": spread, "cv": spread / mean if mean else 0.0}


def _intervals(s: Summary) -> dict[str, float]:
    """What Google Benchmark has no field for, as counters: the interval, and the exposed and completion costs with theirs."""
    counters = {}
    for name, interval in (("issue", s.issue), ("exposed", s.exposed), ("completion", s.completion)):
        if interval is not None:
            counters |= {
                f"{name}_median_ns": interval.median_ns,
                f"{name}_low_ns": interval.low_ns,
                f"{name}_high_ns": interval.high_ns,
            }
    return counters


def window_rows(contexts: Mapping[str, Context], records: Iterable[Record]) -> Iterator[dict[str, object]]:
    """Every kept window of every record, as it was measured."""
    for r in records:
        context, cell = contexts[r.context_id], r.cell
        fixed = {
            "machine_id": context.machine_id, "context_id": context.context_id, "launch": r.launch, "id": r.id, "operation": cell.operation,
            "form": cell.form, "width_bits": cell.width_bits, "contender": cell.contender, "contender_iters": cell.contender_iters,
            "work_iters": cell.work_iters, "threads": cell.threads, "status": r.status,
        }  # fmt: skip
        for index, value in enumerate(r.window_ns):
            line = r.window_line[index] if r.window_line else None
            empty = r.empty_ns[index] if index < len(r.empty_ns) else None
            yield fixed | {"window": index, "line": line, "window_ns": value, "empty_ns": empty}


def cell_rows(summaries: Sequence[Summary]) -> tuple[dict[str, type], list[dict[str, object]]]:
    """Columns with their types and a row per cell and machine: those of ``show --format csv``."""
    flat = rows(summaries)
    return {name: _type([row[name] for row in flat], name) for name in flat[0]}, flat


def _type(values: Iterable[object], name: str) -> type:
    """What all values of a column are; an empty column of times is one of numbers."""
    seen = {type(value) for value in values if value is not None}
    if not seen:
        return float if name.endswith("_ns") else str
    return seen.pop() if len(seen) == 1 else float if seen == {int, float} else str


def _batches(flat: Iterable[dict[str, object]]) -> Iterator[list[dict[str, object]]]:
    batch: list[dict[str, object]] = []
    for row in flat:
        batch.append(row)
        if len(batch) >= ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def write_csv(out: BinaryIO, columns: Mapping[str, type], flat: Iterable[dict[str, object]]) -> None:
    """A heading line, then the rows as they come."""
    names = list(columns)
    out.write(csv_text([], names).encode())
    for batch in _batches(flat):
        out.write(csv_text(batch, names, heading=False).encode())


def require_parquet() -> None:
    """UserError in one line where the library for Parquet is missing."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise UserError(
            "needs pyarrow, which is not installed", "--parquet", "pip install 'linewright[parquet]', or --csv"
        ) from None


def write_parquet(
    out: BinaryIO, columns: Mapping[str, type], flat: Iterable[dict[str, object]], contexts: Sequence[Context]
) -> None:
    """The rows as typed columns; the contexts go into the file's metadata as JSON under ``linewright_contexts``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema(
        [(name, kinds[kind]) for name, kind in columns.items()],
        metadata={"linewright_contexts": msgspec.json.encode(contexts)},
    )
    with pq.ParquetWriter(out, schema) as writer:
        for batch in _batches(flat):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))

"""The JSON of Google Benchmark's ``--benchmark_out``, schema version 1, for tools that read it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from linewright.analysis.summary import Summary
from linewright.errors import UserError
from linewright.schema import Context
from linewright.show.export.rows import intervals


def of_cells(contexts: Sequence[Context], summaries: Sequence[Summary]) -> bytes:
    """One entry per repetition, and the aggregates that Google Benchmark writes.

    A repetition is what comparisons take as independent: a launch, or a line where a cell ran in
    one launch; its time is the median of its windows.  The pinned timed thread is on its CPU all
    the time (windows in which it was not are discarded), so CPU time and real time are equal.
    UserError for records of several machines."""
    machines = {context.machine_id for context in contexts}
    if len(machines) > 1:
        raise UserError(
            f"records of {len(machines)} machines or kernels",
            "--format google-benchmark",
            "that format describes one: export one at a time",
        )
    entries: list[dict] = []
    for family, summary in enumerate(summaries):
        entries += _entries(summary, family)
    shape = {"context": _context(contexts[0]), "benchmarks": entries}
    return msgspec.json.format(msgspec.json.encode(shape), indent=2) + b"\n"


def _context(c: Context) -> dict:
    """Google Benchmark's own fields first, as far as they are known, then what else tells machines
    apart."""
    return {
        "date": _date(c.started_utc),
        "host_name": c.machine_id,
        "executable": f"linewright {c.plan}",
        "num_cpus": len(c.cpus),
        "mhz_per_cpu": round(1000 / c.cycle_ns) if c.cycle_ns > 0 else 0,
        "cpu_scaling_enabled": c.governor not in ("", "performance"),
        "caches": [],
        "load_avg": [],
        "library_build_type": "release",
        "library_version": f"linewright {c.tool_version}",
        "json_schema_version": 1,
        **{
            name: getattr(c, name)
            for name in (
                "cpu_model",
                "arch",
                "kernel",
                "governor",
                "virtualised",
                "compiler",
                "target",
            )
        },
        "emulated": str(c.emulated).lower(),
    }


def _date(utc: str) -> str:
    """The time with the offset that Google Benchmark writes; other text as it is."""
    try:
        return datetime.strptime(utc, "%Y-%m-%dT%H:%M:%SZ").isoformat() + "+00:00"
    except ValueError:
        return utc


def _entries(s: Summary, family: int) -> Iterator[dict]:
    values = s.unit_ns if s.has_figures else []
    common = {
        "family_index": family,
        "per_family_instance_index": 0,
        "run_name": s.id,
        "repetitions": len(values) or 1,
        "threads": s.cell.threads,
        "time_unit": "ns",
    }
    if s.status != "ok" or not values:
        yield common | _failed(s)
        return
    operations = s.thread_ops[0] if s.thread_ops else 0
    iterations = max(1, operations if s.unit == "launch" else operations // len(values))
    rate = {"items_per_second": s.total_mops * 1e6} if s.total_mops > 0 else {}
    for index, value in enumerate(values):
        repetition = {
            "name": s.id,
            "run_type": "iteration",
            "repetition_index": index,
            "iterations": iterations,
        }
        yield common | repetition | _times(value) | rate
    for name, value in _aggregates(values).items():
        aggregate = {
            "name": f"{s.id}_{name}",
            "run_type": "aggregate",
            "aggregate_name": name,
            "aggregate_unit": "percentage" if name == "cv" else "time",
            "iterations": len(values),
        }
        yield common | aggregate | _times(value) | (_counters(s) if name == "median" else {})


def _failed(s: Summary) -> dict:
    return {
        "name": s.id,
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": 0,
        "iterations": 0,
        "error_occurred": True,
        "error_message": f"{s.status}: {s.reason or 'no windows'}",
    } | _times(0.0)


def _times(value: float) -> dict[str, float]:
    return {"real_time": value, "cpu_time": value}


def _aggregates(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {}
    mean, spread = statistics.fmean(values), statistics.stdev(values)
    return {
        "mean": mean,
        "median": statistics.median(values),
        "stddev": spread,
        "cv": spread / mean if mean else 0.0,
    }


def _counters(s: Summary) -> dict[str, object]:
    """The intervals of the three costs: Google Benchmark has no field for them."""
    return {name: ns for name, ns in intervals(s).items() if ns is not None}

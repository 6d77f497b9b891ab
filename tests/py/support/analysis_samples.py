"""Synthetic records and contexts whose truth is known, for the tests of linewright.analysis."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from linewright.schema import Cell, Context, Quantiles, Record
from support.places import DATA


def context(context_id: str = "00000000000000aa", machine_id: str = "00000000000000bb", **changes: object) -> Context:
    fields: dict = dict(
        linewright_context=2, context_id=context_id, machine_id=machine_id, started_utc="2026-01-01T00:00:00Z",
        target="local", plan="quick", launch=0, tool_version="0.1.0", compiler="gcc", arch="arm64",
        cpu_model="synthetic", cpu_ids=[], features=["lse"], kernel="6.1", virtualised="no", emulated=False, cpus=[],
        line_bytes=64, page_bytes=4096, time_source="cntvct", tick_ns=1.0, timer_cost_ns=10.0, work_unit_ns=0.31, work_linearity=0.01, work_spread=0.01, nop_iter_ns=0.31,
        cycle_ns=0.31, governor="", smt="off", counters="unavailable", rseq="libc", locked_memory=False, realtime=False,
    )  # fmt: skip
    return Context(**(fields | changes))


OPERATIONS = {
    "stadd": "add", "llsc_add": "add", "ldadd": "fetch_add", "prfm_keep_stadd": "add", "prfm_strm_stadd": "add",
    "plain_add": "add", "lock_add": "add", "lock_xadd": "fetch_add",
}  # fmt: skip


def cell(form: str = "stadd", **changes: object) -> Cell:
    return Cell(**(dict(operation=OPERATIONS.get(form, "add"), form=form) | changes))


def record(
    a_cell: Cell,
    windows: Sequence[float] = (),
    context_id: str = "00000000000000aa",
    launch: int = 0,
    **changes: object,
) -> Record:
    fields: dict = dict(
        linewright_record=2, context_id=context_id, id=a_cell.id, cell=a_cell, plan="quick", launch=launch, status="ok",
        window_ns=[float(x) for x in windows], window_line=[i % a_cell.lines for i in range(len(windows))],
    )  # fmt: skip
    return Record(**(fields | changes))


def launches(
    a_cell: Cell,
    median_ns: float,
    rng: np.random.Generator,
    count: int = 5,
    windows: int = 40,
    between: float = 0.03,
    within: float = 0.02,
    baseline_ns: float | None = None,
    prefix: str = "",
) -> list[Record]:
    """`count` launches of a cell: log-normal launch luck (`between`) and window noise (`within`), both relative."""
    answers = []
    for launch in range(count):
        luck = np.exp(rng.normal(0, between))
        values = median_ns * luck * np.exp(rng.normal(0, within, windows))
        extra = {}
        if baseline_ns is not None:
            extra["baseline_ns"] = list(baseline_ns * np.exp(rng.normal(0, within / 4, windows)))
        answers.append(record(a_cell, values, f"{prefix}{launch:016x}"[-16:], launch, **extra))
    return answers


def contexts_of(records: Sequence[Record], **changes: object) -> list[Context]:
    return [context(context_id=i, **changes) for i in dict.fromkeys(r.context_id for r in records)]


PUBLISHED_REASON = "published percentiles only: no windows, no empty twin; the maximum was not published, p99 stands in"


def published() -> tuple[list[Context], list[Record]]:
    """The published arm64 server table as records that say what they lack."""
    where = context(
        context_id="00000000000a1105", machine_id="000000000000a110", target="published", plan="published",
        started_utc="2025-11-05T00:00:00Z", tool_version="none", compiler="unknown",
        cpu_model="published table, linux-arm-kernel 2025-11-05, arm64 server (Neoverse V2 class)", kernel="unknown",
        virtualised="unknown", tick_ns=0.0, timer_cost_ns=0.0, cycle_ns=0.0, smt="unknown", rseq="unknown",
    )  # fmt: skip
    records = []
    with (DATA / "rmw-arm64-server-2025.csv").open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            contended = row["contender"] == "same_line"
            a_cell = cell(
                row["form"], contender=row["contender"], contender_iters=int(row["contender_iters"] or 0),
                work_iters=int(row["work_iters"]), lines=1, threads=2 if contended else 1,
                placement="cpus:0,32" if contended else "auto",
            )  # fmt: skip
            batch = Quantiles(
                of="batch_mean", ops_per_sample=10_000_000, samples=100, p50_ns=float(row["p50_ns"]),
                p95_ns=float(row["p95_ns"]), p99_ns=float(row["p99_ns"]), max_ns=float(row["p99_ns"]), histogram=[],
            )  # fmt: skip
            records.append(record(a_cell, (), where.context_id, reason=PUBLISHED_REASON, plan="published", batch=batch))
    return [where], records


def constructed(medians_ns: dict[str, float], machine_id: str, seed: int = 1) -> tuple[list[Context], list[Record]]:
    """A machine made of published medians alone: windows are drawn with an assumed 1 % noise, as its context says."""
    rng = np.random.default_rng(seed)
    where = context(
        context_id=machine_id, machine_id=machine_id, target="constructed",
        cpu_model="constructed from published medians, assumed noise 1 %",
    )  # fmt: skip
    records = [
        record(cell(form), median * np.exp(rng.normal(0, 0.01, 64)), machine_id) for form, median in medians_ns.items()
    ]
    return [where], records


def slow_states(times_s: Sequence[float], dwell_s: float, rng: np.random.Generator) -> np.ndarray:
    """State (0 or 1) at rising times of a machine that changes between two states, each lasting `dwell_s` on average."""
    gaps = np.diff(times_s, prepend=times_s[0])
    changed = rng.random(len(times_s)) < (1 - np.exp(-2 * gaps / dwell_s)) / 2
    changed[0] = rng.random() < 0.5
    return np.cumsum(changed) % 2


def timed_launches(
    a_cell: Cell, medians_ns: Sequence[float], times_s: Sequence[float], rng: np.random.Generator
) -> list[Record]:
    """One launch for each median, begun at the time beside it, with 2 % noise between its windows."""
    return [
        record(a_cell, median * np.exp(rng.normal(0, 0.02, 12)), f"{i:016x}", i, started_s=float(time))
        for i, (median, time) in enumerate(zip(medians_ns, times_s, strict=True))
    ]


def write(path: Path, contexts: list[Context], rows: list[Record]) -> str:
    path.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in [*contexts, *rows]))
    return path.name

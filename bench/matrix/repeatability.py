#!/usr/bin/env python3
"""Does a repeat fall where the first run said it would? Runs a few cells again and again and counts.

Uncontended: the spread of medians over runs. Contended: how often the stated 95 % interval of one run (five launches)
covers the median of another run. Prints one line for each cell; exit 1 when a figure misses what docs/method.md states.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = next(parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])

import msgspec  # noqa: E402
import numpy as np  # noqa: E402

from linewright.analysis import summarise  # noqa: E402
from linewright.records import decode_line  # noqa: E402
from linewright.schema import Cell, Context, Plan, Record  # noqa: E402

PROBE = next(
    path
    for path in (ROOT / "build/bench/probe/linewright-probe", ROOT / "build/native/probe/linewright-probe")
    if path.exists()
)
REPEATS = int(os.environ.get("LINEWRIGHT_REPEATS", "24"))
LAUNCHES = 5

ALONE = [
    Cell(operation="add", form="lock_add", order="full"),
    Cell(operation="fetch_add", form="lock_xadd", order="full"),
    Cell(operation="cmpxchg", form="cmpxchg_loop_read_first", order="full"),
]
SHARED = [
    Cell(operation="add", form="lock_add", order="full", contender="same_line", threads=2, lines=8),
    Cell(operation="cmpxchg", form="cmpxchg_loop_read_first", order="full", contender="same_line", threads=2, lines=8),
    Cell(operation="fetch_add", form="lock_xadd", order="full", contender="same_line", contender_iters=100, threads=2, lines=8),
]


def launch(plan: Plan) -> tuple[list[Context], list[Record]]:
    """Run the probe once."""
    done = subprocess.run([PROBE], input=msgspec.json.encode(plan), capture_output=True, check=True)
    lines = [decode_line(line, "probe") for line in done.stdout.splitlines()]
    return [x for x in lines if isinstance(x, Context)], [x for x in lines if isinstance(x, Record)]


def plan_of(cells: list[Cell], number: int, seed: int) -> Plan:
    return Plan(
        linewright_plan=1, name="repeatability", cells=cells, seed=seed, launch=number, budget_s=20.0, min_windows=6,
        max_windows=12 if cells is SHARED else 64, window_ms=2.0, contended_window_ms=25.0,
    )  # fmt: skip


def main() -> int:
    failed = False
    alone: dict[str, list[float]] = {}
    shared: dict[str, list[tuple[float, float, float]]] = {}
    for repeat in range(REPEATS):
        contexts, records = launch(plan_of(ALONE, 0, repeat))
        for summary in summarise(contexts, records):
            if summary.issue:
                alone.setdefault(summary.id, []).append(summary.issue.median_ns)
        contexts, records = [], []
        for number in range(LAUNCHES):
            more_contexts, more_records = launch(plan_of(SHARED, number, repeat * LAUNCHES + number))
            contexts += more_contexts
            records += more_records
        for summary in summarise(contexts, records):
            if summary.issue:
                shared.setdefault(summary.id, []).append(
                    (summary.issue.median_ns, summary.issue.low_ns, summary.issue.high_ns)
                )
        print(f"repeat {repeat + 1} of {REPEATS}", file=sys.stderr, flush=True)
    for cell, medians in alone.items():
        middle = np.median(medians)
        spread = float(np.median(np.abs(np.array(medians) / middle - 1)))
        wide = float((np.percentile(medians, 90) - np.percentile(medians, 10)) / middle)
        failed |= spread >= 0.01
        print(f"alone      {cell:72s} {middle:8.3f} ns, median deviation {spread:6.2%}, 10th to 90th percentile {wide:6.2%}")
    covered = total = 0
    for cell, runs in shared.items():
        hits = [
            low <= other <= high
            for i, (_, low, high) in enumerate(runs)
            for j, (other, _, _) in enumerate(runs)
            if i != j
        ]
        covered, total = covered + sum(hits), total + len(hits)
        widths = [(high - low) / median for median, low, high in runs]
        print(
            f"contended  {cell:72s} {np.median([r[0] for r in runs]):8.2f} ns, covers a repeat {np.mean(hits):6.1%}, "
            f"median width {np.median(widths):6.1%}"
        )
    if total:
        print(f"contended, all cells: the 95 % interval covered {covered / total:.1%} of repeats")
        failed |= covered / total < 0.93
    print(json.dumps({"repeats": REPEATS, "alone": alone, "shared": shared}), file=open("build/repeatability.json", "w"))
    return int(failed)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())

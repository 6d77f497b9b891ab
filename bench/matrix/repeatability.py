#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does a repeat fall where the first run said it would? Measures a few cells again and again and
counts.

Uncontended: the spread of medians over runs. Contended: launches one after the other for
LINEWRIGHT_MINUTES (default 20), of which runs are then made as different plans spread theirs: five
in a row, five 10 s apart (`quick`), eight 30 s apart (`rmw`). For each way: how often one run's
interval covers the median of another run that does not overlap it in time. Exit 1 when intervals
that promise a repeat cover fewer than they promise (docs/reference/method.md); those that hold for
their own run only are counted beside them. LINEWRIGHT_TRACE names a file of earlier launches to
count instead of measuring."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

ROOT = next(
    parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists()
)
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402

from linewright.analysis import summarise  # noqa: E402
from linewright.analysis.summary import Summary  # noqa: E402
from linewright.records.files import decode_line  # noqa: E402
from linewright.schema import Cell, Context, Plan, Record  # noqa: E402

REPEATS = int(os.environ.get("LINEWRIGHT_REPEATS", "24"))
MINUTES = float(os.environ.get("LINEWRIGHT_MINUTES", "20"))
TRACE = os.environ.get("LINEWRIGHT_TRACE")
KEPT = "build/repeatability.jsonl"

ALONE = [
    Cell(operation="add", form="lock_add", order="full"),
    Cell(operation="fetch_add", form="lock_xadd", order="full"),
    Cell(operation="cmpxchg", form="cmpxchg_loop_read_first", order="full"),
]
SHARED = [
    Cell(operation="add", form="lock_add", order="full", contender="same_line", threads=2, lines=8),
    Cell(
        operation="cmpxchg",
        form="cmpxchg_loop_read_first",
        order="full",
        contender="same_line",
        threads=2,
        lines=8,
    ),
    Cell(
        operation="fetch_add",
        form="lock_xadd",
        order="full",
        contender="same_line",
        contender_iters=100,
        threads=2,
        lines=8,
    ),
]


Launch = tuple[float, list[Context], list[Record]]
"""When it began (s), and what the probe wrote."""


def probe() -> Path:
    candidates = (ROOT / f"build/{preset}/probe/linewright-probe" for preset in ("bench", "native"))
    return next(path for path in candidates if path.exists())


def parse(lines: list[bytes]) -> tuple[list[Context], list[Record]]:
    values = [decode_line(line, "probe") for line in lines]
    return [x for x in values if isinstance(x, Context)], [
        x for x in values if isinstance(x, Record)
    ]


def launch(cells: list[Cell], number: int) -> list[bytes]:
    """Run the probe once."""
    plan = Plan(
        linewright_plan=2,
        name="repeatability",
        cells=cells,
        seed=number,
        launch=number % 1000,
        budget_s=20.0,
        min_windows=12 if cells is SHARED else 6,
        max_windows=12 if cells is SHARED else 64,
        window_ms=2.0,
        contended_window_ms=15.0,
    )
    return subprocess.run(
        [probe()], input=msgspec.json.encode(plan), capture_output=True, check=True
    ).stdout.splitlines()


def uncontended() -> bool:
    """Whether medians of separate runs spread too far."""
    medians: dict[str, list[float]] = {}
    for repeat in range(REPEATS):
        for summary in summarise(*parse(launch(ALONE, repeat))):
            if summary.issue:
                medians.setdefault(summary.id, []).append(summary.issue.median_ns)
        print(f"uncontended: repeat {repeat + 1} of {REPEATS}", file=sys.stderr, flush=True)
    failed = False
    for cell, values in medians.items():
        middle = np.median(values)
        spread = float(np.median(np.abs(np.array(values) / middle - 1)))
        wide = float((np.percentile(values, 90) - np.percentile(values, 10)) / middle)
        failed |= spread >= 0.01
        print(
            f"alone      {cell:72s} {middle:8.3f} ns, median deviation {spread:6.2%}, 10th"
            f" to 90th percentile {wide:6.2%}"
        )
    return failed


def trace() -> list[Launch]:
    """Launches of the contended cells one after the other, also kept in a file; or those of such a
    file."""
    launches: list[Launch] = []
    if TRACE:
        lines = Path(TRACE).read_bytes().splitlines()
    else:
        lines, number, start = [], 0, time.monotonic()
        while time.monotonic() - start < 60 * MINUTES:
            lines += launch(SHARED, number)
            number += 1
            print(
                f"contended: {(time.monotonic() - start) / 60:.1f} of {MINUTES:g} minutes",
                file=sys.stderr,
                flush=True,
            )
        Path(KEPT).write_bytes(b"\n".join(lines) + b"\n")
    contexts, records = parse(lines)
    by_context: dict[str, list[Record]] = {}
    for record in records:
        by_context.setdefault(record.context_id, []).append(record)
    for context in contexts:
        begun = datetime.fromisoformat(context.started_utc).timestamp()
        launches.append((begun, [context], by_context.get(context.context_id, [])))
    return sorted(launches, key=lambda one: one[0])


def runs(
    launches: list[Launch], count: int, apart_s: float, every_s: float
) -> list[tuple[float, float, list[Summary]]]:
    """Runs of `count` launches, each begun at least `apart_s` after the one before; a run begins
    `every_s` after the last."""
    made, begin = [], launches[0][0]
    while True:
        chosen: list[Launch] = []
        for one in launches:
            if one[0] >= (chosen[-1][0] + apart_s if chosen else begin) and len(chosen) < count:
                chosen.append(one)
        if len(chosen) < count:
            return made
        contexts = [context for one in chosen for context in one[1]]
        records = [record for one in chosen for record in one[2]]
        made.append((chosen[0][0], chosen[-1][0], summarise(contexts, records)))
        begin = max(begin + every_s, min(one[0] for one in launches if one[0] > chosen[0][0]))


def covers(first: list[Summary], second: list[Summary]) -> list[bool]:
    """Per cell: is the second run's median inside the first one's interval?"""
    again = {s.id: s.issue.median_ns for s in second if s.issue}
    return [
        s.issue.low_ns <= again[s.id] <= s.issue.high_ns for s in first if s.issue and s.id in again
    ]


def count(name: str, made: list[tuple[float, float, list[Summary]]]) -> bool:
    """Whether too few repeats were covered, over all pairs of runs apart in time; exact bounds over
    runs in succession."""
    apart = [(a, b) for a in made for b in made if b[0] > a[1] or a[0] > b[1]]
    pairs = [c for a, b in apart for c in covers(a[2], b[2])]
    after, following = [], made[:1]
    for one in made:
        if following and one[0] > following[-1][1]:
            after += covers(following[-1][2], one[2])
            following.append(one)
    promised = sorted({s.promise for _, _, summaries in made for s in summaries})
    if not pairs:
        print(f"{name}: too few launches to make two runs of")
        return False
    low, high = (
        stats.binomtest(sum(after), len(after)).proportion_ci(0.95, "exact")
        if after
        else (0.0, 1.0)
    )
    print(
        f"{name}: {len(made)} runs, promise {'/'.join(promised)}; the interval covered "
        f"{np.mean(pairs):.1%} of"
        f" {len(pairs)} pairs,"
        f" {sum(after)} of {len(after)} in succession (exact 95 % bounds {low:.1%} to {high:.1%})"
    )
    return promised == ["repeat"] and bool(np.mean(pairs) < 0.95)


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    failed = False if TRACE else uncontended()
    launches = trace()
    print(
        f"contended: {len(launches)} launches within "
        f"{(launches[-1][0] - launches[0][0]) / 60:.1f} minutes"
    )
    for name, number, apart_s, every_s in (
        ("in a row", 5, 0.0, 20.0),
        ("10 s apart", 5, 10.0, 20.0),
        ("30 s apart", 8, 30.0, 30.0),
    ):
        failed |= count(f"{number} launches {name}", runs(launches, number, apart_s, every_s))
    return int(failed)


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())

#!/usr/bin/env python3
"""Is the work around an operation a measure of time? Runs the baseline loop, a plain add and a locked add among more and
more units of it, in eight launches, whose loops stand at four places.

Exit 1 when the baseline loop's time is not proportional to the units within 5 %, when the windows of a launch do not repeat
within 2 % (10th to 90th percentile, median over launches), when launches differ by more than 2 % in how many of its own
units a length takes, or when a plain add costs less than nothing by more than 2 % of the loop around it. Between launches
the clock itself may change: that is in column "launches", and no fault of the loop, since operation and baseline share it.
For an idle machine: another program's load is in the figures, and the control of each launch shows it.
"""

from __future__ import annotations

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

from linewright.records.files import decode_line  # noqa: E402
from linewright.schema import Cell, Context, Plan, Record  # noqa: E402

LAUNCHES = 8
WORKS = (0, 10, 20, 50, 100, 200, 500, 512, 513, 1000)
FORMS = (("none", "empty", "relaxed"), ("add", "plain_add", "relaxed"))
LOCKED = {"x86_64": ("add", "lock_add", "full"), "arm64": ("fetch_add", "ldaddal", "seq_cst")}
MOST_BENT, MOST_SPREAD, MOST_NEGATIVE = 0.05, 0.02, 0.02


def probe() -> Path:
    candidates = (ROOT / f"build/{preset}/probe/linewright-probe" for preset in ("bench", "native"))
    return next(path for path in candidates if path.exists())


def measure(arch: str) -> tuple[list[Context], list[Record]]:
    """Every form among every number of units, in every launch."""
    cells = [
        Cell(operation=operation, form=form, order=order, work_iters=work, lines=4)
        for work in WORKS
        for operation, form, order in (*FORMS, LOCKED[arch])
    ]
    contexts, records = [], []
    for launch in range(LAUNCHES):
        plan = Plan(
            linewright_plan=2, name="work", cells=cells, seed=launch, launch=launch, launches=LAUNCHES, budget_s=30.0,
            min_windows=12, max_windows=12, precision=0.0001,
        )  # fmt: skip
        answer = subprocess.run([probe()], input=msgspec.json.encode(plan), capture_output=True, check=True)
        values = [decode_line(line, "probe") for line in answer.stdout.splitlines()]
        contexts += [value for value in values if isinstance(value, Context)]
        records += [value for value in values if isinstance(value, Record) and value.window_ns]
        print(f"launch {launch + 1} of {LAUNCHES}", file=sys.stderr, flush=True)
    return contexts, records


def medians(records: list[Record], form: str, work: int, exposed: bool) -> np.ndarray:
    """One value for each launch: the windows' median, or that of what they take above the baseline loop."""
    return np.array(
        [
            np.median(np.subtract(r.window_ns, r.baseline_ns) if exposed else r.window_ns)
            for r in records
            if r.cell.form == form and r.cell.work_iters == work
        ]
    )


def reach(values: np.ndarray) -> float:
    """From the 10th to the 90th percentile, as a share of the median."""
    return float(np.percentile(values, 90) - np.percentile(values, 10)) / float(np.median(values))


def main() -> int:
    arch = {"aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    contexts, records = measure(arch)
    for c in contexts:
        print(
            f"control of launch {c.launch}: {c.work_unit_ns:.4f} ns a unit ({c.cycle_ns:.4f} a cycle), "
            f"bent by {c.work_linearity:.1%}, spread {c.work_spread:.1%}, loops {c.loop_offset_bytes} bytes off a line"
        )
    own_unit = medians(records, "empty", 200, False) / 200
    unit = float(np.median(own_unit))
    locked = LOCKED[arch][1]
    print(
        f"{'units':>6} {'baseline ns':>12} {'of units':>9} {'windows':>9} {'launches':>9} {'in units':>9} {'plain add':>10}"
        f" {locked:>10}  (exposed ns)"
    )
    failed = False
    for work in WORKS:
        baseline = medians(records, "empty", work, False)
        middle = float(np.median(baseline))
        rows = [r.window_ns for r in records if r.cell.form == "empty" and r.cell.work_iters == work]
        windows = float(np.median([reach(np.array(row)) for row in rows]))
        in_units = reach(baseline / own_unit)
        bent = middle / (unit * work) - 1 if work else 0.0
        plain, lock = (float(np.median(medians(records, form, work, True))) for form in ("plain_add", locked))
        wrong = (
            abs(bent) > MOST_BENT
            or (work > 0 and max(windows, in_units) > MOST_SPREAD)
            or plain < -MOST_NEGATIVE * middle
        )
        failed |= wrong
        print(
            f"{work:6d} {middle:12.3f} {bent:+9.2%} {windows:9.2%} {reach(baseline):9.2%} {in_units:9.2%} {plain:10.3f} {lock:10.3f}{'  outside' if wrong else ''}"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is the work around an operation a measure of time? Runs the baseline loop, a plain add and a
locked add among more and more units of it, in eight launches, whose loops stand at four places.

    bench/matrix/work.py [--records FILE]

Exit 1 when the baseline loop's time is not proportional to the units within 5 %, when a window of
0.2 ms does not repeat the one right before it, of the same loop, within 2 % (10th to 90th
percentile in a launch, median over launches), when launches differ by more than 2 % in how many of
its own units a length takes, or when a plain add costs less than nothing by more than 2 % of the
loop around it. A core's clock may move from one millisecond to the next and between launches. That
is no fault of the loop, but it is in every figure of 2 ms: column "windows" has it over the second
of a launch (below the table beside it a locked add without any work, which has the same), column
"launches" between launches. For an idle machine: another program's load is in the figures, and the
control of each launch shows it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = next(
    parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists()
)
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])

sys.path[:0] = [str(ROOT)]

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from msgspec import Struct  # noqa: E402

from linewright.records.files import decode_line  # noqa: E402
from linewright.schema import Cell, Context, Plan, Record  # noqa: E402

LAUNCHES = 8
ADJACENT = "adjacent"
"""Name of the plan of short windows whose blocks hold one cell: nothing runs between a window and
its baseline's."""
WORKS = (0, 10, 20, 50, 100, 200, 500, 512, 513, 1000)
FORMS = (("none", "empty", "relaxed"), ("add", "plain_add", "relaxed"))
LOCKED = {"x86_64": ("add", "lock_add", "full"), "arm64": ("fetch_add", "ldaddal", "seq_cst")}
MOST_BENT, MOST_SPREAD, MOST_NEGATIVE = 0.05, 0.02, 0.02


def probe() -> Path:
    candidates = (ROOT / f"build/{preset}/probe/linewright-probe" for preset in ("bench", "native"))
    return next(path for path in candidates if path.exists())


def measure(arch: str) -> tuple[list[Context], list[Record]]:
    """Every form among every number of units, in every launch; then the loop alone, each window
    right after its baseline's."""
    cells = [
        Cell(operation=operation, form=form, order=order, work_iters=work, lines=4)
        for work in WORKS
        for operation, form, order in (*FORMS, LOCKED[arch])
    ]
    loops = [c for c in cells if c.form == "empty"]
    contexts, records = [], []
    for launch in range(LAUNCHES):
        for name, members, block, ms, windows in (
            ("work", cells, 16, 2.0, 12),
            (ADJACENT, loops, 1, 0.2, 40),
        ):
            plan = Plan(
                linewright_plan=2,
                name=name,
                cells=members,
                seed=launch,
                launch=launch,
                launches=LAUNCHES,
                budget_s=30.0,
                min_windows=windows,
                max_windows=windows,
                precision=0.0001,
                block_cells=block,
                window_ms=ms,
            )
            answer = subprocess.run(
                [probe()], input=msgspec.json.encode(plan), capture_output=True, check=True
            )
            values = [decode_line(line, "probe") for line in answer.stdout.splitlines()]
            contexts += [value for value in values if isinstance(value, Context)]
            records += [value for value in values if isinstance(value, Record) and value.window_ns]
        print(f"launch {launch + 1} of {LAUNCHES}", file=sys.stderr, flush=True)
    return contexts, records


class Length(Struct, frozen=True):
    """The loops among one number of units. Spreads are from the 10th to the 90th percentile, as a
    share."""

    units: int
    ns: float
    """What the baseline loop takes."""
    bent: float
    """How far that is from the units' time at 200 units, as a share."""
    windows: float
    """Spread of single windows in a launch, the clock's changes included."""
    repeats: float
    """The same of a window of 0.2 ms over the one right before it, of the same loop."""
    launches: float
    """Spread of launches' medians, the clock's changes included."""
    in_units: float
    """The same with each launch's own unit as the measure."""
    plain: float
    locked: float
    """Exposed costs of a plain and of a locked add, ns."""

    @property
    def wrong(self) -> bool:
        """Whether it is outside the bounds; without work a loop of one cycle is the resolution of
        the batches."""
        return (
            abs(self.bent) > MOST_BENT
            or (self.units > 0 and max(self.repeats, self.in_units) > MOST_SPREAD)
            or self.plain < -MOST_NEGATIVE * self.ns
        )


def of(records: Sequence[Record], form: str, work: int, plan: str = "work") -> list[Record]:
    return [r for r in records if (r.plan, r.cell.form, r.cell.work_iters) == (plan, form, work)]


def exposed(records: Sequence[Record], form: str, work: int) -> float:
    """What a form takes above the baseline loop: the median over launches of a launch's median."""
    return float(
        np.median(
            [np.median(np.subtract(r.window_ns, r.baseline_ns)) for r in of(records, form, work)]
        )
    )


def reach(values: Sequence[float] | np.ndarray) -> float:
    """From the 10th to the 90th percentile, as a share of the median."""
    low, middle, high = np.percentile(values, [10, 50, 90])
    return float((high - low) / middle)


def lengths(records: Sequence[Record], locked: str) -> list[Length]:
    """What the launches say of every number of units."""
    loops = {work: of(records, "empty", work) for work in WORKS}
    medians = {work: np.array([np.median(r.window_ns) for r in own]) for work, own in loops.items()}
    own_unit = medians[200] / 200
    unit = float(np.median(own_unit))
    return [
        Length(
            units=work,
            ns=float(np.median(medians[work])),
            bent=float(np.median(medians[work])) / (unit * work) - 1 if work else 0.0,
            windows=float(np.median([reach(r.window_ns) for r in loops[work]])),
            repeats=float(
                np.median(
                    [
                        reach(np.divide(r.window_ns, r.baseline_ns))
                        for r in of(records, "empty", work, ADJACENT)
                    ]
                )
            ),
            launches=reach(medians[work]),
            in_units=reach(medians[work] / own_unit),
            plain=exposed(records, "plain_add", work),
            locked=exposed(records, locked, work),
        )
        for work in WORKS
    ]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=Path, help="keep the records there, as JSON Lines")
    given = parser.parse_args(words)
    arch = {"aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    contexts, records = measure(arch)
    if given.records:
        given.records.write_bytes(
            b"".join(msgspec.json.encode(value) + b"\n" for value in (*contexts, *records))
        )
    for c in (c for c in contexts if c.plan == "work"):
        print(
            f"control of launch {c.launch}: {c.work_unit_ns:.4f} ns a unit ({c.cycle_ns:.4f} a "
            "cycle), "
            f"bent by {c.work_linearity:.1%}, spread {c.work_spread:.1%}, loops "
            f"{c.loop_offset_bytes} bytes off a line"
        )
    locked = LOCKED[arch][1]
    print(
        f"{'units':>6} {'baseline ns':>12} {'of units':>9} {'windows':>9} {'repeats':>9} "
        f"{'launches':>9}"
        f" {'in units':>9}"
        f" {'plain add':>10} {locked:>10}  (exposed ns)"
    )
    found = lengths(records, locked)
    for at in found:
        print(
            f"{at.units:6d} {at.ns:12.3f} {at.bent:+9.2%} {at.windows:9.2%} {at.repeats:9.2%} "
            f"{at.launches:9.2%}"
            f" {at.in_units:9.2%} {at.plain:10.3f} "
            f"{at.locked:10.3f}{'  outside' if at.wrong else ''}"
        )
    lone = float(np.median([reach(r.window_ns) for r in of(records, locked, 0)]))
    print(f"windows of {locked} without work: {lone:.2%}")
    return int(any(at.wrong for at in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

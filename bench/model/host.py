#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sets what a calibrated x86-64 machine predicts of a contended matrix against records of it, by
where its CPUs really were.

    bench/model/host.py RECORDS [MACHINE]      # plan quick of the machine; default x86-server-2025

A hypervisor moves virtual CPUs between cores under one last-level cache and cores under two, and
the guest does not see it. Each launch's cells of one point (they are interleaved) are taken to have
been in the one placement that fits them all better: one bit for fifteen figures."""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = next(path for path in Path(__file__).resolve().parents if (path / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path.insert(0, str(ROOT))
BUILT = ROOT / "build" / "bench" / "model" / "linewright-model"
if BUILT.exists():
    os.environ.setdefault("LINEWRIGHT_MODEL", str(BUILT))

import msgspec  # noqa: E402

from linewright.model import machine_file  # noqa: E402
from linewright.model.simulator import Simulator, find_model  # noqa: E402
from linewright.records import files  # noqa: E402
from linewright.schema import Plan, Record  # noqa: E402

PLACEMENTS = ("same_l3", "other_l3")
RATIOS = (
    ("cmpxchg_loop_read_first", "cmpxchg_loop_guess_first"),
    ("prefetchw_cmpxchg_loop_read_first", "prefetchw_cmpxchg_loop_guess_first"),
)


def contended(path: str) -> list[Record]:
    """The matrix: every form that writes, with a second thread on its line."""
    values = (line.value for line in files.Reader(path))
    return [
        value
        for value in values
        if isinstance(value, Record)
        and value.status == "ok"
        and value.cell.contender == "same_line"
        and value.cell.operation in ("add", "fetch_add", "xchg", "cmpxchg")
    ]


def predictions(name: str, records: list[Record]) -> dict[tuple[str, str], float]:
    """The model's median of each cell in each placement."""
    machine = machine_file.find(name)
    cells = {record.id: record.cell for record in records}
    keys = [(cell_id, placement) for cell_id in cells for placement in PLACEMENTS]
    plan = Plan(
        linewright_plan=2,
        name="host",
        cells=[
            msgspec.structs.replace(cells[cell_id], placement=placement)
            for cell_id, placement in keys
        ],
    )
    with Simulator(find_model()) as simulator:
        figures = simulator.ask(machine_file.resolve(machine), plan)
    return {key: figure.p50 for key, figure in zip(keys, figures, strict=True)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("records", nargs="?", help="record file; without one nothing is compared")
    parser.add_argument("machine", nargs="?", default="x86-server-2025")
    given = parser.parse_args()
    if given.records is None:
        print("no records of this machine given; see the head of bench/model/host.py")
        return 0
    records = contended(given.records)
    predicted = predictions(given.machine, records)
    blocks: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for record in records:
        blocks[record.launch, record.cell.work_iters].append(record)
    errors: dict[str, list[float]] = defaultdict(list)
    measured: dict[str, list[float]] = defaultdict(list)
    fitting: dict[str, list[float]] = defaultdict(list)
    ratios = []
    for (launch, work), block in sorted(blocks.items()):
        seen = {record.cell.form: statistics.median(record.window_ns) for record in block}
        of = {
            placement: {record.cell.form: predicted[record.id, placement] for record in block}
            for placement in PLACEMENTS
        }
        misses = {
            p: sum(abs(math.log(of[p][form] / ns)) for form, ns in seen.items()) for p in PLACEMENTS
        }
        where = min(misses, key=misses.get)
        print(
            f"launch {launch}, work {work}: {where}, "
            f"{100 * math.expm1(misses[where] / len(seen)):.0f} % off on average"
        )
        for record in block:
            form = record.cell.form
            measured[record.id].append(seen[form])
            fitting[record.id].append(of[where][form])
            errors[record.id].append(abs(of[where][form] / seen[form] - 1))
        ratios += [
            (of[where][a] / of[where][b]) / (seen[a] / seen[b]) - 1
            for a, b in RATIOS
            if a in seen and b in seen
        ]
    print(f"\n{'cell':72} {'measured':>9} {'model':>9} {'error':>7}")
    for cell_id, values in measured.items():
        a, b = statistics.median(values), statistics.median(fitting[cell_id])
        print(f"{cell_id:72} {a:9.2f} {b:9.2f} {100 * (b / a - 1):+6.0f} %")
    every = [error for values in errors.values() for error in values]
    of_medians = [
        abs(statistics.median(fitting[cell_id]) / statistics.median(values) - 1)
        for cell_id, values in measured.items()
    ]
    print(
        f"\n{len(of_medians)} cells, medians over launches: error "
        f"{100 * statistics.median(of_medians):.0f} % median,"
        f" {100 * max(of_medians):.0f} % worst"
    )
    print(
        f"{len(every)} cells of single launches: error {100 * statistics.median(every):.0f} % "
        "median,"
        f" {100 * max(every):.0f} % worst"
    )
    print(
        f"load first over guess first, {len(ratios)} pairs: error "
        f"{100 * statistics.median(map(abs, ratios)):.0f} %"
        " median,"
        f" {100 * max(map(abs, ratios)):.0f} % worst"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

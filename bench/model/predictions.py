#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints, as Markdown, what the described machines say of cells that were not measured:
docs/results/model-predictions.md."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = next(path for path in Path(__file__).resolve().parents if (path / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path.insert(0, str(ROOT))
BUILT = ROOT / "build" / "bench" / "model" / "linewright-model"
if BUILT.exists():
    os.environ.setdefault("LINEWRIGHT_MODEL", str(BUILT))

import numpy as np  # noqa: E402

from linewright.model import machine_file  # noqa: E402
from linewright.model.ensemble import bands, draws  # noqa: E402
from linewright.model.simulator import Simulator, find_model  # noqa: E402
from linewright.schema import Cell, Plan  # noqa: E402

DRAWS = 60
ENTRY_BYTES = (64, 256, 1024, 4096, 16384, 65536, 2097152)


def cell(
    operation: str,
    form: str,
    threads: int = 1,
    spacing: int = 0,
    work: int = 0,
    order: str = "relaxed",
) -> Cell:
    shared = (
        {"contender": "same_line", "contender_iters": spacing, "threads": threads}
        if threads > 1
        else {}
    )
    return Cell(
        operation=operation,
        form=form,
        order=order,
        work="nop_loop",
        work_iters=work,
        lines=1,
        **shared,
    )


ARM = [
    cell("xchg", "swp"),
    cell("cmpxchg", "cas_loop_read_first"),
    cell("cmpxchg", "cas_loop_guess_first"),
    cell("cmpxchg", "cas_loop_read_first", 2, 10),
    cell("cmpxchg", "cas_loop_guess_first", 2, 10),
    cell("add", "stadd", 2, 100),
    cell("add", "stadd", 2, 1000),
    cell("add", "stadd", 4),
    cell("add", "stadd", 16),
    cell("add", "stadd", 64),
    cell("fetch_add", "ldadd", 4),
    cell("fetch_add", "ldadd", 16),
    cell("fetch_add", "ldadd", 2, 1000),
    cell("fetch_add", "ldadd", 2, 10, 100),
    cell("fetch_add", "ldadd", 4, 10, 300),
    cell("handoff", "cmpxchg_blind", 2),
    cell("handoff", "load_cmpxchg", 2),
    cell("handoff", "store_load", 2),
]


def on_x86(
    operation: str, form: str, threads: int, placement: str, spacing: int = 0, work: int = 0
) -> Cell:
    shared = {
        "contender": "same_line",
        "contender_iters": spacing,
        "threads": threads,
        "placement": placement,
    }
    return Cell(operation=operation, form=form, order="full", work_iters=work, lines=1, **shared)


X86 = [
    on_x86("fetch_add", "lock_xadd", 2, "same_l3", 100),
    on_x86("fetch_add", "lock_xadd", 2, "other_l3", 100),
    on_x86("fetch_add", "lock_xadd", 4, "same_l3"),
    on_x86("fetch_add", "lock_xadd", 8, "same_l3"),
    on_x86("fetch_add", "lock_xadd", 4, "other_l3"),
    on_x86("fetch_add", "lock_xadd", 2, "other_l3", 0, 500),
    on_x86("cmpxchg", "cmpxchg_loop_guess_first", 4, "same_l3"),
    on_x86("handoff", "load_cmpxchg", 2, "same_l3"),
]


def simulated(name: str, cells: list[Cell]) -> list[list]:
    machine = machine_file.find(name)
    plan = Plan(linewright_plan=2, name="predictions", cells=cells)
    with Simulator(find_model(), windows=4, ops=600) as simulator:
        return [
            simulator.ask(machine_file.resolve(machine, draw), plan)
            for draw in draws(machine, DRAWS)
        ]


def listed(name: str, cells: list[Cell]) -> None:
    print("| cell | p05 | p50 | p95 | |\n| --- | --- | --- | --- | --- |")
    rows = simulated(name, cells)
    for c, band, figures in zip(cells, bands(rows), zip(*rows, strict=True), strict=True):
        remark = ""
        if modes := [figure.modes for figure in figures if figure.metastable]:
            remark = (
                f"metastable in {100 * len(modes) / len(rows):.0f} % of the draws: "
                f"{min(found[0][0] for found in modes):.3g} to"
                f" {max(found[-1][0] for found in modes):.3g} ns"
            )
        print(f"| `{c.id}` | {band.p05:.3g} | {band.p50:.3g} | {band.p95:.3g} | {remark} |")


def phone() -> None:
    print("| entry | saving p05 | p50 | p95 |\n| --- | --- | --- | --- |")
    cells = []
    for size in ENTRY_BYTES:
        entries = max(1, min(2560, (1 << 26) // size))
        for wait in ("each", "once"):
            params = {
                "wait": wait,
                "entry_bytes": size,
                "entries": entries,
                "state": "dirty_beyond",
                "align_bytes": 0,
            }
            cells.append(
                Cell(operation="clean", form="dc_cvac", width_bits=8, lines=1, params=params)
            )
    rows = simulated("phone-2025", cells)
    for index, size in enumerate(ENTRY_BYTES):
        saved = [100 * (1 - row[2 * index + 1].p50 / row[2 * index].p50) for row in rows]
        low, middle, high = np.percentile(saved, [5, 50, 95])
        print(f"| {size} | {low:.1f} % | {middle:.1f} % | {high:.1f} % |")


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    for name, cells in (("arm64-server-2025", ARM), ("x86-server-2025", X86)):
        print(f"\n## {name}\n")
        listed(name, cells)
    print("\n## phone-2025\n")
    phone()
    return 0


if __name__ == "__main__":
    sys.exit(main())

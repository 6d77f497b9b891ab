#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time of the published matrix on its simulated machine: once, and over 200 draws of the constants
on two processes."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = next(path for path in Path(__file__).resolve().parents if (path / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT), str(ROOT / "bench" / "published")]
BUILT = ROOT / "build" / "bench" / "model" / "linewright-model"
if BUILT.exists():
    os.environ.setdefault("LINEWRIGHT_MODEL", str(BUILT))

import published  # noqa: E402

from linewright.model import calibration, machine_file, observations  # noqa: E402
from linewright.model.ensemble import draws  # noqa: E402
from linewright.model.simulated_target import ModelTarget  # noqa: E402
from linewright.model.simulator import Simulator, find_model  # noqa: E402

NAME = "arm64-server-2025"
DRAWS = 200


def matrix():
    """The published cells as a plan."""
    target = ModelTarget(machine_file.find(NAME))
    table = ROOT / "tests/py/data/rmw-arm64-server-2025.csv"
    _, records = published.from_table(table.read_text(), table.name)
    return calibration.plan_of(observations.from_records(records, table.name, forms=target.forms()))


def half(first: int) -> int:
    """Every second draw, beginning with the `first`; the number of cells simulated."""
    machine, plan = machine_file.find(NAME), matrix()
    cells = 0
    with Simulator(find_model()) as simulator:
        for draw in draws(machine, DRAWS)[first::2]:
            cells += len(simulator.ask(machine_file.resolve(machine, draw), plan))
    return cells


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    machine, plan = machine_file.find(NAME), matrix()
    with Simulator(find_model()) as simulator:
        resolved = machine_file.resolve(machine)
        began = time.monotonic()
        figures = simulator.ask(resolved, plan)
        once = time.monotonic() - began
    events = sum(figure.events for figure in figures)
    print(f"{len(figures)} cells once: {once:.2f} s, {events / 1e6:.1f} million events")
    began = time.monotonic()
    with ProcessPoolExecutor(2) as executor:
        cells = sum(executor.map(half, (0, 1)))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{DRAWS} draws, {cells} cells on two processes: {time.monotonic() - began:.1f} s,"
        f" {spent.ru_utime + spent.ru_stime:.1f} s of processor time"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

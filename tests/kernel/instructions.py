#!/usr/bin/env python3
"""Instructions that an operation executes inside small arm64 kernels: counted by the emulator, a property of the code, not of a machine.

    instructions.py FOLDER[:OPTIONS]…      a folder that kernel/build printed, booted with OPTIONS; one column each

QEMU's -icount makes one executed instruction one nanosecond of the machine's clock, so that the windows of linewright.ko, less those of
its baseline loop, count instructions. Nothing here is a time.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import small
from machine import ROOT, Machine, cell, parsed

ARCH = "arm64"
WANTED = {
    "rmw": ("atomic_",),
    "percpu": ("this_cpu_", "percpu_own_"),
}


def per_operation(machine: Machine, form: dict[str, str]) -> float:
    """Instructions of a form less those of its loop, the least of some windows: an interrupt only adds."""
    asked = {"operation": form["operation"], "form": form["name"], "width": form["width"], "cpus": 0, "windows": 8}
    windows = [parsed(line) for line in machine.ask(cell(**asked)) if line.startswith("window ")]

    def least(ns: str, ops: str) -> float:
        return min(int(window[ns]) / int(window[ops]) for window in windows)

    return least("ns", "ops") - least("baseline_ns", "baseline_ops")


def counted(kernel: Path, options: str, out: Path) -> dict[str, float]:
    """Instructions by operation, form and width for one boot."""
    built = small.module(kernel, ARCH, out / "module")
    init = small.program(ROOT / "tests/system/init.c", ARCH, out)
    machine = Machine(kernel / "vmlinuz", ARCH, built, init, None, options, ("-icount", "shift=0,sleep=off"))
    try:
        forms = [parsed(line) for line in machine.ask("forms") if line.startswith("form ")]
        found = {}
        for form in forms:
            if form["missing"] or not form["name"].startswith(WANTED.get(form["family"], ("-",))):
                continue
            found[f"{form['operation']}/{form['name']}/{form['width']}"] = per_operation(machine, form)
        return found
    finally:
        machine.close()


def main(argv: list[str]) -> int:
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    columns = {}
    for word in argv:
        folder, _, options = word.partition(":")
        with tempfile.TemporaryDirectory() as scratch:
            columns[f"{Path(folder).name} {options}".strip()] = counted(Path(folder).resolve(), options, Path(scratch))
    print("Instructions per operation, executed under emulation (not a time):")
    print(" | ".join(["operation/form/bits", *columns]))
    for name in next(iter(columns.values())):
        print(" | ".join([name, *(f"{column[name]:.2f}" for column in columns.values())]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Instructions that an operation executes inside arm64 kernels: counted by the emulator, a property
of the code.

    instructions.py KERNEL[:OPTIONS]…      KERNEL: a folder of kernel/build, or Debian's 6.1, 6.12

One column a KERNEL, booted with OPTIONS. QEMU's -icount makes one executed instruction one
nanosecond of the machine's clock, so that the windows of linewright.ko, less those of its baseline
loop, count instructions. These are no times."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import kernels
import small
from machine import ROOT, Machine, of_form, windows_of

ARCH = "arm64"
WANTED = {
    "rmw": ("atomic_",),
    "percpu": ("this_cpu_", "percpu_own_"),
}


def per_operation(machine: Machine, form: dict[str, str]) -> float:
    """Instructions of a form less those of its loop, the least of some windows: an interrupt only
    adds."""
    windows = windows_of(machine.ask(of_form(form, windows=8)))

    def least(ns: str, ops: str) -> float:
        return min(int(window[ns]) / int(window[ops]) for window in windows)

    return least("ns", "ops") - least("baseline_ns", "baseline_ops")


def made(kernel: str, out: Path) -> Path:
    """Builds linewright.ko for a kernel into out/module; the kernel's image."""
    if kernel in kernels.SUITES:
        kernels.build(kernel, ARCH, out / "module")
        return kernels.fetch(kernel, ARCH, ROOT / "build") / "vmlinuz"
    folder = Path(kernel).resolve()
    small.module(folder, ARCH, out / "module")
    return folder / "vmlinuz"


def counted(image: Path, options: str, out: Path) -> dict[str, float]:
    """Instructions by operation, form and width for one boot."""
    init = small.program(ROOT / "tests/system/init.c", ARCH, out)
    machine = Machine(
        image, ARCH, out / "module", init, None, options, ("-icount", "shift=0,sleep=off")
    )
    try:
        return {
            f"{form['operation']}/{form['name']}/{form['width']}": per_operation(machine, form)
            for form in machine.forms()
            if form["name"].startswith(WANTED.get(form["family"], ("-",)))
        }
    finally:
        machine.close()


def main(argv: list[str]) -> int:
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    columns: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for word in argv:
            kernel, _, options = word.partition(":")
            out = Path(scratch) / Path(kernel).name
            if not out.exists():
                out.mkdir()
                image = made(kernel, out)
            columns[word] = counted(image, options, out)
    print("Instructions per operation, executed under emulation (not a time):")
    print(" | ".join(["operation/form/bits", *columns]))
    for name in next(iter(columns.values())):
        cells = (f"{column[name]:.2f}" if name in column else "-" for column in columns.values())
        print(" | ".join([name, *cells]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

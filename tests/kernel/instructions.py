#!/usr/bin/env python3
"""Instructions that an operation executes inside small kernels: counted by the emulator, a property of the code and not
of a machine.

    instructions.py SERIES [OPTIONS…]      without OPTIONS: the unpatched kernel, and the patched one with each boot
    option

QEMU's -icount makes one executed instruction one nanosecond of the machine's clock, so that the windows of
linewright.ko, less those of its baseline loop, count instructions. Nothing here is a time.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import small
from machine import ROOT, Machine, cell, parsed

ARCH = "arm64"
PATCHES = ("arm64_lse_prefetch", "arm64_percpu_form")
BOOTS = ("", "lse_prefetch=on", "percpu_form=load", "percpu_form=prefetch")
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
    series, boots = argv[0], argv[1:] or BOOTS
    with tempfile.TemporaryDirectory() as scratch:
        columns = {"unpatched": counted(small.built(series, ARCH), "", Path(scratch))}
    patched = small.built(series, ARCH, *(word for name in PATCHES for word in ("--patch", name)))
    for options in boots:
        with tempfile.TemporaryDirectory() as scratch:
            columns[options or "patched, no option"] = counted(patched, options, Path(scratch))
    print("instructions per operation, executed under emulation (no time)")
    print(" | ".join(["operation/form/bits", *columns]))
    for name in columns["unpatched"]:
        print(" | ".join([name, *(f"{column[name]:.2f}" for column in columns.values())]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

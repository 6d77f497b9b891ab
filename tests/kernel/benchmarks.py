#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""refscale and map_benchmark beside the same cells of linewright.ko, in one kind of boot:
instructions.

    benchmarks.py [SERIES [ARCH]]      6.12 arm64; SERIES may be a folder of kernel/build

QEMU's -icount makes one executed instruction one nanosecond of the machine's clock, so that what
all three report is instructions executed per operation. It is a property of the code, not of a
machine; nothing here is a time."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import ours
import small
from machine import ROOT, Machine, cell, windows_of

ICOUNT = ("-icount", "shift=0,sleep=off")
REFSCALE = {
    "rcu": "rcu",
    "srcu": "srcu",
    "srcu-fast": "srcu_fast",
    "srcu-fast-updown": "srcu_fast_updown",
    "rcu-trace": "tasks_trace",
    "refcnt": "refcnt",
    "rwlock": "rwlock",
    "rwsem": "rwsem",
    "lock": "spinlock",
    "lock-irq": "spinlock_irq",
    "acqrel": "acqrel",
    "clock": "clock",
    "jiffies": "coarse_clock",
    "typesafe_ref": "typesafe_ref",
    "typesafe_lock": "typesafe_lock",
    "typesafe_seqlock": "typesafe_seqlock",
}
"""Types of refscale by the form of ours."""
LOOKUPS = {"typesafe_ref", "typesafe_lock", "typesafe_seqlock"}
PARAMETERS = "nreaders=1 loops=2000 nruns=5 holdoff=0 shutdown=0"


def refscale(folder: Path, arch: str, out: Path) -> dict[str, float]:
    """What refscale says of each type: the least of its runs, as an interrupt only adds."""
    init = small.program(ROOT / "tests/system/init.c", arch, out)
    guest = str(small.program(ROOT / "tests/kernel/small_guest.c", arch, out))
    commands = [[guest, "module", "/torture.ko"]]
    for kind in REFSCALE:
        commands.append([guest, "module", "/refscale.ko", f"scale_type={kind} {PARAMETERS}"])
        commands += [[guest, "sleep", "2"], [guest, "unload", "refscale"]]
    modules = {name: (folder / "source/out/kernel" / at).read_bytes() for name, at in
               (("torture.ko", "torture.ko"), ("refscale.ko", "rcu/refscale.ko"))}  # fmt: skip
    boot = small.boot(folder, arch, init, commands, files=modules, machine=ICOUNT)
    found = {}
    for number, kind in enumerate(REFSCALE):
        part = "\n".join(boot.output[1 + 3 * number :][:3])
        runs = [
            float(number)
            for number in re.findall(r"^(?:\[.*?\] )?\d+\t(\d+\.\d+)$", part, re.MULTILINE)
        ]
        found[kind] = min(runs, default=float("nan"))
    return found


def map_benchmark(folder: Path, arch: str, out: Path, built: Path) -> dict[str, str]:
    """What map_benchmark says of buffers of one page, and of 16, on the module's own device without
    coherency."""
    init = small.program(ROOT / "tests/system/init.c", arch, out)
    guest = str(small.program(ROOT / "tests/kernel/small_guest.c", arch, out))
    device = "/sys/bus/platform/devices/linewright-dma/driver_override"
    commands = [
        [guest, "module", "/linewright.ko"],
        [guest, "write", device, "dma_map_benchmark"],
        [guest, "write", "/sys/bus/platform/drivers/dma_map_benchmark/bind", "linewright-dma"],
        *(
            [guest, "map", granule, direction]
            for granule in ("1", "16")
            for direction in ("1", "2")
        ),
    ]
    files = {"linewright.ko": (built / "linewright.ko").read_bytes()}
    boot = small.boot(folder, arch, init, commands, files=files, machine=ICOUNT)
    return {
        " ".join(words[1:]): text for words, text in zip(commands[3:], boot.output[3:], strict=True)
    }


def by_module(
    folder: Path, arch: str, out: Path, built: Path
) -> tuple[dict[str, float], dict[str, float]]:
    """The same by the module: reader pairs less the loop, and lists of one entry of one page and of
    16."""
    init = small.program(ROOT / "tests/system/init.c", arch, out)
    machine = Machine(folder / "vmlinuz", arch, built, init, None, more=ICOUNT)

    def least(**asked: object) -> float:
        windows = windows_of(machine.ask(cell(cpus=0, windows=8, **asked)))
        return min(int(window["ns"]) / int(window["ops"]) for window in windows)

    try:
        operations = {
            form["name"]: form["operation"]
            for form in machine.forms()
            if form["family"] in ("readers", "lookups")
        }
        empty = {
            lookup: least(
                operation="readers_none",
                form="lookup_empty" if lookup else "readers_empty",
                width=8,
            )
            for lookup in (False, True)
        }
        readers = {
            form: least(operation=operations[form], form=form, width=8) - empty[form in LOOKUPS]
            for form in REFSCALE.values()
            if form in operations
        }
        lists = {
            f"{step} {pages} {direction}": least(
                operation=step,
                form="dma_sg",
                width=8,
                entries=1,
                entry_bytes=4096 * pages,
                direction=direction,
            )
            for step in ("dma_map", "dma_unmap")
            for pages in (1, 16)
            for direction in ("to_device", "from_device")
        }
        return readers, lists
    finally:
        machine.close()


def main(argv: list[str]) -> int:
    series, arch = (*argv, "6.12", "arm64")[:2] if len(argv) < 2 else argv[:2]
    folder = Path(series).resolve() if Path(series).is_dir() else ours.kernel(series, arch)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        built = small.module(folder, arch, out / "module")
        theirs, (readers, lists) = refscale(folder, arch, out), by_module(folder, arch, out, built)
        mapped = map_benchmark(folder, arch, out, built)
    print(
        f"instructions per operation, executed under emulation (no time); Linux {folder.name}, "
        "small configuration"
    )
    print("refscale type | refscale | form | linewright.ko")
    for kind, form in REFSCALE.items():
        if form in readers:
            print(f"{kind} | {theirs[kind]:.1f} | {form} | {readers[form]:.1f}")
    print("map_benchmark (pages, direction) | what it says")
    for name, text in mapped.items():
        print(f"{name} | {text}")
    print("linewright.ko (step, pages, direction) | one list of one entry")
    for name, count in lists.items():
        print(f"{name} | {count:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

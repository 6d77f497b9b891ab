# SPDX-License-Identifier: MIT
"""Counts how often chosen instructions run inside an emulated kernel, by the function that holds
them. No times."""

from __future__ import annotations

import bisect
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ARM64 = {
    "dsb": (0xFFFFF0FF, 0xD503309F),
    "dc cvac": (0xFFFFFFE0, 0xD50B7A20),
    "dc civac": (0xFFFFFFE0, 0xD50B7E20),
    "dc ivac": (0xFFFFFFE0, 0xD5087620),
}
"""Instructions by mask and value of their word (Arm ARM, DSB and SYS)."""
I386 = {"lock cmpxchg8b": (0x00FFFFFF, 0x00C70FF0)}
"""The same by their first bytes: F0 0F C7 /1."""
Kinds = dict[str, tuple[int, int]]


NEWER = 4
"""Interface of QEMU 10's plugins; Debian 12's 7.2 has 1."""


def plugin(out: Path, interface: int = 1) -> Path:
    """The plugin, built in a folder."""
    target = out / "count_plugin.so"
    source = ROOT / "tests/kernel/count_plugin.c"
    words = [
        "gcc",
        "-O2",
        "-Wall",
        f"-DINTERFACE={interface}",
        "-shared",
        "-fPIC",
        "-o",
        str(target),
        str(source),
    ]
    subprocess.run(words, check=True)
    return target


def words(built: Path, to: Path, chosen: Kinds) -> tuple[str, ...]:
    """Words for the emulator; counts are in the file `to` once it has ended. One thread, so that
    they are exact."""
    kinds = ",".join(f"{mask:x}:{value:x}=on" for mask, value in chosen.values())
    return ("-accel", "tcg,thread=single", "-plugin", f"{built},to={to},{kinds}")


def by_function(vmlinux: Path, counts: Path, chosen: Kinds) -> Counter[tuple[str, str]]:
    """(kind, function) to executions; a module's count for `module`. The kernel runs where it was
    linked (nokaslr)."""
    listed = subprocess.run(
        ["nm", "-n", str(vmlinux)], text=True, capture_output=True, check=True
    ).stdout
    rows = [
        row
        for row in map(str.split, listed.splitlines())
        if row[1] in "tT" and row[2][0] not in "$."
    ]
    symbols = [(int(row[0], 16), row[2]) for row in rows]
    starts = [address for address, _ in symbols]
    end = next(int(row.split()[0], 16) for row in listed.splitlines() if row.endswith(" _end"))
    names = {value: kind for kind, (_, value) in chosen.items()}
    found: Counter[tuple[str, str]] = Counter()
    for line in counts.read_text().splitlines():
        value, address, count = line.split()
        at = bisect.bisect(starts, int(address, 16)) - 1
        function = symbols[at][1] if at >= 0 and int(address, 16) < end else "module"
        found[names[int(value, 16)], function] += int(count)
    return found

# SPDX-License-Identifier: MIT
"""How often Debian's arm64 kernels wait for a mapped list: behind each of its entries, or once.
Counts of instructions that the emulator executed, no times."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import counting  # noqa: E402
import kernels  # noqa: E402
from machine import Machine, of_form, program, windows_of  # noqa: E402
from run_arm64 import Unavailable  # noqa: E402

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="builds of the module start on x86-64"
)
ENTRIES, LINES = 64, 64
"""Entries of 4 KiB, each of 64 lines of 64 bytes."""
BOOT = 16
"""Executions that booting and loading a module may add to the place that waits for lists."""


@pytest.mark.parametrize("series, waits", [("6.1", ENTRIES), ("6.12", ENTRIES), ("7", 1)])
def test_how_often_a_list_is_waited_for(tmp_path, series, waits):
    try:
        image = kernels.fetch(series, "arm64", ROOT / "build") / "vmlinuz"
        kernels.build(series, "arm64", tmp_path / "module")
    except Unavailable as missing:
        pytest.skip(str(missing))
    except subprocess.CalledProcessError as failed:
        pytest.fail(failed.output[-4000:])
    init = program(ROOT / "tests/system/init.c", "arm64", tmp_path)
    counted = counting.words(counting.plugin(tmp_path), tmp_path / "counts", counting.ARM64)
    machine = Machine(image, "arm64", tmp_path / "module", init, None, "nokaslr", counted)
    try:
        mapped = {"name": "dma_sg", "operation": "dma_map", "width": 8}
        entries = {"entries": ENTRIES, "entry_bytes": 4096, "direction": "to_device"}
        windows = windows_of(machine.ask(of_form(mapped, windows=8, window_us=100_000, **entries)))
        # In each window one list more is mapped before its time begins.
        lists = sum(1 + int(window["ops"]) for window in windows)
        machine.end()
    finally:
        machine.close()
    ran: dict[int, list[int]] = {}
    for line in (tmp_path / "counts").read_text().splitlines():
        value, _, count = line.split()
        ran.setdefault(int(value, 16), []).append(int(count))
    cleaned = max(ran[counting.ARM64["dc cvac"][1]])
    assert 0 <= cleaned - lists * ENTRIES * LINES < 10_000, (
        "lines are cleaned at one place, and this is how many"
    )
    waited = ran[counting.ARM64["dsb"][1]]
    found = {
        times: [count for count in waited if 0 <= count - times * lists <= BOOT]
        for times in (1, ENTRIES)
    }
    assert {times for times, places in found.items() if places} == {waits}, (lists, sorted(waited))

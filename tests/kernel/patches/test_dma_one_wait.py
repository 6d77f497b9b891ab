# SPDX-License-Identifier: MIT
"""Patch dma_one_wait in an emulated arm64 kernel: how often a list is waited for, and that lists
are whole.

Counts are instructions that the emulator executed. They are a property of the code; no time is
measured."""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import counting  # noqa: E402
import ours  # noqa: E402
import small  # noqa: E402
from machine import Machine, cell, parsed, quiet, sum_of, windows_of  # noqa: E402
from small import or_skipped  # noqa: E402

ENTRIES, LINES = 16, 64
"""Entries of 4 KiB, each of 64 lines of 64 bytes."""
STEPS = ("dma_map", "dma_unmap", "dma_sync_for_device", "dma_sync_for_cpu")
DIRECTIONS = ("to_device", "from_device", "bidirectional")


# 7.3 waits once per list by itself on arm64.
SERIES = [
    word for word in os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split() if word != "7.3"
]


def _kernel(series: str, without: str = "") -> Path:
    with or_skipped():
        return ours.kernel(series, "arm64", without)


@pytest.fixture(scope="module", params=SERIES)
def kernel(request) -> Path:
    return _kernel(request.param)


@pytest.fixture(scope="module", params=SERIES)
def unpatched(request) -> Path:
    """The same configuration without the patch."""
    return _kernel(request.param, "dma_one_wait")


@pytest.fixture(scope="module")
def plugin(tmp_path_factory) -> Path:
    return counting.plugin(tmp_path_factory.mktemp("plugin"))


def booted(kernel: Path, out: Path, options: str, *more: str) -> Machine:
    built = small.module(kernel, "arm64", out / "module")
    init = small.program(ROOT / "tests/system/init.c", "arm64", out)
    return Machine(kernel / "vmlinuz", "arm64", built, init, None, f"nokaslr {options}", more)


def lives(machine: Machine, **asked: object) -> int:
    """How often a cell mapped its list on the device without coherency."""
    answer = machine.ask(
        cell(**{"width": 8, "form": "dma_sg", "cpus": 0, "windows": 1, "entry_bytes": 4096} | asked)
    )
    assert sum_of(answer)["wrong"] == "0", answer
    # One more runs before the first window.
    return 1 + sum(int(window["ops"]) for window in windows_of(answer))


def counts_of(
    kernel: Path, plugin: Path, out: Path, options: str
) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """What ran, by kind and function, and how many lists went through each step with something to
    do."""
    machine = booted(kernel, out, options, *counting.words(plugin, out / "counts", counting.ARM64))
    lists: Counter[str] = Counter()
    with quiet(machine):
        for step, direction in itertools.product(STEPS, DIRECTIONS):
            ran = lives(machine, operation=step, direction=direction, entries=ENTRIES)
            lists["to device"] += ran * (2 if step == "dma_sync_for_device" else 1)
            if direction != "to_device":
                lists["to cpu"] += ran * (2 if step == "dma_sync_for_cpu" else 1)
        machine.end()
    return counting.by_function(
        kernel / "source/out/vmlinux", out / "counts", counting.ARM64
    ), lists


def of(counts: Counter[tuple[str, str]], kind: str, *functions: str) -> int:
    return sum(
        count
        for (of_kind, name), count in counts.items()
        if of_kind == kind and name.endswith(functions)
    )


BOOT = 8
"""Waits that booting and loading a module may add to the functions that lists use."""


def waited_for_every_entry(counts: Counter[tuple[str, str]], lists: Counter[str]) -> None:
    print(f"lists {dict(lists)}, counts {dict(counts)}")
    assert 0 <= of(counts, "dsb", "dcache_clean_poc") - ENTRIES * lists["to device"] <= BOOT
    assert 0 <= of(counts, "dsb", "dcache_inval_poc") - ENTRIES * lists["to cpu"] <= BOOT
    assert of(counts, "dsb", "arch_sync_dma_wait") == 0


def test_without_the_patch_every_entry_is_waited_for(unpatched, plugin, tmp_path):
    waited_for_every_entry(*counts_of(unpatched, plugin, tmp_path, ""))


def test_without_the_option_every_entry_is_waited_for(kernel, plugin, tmp_path):
    waited_for_every_entry(*counts_of(kernel, plugin, tmp_path, ""))


def test_with_the_option_every_list_is_waited_for_once(kernel, plugin, tmp_path):
    counts, lists = counts_of(kernel, plugin, tmp_path, "dma_one_wait=1")
    print(f"lists {dict(lists)}, counts {dict(counts)}")
    assert of(counts, "dsb", "dcache_clean_poc", "dcache_inval_poc") <= BOOT
    assert of(counts, "dsb", "arch_sync_dma_wait") == lists["to device"] + lists["to cpu"]
    # The same lines, though: nothing is left out.
    assert (
        of(counts, "dc cvac", "arch_sync_dma_for_device_nowait")
        == ENTRIES * LINES * lists["to device"]
    )
    assert (
        of(counts, "dc ivac", "arch_sync_dma_for_cpu_nowait") == ENTRIES * LINES * lists["to cpu"]
    )


IOMMU = ("-machine", "iommu=smmuv3", "-device", "edu")


@pytest.mark.parametrize(
    "options",
    [
        "dma_one_wait=0",
        "dma_one_wait=1",
        "dma_one_wait=0 swiotlb=force",
        "dma_one_wait=1 swiotlb=force",
    ],
)
def test_cpu_and_device_find_what_the_other_has_stored(kernel, tmp_path, options):
    machine = booted(kernel, tmp_path, options)
    with quiet(machine):
        for direction, entry_bytes in itertools.product(DIRECTIONS, (8, 64, 100, 4096, 20000)):
            for entries in (1, 33):
                lives(
                    machine,
                    operation="dma_map",
                    direction=direction,
                    entries=entries,
                    entry_bytes=entry_bytes,
                    verify=1,
                )


@pytest.mark.parametrize("options", ["dma_one_wait=0", "dma_one_wait=1"])
def test_and_behind_an_iommu(kernel, tmp_path, options):
    built = small.module(kernel, "arm64", tmp_path / "module")
    init = small.program(ROOT / "tests/system/init.c", "arm64", tmp_path)
    guest = small.program(ROOT / "tests/kernel/small_guest.c", "arm64", tmp_path)
    first = [str(guest), "module", "/linewright.ko", "dma_pci=1234:11e8"]
    machine = Machine(kernel / "vmlinuz", "arm64", built, init, first, options, IOMMU)
    with quiet(machine):
        assert parsed(machine.ask("forms")[0])["dma"] == "noncoherent,iommu", machine.before
        # Entries of 8 bytes may share a line with other data, so they go through bounce buffers.
        for direction, entry_bytes in itertools.product(DIRECTIONS, (8, 100, 4096, 20000)):
            lives(
                machine,
                operation="dma_map",
                direction=direction,
                entries=17,
                entry_bytes=entry_bytes,
                verify=1,
            )


def test_a_misspelt_option_changes_nothing_and_is_named(kernel, tmp_path):
    machine = booted(kernel, tmp_path, "dma_one_wait=maybe")
    try:
        assert any("dma_one_wait" in line and "invalid" in line for line in machine.log), "\n".join(
            machine.log[:80]
        )
    finally:
        machine.close()

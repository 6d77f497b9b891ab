# SPDX-License-Identifier: MIT
"""Lists behind an IOMMU: the module takes a PCI device of the emulated machine, and CPU and device
find what the other has stored."""

from __future__ import annotations

import itertools
import platform
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import kernels  # noqa: E402
import small  # noqa: E402
from machine import Machine, cell, parsed, quiet, sum_of  # noqa: E402
from small import or_skipped  # noqa: E402

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="builds of the module start on x86-64"
)
IOMMU = ("-machine", "iommu=smmuv3", "-device", "edu")
EDU = "dma_pci=1234:11e8"
LIST = {"form": "dma_sg", "width": 8, "cpus": 0, "entries": 17}


@pytest.fixture(scope="module", params=["6.12", "7"])
def built(request, tmp_path_factory) -> tuple[Path, Path]:
    out = tmp_path_factory.mktemp("iommu")
    with or_skipped():
        tree = kernels.fetch(request.param, "arm64", ROOT / "build")
        kernels.build(request.param, "arm64", out / "module")
    return tree, out


def booted(built: tuple[Path, Path], parameters: str, *more: str) -> Machine:
    tree, out = built
    init = small.program(ROOT / "tests/system/init.c", "arm64", out)
    guest = small.program(ROOT / "tests/kernel/small_guest.c", "arm64", out)
    first = [str(guest), "module", "/linewright.ko", parameters]
    return Machine(tree / "vmlinuz", "arm64", out / "module", init, first, more=more)


def test_lists_behind_an_iommu_are_whole(built):
    machine = booted(built, EDU, *IOMMU)
    with quiet(machine):
        assert "@@exit 0 0" in machine.before, "\n".join(machine.before[-30:])
        assert parsed(machine.ask("forms")[0])["dma"] == "noncoherent,iommu"
        for direction, entry_bytes in itertools.product(
            ("to_device", "from_device", "bidirectional"), (100, 4096, 20000)
        ):
            asked = {"direction": direction, "entry_bytes": entry_bytes, "verify": 1}
            answer = machine.ask(cell(operation="dma_map", **LIST | asked))
            assert sum_of(answer)["wrong"] == "0", answer
        for step in ("dma_map", "dma_unmap", "dma_sync_for_device", "dma_sync_for_cpu"):
            asked = {"operation": step, "direction": "bidirectional"}
            assert "end stop=length" in machine.ask(cell(**LIST | asked)), step


def test_a_device_that_is_not_there_is_refused(built):
    machine = booted(built, EDU)
    try:
        assert any(
            "small_guest: loading the module: No such device" in line for line in machine.before
        ), machine.before
        assert parsed(machine.ask("forms")[0])["dma"] == "noncoherent"
    finally:
        machine.close()

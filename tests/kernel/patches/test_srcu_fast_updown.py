"""Patch srcu_fast_updown in emulated kernels: readers of that kind beside updaters, and the kernel's own torture."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import ours  # noqa: E402
import small  # noqa: E402
from machine import Machine, cell, parsed  # noqa: E402
from run_arm64 import Unavailable  # noqa: E402

TORTURE_S = 60
SERIES = os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split()
KERNELS = [place for place, names in ours.PATCHES.items() if "srcu_fast_updown" in names and place[0] in SERIES]


@pytest.fixture(scope="module", params=KERNELS, ids="-".join)
def kernel(request) -> tuple[str, Path]:
    series, arch = request.param
    try:
        return arch, ours.kernel(series, arch)
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.fixture
def machine(kernel, tmp_path):
    arch, folder = kernel
    built = small.module(folder, arch, tmp_path / "module")
    init = small.program(ROOT / "tests/system/init.c", arch, tmp_path)
    booted = Machine(folder / "vmlinuz", arch, built, init, None)
    yield booted
    booted.close()
    assert not booted.warnings(), "\n".join(booted.log[-200:])


@pytest.mark.parametrize("updater", ["synchronize", "expedited"])
def test_no_reader_sees_what_an_updater_has_taken_away(machine, updater):
    shared = {"operation": "readers_pair", "width": 8, "threads": 2, "cpus": "0,1", "contender": "same_line"}
    for delay in (1, 100, 5000):
        asked = {"form": "srcu_fast_updown", "verify": 1, "delay": delay, "windows": 6, "window_us": 100000}
        answer = machine.ask(cell(**shared, **asked, updater=updater))
        (total,) = [parsed(line) for line in answer if line.startswith("sum ")] or pytest.fail("\n".join(answer))
        assert total["wrong"] == "0", answer
        assert "end stop=windows" in answer, answer
        # The updater got somewhere, too.
        counts = [int(parsed(line)["threads"].split(",")[1]) for line in answer if line.startswith("window ")]
        assert sum(counts) > 0, answer


def test_grace_periods_end_beside_readers_that_come_and_go(machine):
    shared = {"operation": "readers_grace", "form": "srcu_fast_updown", "width": 8, "updater": "synchronize"}
    for threads in ({"cpus": 0}, {"cpus": "1,0", "threads": 2, "contender": "same_line"}):
        answer = machine.ask(cell(**shared, **threads))
        assert "end stop=windows" in answer, answer


@pytest.mark.parametrize("kind", ["srcu_fast_updown", "srcud", "srcu"])
def test_the_kernels_own_torture_of_srcu_passes(kernel, tmp_path, kind):
    boot = tortured(kernel, kind, TORTURE_S, tmp_path)
    assert boot.codes == [0, 0, 0, 0], boot.console[-4000:]
    assert "End of test: SUCCESS" in boot.console, boot.console[-4000:]
    assert not boot.complaints(), boot.complaints()


def test_the_torture_finds_readers_that_are_not_waited_for(kernel, tmp_path):
    """The kernel's own broken type, whose callbacks run at once."""
    assert "End of test: FAILURE" in tortured(kernel, "busted", 10, tmp_path).console


def tortured(kernel: tuple[str, Path], kind: str, seconds: int, tmp_path: Path) -> small.Boot:
    arch, folder = kernel
    init = small.program(ROOT / "tests/system/init.c", arch, tmp_path)
    guest = small.program(ROOT / "tests/kernel/small_guest.c", arch, tmp_path)
    torture, rcutorture = (folder / "source/out/kernel" / name for name in ("torture.ko", "rcu/rcutorture.ko"))
    parameters = f"torture_type={kind} stat_interval=15 onoff_interval=0 shuffle_interval=3"
    commands = [
        [str(guest), "module", "/torture.ko"],
        [str(guest), "module", "/rcutorture.ko", parameters],
        [str(guest), "sleep", str(seconds)],
        [str(guest), "unload", "rcutorture"],
    ]
    files = {"torture.ko": torture.read_bytes(), "rcutorture.ko": rcutorture.read_bytes()}
    return small.boot(folder, arch, init, commands, files=files)

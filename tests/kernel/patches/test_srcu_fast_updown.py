# SPDX-License-Identifier: MIT
"""Patch srcu_fast_updown in emulated kernels: readers of that kind beside updaters, and the
kernel's own torture."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/kernel"), str(ROOT / "kernel")]

import ours  # noqa: E402
import small  # noqa: E402
from lwkernel import refscale  # noqa: E402
from machine import BESIDE, Machine, cell, quiet, sum_of, windows_of  # noqa: E402
from small import or_skipped  # noqa: E402

TORTURE_S = 60
SERIES = os.environ.get("LINEWRIGHT_SMALL_KERNELS", "6.12").split()
KERNELS = [
    place
    for place, names in ours.PATCHES.items()
    if "srcu_fast_updown" in names and place[0] in SERIES
]


@pytest.fixture(scope="module", params=KERNELS, ids="-".join)
def kernel(request) -> tuple[str, Path]:
    series, arch = request.param
    with or_skipped():
        return arch, ours.kernel(series, arch)


@pytest.fixture(scope="module")
def machine(kernel, tmp_path_factory):
    (arch, folder), out = kernel, tmp_path_factory.mktemp("machine")
    built = small.module(folder, arch, out / "module")
    init = small.program(ROOT / "tests/system/init.c", arch, out)
    booted = Machine(folder / "vmlinuz", arch, built, init, None)
    with quiet(booted):
        yield booted


def refscaled(
    kernel: tuple[str, Path], kinds: list[str], options: str, tmp_path: Path
) -> small.Boot:
    """A boot in which refscale measures some kinds of reader."""
    arch, folder = kernel
    init = small.program(ROOT / "tests/system/init.c", arch, tmp_path)
    guest = str(small.program(ROOT / "tests/kernel/small_guest.c", arch, tmp_path))
    torture, refscale = (
        folder / "source/out/kernel" / name for name in ("torture.ko", "rcu/refscale.ko")
    )
    parameters = "nreaders=2 loops=500 nruns=3 holdoff=0 " + SHUTDOWN.get(
        folder.name.split("-")[0], "shutdown=0"
    )
    commands = [[guest, "module", "/torture.ko"]]
    for kind in kinds:
        commands.append([guest, "module", "/refscale.ko", f"scale_type={kind} {parameters}"])
        commands += [[guest, "sleep", "2"], [guest, "unload", "refscale"]]
    commands.append([guest, "read", "/sys/module/srcutree/parameters/fast_updown_irqsave"])
    files = {"torture.ko": torture.read_bytes(), "refscale.ko": refscale.read_bytes()}
    return small.boot(folder, arch, init, commands, options, files)


FORMS = ("srcu_fast_updown", "srcu_fast_updown_defined", "srcu_fast_updown_irqsave")
"""The module's readers of such a domain: one made by its call, one by its definition, and one that
counts with interrupts off."""
SHUTDOWN = {"7.3": "shutdown_secs=0"}
TYPES = [kind.name for kind in (*refscale.FAST, *refscale.OTHERS)]


@pytest.mark.parametrize("options, choice", [("", "N"), ("srcutree.fast_updown_irqsave=1", "Y")])
def test_refscale_has_every_type_of_later_kernels_and_the_choice_is_in_sysfs(
    kernel, tmp_path, options, choice
):
    """Each type runs its experiments to the end, with either way to count, and the KUnit tests
    pass."""
    kinds = [
        *TYPES,
        "srcu-fast-updown-irqsave",
        "srcu",
        *(["jiffies"] if "6.1-" in str(kernel[1]) else []),
    ]
    boot = refscaled(kernel, kinds, options, tmp_path)
    assert set(boot.codes) == {0} and boot.ended, boot.console[-3000:]
    for kind in kinds:
        assert re.search(rf"(?<![\w-]){kind}-ref-scale: END OF TEST", boot.console), kind
    assert boot.output[-1] == choice
    assert (
        re.search(r"\bok \d+ (- )?srcu_fast_updown\b", boot.console)
        and "not ok" not in boot.console
    )
    assert not boot.complaints(), boot.complaints()


def updates_seen(machine: Machine, window_us: int, **fields: object) -> int:
    """How often an updater came round in windows beside a reader that verifies and sees nothing
    wrong."""
    beside = BESIDE | {"verify": 1, "width": 8}
    asked = {"operation": "readers_pair", "windows": 6, "window_us": window_us}
    answer = machine.ask(cell(**beside, **asked, **fields))
    assert sum_of(answer)["wrong"] == "0" and "end stop=length" in answer, answer
    return sum(int(window["threads"].split(",")[1]) for window in windows_of(answer))


@pytest.mark.parametrize("updater", ["synchronize", "expedited"])
@pytest.mark.parametrize("form", FORMS)
def test_no_reader_sees_what_an_updater_has_taken_away(machine, form, updater):
    """The updater waits for three grace periods of RCU, on a loaded host longer than a short
    window: windows are lengthened until it has come round."""
    for delay in (1, 100, 5000):
        asked = {"form": form, "updater": updater, "delay": delay}
        assert any(updates_seen(machine, us, **asked) for us in (100_000, 1_000_000, 10_000_000))


@pytest.mark.parametrize("updater", ["synchronize", "expedited"])
@pytest.mark.parametrize("form", FORMS)
def test_grace_periods_end_beside_readers_that_come_and_go(machine, form, updater):
    shared = {"operation": "readers_grace", "form": form, "width": 8, "updater": updater}
    for threads in ({"cpus": 0}, {"cpus": "1,0", "threads": 2, "contender": "same_line"}):
        answer = machine.ask(cell(**shared, **threads))
        assert "end stop=length" in answer, answer


@pytest.mark.parametrize(
    "kind, options",
    [
        ("srcu_fast_updown", ""),
        ("srcu_fast_updown", "srcutree.fast_updown_irqsave=1"),
        ("srcud", ""),
        ("srcu", ""),
    ],
)
def test_the_kernels_own_torture_of_srcu_passes(kernel, tmp_path, kind, options):
    boot = tortured(kernel, kind, TORTURE_S, tmp_path, options)
    assert boot.codes == [0, 0, 0, 0], boot.console[-4000:]
    assert "End of test: SUCCESS" in boot.console, boot.console[-4000:]
    assert not boot.complaints(), boot.complaints()


def test_the_torture_finds_readers_that_are_not_waited_for(kernel, tmp_path):
    """The kernel's own broken type, whose callbacks run at once."""
    assert "End of test: FAILURE" in tortured(kernel, "busted", 10, tmp_path).console


def tortured(
    kernel: tuple[str, Path], kind: str, seconds: int, tmp_path: Path, options: str = ""
) -> small.Boot:
    arch, folder = kernel
    init = small.program(ROOT / "tests/system/init.c", arch, tmp_path)
    guest = small.program(ROOT / "tests/kernel/small_guest.c", arch, tmp_path)
    torture, rcutorture = (
        folder / "source/out/kernel" / name for name in ("torture.ko", "rcu/rcutorture.ko")
    )
    parameters = f"torture_type={kind} stat_interval=15 onoff_interval=0 shuffle_interval=3"
    if folder.name.startswith("7.") and kind == "srcu_fast_updown":
        # There these readers are a flavour of a type.
        parameters = parameters.replace(kind, "srcud") + " reader_flavor=0x8"
    commands = [
        [str(guest), "module", "/torture.ko"],
        [str(guest), "module", "/rcutorture.ko", parameters],
        [str(guest), "sleep", str(seconds)],
        [str(guest), "unload", "rcutorture"],
    ]
    files = {"torture.ko": torture.read_bytes(), "rcutorture.ko": rcutorture.read_bytes()}
    return small.boot(folder, arch, init, commands, options, files)

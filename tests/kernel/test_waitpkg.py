# SPDX-License-Identifier: MIT
"""TPAUSE and UMWAIT, which no machine of CI has, on an emulated processor: all of wait_test, and
the torture of the locks by each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/kernel"))

import bochs  # noqa: E402
import small  # noqa: E402
from run_arm64 import initramfs, outcomes  # noqa: E402

pytestmark = pytest.mark.skipif(
    "7.3" not in os.environ.get("LINEWRIGHT_SMALL_KERNELS", "7.3").split(),
    reason="the kernel is that of the time slice extensions",
)
ROOMS = ("common", "percpu", "rwlock", "srcu", "wait")
HINTS = ("tpause", "umwait")


def made(out: Path) -> tuple[Path, Path, Path]:
    """The first process, wait_test and the torture: static, of the library's sources."""
    sources = [str(file) for room in ROOMS for file in sorted((ROOT / "src" / room).glob("*.c"))]
    words = ["-O2", "-pthread", f"-I{ROOT}/include", f"-I{ROOT}/src"]
    subprocess.run(["gcc", *words, "-c", *sources], cwd=out, check=True)
    library = [str(file) for file in out.glob("*.o")]
    tests, torture, init = out / "wait_test", out / "torture", out / "init"
    wrap = ["-Wl,--wrap=lw__relax_chosen", "-lgtest", "-lgtest_main"]
    for compiler, program, source, more in (
        (["g++", "-std=c++20"], tests, "tests/cpp/wait/wait_test.cpp", [*library, *wrap]),
        (["gcc"], torture, "tests/cpp/rwlock/torture.c", library),
        (["gcc"], init, "tests/system/init.c", []),
    ):
        command = [*compiler, *words, "-static", "-o", str(program), str(ROOT / source), *more]
        subprocess.run(command, check=True)
    return init, tests, torture


@pytest.mark.parametrize("cpus", [1, 2])
def test_waits_end_and_locks_stay_right_by_tpause_and_umwait(tmp_path: Path, cpus: int) -> None:
    with small.or_skipped():
        tree = bochs.fetch()
        kernel = small.built("7.3", "x86_64", "--fragment", "slice") / "vmlinuz"
    init, tests, torture = made(tmp_path)
    commands = [["LINEWRIGHT_VERBOSE=1", "LINEWRIGHT_WAIT=auto", str(tests), "--gtest_color=no"]]
    commands += [
        [f"LINEWRIGHT_WAIT={hint}", str(torture), "--seconds", "2", "--except", "forks"]
        for hint in HINTS
    ]
    said = bochs.boot(tree, kernel, initramfs(init, commands), tmp_path / "machine", cpus)
    assert [code for _, code in outcomes(said, len(commands))] == [0] * len(commands), said
    assert "this CPU has none, pause, tpause, umwait" in said

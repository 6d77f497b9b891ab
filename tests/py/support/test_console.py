# SPDX-License-Identifier: MIT
"""An emulated machine whose kernel does not begin is started again; one that has begun is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.places import ROOT

sys.path.append(str(ROOT / "tests" / "system"))
import run_arm64

MACHINE = """
echo begun >>{starts}
echo SeaBIOS
[ $(wc -l <{starts}) -gt {hangs} ] || exec sleep 1000
printf '[    0.000000] Linux\\n'
exec sleep {pause}
"""


@pytest.mark.parametrize(("hangs", "silent_s", "pause"), [(2, 2, 0), (0, 3, 3.5)])
def test_one_that_hangs_in_its_firmware_is_started_again(
    tmp_path: Path, capfd, hangs: int, silent_s: float, pause: float
):
    starts = tmp_path / "starts"
    machine = MACHINE.format(starts=starts, hangs=hangs, pause=pause)
    said = run_arm64.console_of(["sh", "-c", machine], 300, silent_s)
    assert said == "SeaBIOS\n[    0.000000] Linux\n"
    assert len(starts.read_text().splitlines()) == hangs + 1
    assert capfd.readouterr().out.count("started again") == hangs


def test_the_third_has_the_time_that_is_left_and_no_more(tmp_path: Path):
    starts = tmp_path / "starts"
    machine = MACHINE.format(starts=starts, hangs=9, pause=0)
    run_arm64.console_of(["sh", "-c", machine], 7, 2)
    assert len(starts.read_text().splitlines()) == 3

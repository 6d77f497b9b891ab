# SPDX-License-Identifier: MIT
"""The console of an emulated machine, on which the kernel and the module's runner both write."""

from __future__ import annotations

import sys

from support.places import ROOT

sys.path.insert(0, str(ROOT / "tests/kernel"))

from machine import KERNELS, untangled


def test_what_the_kernel_says_never_breaks_a_line_of_the_runner():
    console = [
        b"ready\r\n",
        b"[   22.422992] hrtimer: interrupt took 99995480 ns\r\n",
        b"window ba[   23.000001] clocksource: unstable\r\n",
        b"[   23.000002] more of it\r\n",
        b"tch=7\r\n",
        b"batches 15390 [",
    ]
    lines = list(untangled(console))
    assert [line for line in lines if not KERNELS.match(line)] == [
        "ready",
        "window batch=7",
        "batches 15390 [",
    ]
    assert sum(bool(KERNELS.match(line)) for line in lines) == 3

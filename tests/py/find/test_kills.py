# SPDX-License-Identifier: MIT
"""The command and the sampler are killed at random moments: nothing is harmed, nothing stays."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.places import ROOT


@pytest.mark.slow
def test_a_kill_at_any_moment_harms_nothing_and_leaves_nothing(sampling) -> None:
    command = [sys.executable, ROOT / "bench/find/kills.py", "--moments", "12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "12 of 12 moments" in done.stdout, done.stdout + done.stderr

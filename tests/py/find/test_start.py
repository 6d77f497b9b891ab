# SPDX-License-Identifier: MIT
"""What is done before the sampler starts, and so delays it."""

from __future__ import annotations

import os
import subprocess
import sys

WATCHED = """
import sys
from linewright.cli import main
def hook(event, given):
    if event == "subprocess.Popen" and str(given[0]).endswith("linewright-find"):
        print("loaded:", *sorted({"numpy", "capstone", "elftools.dwarf"} & sys.modules.keys()))
sys.addaudithook(hook)
sys.exit(main(["find", "--", "true"]))
"""


def test_the_sampler_starts_before_what_judges_is_loaded(tmp_path) -> None:
    """NumPy, Capstone and the rest take as long as the sampler's measurement of its own costs."""
    stub = tmp_path / "linewright-find"
    stub.write_text("#!/bin/sh\nexit 3\n")
    stub.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED],
        env=os.environ | {"LINEWRIGHT_FIND": str(stub)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3 and "wrote nothing" in done.stderr
    assert done.stdout.splitlines() == ["loaded:"]

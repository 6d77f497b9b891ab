# SPDX-License-Identifier: MIT
"""Damages published tables and machine files for FUZZ_SECONDS: whatever the bytes, a reader answers
or raises UserError."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

from linewright.errors import UserError
from linewright.model import machine_file, observations
from linewright.model.simulated_target import ModelTarget
from tests.py.support.model import CALIBRATED, mangled
from tests.py.support.published import published

ROOT = next(path for path in Path(__file__).resolve().parents if (path / "pyproject.toml").exists())


def main() -> None:
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS", "60"))
    table = (ROOT / "tests/py/data/rmw-arm64-server-2025.csv").read_bytes()
    files = [path.read_bytes() for path in machine_file.known().values()]
    forms = ModelTarget(machine_file.find(CALIBRATED)).forms()
    tried = 0
    for seed in itertools.count():
        for broken in mangled(table, seed):
            with contextlib.suppress(UserError):
                _, rows = published.from_table(broken.decode("utf-8", "replace"), "table")
                observations.from_records(rows, "table", forms=forms)
        for broken in mangled(files[seed % len(files)], seed, 30):
            with contextlib.suppress(UserError):
                machine_file.resolve(machine_file.parse(broken, "file"))
        tried += 330
        if time.monotonic() > until:
            break
    print(f"{tried} damaged files, none that a reader fell over")


if __name__ == "__main__":
    main()

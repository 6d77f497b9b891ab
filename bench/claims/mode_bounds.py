#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Simulates the table of linewright/analysis/modes.py: what samples of one normal distribution
exceed.

    bench/claims/mode_bounds.py"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = next(parent for parent in HERE.parents if (parent / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402

from linewright.analysis.intervals import (  # noqa: E402
    BOUNDS,
    FALSE_ALARM,
    GAPS_SHARE,
    LEVELS,
    explained,
    gap_share,
)

SAMPLES = 200_000
MOST_DRAWN = 12_000_000


def bounds(n: int) -> tuple[list[float], list[float]]:
    """Both rules' critical values of samples of `n`, level by level."""
    rng = np.random.default_rng(n)
    parts = []
    for _ in range(min(SAMPLES, MOST_DRAWN // n) // 20_000):
        sample = np.sort(rng.standard_normal((20_000, n)), axis=1)
        parts.append((explained(sample)[0], gap_share(sample)))
    alarms = [FALSE_ALARM / 2**level for level in range(LEVELS)]
    return tuple(
        [round(float(np.quantile(np.concatenate(part), 1 - share * alarm)), 4) for alarm in alarms]
        for part, share in zip(zip(*parts, strict=True), (1 - GAPS_SHARE, GAPS_SHARE), strict=True)
    )


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for count in BOUNDS:
        print(f"{count}: {bounds(count)}", flush=True)

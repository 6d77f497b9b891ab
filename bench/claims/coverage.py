#!/usr/bin/env python3
"""How often a repeat of a measurement has its median inside the interval that the first one stated,
on simulated launches.

    bench/claims/coverage.py [--pairs N] [--seed N]

A measurement has some launches of 40 windows with 2 % noise; how launches differ is the column.  In
percent of repeats."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = next(parent for parent in HERE.parents if (parent / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT)]

import numpy as np  # noqa: E402

from linewright.analysis.intervals import median, medians_of, repeat_interval  # noqa: E402

LAUNCHES = (2, 3, 5, 8, 10, 20, 32)
Luck = Callable[[int, np.random.Generator], np.ndarray]


def modes(share: float) -> Luck:
    """Launches in two modes, the second four times as slow."""
    return lambda n, rng: np.where(rng.random(n) < share, 4.0, 1.0) * np.exp(rng.normal(0, 0.05, n))


KINDS: dict[str, Luck] = {
    "normal, 5 %": lambda n, rng: np.exp(rng.normal(0, 0.05, n)),
    "normal, 50 %": lambda n, rng: np.exp(rng.normal(0, 0.5, n)),
    "2 modes x4, 20 : 80": modes(0.2),
    "35 : 65": modes(0.35),
    "50 : 50": modes(0.5),
    "skewed": lambda n, rng: 1 + rng.exponential(0.3, n),
    "heavy tails": lambda n, rng: np.exp(0.05 * rng.standard_t(2, n)),
}


def covered(launches: int, luck: Luck, pairs: int, rng: np.random.Generator) -> float:
    """Share of pairs in which the second measurement's median lies in the first one's interval."""
    hits = 0
    for _ in range(pairs):
        first, again = (
            [25 * m * np.exp(rng.normal(0, 0.02, 40)) for m in luck(launches, rng)]
            for _ in range(2)
        )
        found = repeat_interval(first)
        hits += found.low_ns <= median(medians_of(again)) <= found.high_ns
    return hits / pairs


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    rng = np.random.default_rng(given.seed)
    print(f"repeats covered, percent of {given.pairs}: {' | '.join(['launches', *KINDS])}")
    missed = False
    for launches in LAUNCHES:
        shares = {name: covered(launches, luck, given.pairs, rng) for name, luck in KINDS.items()}
        missed |= launches >= 5 and min(shares.values()) < 0.94
        print(
            f"| {launches} | {' | '.join(f'{100 * share:.1f}' for share in shares.values())} |",
            flush=True,
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

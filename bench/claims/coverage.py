#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often a repeat of a measurement has its median inside the interval that the first one stated,
on simulated launches.

    bench/claims/coverage.py [--pairs N] [--seed N] [--alone]

A measurement has some launches whose windows vary and are lost as those of a contended form on a
recorded VM with two CPUs (or, with `--alone`, of an uncontended one); how launches differ is the
column.  In percent of repeats."""

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
sys.path[:0] = [str(ROOT), str(HERE)]

import numpy as np  # noqa: E402
from simulated import RECORDED_VM, series  # noqa: E402

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


def measured(luck: np.ndarray, scale: float, rng: np.random.Generator) -> list[np.ndarray]:
    """The windows of launches with this luck, deviations inside them `scale` times those alone."""
    noise = RECORDED_VM
    shape = (luck.size, noise.windows)
    rounds = noise.rounds * series(rng, shape, noise.rounds_correlation)
    windows = 25 * luck[:, None] * np.exp(scale * (rounds + rng.normal(0, noise.within, shape)))
    return [own[rng.random(own.size) >= noise.lost] for own in windows]


def covered(launches: int, luck: Luck, pairs: int, scale: float, rng: np.random.Generator) -> float:
    """Share of pairs in which the second measurement's median lies in the first one's interval."""
    hits = 0
    for _ in range(pairs):
        first, again = (measured(luck(launches, rng), scale, rng) for _ in range(2))
        found = repeat_interval(first)
        hits += found.low_ns <= median(medians_of(again)) <= found.high_ns
    return hits / pairs


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="windows of an uncontended form")
    given = parser.parse_args(words)
    rng, scale = np.random.default_rng(given.seed), 1.0 if given.alone else RECORDED_VM.contended
    print(f"repeats covered, percent of {given.pairs}: {' | '.join(['launches', *KINDS])}")
    missed = False
    for launches in LAUNCHES:
        shares = {
            name: covered(launches, luck, given.pairs, scale, rng) for name, luck in KINDS.items()
        }
        missed |= launches >= 5 and min(shares.values()) < 0.94
        print(
            f"| {launches} | {' | '.join(f'{100 * share:.1f}' for share in shares.values())} |",
            flush=True,
        )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The rule of comparison on simulated rounds: how often a run holds a false word, by shape of
noise, and which true ratios it finds.

    bench/claims/rule.py [--runs N] [--seed N] [--rounds N ...] [--looks] [--only WORD]

A run is what plan `quick` measures on one line: nine conditions, in each five forms against their
default and four pairs of identical code, in five launches. Windows are drawn as logarithms, so that
thousands of runs take minutes; claims.py puts whole records through `show`, `advise` and
`compare`."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = next(parent for parent in HERE.parents if (parent / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT), str(HERE)]

import numpy as np  # noqa: E402
from simulated import RECORDED_VM, Noise, noise_of, series  # noqa: E402

from linewright.analysis.comparison import Judgement, holm, judge  # noqa: E402
from linewright.analysis.contrast import Contrast, paired_t_by_rounds  # noqa: E402
from linewright.analysis.control import pool_components  # noqa: E402
from linewright.analysis.looks import at_look  # noqa: E402
from linewright.analysis.questions import QUESTIONS  # noqa: E402

ASKED = QUESTIONS["forms"]
LAUNCHES = 5
LOOKED_AT = 11
LOOKS = (5, 8)
"""Launches of plan `quick`, and those after which it looks."""
MOST_TIME = 3
"""Times as many rounds a launch, at most, as the time of what is decided gives to what is open."""
PLACES = 4
CONDITIONS = tuple((contended, work) for contended in (0, 1, 2) for work in range(3))
OTHERS = ((0, 1), (2, 3), (4, 5), (6, 7), (6, 8))
"""Default and other form among a condition's nine."""
SAME_CODE = ((0, 9), (2, 10), (4, 11), (6, 12))
"""Default and the form with identical code."""
FORMS = 13
PLANTED = (3, 0)
"""Condition and contrast of which a true ratio is planted: the first contended one."""
PLANTED_CELL = (PLANTED[0], OTHERS[PLANTED[1]][1])
RATIOS = (1.15, 1.3, 1.5, 2.0)
PLANT_EVERY = 4
"""One run in this number is repeated with each true ratio, since that takes most of the time."""

SHAPES: Mapping[str, Noise] = {
    "as recorded on a VM with 2 CPUs": RECORDED_VM,
    "the same, windows of a form correlated by 0.5": replace(RECORDED_VM, correlation=0.5),
    "blocks: 3 % between launches": noise_of(0.03),
    "launches: 10 %": noise_of(0.10),
    "launches: 30 %": noise_of(0.30),
    "launches: 10 %, all of it each cell's own": noise_of(0.10, own_share=1.0),
    "launches: 10 %, own share of every third cell three times": noise_of(0.10, unequal=3.0),
    "the same, of a third of the cells drawn anew under each condition": noise_of(
        0.10, unequal=3.0, anew=True
    ),
    "the same, of one cell in thirteen under every condition": noise_of(
        0.10, unequal=3.0, every=13
    ),
    "drift: 2.5 % a launch": noise_of(0.03, drift=0.025),
    "autocorrelation: 0.8 between windows": noise_of(0.03, within=0.05, correlation=0.8),
    "states: contended 1.5 times in half of the launches": noise_of(0.03, states=1.5),
    "placements: 5 %, four in turn": noise_of(0.01, placed=0.05),
}


def windows(
    rng: np.random.Generator, noise: Noise, rounds: int, contended: bool, launches: int
) -> np.ndarray:
    """Logarithms of one situation's windows: form, launch, round; lost ones are no number."""
    scale = noise.contended if contended else 1.0
    x = scale * noise.rounds * series(rng, (1, launches, rounds), noise.rounds_correlation)
    x = x + scale * noise.within * series(rng, (FORMS, launches, rounds), noise.correlation)
    own = np.full(FORMS, noise.own)
    more = rng.random(FORMS) < 1 / noise.every if noise.anew else np.arange(FORMS) % noise.every < 1
    own[more] *= noise.unequal
    luck = own[:, None] * rng.standard_normal((FORMS, launches))
    if contended:
        luck += math.log(noise.states) * rng.integers(0, 2, (FORMS, launches))
    placed = noise.placed * rng.standard_normal((FORMS, PLACES))
    x += (luck + placed[:, np.arange(launches) % PLACES])[..., None]
    x[rng.random(x.shape) < noise.lost] = np.nan
    return x


def _kind(condition: tuple[int, int]) -> tuple[bool, bool]:
    """Contended or alone, and with work, whose figures are of another scale."""
    return condition[0] > 0, condition[1] > 0


class Run:
    """One run, launch after launch: what a look decides is measured no more, and its time goes to
    what is open."""

    def __init__(self, rng: np.random.Generator, noise: Noise, rounds: int, launches: int) -> None:
        self.rounds, self.launches = rounds, launches
        self.places = {str(i): i % PLACES for i in range(launches)} if noise.placed else {}
        most = rounds if launches == LAUNCHES else MOST_TIME * rounds
        self.cells = [windows(rng, noise, most, c[0] > 0, launches) for c in CONDITIONS]
        self.times = 1.0
        self.known: dict[tuple, Contrast | None] = {}
        self.windows: dict[tuple, dict[float, float]] = {}
        self.kept: dict[tuple[int, int], tuple[int, int]] = {}
        """Of a contrast that a look has decided: launches, and rounds of the last of them."""

    def contrasts(self, launches: int, rounds: int) -> list[Contrast | None]:
        """Every contrast over this number of launches, those after the first look with this number
        of rounds."""
        found: list[Contrast | None] = []
        identical: dict[tuple[int, int], list[Contrast]] = {}
        for i, condition in enumerate(CONDITIONS):
            for j, (a, b) in enumerate(OTHERS):
                found.append(self._contrast(i, a, b, *self.kept.get((i, j), (launches, rounds))))
            same = [self._contrast(i, a, b, launches, rounds) for a, b in SAME_CODE]
            identical[condition] = [c for c in same if c]
        conditions = [c for c in CONDITIONS for _ in OTHERS]
        return pool_components(found, conditions, identical, _kind)

    def _contrast(
        self, condition: int, default: int, other: int, launches: int, rounds: int
    ) -> Contrast | None:
        times = self.times if (condition, other) == PLANTED_CELL else 1.0
        key = (condition, default, other, launches, rounds, times)
        if key not in self.known:
            a = self._rounds(condition, default, launches, rounds)
            b = self._rounds(condition, other, launches, rounds, times)
            self.known[key] = paired_t_by_rounds(b, a, places=self.places)
        return self.known[key]

    def _rounds(
        self, condition: int, form: int, launches: int, rounds: int, times: float = 1.0
    ) -> dict[str, dict[float, float]]:
        made = {}
        for n in range(launches):
            count = self.rounds if n < LOOKS[0] else rounds
            key = (condition, form, n, count, times)
            if key not in self.windows:
                own = np.exp(self.cells[condition][form, n, :count]) * times
                self.windows[key] = {i: v for i, v in enumerate(own.tolist()) if v == v}
            made[str(n)] = self.windows[key]
        return made

    def look(self, launches: int, rounds: int) -> int:
        """Judge what is open after this number of launches; the rounds that the others then get."""
        for (place, _), judgement in zip(
            self._places(), self._judgements(self.contrasts(launches, rounds)), strict=True
        ):
            if place not in self.kept and at_look(judgement, ASKED.alpha).answer != "undecided":
                self.kept[place] = (launches, rounds)
        everything = len(CONDITIONS) * len(OTHERS)
        left = max(1, everything - len(self.kept))
        return min(MOST_TIME * self.rounds, self.rounds * everything // left)

    @staticmethod
    def _places() -> list[tuple[tuple[int, int], float]]:
        return [
            ((i, j), ASKED.same.of("issue", condition[0]))
            for i, condition in enumerate(CONDITIONS)
            for j in range(len(OTHERS))
        ]

    def _judgements(self, found: Sequence[Contrast | None]) -> list[Judgement]:
        alpha = ASKED.alpha
        return [
            judge(c, p, alpha=alpha, same=same)
            for c, p, (_, same) in zip(found, holm(found), self._places(), strict=True)
        ]

    def end(self, times: float) -> list[Judgement]:
        """What is said at the end, the other form of `PLANTED` truly costing `times` as much."""
        self.times, self.kept, rounds = times, {}, self.rounds
        for launches in LOOKS if self.launches > LOOKS[-1] else ():
            rounds = self.look(launches, rounds)
        return self._judgements(self.contrasts(self.launches, rounds))


def row(given: argparse.Namespace, noise: Noise, rounds: int, launches: int) -> str:
    """One shape of noise: runs with a false word, true ratios found, equals called the same, and
    how often a cost at the very tolerance is, which one in forty may."""
    planted = math.ceil(given.runs / PLANT_EVERY)
    place = PLANTED[0] * len(OTHERS) + PLANTED[1]
    false, same, answers = 0, 0, 0
    seen = dict.fromkeys((*RATIOS, 1 + ASKED.same.contended), 0)
    for number in range(given.runs):
        rng = np.random.default_rng([given.seed, rounds, number])
        run = Run(rng, noise, rounds, launches)
        for times in (1.0, *(seen if number % PLANT_EVERY == 0 else ())):
            judgement = run.end(times)
            if times == 1.0:
                false += any(j.differs for j in judgement)
                same += sum(j.answer == "same" for j in judgement)
                answers += len(judgement)
            elif times in RATIOS:
                seen[times] += judgement[place].slower
            else:
                seen[times] += judgement[place].answer == "same"
    shares = "".join(f" {100 * n / planted:.0f} % |" for n in seen.values())
    head, tail = shares.rsplit("|", 2)[0], shares.rsplit("|", 2)[1]
    return f" {false} |{head}| {100 * same / answers:.0f} % |{tail}|"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, nargs="+", default=[7, 28])
    parser.add_argument("--only", default="", help="part of a shape's name")
    parser.add_argument(
        "--looks",
        action="store_true",
        help=f"{LOOKED_AT} launches, of which what is decided after {LOOKS[0]} or {LOOKS[1]} is "
        "measured no more",
    )
    given = parser.parse_args(words)
    launches = LOOKED_AT if given.looks else LAUNCHES
    print(f"| shape of noise, {given.runs} runs of {launches} launches | rounds | false |", end="")
    print("".join(f" {ratio:g} × found |" for ratio in RATIOS), "same | 5 or 10 % as same |")
    print("| --- " * (5 + len(RATIOS)) + "|")
    for name, noise in SHAPES.items():
        for rounds in given.rounds:
            if given.only in name:
                print(f"| {name} | {rounds} |{row(given, noise, rounds, launches)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often verdict, advise and compare claim what is false, and how often they find what is true,
on simulated records.

    bench/claims/claims.py [--runs N] [--seed N] [--only WORD] [--jobs N]

A run is plan `quick` on one line: every form alone and with a second thread, at three work lengths,
in five launches of 28 rounds, whose windows vary and are lost as on a recorded VM with two CPUs.
False claims are counted by run: one wrong sentence makes the run wrong.  The interval is exact
(Clopper-Pearson, 95 %)."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = next(parent for parent in HERE.parents if (parent / "pyproject.toml").exists())
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT), str(HERE)]

import msgspec  # noqa: E402
import numpy as np  # noqa: E402
from scipy import stats  # noqa: E402
from simulated import RECORDED_VM, Noise, cells, noise_of, priced_cells, run  # noqa: E402

from linewright.analysis import findings, summarise  # noqa: E402
from linewright.analysis.questions import ask  # noqa: E402
from linewright.compare import from_files  # noqa: E402
from linewright.compare.changes import compare  # noqa: E402
from linewright.say.document import render_all  # noqa: E402
from linewright.say.machine_document import documents  # noqa: E402

PROMISED = 0.05
"""Share of runs that may hold a false claim."""
FOUND = 0.80
"""Share of true effects that must be found."""

recorded = partial(noise_of, inside=RECORDED_VM)

KINDS: dict[str, Noise] = {
    "blocks: 3 % between launches": recorded(0.03),
    "launches: 10 % between launches": recorded(0.10),
    "launches: 30 % between launches": recorded(0.30),
    "launches: 10 %, all of it each cell's own": recorded(0.10, own_share=1.0),
    "launches: 10 %, every third cell's own share three times as large": recorded(
        0.10, unequal=3.0
    ),
    "drift: 2.5 % a launch": recorded(0.03, drift=0.025),
    "autocorrelation: 0.8 between windows": recorded(0.03, correlation=0.8),
    "states: contended cells 1.5 times slower in half of the launches": recorded(0.03, states=1.5),
}


def equal_costs(plan) -> dict[str, float]:
    """Every form of a point costs the same: whatever is called different is false."""
    return {c.id: (5.0 if c.contender == "none" else 16.0) for c in plan}


def rate(hits: int, runs: int) -> str:
    low, high = stats.binomtest(hits, runs).proportion_ci(0.95, method="exact")
    return (
        f"{hits:3d} of {runs} ({100 * hits / runs:5.1f} %, {100 * low:.1f} to {100 * high:.1f} %)"
    )


# ---- false claims ------------------------------------------------------------------------------


def verdict_is_false(noise: Noise, rng: np.random.Generator, launches: int = 5) -> bool:
    plan = cells("x86_64")
    contexts, records = run(plan, equal_costs(plan), noise, rng, "x86_64", range(launches))
    summaries = summarise(contexts, records)
    compared = [r for f in findings(summaries) for r in f.rows] + ask("operations", summaries)
    return any(c.differs for c in compared)


def metastable_is_false(noise: Noise, rng: np.random.Generator) -> bool:
    plan = [c for c in cells("x86_64") if c.contender == "same_line"]
    contexts, records = run(plan, equal_costs(plan), noise, rng, "x86_64", range(8))
    return any(s.metastable for s in summarise(contexts, records))


def advice_is_false(noise: Noise, rng: np.random.Generator) -> bool:
    """Store form and prefetch are truly 70 % slower where contended, and better alone: no setting
    may be advised."""
    plan = cells("arm64", spacings=(0, 10, 100))
    costs = {
        c.id: (10.0 if "stadd" in c.form else 60.0)
        if c.contender == "none"
        else 68.0
        if "stadd" in c.form
        else 40.0
        for c in plan
    }
    contexts, records = run(plan, costs, noise, rng, "arm64")
    (advice,) = documents(summarise(contexts, records), contexts, "evidence")
    return advice.decision.supported


def state_is_missed(noise: Noise, rng: np.random.Generator, launches: int = 11) -> bool:
    """A prefetch halves the cost alone; contended it costs the same, but twice as much in three of
    ten launches: it may not be advised without saying what so few launches can miss."""
    plan, slow = cells("arm64", works=(0,), spacings=(0,)), rng.random(launches) < 0.3
    costs = {
        c.id: 80.0 if c.contender != "none" else 30.0 if "prfm" in c.form else 60.0 for c in plan
    }
    contexts, records = run(plan, costs, noise, rng, "arm64", range(launches))
    for r in records:
        if slow[r.launch] and r.cell.contender != "none" and "prfm" in r.cell.form:
            r.window_ns[:] = [2 * ns for ns in r.window_ns]
    (advice,) = documents(summarise(contexts, records), contexts, "evidence")
    return advice.decision.supported and "can miss a state" not in advice.decision.sentence.text


def two_runs(noise: Noise, rng: np.random.Generator, in_turns: bool, after: Mapping[str, float]):
    """Both sides of a comparison, five launches each; in turns, a turn's two launches meet the
    machine in one state."""
    plan = cells("x86_64", works=(0, 200), spacings=(0,))
    costs = equal_costs(plan)
    states = rng.normal(0, noise.shared, 5) if in_turns else None
    numbers = (
        ((0, 3, 4, 7, 8), (1, 2, 5, 6, 9)) if in_turns else (range(5), range(5, 10))
    )  # A B B A A B B A A B
    before = run(plan, costs, noise, rng, "x86_64", numbers[0], "a", states)
    changed = {i: ns * after.get(i, 1.0) for i, ns in costs.items()}
    return before, run(plan, changed, noise, rng, "x86_64", numbers[1], "b", states)


def compared(sides):
    before, after = (summarise(contexts, records) for contexts, records in sides)
    return compare(before, [after], sides[0][0] + sides[1][0])[0]


def compare_is_false(noise: Noise, rng: np.random.Generator, in_turns: bool) -> bool:
    return any(c.differs for c in compared(two_runs(noise, rng, in_turns, {})))


def check_fails(noise: Noise, rng: np.random.Generator, in_turns: bool, after: float = 1.0) -> bool:
    """Whether `compare before after --fail-above 5%` leaves with 1; every cell of the second run
    truly costs `after` times as much."""
    cost = {c.id: after for c in cells("x86_64", works=(0, 200), spacings=(0,))}
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        sides = two_runs(noise, rng, in_turns, cost)
        for name, (contexts, records) in zip("ab", sides, strict=True):
            path = Path(folder) / f"{name}.jsonl"
            path.write_bytes(b"\n".join(map(msgspec.json.encode, contexts + records)) + b"\n")
            paths.append(str(path))
        options = from_files.CompareOptions(fail_above=0.05)
        return from_files.compare(paths, options, lambda text: None).failed


def compare_is_false_of_unequal_runs(noise: Noise, rng: np.random.Generator, after: Noise) -> bool:
    """40 launches before and 5 after, whose spreads differ: neither run's spread speaks for the
    other."""
    plan = cells("x86_64", works=(0, 200), spacings=(0,))
    costs = equal_costs(plan)
    before = run(plan, costs, noise, rng, "x86_64", range(40), "a")
    sides = before, run(plan, costs, after, rng, "x86_64", range(40, 45), "b")
    return any(c.differs for c in compared(sides))


def price_is_false(noise: Noise, rng: np.random.Generator) -> bool:
    """Every price is that of the atomic add: one sentence of USE that calls it less is false."""
    plan = cells("x86_64", works=(0,), spacings=(0,)) + priced_cells()
    contexts, records = run(plan, equal_costs(plan), noise, rng, "x86_64")
    (screen,) = documents(summarise(contexts, records), contexts)
    return any("less)" in text for text in render_all(screen.of("uses")))


# ---- power -------------------------------------------------------------------------------------


def verdict_finds(noise: Noise, rng: np.random.Generator, times: float) -> bool:
    """One form of each of three points is slower by a factor: is it found, contended, alone?"""
    plan = cells("x86_64")
    costs = equal_costs(plan)
    planted = next(
        c.id
        for c in plan
        if (c.form, c.contender, c.work_iters) == ("prefetchw_lock_xadd", "same_line", 0)
    )
    costs[planted] *= times
    contexts, records = run(plan, costs, noise, rng, "x86_64")
    rows = (r for f in findings(summarise(contexts, records)) for r in f.rows)
    return any(r.slower for r in rows if r.first.id == planted)


def advice_finds(noise: Noise, rng: np.random.Generator, times: float) -> bool:
    """LDADD costs `times` as much as every other form everywhere: is a setting advised for
    operations without a value?"""
    plan = cells("arm64", works=(0,), spacings=(0,))
    costs = {
        c.id: (16.0 if c.contender == "same_line" else 5.0) * (times if c.form == "ldadd" else 1.0)
        for c in plan
    }
    contexts, records = run(plan, costs, noise, rng, "arm64")
    (advice,) = documents(summarise(contexts, records), contexts, "evidence")
    return advice.decision.supported


def compare_finds(noise: Noise, rng: np.random.Generator, times: float, in_turns: bool) -> bool:
    plan = cells("x86_64", works=(0,), spacings=(0,))
    planted = next(
        c.id
        for c in plan
        if (c.form, c.contender, c.work_iters) == ("prefetchw_lock_xadd", "same_line", 0)
    )
    found = compared(two_runs(noise, rng, in_turns, {planted: times}))
    return next(c for c in found if c.second.id == planted).slower


# ---- report ------------------------------------------------------------------------------------


class Tally:
    """Counts over processes, prints, and remembers what misses its bound."""

    def __init__(self, runs: int, seed: int, only: str, jobs: int) -> None:
        self.runs, self.seed, self.only, self.jobs = runs, seed, only, jobs
        self.missed: list[str] = []

    def of(
        self, what: str, test: Callable[..., bool], *words: object, least: float | None = None
    ) -> None:
        if self.only not in what:
            return
        hits = sum(
            self._answers(
                lambda run: test(words[0], np.random.default_rng([self.seed, run]), *words[1:])
            )
        )
        print(f"  {what:82s} {rate(hits, self.runs)}", flush=True)
        tail = (
            stats.binom.cdf(hits, self.runs, least)
            if least
            else stats.binom.sf(hits - 1, self.runs, PROMISED)
        )
        if tail < 1e-3:
            self.missed.append(what)

    def _answers(self, one: Callable[[int], bool]) -> list[bool]:
        """Every run's answer; a run's luck depends on the seed and its number alone, not on how
        many processes there are."""
        _Forked.one = one
        with multiprocessing.get_context("fork").Pool(self.jobs) as pool:
            return pool.map(_Forked.run, range(self.runs), chunksize=4)


class _Forked:
    """What the processes of a pool inherit: a function that could not be sent to them."""

    one: Callable[[int], bool]

    @classmethod
    def run(cls, number: int) -> bool:
        return bool(cls.one(number))


def _power(tally: Tally) -> None:
    """What must be found, and how often it is."""
    print(f"Power: runs in which it is found (asked for: at least {FOUND:.0%})")
    for times, spread in ((1.5, 0.10), (2.0, 0.30)):
        what, noise = f"{times} times at {spread:.0%} between launches", recorded(spread)
        tally.of(f"verdict finds {what}", verdict_finds, noise, times, least=FOUND)
        tally.of(f"advise uses {what}", advice_finds, noise, times, least=FOUND)
        tally.of(f"compare in turns finds {what}", compare_finds, noise, times, True, least=FOUND)
    quiet = recorded(0.01)
    tally.of(
        "compare, one run after the other, finds 2.9 times at 1 %",
        compare_finds,
        quiet,
        2.9,
        False,
        least=FOUND,
    )
    for in_turns, way in ((False, "one run after the other"), (True, "in turns")):
        what = f"check, {way}, finds 1.5 times at 1.5 %"
        tally.of(what, check_fails, recorded(0.015), in_turns, 1.5, least=FOUND)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="part of a line's text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args(words)
    tally = Tally(given.runs, given.seed, given.only, given.jobs)
    print(f"False claims: runs that hold one, of {given.runs} (promised: at most {PROMISED:.0%})")
    for kind, noise in KINDS.items():
        tally.of(f"verdict, {kind}", verdict_is_false, noise)
        tally.of(f"compare, one run after the other, {kind}", compare_is_false, noise, False)
        tally.of(f"compare, in turns, {kind}", compare_is_false, noise, True)
    checked = KINDS | {"1.5 % between launches": recorded(0.015)}
    for kind, noise in checked.items():
        tally.of(f"check, one run after the other, {kind}", check_fails, noise, False)
        tally.of(f"check, in turns, {kind}", check_fails, noise, True)
    for spread in (0.03, 0.30):
        tally.of(
            f"metastable, eight launches, {spread:.0%} between launches",
            metastable_is_false,
            recorded(spread, 1.0),
        )
    placed = recorded(0.01, placed=0.05)
    tally.of("verdict, eight launches, 5 % between placements of code", verdict_is_false, placed, 8)
    unequal = "compare, one run after the other, 40 launches at 2 % and 5 at 20 %"
    tally.of(unequal, compare_is_false_of_unequal_runs, recorded(0.02), recorded(0.20))
    for kind in (
        "launches: 30 % between launches",
        "states: contended cells 1.5 times slower in half of the launches",
    ):
        tally.of(f"use, {kind}", price_is_false, KINDS[kind])
    for spread in (0.10, 0.20, 0.30):
        tally.of(
            f"advise, a setting 70 % slower contended, {spread:.0%} between launches",
            advice_is_false,
            recorded(spread),
        )
        own = recorded(spread, own_share=1.0)
        tally.of(f"advise, the same, {spread:.0%}, all of it each cell's own", advice_is_false, own)
    what = "advise, a setting twice as slow contended in 3 of 10 launches, of 11"
    for kind, noise in (("quiet", noise_of(0.01)), ("as recorded", RECORDED_VM)):
        tally.of(f"{what}, {kind}", state_is_missed, noise)
    _power(tally)
    for missed in tally.missed:
        print(f"MISSED: {missed}")
    return 1 if tally.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

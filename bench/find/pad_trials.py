#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Is `linewright trial --pad` to be believed? Repeated trials of decoys that padding cannot help,
and of a case that it must.

    pad_trials [--trials N] [--runs N] [--kinds A/B] [--operations N]

Every trial is the command's own: unpadded and padded launches in turns, in random order within each
round, four interim analyses that share an error rate of 5 %. Of a decoy each difference is false;
the case with two counters of false sharing must be found. Rates have exact intervals
(Clopper-Pearson, 95 %). The mean change over trials, with Student's t, shows an effect too small to
be called.

Exit 1 when more decoys are called different than 5 % makes likely, or when the planted case is
found in less than 95 %."""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import subprocess
import sys
import time
from pathlib import Path

from in_tree import ROOT

# isort: split
import numpy as np
from scipy import stats

from linewright.analysis.comparison import ALPHA, Comparison
from linewright.run.place import Place
from linewright.run.process import Interrupts
from linewright.run.programs import find_preload
from linewright.trial import engine, heap_padding
from linewright.trial.runner import Helper, Runs
from linewright.trial.trial_file import Session, TrialSetting

SAME = "counter, the same setting twice"
DECOYS = (SAME, "counter", "fields", "mutex", "told", "apart")
PLANTED = "neighbours"
FOUND = 0.95


HELPER = Helper(Place())


def program() -> Path:
    candidates = (
        ROOT / f"build/{preset}/bench/find/programs/pad_decoys" for preset in ("bench", "native")
    )
    return next(path for path in candidates if path.exists())


def padded_and_not(path: Path) -> list[TrialSetting]:
    """The settings that the command compares."""
    return heap_padding.settings(
        ["make"], str(path), str(find_preload("heap")), os.environ.get("LD_PRELOAD", "")
    )


def session(kind: str, options: argparse.Namespace, path: Path) -> Session:
    """One trial as the command plans it."""
    settings = padded_and_not(path)
    if kind == SAME:
        settings = [settings[0], TrialSetting(name="again", environment=settings[0].environment)]
    return Session(
        linewright_trial=1,
        session=secrets.token_hex(8),
        started_utc="",
        tool_version="",
        command=[str(path), kind.split(",")[0], str(options.operations)],
        metric="wall",
        unit="s",
        higher_is_better=False,
        settings=settings,
        planned_rounds=options.runs,
        precision=0.01,
        warmup_rounds=1,
        seed=secrets.randbits(53),
        **HELPER.about,
    )


def trial(kind: str, options: argparse.Namespace, path: Path, interrupts: Interrupts) -> Comparison:
    about = session(kind, options, path)
    finished = engine.run(about, Runs(HELPER, about.command, "wall", interrupts))
    if finished.interrupted:
        raise KeyboardInterrupt
    return finished.verdict.comparisons[0]


def check_planted(path: Path) -> None:
    """The planted words share a line of 64 bytes until they are padded: a control without its cause
    would prove nothing."""
    unpadded, padded = padded_and_not(path)
    for setting, wanted in ((unpadded, "lines 1\n"), (padded, "lines 2\n")):
        command = [str(path), PLANTED, "1000"]
        done = subprocess.run(
            command,
            env=os.environ | setting.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        if done.stdout != wanted:
            sys.exit(
                f"{PLANTED}, {setting.name}: {done.stdout.strip()!r} instead of {wanted.strip()!r}"
            )


def rate(hits: int, trials: int) -> str:
    low, high = stats.binomtest(hits, trials).proportion_ci(0.95, method="exact")
    return f"{hits} of {trials} (exact 95 % interval {100 * low:.1f} to {100 * high:.1f} %)"


def mean_change(found: list[Comparison]) -> str:
    """Over trials: each trial's estimate is one figure."""
    known = [c.contrast for c in found if not c.obstacle]
    logs = np.log([c.value for c in known])
    if logs.size < 2:
        return "no mean"
    half = stats.t.ppf(0.975, logs.size - 1) * logs.std(ddof=1) / np.sqrt(logs.size)
    middle, low, high = (100 * np.expm1(logs.mean() + d) for d in (0.0, -half, half))
    wide = statistics.median(100 * (c.high - c.low) for c in known)
    return (
        f"mean change {middle:+.2f} % ({low:+.2f} to {high:+.2f}), median width of a trial's "
        f"interval {wide:.1f} points"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=20, help="trials of each kind")
    parser.add_argument("--runs", type=int, default=20, help="rounds of each trial")
    parser.add_argument(
        "--kinds", default="", help="only these, separated by /: " + "/".join((*DECOYS, PLANTED))
    )
    parser.add_argument("--operations", type=int, default=5_000_000, help="of each thread")
    options = parser.parse_args()
    path, wrong, total, found = program(), 0, 0, []
    os.environ.setdefault(
        "LINEWRIGHT_FIND_HEAP_LIBRARY", str(path.parents[3] / "find" / "liblinewright_find_heap.so")
    )
    print(f"{options.trials} trials of {options.runs} rounds each, {options.operations} "
"operations a thread,"
          f" {os.cpu_count()} CPUs,"
          f" load {os.getloadavg()[0]:.1f} at the beginning")  # fmt: skip
    with Interrupts() as interrupts:
        for kind in (*DECOYS, PLANTED):
            if options.kinds and kind not in options.kinds.split("/"):
                continue
            if kind == PLANTED:
                check_planted(path)
            began = time.monotonic()
            answers = [trial(kind, options, path, interrupts) for _ in range(options.trials)]
            better, worse = sum(a.cheaper for a in answers), sum(a.slower for a in answers)
            print(f"{kind:32s} better {better}, worse {worse} of {len(answers)}; "
f"{mean_change(answers)};"
                  f" {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
            if kind == PLANTED:
                found = [a.cheaper for a in answers]
            else:
                wrong, total = wrong + better + worse, total + len(answers)
    print(f"load {os.getloadavg()[0]:.1f} at the end")
    if total:
        print(f"decoys called different: {rate(wrong, total)}; {100 * ALPHA:.0f} % are promised")
    if found:
        print(f"planted false sharing found: {rate(sum(map(bool, found)), len(found))}")
    too_many = total and stats.binom.sf(wrong - 1, total, ALPHA) < 1e-3
    return int(bool(too_many) or (bool(found) and sum(map(bool, found)) < FOUND * len(found)))


if __name__ == "__main__":
    sys.exit(main())

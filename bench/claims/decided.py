#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a minute decides on this machine, and what of it is false.

    bench/claims/decided.py [--long 60m] [--budgets 60s 5m] [--runs 3] [--pairs 20] [--keep FOLDER]

A long run says what is true: which comparisons differ by more than 10 %, and which are the same.
Runs of each budget are held against it: the share of these that they decide, what they contradict,
and their widest interval. Then the same command is compared with itself, in turns
(same_machine.py), as many times as `--pairs` says. With the defaults this takes two hours of an
idle machine. Runs that FOLDER (results/decided) already holds are not measured again, so that an
interrupted command goes on where it was. A quarter of an hour takes

    LINEWRIGHT_BUDGET=2s bench/claims/decided.py --long 3m --budgets 60s --runs 1"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = next(
    parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists()
)
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT)]

from linewright.analysis import summarise  # noqa: E402
from linewright.analysis.comparison import Judgement  # noqa: E402
from linewright.analysis.findings import findings  # noqa: E402
from linewright.records import files  # noqa: E402
from linewright.units import duration_s  # noqa: E402

LAUNCH_S = 6
"""Seconds for which a long run has one more launch, as a minute has, up to a hundred."""
FEW_S = 600
"""Runs up to this have the plan's own launches."""
CLEAR = 0.10
"""Relative difference that a minute is asked to find."""

Answers = Mapping[tuple[str, str], tuple[Judgement, float]]
"""By the ids of a form and its default: what is said, and what the default takes, ns."""


def answers(path: Path) -> Answers:
    contexts, records = files.read(str(path), lambda text: None)
    return {
        (r.first.id, f.side.id): (r, f.side.ns.median_ns)
        for f in findings(summarise(contexts, records))
        for r in f.rows
    }


def measured(budget: str, folder: Path, seed: int) -> Answers:
    """A run of plan quick in so much time."""
    seconds = duration_s(budget, "--budgets")
    path = folder / f"{budget}-{seed}.jsonl"
    if path.exists():
        return answers(path)
    words = ["measure", "--budget", budget, "--set", f"seed={seed}", "--format", "none"]
    unfinished = path.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    words += ["--output", str(unfinished)]
    if seconds > FEW_S:
        words += ["--set", f"launches={min(100, round(seconds / LAUNCH_S))}"]
    command = [sys.executable, "-m", "linewright", *words]
    if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit(f"{' '.join(words)} failed")
    unfinished.rename(path)
    return answers(path)


def differs(judgement: Judgement, default_ns: float) -> bool:
    """Whether a comparison is shown to differ by more than `CLEAR`."""
    if not judgement.differs:
        return False
    scale = 1.0 if judgement.contrast.scale == "ratio" else max(default_ns, 1e-9)
    return judgement.contrast.nearest / scale > CLEAR


def line(budget: str, truth: Answers, found: Answers) -> str:
    """Shares of one run, as a row of a table."""
    clear = [key for key, known in truth.items() if key in found and differs(*known)]
    same = [key for key, (j, _) in truth.items() if key in found and j.answer == "same"]
    decided = sum(found[key][0].differs for key in clear)
    alike = sum(found[key][0].answer == "same" for key in same)
    wrong = sum(
        found[key][0].answer == "same"
        or (found[key][0].differs and found[key][0].slower != truth[key][0].slower)
        for key in clear
    )
    ratios = [j.contrast for j, _ in found.values() if j.contrast and j.contrast.scale == "ratio"]
    widest = max(ratios, key=lambda c: c.high / c.low, default=None)
    return (
        f"| {budget} | {decided} of {len(clear)} | {alike} of {len(same)} | {wrong} | "
        f"{sum(j.answer == 'undecided' for j, _ in found.values())} of {len(found)} | "
        + (f"{widest.low:.2f} to {widest.high:.2f} |" if widest else "none |")
    )


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", default="60m")
    parser.add_argument("--budgets", nargs="+", default=["60s", "5m"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--keep", type=Path, default=ROOT / "results" / "decided")
    given = parser.parse_args(words)
    given.keep.mkdir(parents=True, exist_ok=True)
    truth = measured(given.long, given.keep, 1)
    print("| budget | clear differences decided | equals called the same | contradicted", end="")
    print(" | undecided | widest interval of a ratio |\n| --- | --- | --- | --- | --- | --- |")
    print(line(given.long, truth, truth), flush=True)
    for budget in given.budgets:
        for run in range(given.runs):
            found = measured(budget, given.keep, 2 + run)
            print(line(budget, truth, found), flush=True)
    if given.pairs == 0:
        return 0
    same_machine = Path(__file__).resolve().with_name("same_machine.py")
    program = same_machine if same_machine.exists() else same_machine.with_suffix("")
    environment = os.environ | {"LINEWRIGHT_PAIRS": str(given.pairs)}
    return subprocess.run([sys.executable, program], env=environment, check=False).returncode


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    built = (ROOT / "build" / name / "probe" / "linewright-probe" for name in ("bench", "native"))
    if probe := next((path for path in built if path.exists()), None):
        os.environ.setdefault("LINEWRIGHT_PROBE", str(probe))
    sys.exit(main(sys.argv[1:]))

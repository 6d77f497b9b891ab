#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does the guard for builds hold? It must be green for an unchanged program and red for a planted
line.

    guard [--runs N] [--seconds S]      under --exact: planted programs give the same lines each run
    guard --sampled [--runs N] [--lines L ...] [--enough SAMPLES]
                                        sampled: unchanged and planted runs in turn against one
                                        baseline of a longer run, with few and many lines; first
                                        how long they have to be. taskset -c 0 for one CPU"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from in_tree import ENVIRONMENT, FIND, ROOT

# isort: split
from linewright.find import guard, line_words, results
from support.finding import PLANTED, SAMPLER

KINDS = ("true", "false", "false_plain", "reader_writer", "mutex", "own_lock", "private", "tls")


class Case(NamedTuple):
    """The number of a program's shared lines, and what is planted."""

    lines: int
    every: int
    """Rounds of which one uses the planted line, too."""

    def run(self, program: str, rounds: int) -> list[str]:
        return ["--", program, str(rounds), str(self.lines)]


SAMPLED = (Case(3, 4), Case(28, 28), Case(29, 36), Case(200, 25))
"""The planted line is used three quarters as often as another, as often, the least of thirty, and
eight times as often as each of 200."""
LONGER = 4
"""Times that the baseline's run is as long as the others."""
ENOUGH = 1_300
"""Samples of each of four unchanged runs that are as long as those that are counted: a third more
than the guard asks for, since their number wavers. Beside other load it wavers more."""
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def lines(kind: str, seconds: float, file: str) -> set[tuple[str, str]]:
    """Kind and name of every line of one run."""
    command = [*FIND, "--exact", "-o", file, "--", str(PLANTED), kind, "2", str(seconds)]
    subprocess.run(command, env=ENVIRONMENT, check=True, **QUIET)
    return {tuple(hot.identity) for hot in guard.travelling(results.read(file))}


def exact(runs: int, seconds: float, folder: str) -> int:
    """Runs that had other lines than the first."""
    unlike = 0
    for kind in KINDS:
        seen = [lines(kind, seconds, f"{folder}/a.json") for _ in range(runs)]
        same = sum(one == seen[0] for one in seen)
        unlike += runs - same
        print(f"{kind}: the same lines in {same} of {runs} runs", flush=True)
        for one in seen:
            if one != seen[0]:
                print(f"  {sorted(one ^ seen[0])}", flush=True)
    return unlike


def samples(case: Case, program: str, rounds: int, file: str) -> int:
    """Those of an unchanged run, whose result is written to `file`."""
    command = [*FIND, "-o", file, *case.run(program, rounds)]
    subprocess.run(command, env=ENVIRONMENT, check=True, **QUIET)
    return results.read(file).samples


def length(case: Case, enough: int, program: str, file: str) -> int:
    """Rounds of an unchanged run that give enough samples here and now."""
    rounds, good = 100_000_000, 0
    while good < 4:
        part = samples(case, program, rounds, file) / enough
        good = good + 1 if part >= 1 else 0
        if part < 1:
            rounds = int(rounds * min(2, max(1.1, 1.15 / max(part, 0.1))))
    return rounds


def sampled(cases: list[Case], runs: int, enough: int, folder: str) -> int:
    """Runs in which the guard said something else than is so."""
    program, now = f"{folder}/program", f"{folder}/now.json"
    source = ROOT / "bench/find/shared_counters.c"
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", program, source], check=True)
    rounds = {case: length(case, enough, program, now) for case in cases}
    for case in cases:
        found = samples(case, program, LONGER * rounds[case], f"{folder}/{case.lines}.json")
        print(f"{case.lines} lines: {rounds[case]} rounds; baseline of {found} samples", flush=True)
    codes: Counter[tuple[Case, bool, int]] = Counter()
    for number in range(1, runs + 1):
        for case, planted in itertools.product(cases, (False, True)):
            guarding = ["--baseline", f"{folder}/{case.lines}.json", "--fail-new", "-o", now]
            more = {"EVERY": str(case.every)} if planted else {}
            command = [*FIND, *guarding, *case.run(program, rounds[case])]
            done = subprocess.run(command, env=ENVIRONMENT | more, check=False, capture_output=True)
            codes[case, planted, done.returncode] += 1
            if done.returncode != planted:
                said = done.stderr.decode(errors="replace").strip()
                print(f"  {case}, planted {planted}: {done.returncode} {said}", flush=True)
                if Path(now).exists():
                    print(f"    {line_words.guard_text(results.read(now))}", flush=True)
            Path(now).unlink(missing_ok=True)
        for case in cases if number % 10 == 0 or number == runs else ():
            green, red = codes[case, False, 0], codes[case, True, 1]
            short = codes[case, False, 3], codes[case, True, 3]
            print(
                f"{case.lines} shared lines: green in {green} of {number} unchanged, red in {red} "
                f"of {number} with one more; cannot tell in {short[0]} and {short[1]}",
                flush=True,
            )
    return sum(n for (_, planted, code), n in codes.items() if code not in (planted, 3))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--sampled", action="store_true")
    parser.add_argument("--enough", type=int, default=ENOUGH, metavar="SAMPLES")
    known = [case.lines for case in SAMPLED]
    parser.add_argument("--lines", type=int, nargs="+", choices=known, default=known)
    options = parser.parse_args()
    if not (PLANTED.exists() and SAMPLER.exists()):
        print("not run: the planted programs are the tests'")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if options.sampled:
            cases = [case for case in SAMPLED if case.lines in options.lines]
            return int(sampled(cases, options.runs, options.enough, folder) > 0)
        return int(exact(options.runs, options.seconds, folder) > 0)


if __name__ == "__main__":
    sys.exit(main())

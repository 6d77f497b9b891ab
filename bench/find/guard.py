#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does `find --exact` give the same lines in every run? Runs planted programs again and again
against the result of their first run, and counts the runs in which a line is new or missing.

    guard [--runs N] [--seconds S]"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile

from in_tree import ENVIRONMENT, FIND

# isort: split
from linewright.find import guard, results
from support.finding import PLANTED, SAMPLER

KINDS = ("true", "false", "false_plain", "reader_writer", "mutex", "own_lock", "private", "tls")


def lines(kind: str, seconds: float, file: str) -> set[tuple[str, str]]:
    """Kind and name of every line of one run."""
    command = [*FIND, "--exact", "-o", file, "--", str(PLANTED), kind, "2", str(seconds)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, env=ENVIRONMENT, check=True, **quiet)
    return {tuple(hot.identity) for hot in guard.travelling(results.read(file))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    if not (PLANTED.exists() and SAMPLER.exists()):
        print("not run: the planted programs are the tests'")
        return 0
    unlike = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            seen = [lines(kind, options.seconds, f"{folder}/a.json") for _ in range(options.runs)]
            same = sum(one == seen[0] for one in seen)
            unlike += options.runs - same
            print(f"{kind}: the same lines in {same} of {options.runs} runs", flush=True)
            for one in seen:
                if one != seen[0]:
                    print(f"  {sorted(one ^ seen[0])}", flush=True)
    return int(unlike > 0)


if __name__ == "__main__":
    sys.exit(main())

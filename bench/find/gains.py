#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What an end of the sharing brings against what `linewright find` says of it: planted programs
with their lines shared and, with APART=1, separated. The table is Markdown.

    gains [--repeats N] [--seconds S] [--prices FILE]"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

from in_tree import ENVIRONMENT, FIND

# isort: split
from support.find_results import worded
from support.finding import PLANTED, SAMPLER, SHARING

KINDS = ("true", "false", "scattered", "false_plain", "fenced", "sums")


def cost_ns(kind: str, seconds: float, apart: bool) -> float:
    """CPU time of an operation."""
    more = {"APART": "1"} if apart else {}
    command = [PLANTED, kind, "2", str(seconds)]
    done = subprocess.run(command, env=ENVIRONMENT | more, stderr=subprocess.PIPE, text=True)
    return float(done.stderr.split()[0])


def said(kind: str, options: argparse.Namespace) -> dict | None:
    """The planted line's ceiling."""
    command = [*FIND, "--json", *(["--prices", options.prices] if options.prices else [])]
    command += ["--", str(PLANTED), kind, "2", str(options.seconds)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=True)
    lines = worded(done.stdout)["lines"]
    return next((line for line in lines if SHARING[kind][0] in line["object"]), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--prices")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not (PLANTED.exists() and SAMPLER.exists()):
        print("not run: the planted programs are the tests'")
        return 0
    print(
        "| planted | shared, ns | apart, ns | gained | said, at least to at most |\n" + "| --- " * 5
    )
    for kind in KINDS if not options.only else [options.only]:
        rounds = range(options.repeats)
        costs = [[cost_ns(kind, options.seconds, apart) for apart in (False, True)] for _ in rounds]
        shared, apart = (statistics.median(column) for column in zip(*costs, strict=True))
        line = said(kind, options)
        found = line["ceiling"] if line else None
        gain = found and f"{100 * found['gain']['low']:.0f} to {100 * found['gain']['high']:.0f} %"
        answer = gain or (line and f"{line['kind']}, no ceiling") or "not found"
        gained = f"{100 * (1 - apart / shared):.0f} %"
        print(f"| `{kind}` | {shared:.2f} | {apart:.2f} | {gained} | {answer} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

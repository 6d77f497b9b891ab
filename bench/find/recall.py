#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How much of what is planted does `linewright find` report, and how much of what it reports is
planted? Counts with exact intervals.

    recall [--repeats N] [--seconds S] [--threads N] [--sources timer,signal,exact] [--only WORD]

Recall: runs in which the planted line is named and its kind is right. Precision: reported lines
that are planted, among all that are reported; in the controls nothing may be, and lines that many
threads use and no two CPUs at a time (`--only staying`) must not be said to move. The table is
Markdown, as docs/guide/find.md has it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter

from in_tree import ENVIRONMENT, FIND

# isort: split
from scipy import stats

from support.find_results import worded
from support.finding import CONTROLS, PLANTED, SAMPLER, SHARING, STAYING

BESIDE = {
    "pool": ("heap block", "heap memory", "anonymous memory", "jobs"),
    "mutex": ("planted_",),
    "std_mutex": ("planted_",),
}
"""Lines that a kind shares truly besides the named one: the queue's own memory, the neighbours of a
lock."""


def reported(source: str, kind: str, options: argparse.Namespace) -> list[tuple[str, str]]:
    """Object and kind of every line that one run reports as travelling; of those that stay by
    design the ones that it says move."""
    before = [str(PLANTED.with_name("find_deny_perf"))] if source == "signal" else []
    more = ["--exact"] if source == "exact" else []
    seconds = (
        options.seconds if source != "signal" else 2 * options.seconds
    )  # it has a quarter of the samples
    command = [
        *before,
        *FIND,
        "--json",
        *more,
        "--",
        str(PLANTED),
        kind,
        str(options.threads),
        str(seconds),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=ENVIRONMENT, check=True)
    lines = worded(done.stdout)["lines"]
    lines = [line for line in lines if line["kind"] in ("true", "false")]
    if kind in STAYING:
        lines = [line for line in lines if STAYING[kind] in line["object"]
                 and line["movement"]["answer"] == "moves"]  # fmt: skip
    return [(line["object"], line["kind"]) for line in lines]


def _names(name: str) -> tuple[str, ...]:
    """What a line may be called: under emulation nothing tells the heap from other memory."""
    return (name, "anonymous memory") if name == "heap block" else (name,)


class Counts:
    """Of one source: found of planted, right of reported."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        self.reported = self.right = 0
        self.wrong: Counter[str] = Counter()

    def take(self, kind: str, lines: list[tuple[str, str]]) -> None:
        name, wanted = SHARING.get(kind, ("", ""))
        hits = [
            said
            for said in lines
            if name and any(n in said[0] for n in _names(name)) and said[1] == wanted
        ]
        beside = [
            said
            for said in lines
            if said not in hits and any(b in said[0] for b in BESIDE.get(kind, ()))
        ]
        self.runs[kind] += 1
        self.found[kind] += bool(hits) if name else not lines
        self.reported += len(lines)
        self.right += len(hits) + len(beside)
        for said in lines:
            if said not in hits and said not in beside:
                self.wrong[f"{kind}: {said[0]} ({said[1]})"] += 1


def rate(hits: int, runs: int) -> str:
    low, high = stats.binomtest(hits, runs).proportion_ci(0.95, method="exact")
    return f"{hits} of {runs} ({100 * low:.0f} to {100 * high:.0f} %)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sources", default="timer,signal,exact")
    parser.add_argument("--only", default="", help="kinds or groups that hold this word")
    options = parser.parse_args()
    if not (PLANTED.exists() and SAMPLER.exists()):
        print(
            "not run: the planted programs are the tests' (cmake --preset native "
            "-DLINEWRIGHT_TESTS=ON)"
        )
        return 0
    sources = options.sources.split(",")
    counts = {source: Counts() for source in sources}
    groups = {"shared": SHARING, "unshared": CONTROLS, "staying": STAYING}
    kinds = [k for group, some in groups.items() for k in some if options.only == group
             or options.only in k]  # fmt: skip
    print(f"| planted | {' | '.join(sources)} |\n| --- |{' --- |' * len(sources)}")
    for kind in kinds:
        for source in sources:
            for _ in range(options.repeats):
                counts[source].take(kind, reported(source, kind, options))
        cells = [f"{counts[s].found[kind]} of {counts[s].runs[kind]}" for s in sources]
        print(
            f"| {kind if kind in SHARING else kind + ' (nothing)'} | {' | '.join(cells)} |",
            flush=True,
        )
    for title, members in (
        ("recall", SHARING),
        ("controls without a report", CONTROLS),
        ("staying, not called moving", STAYING),
    ):
        some = [k for k in kinds if k in members]
        if some:
            cells = [
                rate(sum(counts[s].found[k] for k in some), sum(counts[s].runs[k] for k in some))
                for s in sources
            ]
            print(f"| **{title}** | {' | '.join(cells)} |")
    print(
        "| **precision** |"
        " "
        + " | ".join(
            rate(c.right, c.reported) if c.reported else "nothing reported" for c in counts.values()
        )
        + " |"
    )
    for source, found in counts.items():
        for said, number in found.wrong.most_common():
            print(f"{source}: {number} times reported and not planted: {said}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

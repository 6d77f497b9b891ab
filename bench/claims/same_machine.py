#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A/A on this machine: the same command on both sides of a comparison, in turns, again and again;
what is called different?

LINEWRIGHT_PAIRS comparisons (10), five turns each, LINEWRIGHT_BUDGET a launch (8s).  Every
difference is false, since both sides are one program; a run that holds one counts.  Exit 1 when
more runs do than the promised 5 % makes likely."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = next(
    parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists()
)
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])
sys.path[:0] = [str(ROOT)]

from scipy import stats  # noqa: E402

from linewright.compare import in_turns  # noqa: E402
from linewright.compare.compared_files import outcome  # noqa: E402
from linewright.compare.from_files import CompareOptions, compare  # noqa: E402

PAIRS = int(os.environ.get("LINEWRIGHT_PAIRS", "10"))
BUDGET = os.environ.get("LINEWRIGHT_BUDGET", "8s")
TURNS = 5
PROMISED = 0.05


def pair(number: int) -> Counter[str]:
    """How many cells of one comparison got each answer."""
    seed = 2 * number
    measure = [
        "measure",
        "--set",
        "launches=1",
        "--budget",
        BUDGET,
        "--set",
        f"seed={seed}",
        "--output",
        in_turns.OUTPUT,
    ]
    command = [sys.executable, "-m", "linewright", *measure]
    with tempfile.TemporaryDirectory() as folder:
        files = in_turns.measure([command, command], Path(folder), TURNS, lambda text: None)
        found = compare(files, CompareOptions(), lambda text: print(text, file=sys.stderr))
    for row in found.rows:
        if row.differs:
            print(
                f"  pair {number + 1}: {row.second.id}: {row.answer}, "
                f"{row.second.ns.median_ns:.4g} and {row.first.ns.median_ns:.4g} ns, p {row.p:.2g}"
            )
    return Counter(map(outcome, found.rows))


def main() -> int:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(
        "the same command on both sides: "
        f"{shlex.join(['linewright', 'measure', '--budget', BUDGET])}, {TURNS} turns"
    )
    answers = [pair(number) for number in range(PAIRS)]
    wrong = sum(bool(a["slower"] + a["cheaper"]) for a in answers)
    total = sum(answers, Counter())
    compared = total["slower"] + total["cheaper"] + total["same"] + total["undecided"]
    low, high = stats.binomtest(wrong, PAIRS).proportion_ci(0.95, method="exact")
    print(
        f"{wrong} of {PAIRS} comparisons hold a false difference (exact 95 % interval {low:.1%} "
        f"to {high:.1%});"
        f" of {compared} cells {total['slower'] + total['cheaper']} were called different, "
        f"{total['same']} the same,"
        f" {total['undecided']} undecided"
    )
    return int(stats.binom.sf(wrong - 1, PAIRS, PROMISED) < 1e-3)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    os.environ.setdefault(
        "LINEWRIGHT_PROBE", str(ROOT / "build" / "bench" / "probe" / "linewright-probe")
    )
    sys.exit(main())

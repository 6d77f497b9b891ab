#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What is left when `linewright find` is killed? Kills the command or the sampler by SIGKILL at
random moments, with a program that was started or joined, and counts what went wrong.

    kills [--moments N] [--seed N] [--at-once N]

A joined program must go on as if nothing had happened; a started one must end within five
minutes, however loaded the machine, whichever of the two was killed; no process, file or folder
may stay."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from in_tree import ENVIRONMENT, FIND, children

# isort: split
from support.finding import PLANTED, SAMPLER

LONGEST_S = 4.0
"""Moments lie between 0 and this; a command needs a second or more to its first sample."""
PATIENCE_S = 300.0


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: set[int]) -> bool:
    """Whether all of them end within the patience."""
    end = time.monotonic() + PATIENCE_S
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def one(joined: bool, victim: str, options: list[str], moment: float, folder: str) -> str:
    """What went wrong in one run, or nothing."""
    program = [str(PLANTED), "true", "1", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    target = subprocess.Popen(program, **quiet) if joined else None
    asked = ["--pid", str(target.pid)] if joined else [*options, "--", *program]
    find = subprocess.Popen([*FIND, *asked], env=ENVIRONMENT | {"TMPDIR": folder}, **quiet)
    time.sleep(moment)
    samplers = {pid for pid, name in children(find.pid).items() if name == "linewright-find"}
    started = {pid for sampler in samplers for pid in children(sampler)}
    for pid in samplers if victim == "sampler" else {find.pid}:
        os.kill(pid, signal.SIGKILL)
    if victim == "sampler" and not samplers:
        os.kill(find.pid, signal.SIGKILL)  # it had not come so far
    find.wait()
    wrong = "" if gone(samplers | started) else "a process stayed"
    if target is not None:
        try:
            code = target.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            target.kill()
            code = "none"
        wrong = wrong or ("" if code == 0 else f"the joined program ended with {code}")
    return wrong or ("files stayed" if os.listdir(folder) else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=4)
    options = parser.parse_args()
    if not (PLANTED.exists() and SAMPLER.exists()):
        print("not run: the planted programs are the tests'")
        return 0
    chance = random.Random(options.seed)
    ways = [(joined, victim, more) for joined in (False, True) for victim in ("command", "sampler")
            for more in ([], ["--heap"]) if not (joined and more)]  # fmt: skip
    counts: Counter[str] = Counter()
    moments = [chance.uniform(0, LONGEST_S) for _ in range(options.moments)]

    def run(number: int) -> str:
        joined, victim, more = ways[number % len(ways)]
        with tempfile.TemporaryDirectory() as folder:
            wrong = one(joined, victim, more, moments[number], folder)
        if wrong:
            how = "joined" if joined else "started"
            print(f"{number}: {victim} killed, program {how} {' '.join(more)}: {wrong}", flush=True)
        return wrong

    with ThreadPoolExecutor(options.at_once) as pool:
        counts.update(pool.map(run, range(options.moments)))
    print(f"{counts['']} of {options.moments} moments: nothing harmed, nothing left")
    return 0 if counts.total() == counts[""] else 1


if __name__ == "__main__":
    sys.exit(main())

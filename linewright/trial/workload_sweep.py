# SPDX-License-Identifier: MIT
"""Workloads swept over thread counts and settings: the shape of the published table of the kernel's
prefetch option."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from linewright.errors import RunError, UserError, one_line
from linewright.records.bounded import table
from linewright.trial.interim_analysis import TrialVerdict, analyse

SweepKey = tuple[str, int]
"""Program and threads."""


class SweepRun(NamedTuple):
    """One run of one program."""

    program: str
    threads: int
    unit: str
    higher_is_better: bool
    setting: str
    round: int
    value: Annotated[float, Meta(gt=0)]


COLUMNS = SweepRun._fields


class SweepPlan(NamedTuple):
    """What a sweep runs. `settings` has the value of LINEWRIGHT_ATOMICS by the setting's name."""

    programs: Sequence[str]
    threads: Sequence[int]
    settings: dict[str, str]
    rounds: int
    duration: str
    seed: int = 1


def run(
    asked: SweepPlan, workload: Path, show: Callable[[int, int], None] = lambda done, of: None
) -> list[SweepRun]:
    """Run every program at every number of threads under every setting, once a round, each round in
    an order of its own. Within a round the runs are given in the order of the settings: the first
    of them is the baseline, whichever ran first."""
    chance = random.Random(asked.seed)
    every = list(itertools.product(asked.programs, asked.threads, asked.settings))
    samples: list[SweepRun] = []
    for number in range(asked.rounds):
        chance.shuffle(every)
        for program, threads, name in every:
            samples.append(_sample(asked, workload, program, threads, name, number))
            show(len(samples), asked.rounds * len(every))
    place = {name: number for number, name in enumerate(asked.settings)}
    return sorted(samples, key=lambda s: (s.round, place[s.setting]))


def _sample(
    asked: SweepPlan, workload: Path, program: str, threads: int, name: str, number: int
) -> SweepRun:
    words = [program, "--threads", str(threads), "--duration", asked.duration, "--json"]
    words += ["--seed", str(number + 1)]
    done = subprocess.run(
        [workload, *words],
        text=True,
        capture_output=True,
        env=os.environ | {"LINEWRIGHT_ATOMICS": asked.settings[name]},
        check=False,
    )
    if done.returncode == 2:
        said = one_line(done.stderr).removeprefix("linewright: ")
        raise UserError(said, program, "what linewright workload takes")
    if done.returncode:
        raise RunError(f"{program} with {threads} threads: {one_line(done.stderr)}")
    found = json.loads(done.stdout)["figure"]
    better = found["higher_is_better"]
    return SweepRun(program, threads, found["unit"], better, name, number, found["value"])


def written(samples: Iterable[SweepRun], heading: bool = True) -> str:
    """The runs as CSV."""
    out = io.StringIO()
    rows = ((*s[:3], int(s.higher_is_better), *s[4:]) for s in samples)
    csv.writer(out, lineterminator="\n").writerows([COLUMNS, *rows] if heading else rows)
    return out.getvalue()


def read(text: str, where: str) -> list[SweepRun]:
    """The runs of a file that `written` made; UserError names the line that is none."""
    run = lambda *fields: msgspec.convert(fields, SweepRun, strict=False)
    return table(text, COLUMNS, where, "the runs of a sweep", run)


def judgement(samples: Sequence[SweepRun]) -> dict[SweepKey, TrialVerdict]:
    """What may be said of each program at each number of threads: each setting against the
    first."""
    answers = {}
    names = list(dict.fromkeys(s.setting for s in samples))
    for key in dict.fromkeys((s.program, s.threads) for s in samples):
        own = [s for s in samples if (s.program, s.threads) == key]
        runs = {name: {s.round: s.value for s in own if s.setting == name} for name in names}
        rounds = 1 + max(s.round for s in own)
        answers[key] = analyse(runs, rounds, higher_is_better=own[0].higher_is_better)
    return answers

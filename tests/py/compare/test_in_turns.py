# SPDX-License-Identifier: MIT
"""`linewright compare --measure`: two commands run in turns, their launches paired, drift on both
sides alike."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import sys
import time

import pytest

from linewright.analysis import loading
from linewright.compare import in_turns
from linewright.plans.request import LAUNCH
from linewright.records import files as records
from support.places import ROOT

PROGRAM = """
import os, pathlib, sys, time
sys.path[:0] = [{root!r}, {tests!r}]
import msgspec, numpy
from support.analysis_samples import contexts_of, points, together, write
out, factor = pathlib.Path(sys.argv[1]), float(sys.argv[2])
turn = len(list(out.parent.glob("calls-*")))
(out.parent / f"calls-{{turn}}").write_text(os.environ[{launch!r}])
rng = numpy.random.default_rng(turn // 2)
cells = points({{"stadd": 5.0 * factor, "ldadd": 7.0}})
records = together(cells, rng, count=1, prefix=f"{{turn:x}}", drift=0, shared=0.2, own=0.001)
started = f"2026-01-01T00:00:{{turn:02d}}Z"
write(out, [msgspec.structs.replace(c, started_utc=started) for c in contexts_of(records)], records)
"""


@pytest.fixture
def sides(command):
    """Two commands whose true costs differ by `factor` in one of two cells; both see the same luck
    in one turn."""
    program = command.directory / "side.py"
    program.write_text(
        PROGRAM.format(root=str(ROOT), tests=str(ROOT / "tests" / "py"), launch=LAUNCH)
    )

    def make(factor: float) -> list[str]:
        return [
            shlex.join([sys.executable, str(program), "{output}", str(f)]) for f in (1.0, factor)
        ]

    return make


def test_a_small_change_is_found_between_launches_that_differ_by_a_fifth(command, sides):
    answer = command("compare", "--measure", *sides(1.15), "--launches", "6", "--json")
    assert answer.returncode == 1, answer.stderr
    rows = {r["label"]: r["answer"] for r in json.loads(answer.stdout)["rows"]}
    assert rows == {"add stadd": "slower", "fetch_add ldadd": "same"}
    assert "taken in turns" in answer.stdout
    calls = loading.load([str(kept(command, "a.jsonl"))], print)
    begun = sorted(c.started_utc for c in calls.contexts.values())
    assert [int(t[-3:-1]) for t in begun] == [0, 3, 4, 7, 8, 11], (
        "every second turn begins with the other side"
    )


def test_no_change_is_no_change_and_turns_differ_in_the_launch(command, sides):
    answer = command(
        "compare",
        "--measure",
        *sides(1.0),
        "--launches",
        "5",
        "--fail-above",
        "5%",
    )
    assert re.search(r"records are in results/compare-\S+/a.jsonl and", answer.stderr)
    assert answer.returncode == 0 and ": passed" in " ".join(answer.stdout.split())
    asked = [kept(command, f"calls-{call}").read_text() for call in range(10)]
    assert asked == ["0", "0", "1", "1", "2", "2", "3", "3", "4", "4"], "as its two sides do not"
    for side in in_turns.NAMES:
        assert {number for _, number in launches_of(kept(command, side))} == set(range(5))


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["--measure", "true", "true"], ["{output} does not occur in 'true'", "--measure"]),
        (["--measure", "'", "true"], ["cannot be read", "quotation"]),
        (
            ["--measure", "true {output}", "true {output}", "--launches", "3"],
            ["--launches", "5 to 100"],
        ),
        (["a.jsonl", "--measure", "true {output}", "true {output}"], ["contradict"]),
        (["a.jsonl", "b.jsonl", "--launches", "8"], ["--launches and files contradict"]),
    ],
)
def test_wrong_requests_are_one_line(command, words, messages):
    said = command.refused("compare", *words)
    assert all(message in said for message in messages), said


def test_a_command_that_fails_is_named_and_what_is_there_is_kept(command):
    answer = command("compare", "--measure", "false {output}", "true {output}")
    assert answer.returncode == 3 and "false" in answer.stderr and "ended with 1" in answer.stderr
    time.sleep(1)  # the folder is named by the second
    silent = command("compare", "--measure", "true {output}", "true {output}")
    assert silent.returncode == 3 and "wrote no" in silent.stderr


def kept(command, name: str) -> pathlib.Path:
    """The records of one side of the only comparison in a folder."""
    (path,) = command.directory.glob(f"results/compare-*/{name}")
    return path


def launches_of(path) -> list[tuple[str, int]]:
    """(context, launch) of every record of a file."""
    return [(r.context_id, r.launch) for r in records.read(path, print)[1]]


def test_a_measurement_takes_the_number_of_its_turn(command):
    """Placement of code follows it: five launches numbered 0 were five times one placement."""
    command.patch.setenv(LAUNCH, "3")
    words = ["--only", "plain_add", "--set", "launches=1", "-o", "one.jsonl"]
    assert command("measure", *words).returncode == 0
    assert {number for _, number in launches_of(command.directory / "one.jsonl")} == {3}


def test_a_command_with_several_launches_is_refused(command, tmp_path):
    one = f"{sys.executable} -m linewright measure --only plain_add --budget 5s --output {{output}}"
    kept = command("measure", "--only", "plain_add", "-o", "whole.jsonl")
    assert kept.returncode == 0
    copy = f"cp {command.directory / 'whole.jsonl'} {{output}}"
    answer = command("compare", "--measure", copy, one)
    assert answer.returncode == 3 and "more than one launch" in answer.stderr

# SPDX-License-Identifier: MIT
"""`linewright sweep`: thread counts × settings, with intervals."""

from __future__ import annotations

import pytest

from linewright.commands.sweep import PROGRAMS
from linewright.errors import UserError
from linewright.say.document import render_all
from linewright.say.trial_document import sweep_document
from linewright.trial import workload_sweep
from support.places import ROOT

BUILT = ROOT / "build/native/workload/linewright-workload"


def samples(off: float, on: float, rounds: int = 12) -> list[workload_sweep.SweepRun]:
    """Two settings whose runs scatter by a few percent, each round by its own."""
    return [
        workload_sweep.SweepRun(
            "futex-wake", 48, "ms", False, name, number, value * (1 + number % 5 / 50)
        )
        for number in range(rounds)
        for name, value in (("off", off), ("on", on))
    ]


def test_a_planted_difference_is_found_and_none_is_not():
    (found,) = workload_sweep.judgement(samples(0.1, 0.08)).values()
    (c,) = found.comparisons
    assert c.cheaper and c.contrast.low <= 0.8 <= c.contrast.high
    (equal,) = workload_sweep.judgement(samples(0.1, 0.1)).values()
    assert not equal.comparisons[0].differs
    (worse,) = workload_sweep.judgement(samples(0.1, 0.12)).values()
    assert worse.comparisons[0].slower


def test_more_is_better_where_the_unit_is_a_rate():
    rates = [s._replace(unit="operations/s", higher_is_better=True) for s in samples(100, 120)]
    (found,) = workload_sweep.judgement(rates).values()
    assert found.comparisons[0].cheaper


@pytest.mark.parametrize("seed", range(4))
def test_the_first_setting_is_the_baseline_whichever_ran_first(tmp_path, seed: int):
    program = tmp_path / "workload"
    figure = '{"figure": {"unit": "ms", "higher_is_better": false, "value": 1.5}}'
    program.write_text(f"#!/bin/sh\necho '{figure}'\n")
    program.chmod(0o755)
    settings = {"off": "default", "on": "prefetch"}
    asked = workload_sweep.SweepPlan(["futex-wake", "futex-hash"], [1, 2], settings, 3, "1ms", seed)
    (table,) = sweep_document(workload_sweep.run(asked, program)).tables
    assert table.headings[3:] == ["off", "on", "change of on"]


def test_the_table_has_the_published_shape():
    (table,) = sweep_document(samples(0.0907, 0.0761)).tables
    assert table.headings == ["workload", "unit", "threads", "off", "on", "change of on"]
    assert "Of ms lower is better." in render_all(table.notes)
    (row,) = table.rows
    assert row[:3] == ["futex-wake", "ms", "48"] and "better" in row[5]


def test_the_runs_come_back_from_their_file():
    some = samples(0.1, 0.08)
    assert workload_sweep.read(workload_sweep.written(some), "x.csv") == some
    with pytest.raises(UserError, match="line 2 is no row of the runs of a sweep"):
        workload_sweep.read(
            ",".join(workload_sweep.COLUMNS) + "\nfutex-wake,1,ms,0,off,0,-1\n", "x.csv"
        )
    with pytest.raises(UserError, match="not the runs of a sweep"):
        workload_sweep.read("x\n", "x.csv")


def test_one_command_sweeps_all_programs_and_two_boots_meet(command):
    if not BUILT.exists():
        pytest.skip("the native program is not built")
    words = ["sweep", "--set", "threads=1,3", "--set", "duration=20ms", "--set", "runs=2"]
    one = command(*words, "--settings", "off:default", "--output", "boots.csv")
    assert one.returncode == 0, one.stderr
    assert all(f"{program} " in one.stdout for program in PROGRAMS)
    two = command(*words, "--settings", "on:default", "--output", "boots.csv")
    assert two.returncode == 0 and "ran at different times" in two.stderr
    lines = [line.split() for line in two.stdout.splitlines()]
    assert sum(line[2:3] in (["1"], ["3"]) for line in lines) == 10
    kept = workload_sweep.read((command.directory / "boots.csv").read_text(), "boots.csv")
    assert [s.setting for s in kept] == ["off"] * 20 + ["on"] * 20
    again = (*words, "--settings", "on:default", "--output", "boots.csv")
    assert "another name" in command.refused(*again)


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "threads=0"),
        ("--set", "threads=1,1"),
        ("mutex", "mutex"),
        ("--settings", "default//x"),
        ("--settings", "on:"),
        ("--output", "absent/r.csv"),
        ("--set", "runs=0"),
    ],
)
def test_a_wrong_request_is_refused_in_a_line(command, words):
    assert command.refused("sweep", *words)


def test_an_unknown_program_is_refused_by_the_program(command):
    if not BUILT.exists():
        pytest.skip("the native program is not built")
    assert "no workload 'mutex'" in command.refused("sweep", "mutex", "--set", "threads=1")

"""`linewright sweep`: thread counts × settings beside the published table, which is read whole."""

from __future__ import annotations

import pytest

from linewright.errors import UserError
from linewright.records.futex_table import COLUMNS, PROGRAMS, from_table
from linewright.say.sentence import render_all
from linewright.say.trial_document import sweep_document
from linewright.trial import workload_sweep
from support.places import DATA, ROOT

TABLE = DATA / "futex-arm64-server-2025.csv"
HEAD = ",".join(COLUMNS)
BUILT = ROOT / "build/native/workload/linewright-workload"


def test_the_published_table_says_what_was_published():
    rows = from_table(TABLE.read_text(), TABLE.name)
    assert len(rows) == 11 and {program for program, _ in rows} == set(PROGRAMS)
    changes = {
        threads: rows["futex-wake", threads].change for threads in (1, 48, 96, 160, 192, 256)
    }
    published = {1: 4.76, 48: 16.10, 96: 15.62, 160: 16.72, 192: 10.88, 256: 10.82}
    for threads, percent in published.items():
        assert changes[threads] == pytest.approx(-percent / 100, abs=6e-5)
    assert rows["futex-hash", None].change == pytest.approx(-0.0082, abs=5e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a table"),
        ("program,off,on\n", "not a table"),
        (f"{HEAD}\n", "without rows"),
        (f"{HEAD}\nfutex-wake,1,ms,0.1\n", "line 2 is no row"),
        (f"{HEAD}\nmutex,1,ms,0.1,0.2\n", "line 2 is no row"),
        (f"{HEAD}\nfutex-wake,0,ms,0.1,0.2\n", "line 2 is no row"),
        (f"{HEAD}\nfutex-wake,1,s,0.1,0.2\n", "line 2 is no row"),
        (f"{HEAD}\n# x\nfutex-wake,1,ms,0,0.2\n", "line 3 is no row"),
        (f"{HEAD}\nfutex-wake,1,ms,nan,0.2\n", "line 2 is no row"),
        (f"{HEAD}\nfutex-wake,1,ms,1,2\nfutex-wake,1,ms,1,2\n", "twice"),
    ],
)
def test_what_is_no_table_is_refused_by_its_line(text, message):
    with pytest.raises(UserError, match=message):
        from_table(text, "t.csv")


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
    assert found.comparisons[0].better is True
    assert (
        found.comparisons[0].change_percent.low <= -20 <= found.comparisons[0].change_percent.high
    )
    (equal,) = workload_sweep.judgement(samples(0.1, 0.1)).values()
    assert equal.comparisons[0].better is None
    (worse,) = workload_sweep.judgement(samples(0.1, 0.12)).values()
    assert worse.comparisons[0].better is False


def test_more_is_better_where_the_unit_is_a_rate():
    rates = [s._replace(unit="operations/s", higher_is_better=True) for s in samples(100, 120)]
    (found,) = workload_sweep.judgement(rates).values()
    assert found.comparisons[0].better is True


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
    published = from_table(TABLE.read_text(), TABLE.name)
    (table,) = sweep_document(samples(0.0907, 0.0761), published).tables
    assert table.headings[2:5] == ["threads", "off", "on"]
    assert "Of ms lower is better." in render_all(table.notes)
    assert table.headings[-1].endswith("off, on, change")
    (row,) = table.rows
    assert row[:3] == ["futex-wake", "ms", "48"]
    assert "better" in row[5] and row[6] == "0.0907  0.0761  -16.1 %"
    other = [s._replace(threads=2) for s in samples(0.1, 0.1)]
    (table,) = sweep_document(other, published).tables
    assert "published without its number of threads" in table.notes[-1].text
    (table,) = sweep_document(other).tables
    assert len(table.headings) == len(table.rows[0]) == 6


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
    one = command(*words, "--settings", "off:default", "--save", "boots.csv")
    assert one.returncode == 0, one.stderr
    assert all(f"{program} " in one.stdout for program in PROGRAMS)
    two = command(*words, "--settings", "on:default", "--save", "boots.csv", "--beside", TABLE)
    assert two.returncode == 0 and "different boots" in two.stderr
    lines = [line.split() for line in two.stdout.splitlines()]
    assert sum(line[2:3] in (["1"], ["3"]) for line in lines) == 10
    kept = workload_sweep.read((command.directory / "boots.csv").read_text(), "boots.csv")
    assert [s.setting for s in kept] == ["off"] * 20 + ["on"] * 20
    again = (*words, "--settings", "on:default", "--save", "boots.csv")
    assert "another name" in command.refused(*again)


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "threads=0"),
        ("--set", "threads=1,1"),
        ("mutex", "mutex"),
        ("--settings", "default//x"),
        ("--settings", "on:"),
        ("--save", "absent/r.csv"),
        ("--set", "runs=0"),
        ("--beside", "absent.csv"),
    ],
)
def test_a_wrong_request_is_refused_in_a_line(command, words):
    assert command.refused("sweep", *words)


def test_an_unknown_program_is_refused_by_the_program(command):
    if not BUILT.exists():
        pytest.skip("the native program is not built")
    assert "no workload 'mutex'" in command.refused("sweep", "mutex", "--set", "threads=1")

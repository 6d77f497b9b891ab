# SPDX-License-Identifier: MIT
"""Wrong requests get one line that says what, where and what is allowed; exit 2; nothing measured
or written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

CELL = {"operation": "add", "form": "lock_add", "order": "full"}
PLAN = {"linewright_plan": 2, "name": "mine", "cells": [CELL], "budget_s": 10}


def plan_file(directory: Path, **changes: object) -> str:
    path = directory / "plan.json"
    path.write_text(json.dumps(PLAN | changes))
    return str(path)


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (["--plan", "quik"], ["--plan", "'quik'", "allowed: ", "quick"]),
        (["--on", "moon"], ["--on", "'moon'", "allowed: local"]),
        (["--on", "local:1"], ["--on", "local"]),
        (["--format", "xml"], ["--format", "'xml'", "table, plain, csv"]),
        (["--only", "lok_add"], ["--only", "'lok_add'", "lock_add", "same_line"]),
        (["--only", "lock_add", "--only", "w7"], ["--only", "'w7'", "w20"]),
        (["--set", "colour=red"], ["--set", "'colour=red'", "work="]),
        (["--set", "work"], ["--set", "'work'", "work="]),
        (["--set", "work=fast"], ["--set work", "'fast'", "0 to 100000000"]),
        (["--set", "work=1,1"], ["--set work", "'1,1'"]),
        (["--set", "lines=0"], ["--set lines", "'0'", "1 to 4096"]),
        (["--set", "lines=4", "--set", "lines=5"], ["lines given twice"]),
        (["--set", "operations=add,mul"], ["--set operations", "'mul'", "fetch_add"]),
        (["--set", "window_ms=nan"], ["--set window_ms", "'nan'"]),
        (["--set", "operations=xchg"], ["no form of xchg"]),
        (["--set", "cpus=0,99"], ["--set cpus", "CPU 99", "allowed: 0-1"]),
        (["--set", "cpus=0,0"], ["--set cpus", "twice", "0"]),
        (["--set", "cpus=zero"], ["--set cpus", "'zero'", "0,2-4"]),
        (["--set", "cpus=0"], ["2 pinned threads, but 1 CPU", "usable: 0"]),
        (["--set", "threads=3"], ["3 pinned threads, but 2 CPUs", "usable: 0-1"]),
        (["--set", "precision=0"], ["--set precision", "'0'", "at most 50%"]),
        (["--set", "precision=51%"], ["--set precision", "'51%'", "at most 50%"]),
        (["--set", "precision=exact"], ["--set precision", "'exact'"]),
        (["--budget", "0"], ["--budget", "'0'", "above 0"]),
        (["--budget", "-5s"], ["--budget", "'-5s'"]),
        (["--budget", "soon"], ["--budget", "'soon'", "1.5h"]),
        (["--budget", "100ms"], ["--budget 0.1s", "needs at least", "--only"]),
        (["--set", "seed=-1"], ["--set seed"]),
        (["--set", "seed=many"], ["--set seed"]),
        (["--resume", "a", "-o", "b"], ["--resume and --output contradict"]),
        (["-o", "-", "--format", "csv"], ["--output - and --format csv contradict"]),
        (["--resume", "absent.jsonl"], ["absent.jsonl", "No such file"]),
        (["-o", "absent/r.jsonl"], ["--output", "absent/r.jsonl", "no such directory"]),
        (["-o", "/proc/sys/r.jsonl"], ["--output", "cannot write /proc/sys/r.jsonl"]),
        (["-o", "."], ["--output", "cannot write"]),
        (["--frobnicate"], ["--frobnicate", "--help"]),
        (["surplus"], ["surplus"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("-") else None,
)
def test_measure(command, words: list[str], messages: list[str]):
    said = command.refused("measure", *words)
    for message in messages:
        assert message in said, said
    assert os.listdir(command.directory) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["list", "slow"], "'slow'"),
        (["schema", "table"], "allowed: plan, context, record"),
        (["show", "absent.jsonl"], "absent.jsonl: No such file"),
        (["show", "/bin/true"], "/bin/true:1: not a record file"),
        (["show", "/dev/zero"], "/dev/zero:1: line longer than"),
        (["compare", "/dev/zero", "/dev/zero"], "/dev/zero:1: line longer than"),
        (["trial", "--resume", "/dev/zero"], "/dev/zero:1: line longer than"),
        (["trial", "-o", "/dev/zero", "--", "true", "--versus", "--", "true"], "/dev/zero:1: line"),
        (["show"], "RECORDS"),
        (["weigh"], "weigh"),
        (["--wrong"], "--wrong"),
    ],
)
def test_other_commands(command, words: list[str], message: str):
    assert message in command.refused(*words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty file"),
        ("not json", "not JSON"),
        ("[]", "Expected `object`"),
        ("{}", "not a plan"),
        (
            json.dumps(PLAN | {"linewright_plan": 3}),
            "plan of version 3, this program reads version 2",
        ),
        (json.dumps(PLAN | {"budget": 1}), "unknown field `budget`"),
        (json.dumps(PLAN | {"cells": []}), "$.cells"),
        (json.dumps(PLAN | {"cells": [CELL, CELL]}), "cell named twice: add/lock_add"),
        (json.dumps(PLAN | {"cells": [CELL | {"work_iters": -1}]}), "work_iters"),
        (json.dumps(PLAN | {"precision": 0.6}), "precision"),
        (json.dumps(PLAN | {"cpus": [0, 99]}), "CPU 99"),
        (json.dumps(PLAN | {"cpus": [1, 1]}), "CPU named twice"),
        (
            json.dumps(PLAN | {"cells": [CELL | {"threads": 5, "contender": "placebo"}]}),
            "5 pinned threads, but 2 CPUs",
        ),
        (json.dumps(PLAN | {"budget_s": 0.001}), "needs at least"),
    ],
    ids=range(14),
)
def test_plan_file(command, text: str, message: str):
    path = command.directory / "p.json"
    path.write_text(text)
    said = command.refused("measure", "--plan", "p.json", "-o", "r.jsonl")
    assert message in said, said
    assert not (command.directory / "r.jsonl").exists()


def test_plan_file_that_is_missing(command):
    assert "No such file" in command.refused("measure", "--plan", "absent.json")


def test_parameters_belong_to_built_in_plans(command):
    assert "--set" in command.refused(
        "measure", "--plan", plan_file(command.directory), "--set", "work=1"
    )


def test_cpu_that_the_process_may_not_use(command):
    command.fake = {"cpus": [0, 1, 2], "allowed": [0, 2]}
    said = command.refused("measure", "--set", "cpus=0,1")
    assert "CPU 1 may not be used by this process" in said and "allowed: 0,2" in said


def test_an_output_that_exists_is_kept(command):
    (command.directory / "r.jsonl").write_text("precious")
    said = command.refused("measure", "-o", "r.jsonl")
    assert "r.jsonl exists" in said and "remove it" in said and "--resume" in said
    assert (command.directory / "r.jsonl").read_text() == "precious"


def test_a_probe_that_is_missing(command):
    command.probe = Path("/absent")
    said = command.refused("topology")
    assert "LINEWRIGHT_PROBE" in said and "/absent" in said


def test_what_the_probe_refuses_is_the_users_error(command):
    command.fake = {"refuse": "plan.cells[0]: no form called x"}
    assert (
        command.refused("measure", "-o", "r.jsonl")
        == "linewright: plan.cells[0]: no form called x\n"
    )
    assert not (command.directory / "r.jsonl").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "lock_sub"}, "lock_sub"),
        ({"operation": "multiply"}, "multiply"),
        ({"width_bits": 128}, "128"),
        ({"placement": "cpus:0,99", "threads": 2, "contender": "placebo"}, "99"),
        ({"placement": "cpus:0,0", "threads": 2, "contender": "placebo"}, "0"),
        ({"placement": "cpus:0", "threads": 2, "contender": "placebo"}, "1 CPU"),
        ({"params": {"size": 4}}, "parameters"),
    ],
)
def test_what_only_the_real_probe_knows(real, changes: dict, message: str):
    said = real.refused(
        "measure", "--plan", plan_file(real.directory, cells=[CELL | changes]), "-o", "r.jsonl"
    )
    assert message in said


def test_a_cpu_outside_the_affinity_mask(real):
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("one CPU")
    said = real.apart(
        "measure",
        "--set",
        f"cpus={allowed[0]},{allowed[1]}",
        preexec_fn=lambda: os.sched_setaffinity(0, {allowed[0]}),
    )
    assert said.returncode == 2
    assert (
        f"CPU {allowed[1]} may not be used by this process" in said.stderr
        and said.stderr.count("\n") == 1
    )


def test_a_form_that_this_cpu_lacks_is_reported_and_not_executed(command):
    wanted = ("--only", "stadd", "--only", "lock_add")
    assert command("measure", *wanted, "-o", "r.jsonl").returncode == 0
    answer = command("show", "r.jsonl", "--all")
    assert "unavailable: stadd (" in answer.stdout and "this CPU lacks lse" in answer.stdout


@pytest.mark.parametrize(
    "locale", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C"}, {"LANG": "POSIX"}]
)
def test_a_locale_without_our_signs_gets_their_likeness(command, locale: dict[str, str]):
    environment = {
        key: value
        for key, value in command.environment().items()
        if not key.startswith(("LC_", "LANG"))
    }
    for words in (["topology"], ["list"], ["--help"]):
        done = command.apart(*words, env=environment | locale)
        assert done.returncode == 0 and done.stdout.isascii() and "?" not in done.stdout, done
    assert "-     yes" in command.apart("topology", env=environment | locale).stdout

# SPDX-License-Identifier: MIT
"""A command that was printed does what its sentence says: it is executed where it was printed, with
the fake probe, and what it promised is there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from linewright.errors import UserError
from linewright.find.sampled_machine import find_sampler
from linewright.records import files as records
from linewright.run import programs
from linewright.run.programs import (
    find_audit,
    find_preload,
    find_probe,
    find_rwlock,
    find_torture,
    find_workload,
)
from linewright.schema import PROBED, Context, Record
from support import machines
from support.analysis_samples import write
from support.command_lines import follow, go_on
from support.places import ROOT

FEW = ("--only", "lock_*", "--set", "work=0,20")
ROOMS = ("find", "probe", "src", "src/outline", "torture", "workload")
TOO_FEW = "ewer than 5 launches"


def launches_of(path: Path) -> dict[str, set[int]]:
    """The launches of each cell in a file."""
    found: dict[str, set[int]] = {}
    for row in records.read(path, pytest.fail)[1]:
        found.setdefault(row.id, set()).add(row.launch)
    return found


def test_too_few_launches_are_measured_again_with_the_options_of_the_run(command):
    run = command("measure", *FEW, "--budget", "9s", "--set", "launches=3", "-o", "r.jsonl")
    assert "Undecided: " in run.stdout and TOO_FEW in run.stdout
    ((line, (answer, made)),) = follow(command, run.stdout, "launches=").items()
    assert "--budget 15s" in line, "as much time for a launch"
    assert answer.returncode == 0 and TOO_FEW not in answer.stdout, answer.stderr
    before, after = launches_of(command.directory / "r.jsonl"), launches_of(made)
    assert before.keys() == after.keys() and {len(own) for own in after.values()} == {5}


def test_what_a_stopped_run_prints_goes_on_with_it(command):
    """On the screen and in the error line: nothing is left out."""
    command.fake = {"die_after": 4}
    stopped = command("measure", *FEW, "--set", "launches=5", "-o", "my r.jsonl")
    assert stopped.returncode == 3
    file, named = command.directory / "my r.jsonl", command.directory / "r.jsonl"
    named.write_bytes(file.read_bytes())
    command.fake = {}
    ((answer, _),) = follow(command, stopped.stdout, "--resume FILE").values()
    assert answer.returncode == 0 and TOO_FEW not in answer.stdout, answer.stderr
    assert command(*go_on(stopped.stderr)).returncode == 0
    assert launches_of(file) == launches_of(named)
    assert all(own == {0, 1, 2, 3, 4} for own in launches_of(file).values())
    said = command.refused("measure", "-o", "my r.jsonl")
    ((answer, _),) = follow(command, said).values()
    assert answer.returncode == 0 and "nothing left to measure" in answer.stderr


def test_an_allowed_budget_is_taken_and_a_smaller_one_is_not(command):
    plan = ("measure", "--plan", "rmw", "--dry-run", "--budget")
    (least,) = re.findall(r"allowed: (\d+)s or more", command.refused(*plan, "1s"))
    assert command(*plan, f"{least}s").returncode == 0
    assert f"allowed: {least}s or more" in command.refused(*plan, f"{int(least) - 1}s")


def test_the_rounds_that_a_trial_asks_for_are_enough(real):
    words = ("--env", "A=1", "--env", "A=2", "--set", "warmup=0", "--", "true")
    (enough,) = re.findall(r"--runs (\d+) or more", real("trial", "--runs", "2", *words).stderr)
    assert "or more" not in real("trial", "--runs", enough, *words).stderr


def test_a_comparison_says_what_fails_and_what_has_the_rest(command):
    values = machines.records("x86-vm")
    contexts = [value for value in values if isinstance(value, Context)]
    rows = [value for value in values if isinstance(value, Record)]
    slower = [replace(r, window_ns=[2 * ns for ns in r.window_ns]) for r in rows]
    write(command.directory / "r.jsonl", contexts, rows)
    write(command.directory / "few.jsonl", contexts[:2], [r for r in rows if r.launch < 2])
    write(command.directory / "my slower.jsonl", contexts, slower)
    words = ("compare", "--fail-above", "5%", "r.jsonl", "few.jsonl")
    few = command(*words)
    (stricter,) = re.findall(r"(--fail-above \S+,undecided) counts", " ".join(few.stdout.split()))
    assert few.returncode == 0 and command(*words, *stricter.split()).returncode == 1
    screen = command("compare", "r.jsonl", "my slower.jsonl", "--only", "*/none/*", "--unlike")
    ((left_out, rest),) = re.findall(r"(\d+) more \w+: linewright (.*)", screen.stdout)
    whole = command(*shlex.split(rest))
    assert whole.returncode == screen.returncode == 1, whole.stderr
    lines = [len(answer.stdout.splitlines()) for answer in (screen, whole)]
    assert lines[0] + int(left_out) - 1 <= lines[1]


FINDERS = {
    **dict(probe=find_probe, workload=find_workload, torture=find_torture),
    **dict(audit=find_audit, rwlock=find_rwlock, sampler=find_sampler),
    **{part: partial(find_preload, part) for part in ("timer", "heap", "exact")},
}


@pytest.fixture
def checkout(monkeypatch, tmp_path) -> Path:
    """A folder in which the command believes to stand; nothing is built there."""
    monkeypatch.setattr(programs, "__file__", str(tmp_path / "linewright/run/programs.py"))
    for name in [name for name in os.environ if name.startswith("LINEWRIGHT_")]:
        monkeypatch.delenv(name)
    return tmp_path


def missing(name: str, target: str) -> str:
    with pytest.raises(UserError) as refused:
        FINDERS[name](target)
    return str(refused.value)


@pytest.mark.parametrize("target", ["", *PROBED])
def test_what_builds_a_missing_program_names_presets_and_targets_that_there_are(
    checkout, target: str
):
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    built = "".join((ROOT / room / "CMakeLists.txt").read_text() for room in ROOMS)
    targets = re.findall(r"add_(?:executable|library)\((\S+)", built)
    targets += [f"linewright_find_{part}" for part in ("timer", "heap")]
    for name in FINDERS:
        said = missing(name, target)
        assert {*re.findall(r"--preset (\w+)", said)} <= {preset["name"] for preset in presets}
        assert {*re.findall(r"--target ([\w-]+)", said)} <= {*targets}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["", "i386"])
def test_what_builds_a_missing_program_builds_it(checkout, target: str):
    """Executed in a copy of this checkout, as long as something is missing there."""
    if target and shutil.which("g++-12") is None:
        pytest.skip("no g++-12, which the preset names")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, files.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    # With the tests' build as to warnings, whose objects the compiler cache then has.
    asked = ['. scripts/lib.sh; as_native "$1"', "bash", target or "native"]
    same = subprocess.run(["bash", "-c", *asked], cwd=ROOT, capture_output=True, check=True)
    name, value = same.stdout.decode().strip().split("=")
    presets = json.loads((checkout / "CMakePresets.json").read_text())
    presets["configurePresets"][0]["cacheVariables"][name] = value
    (checkout / "CMakePresets.json").write_text(json.dumps(presets))
    ours = {**os.environ, "CCACHE_BASEDIR": str(checkout), "CCACHE_NOHASHDIR": "1"}
    if shutil.which("ccache"):
        ours |= {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX")}
    for name, find in FINDERS.items():
        if (name, target) == ("exact", "i386"):  # `find --exact` refuses 32 bits first
            continue
        try:
            find(target)
        except UserError as refused:
            (line,) = re.findall("build it with `(.*?)`", str(refused))
            done = subprocess.run(line, shell=True, cwd=checkout, env=ours, capture_output=True)
            assert done.returncode == 0, (line, done.stdout[-2000:])
        assert find(target).is_relative_to(checkout)

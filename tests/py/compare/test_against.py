# SPDX-License-Identifier: MIT
"""`linewright measure --against FILE`: in turns where that side can be measured again, and a plain
word where it cannot."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest

from linewright.elf.symbols import without_sections
from linewright.records import files as records
from linewright.run.probe_questions import digest
from support.places import FAKE_PROBE

SMALL = ["--only", "plain_add", "--set", "launches=5"]


@pytest.fixture(scope="module")
def kept() -> dict[str, bytes]:
    """The earlier file, once it is measured."""
    return {}


@pytest.fixture
def old(command, kept) -> Path:
    """An earlier file, with what it says of how it was measured."""
    command.fake = {"clock": True}
    path = command.directory / "old.jsonl"
    if not kept:
        words = ("measure", *SMALL, "--set", "lines=2", "-o", path.name)
        assert command(*words).returncode == 0
        kept[path.name] = path.read_bytes()
    path.write_bytes(kept[path.name])
    return path


def rewritten(path: Path, **changes: object) -> None:
    """The file with other contexts."""
    contexts, rows = records.read(path, print)
    values = [*(msgspec.structs.replace(c, **changes) for c in contexts), *rows]
    path.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in values))


def another_build(command) -> Path:
    """A probe that does the same and is another program."""
    path = command.directory / "other-probe"
    path.write_text(FAKE_PROBE.read_text() + "# built anew\n")
    path.chmod(0o755)
    return path


def against(command, *words: str, old: str = "old.jsonl"):
    return command("measure", *SMALL, "--against", old, "-o", "new.jsonl", *words)


def test_a_file_says_how_it_was_measured(command, old):
    context = records.read(old, print)[0][0]
    assert shlex.split(context.command) == [
        "--only",
        "plain_add",
        "--set",
        "launches=5",
        "--set",
        "lines=2",
    ]
    assert context.program == digest(FAKE_PROBE) and len(context.program) == 16


def test_a_build_in_another_folder_is_the_same_probe(tmp_path):
    """Its debug information differs, which names the folder, and with it the build id."""
    built = {}
    for name, value in (("here", 1), ("there", 1), ("changed", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.c").write_text(f"int main(void) {{ return {value}; }}")
        words = ["cc", "-g", "-O1", "-Wl,--build-id", str(tmp_path / name / "p.c"), "-o", "p"]
        subprocess.run(words, cwd=tmp_path / name, check=True)
        built[name] = tmp_path / name / "p"
    assert built["here"].read_bytes() != built["there"].read_bytes()
    assert digest(built["here"]) == digest(built["there"]) != digest(built["changed"])
    for path in built.values():  # as without a section table, where nothing was told apart
        path.write_bytes(without_sections(path.read_bytes()))
    assert digest(built["here"]) != digest(built["changed"])


def test_other_options_are_measured_again_in_turns(command, old):
    before = old.read_bytes()
    answer = against(command, "--set", "lines=2", "--set", "seed=7", "--json")
    assert answer.returncode == 0, answer.stderr
    assert "is measured again, in turns" in answer.stderr and "of two times" not in answer.stderr
    found = json.loads(answer.stdout)
    assert "taken in turns" in " ".join(found["verdict"]) and found["rows"]
    sides = [
        records.read(command.directory / "new" / name, print) for name in ("a.jsonl", "b.jsonl")
    ]
    assert [sorted({r.launch for r in rows}) for _, rows in sides] == [list(range(5))] * 2
    assert old.read_bytes() == before


def test_the_same_command_is_compared_as_of_two_times_and_says_why(command, old):
    answer = against(command, "--set", "lines=2")
    assert answer.returncode == 0, answer.stderr
    assert "cannot be measured again" in answer.stderr and "as of two times" in answer.stderr
    assert "this very command and probe" in answer.stderr
    assert "can pass for a difference" in " ".join(answer.stdout.split())
    assert (command.directory / "new.jsonl").exists()


def test_a_plan_file_that_has_changed_is_not_measured_in_its_old_ones_name(command, old):
    """It was, and of the same command it was said that only the machine can have changed."""
    file = command.directory / "p.json"
    file.write_text(command("list", "quick", "--json").stdout)
    plan = ("--plan", "p.json")
    assert command("measure", *SMALL, *plan, "-o", "planned.jsonl").returncode == 0
    same = against(command, *plan, old="planned.jsonl")
    assert "this very command and probe" in same.stderr
    file.write_text(file.read_text().replace('"window_ms": 2.0', '"window_ms": 4.0'))
    assert '"window_ms": 4.0' in file.read_text()
    for words in (plan, (*plan, "--set", "seed=7")):
        (command.directory / "new.jsonl").unlink()
        changed = against(command, *words, old="planned.jsonl")
        assert "do not give the plan now by which it was measured" in changed.stderr
        assert "as of two times" in changed.stderr and changed.returncode == 0


def test_another_build_of_the_probe_is_for_compare(command, old):
    command.probe = another_build(command)
    answer = against(command, "--set", "lines=2")
    assert "another build of the probe (`linewright compare --measure`" in answer.stderr
    assert "as of two times" in answer.stderr


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (
            {"machine_id": "00000000000000ff", "kernel": "Linux old"},
            "another machine or kernel (Fake, Linux old)",
        ),
        ({"command": "", "program": ""}, "does not say by which one command"),
        ({"program": "0" * 16}, "another build of the probe"),
        ({"command": "--plan absent.json"}, "its options are not taken now"),
        ({"command": "--plan"}, "its options are not taken now"),
        ({"command": "--output old.jsonl; touch owned"}, "its options are not taken now"),
        ({"command": "--seed x"}, "its options are not taken now"),
    ],
)
def test_what_cannot_be_measured_again_is_said_plainly(command, old, changes, why):
    rewritten(old, **changes)
    answer = against(command, "--set", "lines=2")
    assert answer.returncode == 0 and why in answer.stderr and "as of two times" in answer.stderr, (
        answer.stderr
    )
    assert not (command.directory / "owned").exists()


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (
            ["--against", "old.jsonl", "--resume", "old.jsonl"],
            ["--against and --resume contradict"],
        ),
        (["--against", "old.jsonl", "-o", "-"], ["--against and --output - contradict"]),
        (["--against", "absent.jsonl"], ["absent.jsonl", "No such file"]),
        (["--against", "old.jsonl", "--only", "lock_add"], ["no cell in common with plan quick"]),
        (["--set", "launch=1001"], ["--set launch"]),
    ],
)
def test_wrong_requests_are_one_line(command, old, words, messages):
    said = command.refused("measure", *words)
    assert all(message in said for message in messages), said


def test_a_refused_budget_is_the_one_that_was_given(command, old):
    answer = against(command, "--set", "lines=2", "--budget", "1s")
    assert answer.returncode == 2
    assert "--budget 1s: plan quick needs at least" in answer.stderr


def test_a_difference_ends_with_one(command, old):
    rows = records.read(old, print)[1]
    contexts = records.read(old, print)[0]
    slower = [msgspec.structs.replace(r, window_ns=[2 * ns for ns in r.window_ns]) for r in rows]
    old.write_bytes(b"".join(msgspec.json.encode(value) + b"\n" for value in [*contexts, *slower]))
    assert against(command, "--set", "lines=2").returncode == 1


def test_one_launch_by_its_number(command):
    assert command("measure", *SMALL, "--set", "launch=3", "-o", "one.jsonl").returncode == 0
    contexts, rows = records.read(command.directory / "one.jsonl", print)
    assert {c.launch for c in contexts} == {r.launch for r in rows} == {3} and len(contexts) == 1

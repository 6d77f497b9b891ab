# SPDX-License-Identifier: MIT
"""Many machines at once, faked by servers on loopback: bounded, resumable, grouped by behaviour."""

from __future__ import annotations

import json
import math
import re
import signal

import numpy as np
import pytest

from linewright.errors import UserError
from linewright.fleet import fleet_run, groups, hosts
from support import waiting
from support.command_lines import go_on
from support.sshd import knobs

FEW = ["--only", "lock_add", "--only", "plain_add", "--set", "launches=2", "--budget", "20s"]
MANY = ["measure", "--on", "@hosts.txt", *FEW]
ALONE = (("add", "lock_add", 64, "none", False),)


def write_hosts(command, *lines: str) -> None:
    (command.directory / "hosts.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_machines_are_grouped_by_behaviour(over, start):
    for number in range(3):
        start(f"fast{number}", **knobs(machine_id=f"{number:016x}"))
    start("slow", **knobs(machine_id=f"{9:016x}", ns={"lock_add": 15.0}))
    write_hosts(
        over, "# two racks", "fast0", "fast1  # with a remark", "", "ssh://fast2", "slow", "slow:1"
    )
    answer = over(*MANY, "-o", "fleet")
    assert answer.returncode == 3, answer.stderr
    said = " ".join(answer.stdout.split())
    assert said.startswith("4 machines, 2 groups: ") and "B, 1 machine: slow (" in said
    assert "A, 3 machines: fast0, fast1, fast2 (" in said
    assert "3.0 times slower than A: add by lock_add" in said and "plain_add" not in said
    assert "Not measured" in said and "ssh://slow:1 ssh:slow:1: " in said
    assert (
        "1 of 5 machines failed" in answer.stderr
        and "continue with linewright measure --resume fleet --on @hosts.txt --budget 20s"
        in answer.stderr
    )
    text = (over.directory / "fleet/fleet.html").read_text()
    assert "4 machines in 2 groups" in text and "ssh://slow:1" in text and "<script" not in text
    files = {
        path.name: path.stat().st_mtime_ns for path in (over.directory / "fleet").glob("*.jsonl")
    }
    assert set(files) == {"fast0.jsonl", "fast1.jsonl", "fast2.jsonl", "slow.jsonl"}
    # Again: what is done is not measured again, what failed is tried again.
    write_hosts(over, "fast0", "fast1", "ssh://fast2", "slow")
    again = over(*go_on(answer.stderr))
    assert again.returncode == 0 and "4 of 4 machines are done already" in again.stderr, (
        again.stderr
    )
    assert files == {
        path.name: path.stat().st_mtime_ns for path in (over.directory / "fleet").glob("*.jsonl")
    }
    other = ("--plan", "rmw", "--resume", "fleet")
    assert "the same options" in over.refused("measure", "--on", "@hosts.txt", *other)


@pytest.mark.slow
def test_a_stopped_fleet_goes_on(over, start):
    start("one", **knobs(machine_id=f"{1:016x}", pause_s=0.15))
    start("two", **knobs(machine_id=f"{2:016x}", pause_s=0.15))
    write_hosts(over, "one", "two")
    process = over.start(*MANY, "-o", "fleet")
    first = over.directory / "fleet/one.jsonl"
    waiting.wait_for(lambda: first.exists() and first.read_bytes().count(b"\n") > 2, process)
    process.send_signal(signal.SIGINT)
    _, said = waiting.finish(process)
    assert process.returncode == 3 and b"stopped by SIGINT" in said, said
    kept = first.read_bytes()
    again = over(*go_on(said))
    assert again.returncode == 0, again.stderr
    assert (
        first.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])
        and "2 machines, 1 group" in again.stdout
    )


def test_one_machine_reached_twice_is_one(over, start):
    for name, number in (("one", 1), ("other", 2), ("again", 1)):
        start(name, **knobs(machine_id=f"{number:016x}"))
    write_hosts(over, "one", "other", "again")
    answer = over(*MANY, "-o", "fleet")
    assert answer.returncode == 0, answer.stderr
    assert "2 machines, 1 group" in answer.stdout and "A, 2 machines: one, other (" in answer.stdout
    assert "ssh://again is the machine of ssh://one, which counts once" in answer.stderr
    assert "2 machines in 1 group" in (over.directory / "fleet/fleet.html").read_text()


@pytest.mark.usefixtures("without_vega")
def test_of_one_machine_reached_twice_one_is_shown(over, start):
    for name in ("one", "again"):
        start(name, **knobs(machine_id=f"{1:016x}"))
    answer = over("measure", "--on", "ssh://one", "--on", "ssh://again", *FEW, "-o", "both")
    assert answer.returncode == 0, answer.stderr
    assert "ssh://again is the machine of ssh://one, which counts once" in answer.stderr
    assert "2 launches" in answer.stdout and "4 launches" not in answer.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no host in it"),
        ("# only this\n", "no host in it"),
        ("a\na\n", "named twice"),
        ("a\nssh://a\n", "named twice"),
    ],
)
def test_a_file_of_hosts_that_is_wrong(command, text: str, message: str):
    (command.directory / "hosts.txt").write_text(text)
    assert message in command.refused("measure", "--on", "@hosts.txt")


def test_requests_that_are_wrong(command):
    assert "absent.txt" in command.refused("measure", "--on", "@absent.txt")
    write_hosts(command, "local")
    many = ("measure", "--on", "@hosts.txt")
    assert "no plan 'absent'" in command.refused(*many, "--plan", "absent")
    (command.directory / "full").mkdir()
    (command.directory / "full/file").write_text("")
    assert "is not empty" in command.refused(*many, "-o", "full")
    for other in (("--dry-run",), ("--against", "r.jsonl"), ("-o", "-")):
        assert "several machines, one folder" in command.refused(*many, *other)
    answer = command(*many, "--set", "absent=1", "-o", "new")
    assert answer.returncode == 2 and "no parameter 'absent=1'" in answer.stderr.splitlines()[-1]


def test_names_of_files():
    found = hosts.named(
        [
            "local",
            "ssh://root@h:22",
            "ssh://root@h-22",
            "exec:docker exec -i ../x",
            "ssh://[fe80::1]",
            "dask:one",
        ],
        "x",
    )
    assert [host.name for host in found] == [
        "local",
        "root@h-22",
        "root@h-22-2",
        "exec-docker-exec-i-..-x",
        "fe80-1",
        "one",
    ]


def distance(*rows: list[float], half: float = 0.0, kinds=ALONE * 2) -> np.ndarray:
    middle = np.log(np.array(rows, dtype=float))
    return groups.distances(middle, np.full_like(middle, half), kinds)


def test_what_intervals_explain_is_no_distance():
    assert distance([5, 6], [6, 7.2], half=0.2)[0, 1] == 0
    assert distance([5, 6], [6, 7.2], half=0.05)[0, 1] == pytest.approx(math.log(1.2) - 0.1)


def test_one_odd_cell_of_many_is_no_difference_but_one_odd_kind_is():
    cells = ALONE * 5
    assert distance([5] * 5, [5, 5, 5, 5, 50], kinds=cells)[0, 1] == 0
    kinds = [*ALONE * 4, ("add", "stadd", 64, "none", False)]
    assert distance([5] * 5, [5, 5, 5, 5, 50], kinds=kinds)[0, 1] == pytest.approx(math.log(10))


def test_machines_without_a_common_cell_are_never_one_group():
    nan = math.nan
    assert distance([5, nan], [nan, 5])[0, 1] == groups.NOTHING_SHARED
    assert (np.diag(distance([nan, nan], [5, 5])) == 0).all()


def test_a_wrong_state_file_is_one_line(command):
    write_hosts(command, "local")
    (command.directory / "f").mkdir()
    (command.directory / "f/fleet.json").write_text("{")
    assert "expected what linewright measure wrote" in command.refused(
        "measure", "--on", "@hosts.txt", "--resume", "f"
    )


def test_a_refusal_that_all_share_is_the_users_and_others_are_not():
    wrong, other = (
        fleet_run.MeasureOutcome("failed", "no plan x", 2),
        fleet_run.MeasureOutcome("failed", "lost", 3),
    )
    assert isinstance(fleet_run.refusal({"a": wrong, "b": wrong}), UserError)
    assert fleet_run.refusal({"a": wrong, "b": other}) is None


def test_many_groups_have_letters():
    letters = [groups.letter(number) for number in (0, 25, 26, 52)]
    assert letters == ["A", "Z", "A2", "A3"]


def test_the_state_is_json_that_says_what_became_of_each(command):
    write_hosts(command, "local")
    answer = command(*MANY, "-o", "f")
    assert answer.returncode == 0, answer.stderr
    state = json.loads((command.directory / "f/fleet.json").read_text())
    assert state["outcomes"]["local"]["state"] == "done" and re.fullmatch(
        r"\d+\.\d+\.\d+", state["tool_version"]
    )

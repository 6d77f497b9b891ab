# SPDX-License-Identifier: MIT
"""Measuring from end to end, and what is left when something stops it."""

from __future__ import annotations

import csv
import ctypes
import errno
import io
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from linewright.records import files as records
from linewright.schema import Cell, Plan
from linewright.show import progress
from linewright.target import Progress
from support import waiting
from support.command_lines import go_on
from support.places import FAKE_PROBE, ROOT

SMALL = [
    "--only",
    "lock_add",
    "--only",
    "plain_add",
    "--budget",
    "5s",
    "--set",
    "lines=2",
    "--set",
    "contended_lines=2",
    "--set",
    "work=0,20",
    "--set",
    "contended_window_ms=2",
    "--set",
    "window_ms=0.5",
]
ONCE = ("--set", "launches=1")
"""For what is not about the launches."""

PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14
"""From linux/prctl.h and linux/capability.h."""


def rows_of(path: Path) -> list:
    return records.read(path, lambda warning: None)[1]


def finished(path: Path) -> int:
    return (
        sum(line.startswith(b'{"linewright_record"') for line in path.read_bytes().splitlines())
        if path.exists()
        else 0
    )


@pytest.fixture
def out(command) -> Path:
    return command.directory / "r.jsonl"


def test_records_are_kept_and_every_cell_is_relaunched(command, out: Path):
    assert command("measure", "-o", "r.jsonl").returncode == 0
    answer = command("show", "r.jsonl", "--all")
    assert answer.returncode == 0, answer.stderr
    rows = rows_of(out)
    launches = {row.id: [] for row in rows}
    for row in rows:
        launches[row.id].append(row.launch)
    for row in rows:
        ran = sorted(launches[row.id])
        assert ran == list(range(len(ran))) and len(ran) in (5, 8, 11), "up to a look, or the end"
    assert (
        "lock_add" in answer.stdout and "same_line" in answer.stdout and "\x1b" not in answer.stdout
    )


def test_without_an_output_the_records_go_to_results(command):
    answer = command("measure", "--only", "plain_add")
    (path,) = (command.directory / "results").iterdir()
    assert (
        path.name.startswith("quick-") and str(path.relative_to(command.directory)) in answer.stderr
    )
    assert rows_of(path)


def test_records_on_standard_output(command):
    answer = command("measure", "--only", "plain_add", "-o", "-")
    kinds = [next(iter(json.loads(line))) for line in answer.stdout.splitlines()]
    assert kinds[0] == "linewright_context" and set(kinds) == {
        "linewright_context",
        "linewright_record",
    }
    assert kinds.count("linewright_context") == 11, "one for each launch"
    assert os.listdir(command.directory) == []


def test_formats_for_programs(command, out: Path):
    found = json.loads(command("measure", "--only", "lock_add", "-o", "r.jsonl", "--json").stdout)
    table = list(csv.DictReader(io.StringIO(command("show", "r.jsonl", "--format", "csv").stdout)))
    assert [cell["id"] for cell in found["cells"]] == [row["id"] for row in table]
    assert found["contexts"][0]["cpu_model"] == "Fake" and isinstance(found["verdict"], list)
    contended = next(row for row in table if row["contender"] == "same_line")
    assert contended["launches"] == "11" and float(contended["issue_median_ns"]) == pytest.approx(
        5.035, rel=0.01
    )
    assert {name for name in table[0] if name.endswith("_ns")} == {
        name for name in found["cells"][0] if name.endswith("_ns")
    }


def test_show_joins_files_and_filters(command, out: Path):
    command("measure", "--only", "lock_add", "-o", "r.jsonl")
    command("measure", "--only", "lock_xadd", "--set", "launches=1", "-o", "s.jsonl")
    shown = command("show", "r.jsonl", "s.jsonl", "--only", "w20", "--format", "csv")
    found = list(csv.DictReader(io.StringIO(shown.stdout)))
    assert {row["form"] for row in found} == {"lock_add", "lock_xadd"} and {
        row["work_iters"] for row in found
    } == {"20"}
    assert "no cell fits 'w7'" in command.refused("show", "r.jsonl", "--only", "w7")


def test_a_dry_run_measures_and_writes_nothing(command):
    answer = command("measure", "--dry-run", "--only", "lock_add", "--budget", "30s")
    assert answer.returncode == 0 and answer.stderr == ""
    head, times, *ids = answer.stdout.splitlines()
    assert "cells" in head and "at least" in times and "30 s" in times
    assert all(cell_id.startswith("add/lock_add/u64/full/") for cell_id in ids)
    assert os.listdir(command.directory) == []


def test_every_override_reaches_the_plan(command, out: Path, tmp_path: Path):
    plan = {
        "linewright_plan": 2,
        "name": "mine",
        "cells": [{"operation": "add", "form": "lock_add"}],
        "launches": 1,
    }
    (tmp_path / "p.json").write_text(json.dumps(plan))
    script = tmp_path / "spy"
    script.write_text(
        f'#!/bin/sh\ncase "$1" in "") tee "{tmp_path}/seen";; *) cat;; esac | '
        f'"{sys.executable}" "{FAKE_PROBE}" "$@"\n'
    )
    script.chmod(0o755)
    command.probe = script
    words = [
        "--plan",
        "p.json",
        "--set",
        "precision=5%",
        "--set",
        "seed=7",
        "--set",
        "cpus=1,0",
        "--budget",
        "9m",
        "-o",
        "r.jsonl",
    ]
    answer = command("measure", *words)
    assert answer.returncode == 0, answer.stderr
    seen = json.loads((tmp_path / "seen").read_text())
    assert (seen["precision"], seen["seed"], seen["cpus"], seen["launch"]) == (0.05, 7, [1, 0], 0)
    assert 60 < seen["budget_s"] <= 540, "what is left of it when the launch begins"


def test_a_probe_that_dies_in_mid_line_leaves_the_finished_records(command, out: Path):
    command.fake = {"die_after": 4, "signal": int(signal.SIGKILL)}
    answer = command("measure", "-o", "r.jsonl")
    assert answer.returncode == 3
    assert len(rows_of(out)) == 4 and out.read_bytes().endswith(b"\n")
    last = answer.stderr.splitlines()[-1]
    assert "ended by SIGKILL in launch 0" in last and "4 of " in last and "--resume r.jsonl" in last


@pytest.mark.parametrize(
    ("fake", "message"),
    [
        (
            {"die_after": 2},
            "exited with 3 in launch 0, at add/plain_add/u64/relaxed/none/ci0/w0/auto/l4/t1: "
            "told to die",
        ),
        ({"garbage": "garbage"}, "linewright-probe, line 3 of its output: not JSON"),
        (
            {"garbage": '{"linewright_record":9}'},
            "record of version 9, this program reads version 2 and 3",
        ),
        ({"skip": [1, 2]}, "ended without 2 of its cells in launch 0"),
    ],
)
def test_a_probe_that_fails(command, out: Path, fake: dict, message: str):
    command.fake = fake
    answer = command("measure", "--only", "none", "--only", "plain_add", "-o", "r.jsonl")
    assert answer.returncode == 3 and message in answer.stderr, answer.stderr
    assert rows_of(out) and "Traceback" not in answer.stderr


def test_a_plan_refused_at_the_last_moment_leaves_no_file(command, out: Path):
    command.fake = {"refuse": "too late", "at_check": False}
    assert "too late" in command("measure", "-o", "r.jsonl").stderr
    assert not out.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_every_finished_record(command, out: Path, number: signal.Signals):
    command.fake = {"stays_at": 3}
    process = command.start("measure", "--set", "work=0,20", "-o", "r.jsonl", "--only", "w*")
    waiting.wait_for(lambda: finished(out) >= 3, process)
    os.killpg(process.pid, number)
    stdout, stderr = waiting.finish(process)
    assert process.returncode == 3
    last = stderr.decode().splitlines()[-1]
    assert (
        number.name in last
        and shlex.join(go_on(last)) == "measure --resume r.jsonl --only 'w*' --set work=0,20"
        and b"Traceback" not in stderr
    )
    assert len(rows_of(out)) >= 3 and out.read_bytes().endswith(b"\n")
    assert stdout, "what is finished is shown"


def test_a_hangup_that_is_to_be_survived_is(command, out: Path):
    command.fake = {"pause_s": 0.05}
    words = ["nohup", *command.arguments("measure", "--only", "plain_add", "-o", "r.jsonl")]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=command.directory,
        env=command.environment(),
        start_new_session=True,
    )
    waiting.wait_for(lambda: finished(out) >= 1, process)
    os.killpg(process.pid, signal.SIGHUP)
    _, stderr = waiting.finish(process)
    assert process.returncode == 0, stderr


def test_a_terminal_that_is_gone_ends_the_drawing_not_the_run():
    """Where the terminal is gone, each write fails: what comes from the probe is kept all the
    same."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.EIO, "gone")

        flush = write

    plan = Plan(linewright_plan=2, name="one", cells=[Cell(operation="add", form="plain_add")])
    drawn = progress.ProgressBar(
        progress.PlanMeter([plan], 60), Console(file=Gone(), force_terminal=True)
    )
    with drawn:
        for done in range(3):
            drawn._next = 0
            drawn.show(Progress(0, "a", done, 3, done, 3))


def test_a_probe_that_ignores_requests_is_killed_at_the_third(command, out: Path):
    command.fake = {"stays_at": 1, "deaf": True}
    process = command.start("measure", "-o", "r.jsonl")
    waiting.wait_for(lambda: finished(out) >= 1, process)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert process.wait() == 3  # on a busy machine two may arrive as one: then its patience ends it
    process.communicate()
    assert rows_of(out)


def test_sigkill_keeps_every_finished_record_and_leaves_no_probe(command, out: Path):
    command.fake = {"stays_at": 3}
    process = command.start("measure", "-o", "r.jsonl")
    waiting.wait_for(lambda: finished(out) >= 3, process)
    os.kill(process.pid, signal.SIGKILL)
    waiting.finish(process)
    assert len(rows_of(out)) >= 3
    waiting.wait_for(lambda: not group_members(process.pid))


def group_members(group: int) -> list[int]:
    """Processes that are alive in a process group."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            said = Path(f"/proc/{entry}/stat").read_text(errors="replace")
            fields = said.rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if entry.isdigit() and fields[2] == str(group) and fields[0] != "Z":
            found.append(int(entry))
    return found


def test_resume_runs_what_is_missing_and_nothing_else(command, out: Path):
    few = ["--only", "lock_add", "--set", "launches=2"]
    command.fake = {"die_after": 2}
    assert command("measure", *few, "-o", "r.jsonl").returncode == 3
    with out.open("ab") as stream:
        stream.write(b'{"linewright_rec')
    command.fake = {}
    answer = command("measure", "--resume", "r.jsonl")
    assert answer.returncode == 0 and "truncated line dropped" in answer.stderr
    assert {context.command for context in records.read(out, print)[0]} == {shlex.join(few)}
    runs = [(row.id, row.launch) for row in rows_of(out)]
    assert len(runs) == len(set(runs))
    command("measure", *few, "-o", "whole.jsonl")
    assert sorted(runs) == sorted(
        (row.id, row.launch) for row in rows_of(command.directory / "whole.jsonl")
    )


def test_an_option_takes_the_place_of_what_a_file_was_begun_with(command, out: Path):
    begun = ("--only", "lock_add", "--set", "launches=2", "--set", "work=0")
    command("measure", *begun, "-o", "r.jsonl")

    def asked(*words: str) -> set[str]:
        """The line that says what is left, and the cells."""
        listed = command("measure", "--resume", "r.jsonl", "--dry-run", *words).stdout.splitlines()
        return {line for line in listed if "left: " in line or line.count("/") >= 9}

    cells = {row.id for row in rows_of(out)}
    done = f"already measured: {2 * len(cells)} cell runs; left: "
    assert all("/lock_add/" in cell and "/w0/" in cell for cell in cells)
    assert asked() == {f"{done}0", *cells}
    assert asked("--set", "launches=3") == {f"{done}{len(cells)}", *cells}
    others = asked("--only", "plain_add")
    assert others and all("/plain_add/" in cell and "/w0/" in cell for cell in others)
    assert asked("--plan", "quick") > cells | others


def test_resume_of_a_complete_file_measures_nothing(command, out: Path):
    command("measure", "--only", "lock_add", "-o", "r.jsonl")
    before = out.read_bytes()
    answer = command("measure", "--only", "lock_add", "--resume", "r.jsonl")
    assert (
        answer.returncode == 0
        and "nothing left to measure" in answer.stderr
        and "A locked operation: " in answer.stdout
    )
    assert out.read_bytes() == before


def test_resume_refuses_another_machines_file(command, out: Path):
    command("measure", "--only", "plain_add", *ONCE, "-o", "r.jsonl")
    before = out.read_bytes()
    command.fake = {"machine_id": "00000000000000bb"}
    said = command.refused("measure", "--resume", "r.jsonl")
    assert "another machine" in said and "00000000000000aa" in said and "00000000000000bb" in said
    assert out.read_bytes() == before


def test_resume_of_a_plan_file_asks_for_the_plan(command, out: Path):
    (command.directory / "p.json").write_text(
        json.dumps(
            {
                "linewright_plan": 2,
                "name": "mine",
                "cells": [{"operation": "add", "form": "lock_add"}],
            }
        )
    )
    assert command("measure", "--plan", "p.json", "-o", "r.jsonl").returncode == 0
    assert "nothing left" in command("measure", "--resume", "r.jsonl").stderr
    (command.directory / "p.json").rename(command.directory / "moved.json")
    assert "p.json" in command.refused("measure", "--resume", "r.jsonl")
    moved = ("--plan", "moved.json", "--resume", "r.jsonl")
    assert "nothing left" in command("measure", *moved).stderr
    out.write_text(out.read_text().replace("--plan p.json", "--frob p.json"))
    assert "name its plan with --plan" in command.refused("measure", "--resume", "r.jsonl")
    out.write_text(out.read_text().replace("--frob p.json", ""))
    assert "name its file with --plan" in command.refused("measure", "--resume", "r.jsonl")


def test_a_terminal_gets_a_bar_and_no_plain_lines(command, out: Path):
    command.fake = {"pause_s": 0.05}
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command.arguments("measure", "--only", "plain_add", "-o", "r.jsonl"),
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=command.directory,
        env=command.environment() | {"TERM": "xterm-256color"},
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            drawn += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert b"\x1b[" not in waiting.finish(process)[0] and process.returncode == 0
    assert "━".encode() in drawn and b"cells" in drawn and b"plain_add" in drawn


def test_an_unexpected_failure_shows_no_traceback(command):
    command.patch.setattr("linewright.commands.topology.open_target", lambda name: 1 / 0)
    broken = command("topology")
    assert broken.returncode == 3
    assert (
        broken.stderr.startswith("linewright: unexpected ZeroDivisionError")
        and broken.stderr.count("\n") == 1
    )


def test_a_probe_that_cannot_answer(command):
    command.patch.setattr(
        command,
        "environment",
        lambda: {"LINEWRIGHT_PROBE": str(command.probe), "FAKE_PROBE": "not json"},
    )
    answer = command("topology")
    assert answer.returncode == 3 and answer.stderr.startswith(
        "linewright: linewright-probe --topology: "
    )
    assert answer.stderr.count("\n") == 1


def test_a_reader_that_goes_away(command, out: Path):
    command("measure", "--only", "plain_add", *ONCE, "-o", "r.jsonl")
    shown = subprocess.run(
        [
            "bash",
            "-c",
            'set -o pipefail; "$@" | head -c 10 >/dev/null',
            "sh",
            *command.arguments("show", "r.jsonl", "--format", "csv"),
        ],
        capture_output=True,
        text=True,
        env=command.environment(),
        cwd=command.directory,
    )
    assert shown.stderr == "" and shown.returncode == 0


def test_a_reader_that_went_away_before_the_first_line(command):
    """Click would make a closed pipe exit code 1, which is said to mean that a difference was
    found."""
    shown = subprocess.run(
        [
            "bash",
            "-c",
            'exec 3> >(exit 0); wait $!; "$@" >&3',
            "sh",
            *command.arguments("measure", "--dry-run"),
        ],
        capture_output=True,
        text=True,
        env=command.environment(),
        cwd=command.directory,
    )
    assert shown.returncode == 0 and shown.stderr == "", shown


@pytest.mark.parametrize("words", [["show", "r.jsonl"], ["topology"]])
def test_a_reader_that_is_gone_is_no_difference_found(command, out: Path, words: list[str]):
    """Rich, too, would leave with 1 at a closed pipe."""
    command("measure", "--only", "plain_add", *ONCE, "-o", "r.jsonl")
    shown = unread(command, '"$@" >&3', *words)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_run_goes_on_when_nobody_reads_its_remarks(command, out: Path):
    words = ("measure", "--only", "plain_add", *ONCE, "-o", "r.jsonl")
    assert unread(command, '"$@" 2>&3 >/dev/null', *words).returncode == 0
    assert len(rows_of(out)) == 2


def unread(command, how: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command whose descriptor 3 is a pipe without a reader."""
    return subprocess.run(
        ["bash", "-c", f"exec 3> >(exit 0); wait $!; {how}", "sh", *command.arguments(*words)],
        capture_output=True,
        text=True,
        env=command.environment(),
        cwd=command.directory,
    )


@pytest.mark.parametrize("name", ["advise", "compare", "probe", "trial"])
def test_an_answer_that_nobody_could_see_is_refused(command, name: str):
    """Before anything runs: a run of minutes would end in silence."""
    refused = closed(command, ">&-", name)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert "standard output: it is closed" in refused.stderr


def closed(command, which: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command that is started with some of its standard streams closed."""
    return subprocess.run(
        ["bash", "-c", f'"$@" {which}', "sh", *command.arguments(*words)],
        capture_output=True,
        text=True,
        env=command.environment(),
        cwd=command.directory,
    )


def test_closed_and_full_outputs(command, out: Path):
    """A record file must not become a standard stream because that is closed; a full disk is
    reported in a line."""
    words = ("measure", "--only", "plain_add", *ONCE, "-o", "r.jsonl")
    assert closed(command, "<&- 2>&-", *words).returncode == 0 and len(rows_of(out)) == 2
    with open("/dev/full", "wb") as full:
        said = command.apart("show", "r.jsonl", stdout=full, stderr=subprocess.PIPE)
    assert (
        said.returncode == 3
        and said.stderr.count("\n") == 1
        and "No space left on device" in said.stderr
    )


def test_a_user_who_may_lock_little_memory(real):
    """Under the usual 8 MiB a probe that locked what it has and will have could not start a
    thread."""

    def little():
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        most = 8 << 20 if hard == resource.RLIM_INFINITY else min(8 << 20, hard)
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (most, most))
        ctypes.CDLL(None).prctl(
            PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0
        )  # root is under no limit otherwise

    cell = {
        "operation": "fetch_add",
        "form": "builtin_fetch_add",
        "order": "seq_cst",
        "width_bits": 32,
        "contender": "same_line",
        "threads": 2,
    }
    plan = {
        "linewright_plan": 2,
        "name": "one",
        "min_windows": 1,
        "max_windows": 1,
        "contended_window_ms": 1,
        "cells": [cell],
    }
    ran = subprocess.run(
        [real.probe], input=json.dumps(plan), capture_output=True, text=True, preexec_fn=little
    )
    assert ran.returncode == 0 and len(ran.stdout.splitlines()) == 2, ran.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="cells of two threads need two CPUs")
def test_the_real_probe_from_plan_to_verdict(real):
    answer = real("measure", *SMALL, "-o", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    rows = rows_of(real.directory / "r.jsonl")
    assert {row.cell.form for row in rows} == {"lock_add", "plain_add"}
    launches = {row.launch for row in rows if row.cell.contender == "same_line"}
    assert len(launches) >= 5 and launches == set(range(len(launches)))
    assert all(row.sum_found == row.sum_expected for row in rows if row.cell.form == "lock_add")
    # A busy machine may leave no verdict: then windows were disturbed, and the page says so.
    decided = "A locked operation: " in answer.stdout
    assert decided or ("disturbed" in answer.stdout and {row.status for row in rows} != {"ok"})
    assert len(answer.stdout.splitlines()) <= 30
    assert "lock_add" in real("show", "r.jsonl", "--all").stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_real_probe_takes_a_hangup_for_a_request(real, number: signal.Signals):
    """A terminal that closes hangs up the probe as well as the command."""
    cell = {"operation": "none", "form": "empty", "width_bits": 32, "lines": 1}
    plan = {
        "linewright_plan": 2,
        "name": "long",
        "precision": 1e-9,
        "max_windows": 100_000,
        "window_ms": 20,
        "budget_s": 600,
        "cells": [cell],
    }
    process = subprocess.Popen(
        [real.probe],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    process.stdin.write(json.dumps(plan).encode())
    process.stdin.close()
    assert b"linewright_context" in process.stdout.readline()
    process.send_signal(number)
    assert process.wait() == 3
    process.stdout.close()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="cells of two threads need two CPUs")
def test_the_real_probe_interrupted_and_resumed(real):
    few = ["--only", "plain_add", "--set", "lines=2", "--set", "work=0", "--set", "window_ms=0.5"]
    process = real.start(
        "measure", *few, "--set", "launches=400", "--budget", "10m", "-o", "r.jsonl"
    )
    out = real.directory / "r.jsonl"
    waiting.wait_for(lambda: finished(out) >= 8, process)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = waiting.finish(process)
    assert process.returncode == 3 and b"SIGINT" in stderr, stderr
    kept = len(rows_of(out))
    assert kept >= 8
    launches = max(row.launch for row in rows_of(out)) + 2
    answer = real("measure", *few, "--set", f"launches={launches}", "--resume", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    assert len(rows_of(out)) > kept


def test_the_probe_runs_by_itself(real):
    answer = real.apart("probe", "--", "--version")
    assert answer.returncode == 0 and answer.stdout.startswith("linewright-probe ")
    wrong = real.apart("probe", "--", "--frobnicate")
    assert wrong.returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["measure", "--help"],
        ["show", "-h"],
        ["--version"],
        ["schema"],
        ["schema", "plan"],
    ],
)
def test_help_and_schema_need_no_probe(command, words: list[str]):
    command.probe = Path("/absent")
    answer = command(*words)
    assert answer.returncode == 0 and answer.stdout and answer.stderr == ""


def test_the_command_starts_without_heavy_libraries():
    """Each takes longer to load than all else that a command does before its work begins."""
    loaded = waiting.run(
        [sys.executable, "-c", "import linewright.cli, sys; print(*sys.modules)"],
        cwd=ROOT,
        check=True,
    ).stdout.split()
    assert "linewright.cli" in loaded and not {"numpy", "scipy", "altair", "capstone"} & set(loaded)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="cells of two threads need two CPUs")
def test_topology_and_plans(real):
    said = real("topology").stdout
    rows = [line.split() for line in said.splitlines() if line.split()[-1] in ("yes", "no")]
    usable = [int(row[0]) for row in rows if row[-1] == "yes"]
    assert usable == sorted(os.sched_getaffinity(0)) and "usable: " in said
    listed = json.loads(real("list", "--json").stdout)["plans"]
    quick = next(plan for plan in listed if plan["name"] == "quick")
    assert quick["cells"] > 50 and quick["least_s"] <= quick["budget_s"] <= 60
    (real.directory / "p.json").write_text(real("list", "quick", "--json").stdout)
    assert (
        real("measure", "--plan", "p.json", "--dry-run").stdout
        == real("measure", "--dry-run").stdout
    )

# SPDX-License-Identifier: MIT
"""Measuring behind a command: a shell somewhere, or an emulator that runs a program of this
machine's files."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from linewright.records import files as records
from support import waiting
from support.places import FAKE_PROBE, ROOT

FEW = ["--format", "none", "--only", "plain_add", "--set", "work=0,10,20,50,100,200"]
FEW += ["--set", "launches=2"]  # two times six records
ARM64 = ROOT / "build/arm64/probe/linewright-probe"


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def temporary(command) -> Path:
    folder = command.directory / "there $x 'y'"
    folder.mkdir()
    return folder


def test_behind_a_command_with_a_shell(command):
    there = temporary(command)
    command.patch.setenv("THERE", str(there))
    into = script(command.directory / "into box", 'TMPDIR=$THERE exec "$@"')
    answer = command("measure", *FEW, "--on", f"exec:'{into}'", "-o", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    contexts, rows = records.read(command.directory / "r.jsonl", pytest.fail)
    assert {context.target for context in contexts} == {f"exec:'{into}'"} and len(rows) == 12
    assert os.listdir(there) == [], "removed"


def test_an_interrupt_keeps_the_records_and_ends_the_probe(command):
    into = script(command.directory / "into", 'exec "$@"')
    command.fake = {"stays_at": 2}
    process = command.start("measure", *FEW, "--on", f"exec:{into}", "-o", "r.jsonl")
    out = command.directory / "r.jsonl"
    waiting.wait_for(lambda: out.exists() and out.read_bytes().count(b"\n") >= 3, process)
    os.killpg(process.pid, signal.SIGINT)
    said = waiting.finish(process)[1].decode()
    assert (
        process.returncode == 3
        and "stopped by SIGINT" in said
        and "are kept; continue with linewright measure --resume r.jsonl" in said
    )
    assert len(records.read(out, pytest.fail)[1]) >= 2


def test_an_emulator_runs_the_file_here(command):
    """It knows programs by their path and has no shell, as qemu-user."""
    emulator = script(
        command.directory / "emulate",
        'case $1 in */*) exec "$@" ;; esac; echo "cannot find $1" >&2; exit 1',
    )
    answer = command("measure", *FEW, "--on", f"exec:{emulator}", "-o", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    assert len(records.read(command.directory / "r.jsonl", pytest.fail)[1]) == 12


@pytest.mark.skipif(not ARM64.exists(), reason="the arm64 probe is not built")
def test_the_arm64_probe_under_qemu(real):
    plan = {
        "linewright_plan": 2,
        "name": "one",
        "launches": 1,
        "min_windows": 2,
        "max_windows": 2,
        "window_ms": 0.5,
        "budget_s": 60,
        "cells": [{"operation": "add", "form": "stadd", "order": "relaxed", "lines": 1}],
    }
    (real.directory / "p.json").write_text(json.dumps(plan))
    answer = real(
        "measure",
        "--format",
        "none",
        "--plan",
        "p.json",
        "--on",
        "exec:qemu-aarch64 -cpu max",
        "-o",
        "r.jsonl",
    )
    assert answer.returncode == 0, answer.stderr
    (context,), (row,) = records.read(real.directory / "r.jsonl", pytest.fail)
    assert (
        context.arch == "arm64"
        and context.emulated
        and row.status == "ok"
        and row.sum_found == row.sum_expected
    )


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("exec:", "no command named"),
        ("exec:/absent/docker exec -i x", "no such program: /absent/docker"),
        ("exec:'unbalanced", "No closing quotation"),
        ("exec:false", "a POSIX shell is needed there"),
        ("exec:sh -c 'echo no such pod >&2; exit 1'", "no such pod"),
    ],
)
def test_a_command_that_leads_nowhere_is_one_line(command, what: str, message: str):
    assert message in command.refused("measure", *FEW, "--on", what, "-o", "r.jsonl")
    assert not (command.directory / "r.jsonl").exists()


def test_a_command_that_cannot_be_written_to(command):
    """Its disk is full: what the shell there says is the reason."""
    into = script(
        command.directory / "into",
        "PATH=" + str(command.directory / "bin") + ':$PATH exec "$@"',
    )
    (command.directory / "bin").mkdir()
    script(
        command.directory / "bin/chmod",
        'test "$2" = try && exec /bin/chmod "$@"; echo "chmod: Read-only file system" >&2; exit 1',
    )
    assert "Read-only file system" in command.refused("measure", *FEW, "--on", f"exec:{into}")


def test_the_probe_for_a_board_and_what_it_printed(command):
    """Without ssh: the probe and a plan are written, run there launch by launch, and the records
    taken here."""
    command.patch.setattr(
        command,
        "environment",
        (lambda before: lambda: before() | {"LINEWRIGHT_PROBE_ARM64": str(FAKE_PROBE)})(
            command.environment
        ),
    )
    command.fake = {"arch": "arm64"}
    answer = command(
        "probe", "--arch", "arm64", "-o", "board", "--plan", "quick", "--set", "launches=2"
    )
    assert answer.returncode == 0, answer.stderr
    board = command.directory / "board"
    assert os.access(board, os.X_OK) and board.read_bytes() == FAKE_PROBE.read_bytes()
    assert (
        "--launch $n <board.json" in answer.stderr
        and "measure --from records.jsonl" in answer.stderr
    )
    plan = json.loads((command.directory / "board.json").read_text())
    assert plan["cells"] and plan["launches"] == 2
    assert "board exists" in command.refused("probe", "--arch", "arm64", "-o", "board")


def test_the_real_probe_and_plan_for_a_board(real):
    """The whole way, with this machine as the board."""
    words = [
        "--set",
        "launches=2",
        "--set",
        "lines=1",
        "--set",
        "window_ms=0.5",
        "--set",
        "work=0",
        "--set",
        "contended_window_ms=0.5",
    ]
    answer = real("probe", "--arch", "x86_64", "-o", "my board", "--plan", "rmw", *words)
    assert answer.returncode == 0, answer.stderr
    there, here = re.findall(r"(?:there|here): (.*)", answer.stderr)
    file = real.directory / "my board.json"
    plan = json.loads(file.read_text())
    file.write_text(json.dumps(plan | {"cells": plan["cells"][:3]}))
    subprocess.run(there, shell=True, cwd=real.directory, check=True)
    words = shlex.split(here)[1:]
    taken = real(*words, "-o", "r.jsonl", "--format", "none")
    assert taken.returncode == 0 and "are not in it" not in taken.stderr, taken.stderr
    contexts, rows = records.read(real.directory / "r.jsonl", pytest.fail)
    assert {context.launch for context in contexts} == {0, 1} and len(rows) == 6


def test_what_is_odd_about_printed_records_is_said(command):
    assert command("measure", *FEW, "-o", "r.jsonl").returncode == 0
    text = (command.directory / "r.jsonl").read_text()
    half = text.splitlines(keepends=True)[: len(text.splitlines()) // 2]
    (command.directory / "half.jsonl").write_text(
        "".join(half).replace('"tool_version":"0.1.0"', '"tool_version":"0.0.9"')
    )
    answer = command("measure", "--from", "half.jsonl", "-o", "taken.jsonl", "--format", "none")
    assert (
        answer.returncode == 0
        and "printed by version 0.0.9" in answer.stderr
        and "launches 1 of 2" in answer.stderr
    )
    assert "contradict" in command.refused("measure", "--from", "half.jsonl", "--plan", "quick")
    (command.directory / "none.jsonl").write_text(half[0])
    assert "no record in it" in command.refused("measure", "--from", "none.jsonl")
    assert "absent.jsonl" in command.refused("measure", "--from", "absent.jsonl")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--arch", "vax"], "allowed: x86_64, i386, arm64"),
        (["-o", "x"], "--arch says for which"),
        (["--arch", "arm64", "--", "--version"], "--arch runs nothing"),
        (["--arch", "x86_64", "-o", "/absent/x"], "cannot write /absent/x"),
    ],
)
def test_wrong_requests_for_a_probe(command, words: list[str], message: str):
    assert message in command.refused("probe", *words)

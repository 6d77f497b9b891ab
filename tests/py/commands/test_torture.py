# SPDX-License-Identifier: MIT
"""`linewright torture srcu`: counts and exit codes with the real program, and one line for a wrong
request."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.places import ROOT

REAL = ROOT / "build" / "native" / "torture" / "linewright-torture"
needs_program = pytest.mark.skipif(not REAL.is_file(), reason="linewright-torture is not built")


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setenv("LINEWRIGHT_TORTURE", str(REAL))
    return lambda path: monkeypatch.setenv("LINEWRIGHT_TORTURE", str(path))


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["rcu"], "SUBJECT: not known: rcu (allowed: srcu)"),
        (["srcu", "--set", "seconds=-1"], "allowed: a whole number from 0 to 86400"),
        (["srcu", "--set", "readers=0"], "allowed: a whole number from 1 to 128"),
        (["srcu", "--set", "updaters=65"], "allowed: a whole number from 1 to 64"),
        (["srcu", "--set", "seed=-2"], "allowed: a whole number from 0 to 4294967295"),
        (["srcu", "--set", "flavour=slow"], "one of all, normal, fast, fast_updown"),
        (["srcu", "--set", "words=core"], "--set words: bad value 'core' (allowed: one of thread"),
        (["srcu", "--set", "without=futex"], "allowed: one of membarrier, rseq"),
        (["srcu", "--set", "speed=1"], "no parameter 'speed=1' (torture has seconds=, readers="),
    ],
)
def test_a_wrong_request_is_one_line(command, program, arguments, said):
    answer = command("torture", *arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1 and said in answer.stderr


def test_a_program_that_is_not_there_is_one_line(command, program):
    program("/nowhere/linewright-torture")
    answer = command("torture", "srcu")
    assert (
        answer.returncode == 2
        and answer.stderr.count("\n") == 1
        and "LINEWRIGHT_TORTURE" in answer.stderr
    )


@needs_program
def test_counts_of_a_short_run(command, program):
    """Beside a load a second may be too short for one of each."""
    names = ("reads", "grace periods", "callbacks", "domains", "forks")
    for seconds in (1, 4, 16, 64):
        answer = command("torture", "srcu", "--set", f"seconds={seconds}")
        assert answer.returncode == 0, answer.stderr
        rows = [line.split(maxsplit=1) for line in answer.stdout.splitlines()[1:]]
        counts = {name: int(count) for count, name in rows}
        assert counts.pop("errors") == 0 and set(names) < set(counts)
        if all(counts[name] for name in names):
            break
    assert all(counts[name] for name in names), counts


@needs_program
def test_the_table_names_every_count(command, program):
    answer = command("torture", "srcu", "--set", "seconds=0", "--set", "flavour=fast")
    assert (
        answer.returncode == 0
        and "readers handed on" in answer.stdout
        and "flavour fast" in answer.stdout
    )


@needs_program
def test_two_system_calls_are_denied_at_once():
    words = ("srcu", "--seconds", "0", "--without", "rseq", "--without", "membarrier")
    answer = subprocess.run([REAL, *words], text=True, capture_output=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "membarrier is not available" in json.loads(answer.stdout)["fast_flavours"]


def script(folder: Path, text: str) -> Path:
    path = folder / "torture"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def counts(errors: int) -> str:
    names = (
        "reads",
        "reads_in_handlers",
        "readers_handed_on",
        "grace_periods",
        "callbacks",
        "domains",
        "forks",
    )
    return json.dumps(
        {"torture": "srcu", "fast_flavours": "x", **dict.fromkeys(names, 1), "errors": errors}
    )


@pytest.mark.parametrize(
    "text, code",
    [
        (f"echo '{counts(3)}'; exit 1", 1),
        (f"echo '{counts(0)}'; exit 1", 3),
        ("echo no; exit 0", 3),
        ("kill -9 $$", 3),
        ("echo wrong >&2; exit 2", 2),
    ],
)
def test_exit_codes_follow_the_program(command, program, tmp_path, text, code):
    program(script(tmp_path, text))
    assert command("torture", "srcu").returncode == code

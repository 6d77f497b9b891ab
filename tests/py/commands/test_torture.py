"""`linewright torture srcu`: counts and exit codes with the real program, and one line for a wrong request."""

from __future__ import annotations

import json
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
        (["srcu", "--seconds", "-1"], "--seconds: out of range: -1 (allowed: 0 to 86400)"),
        (["srcu", "--readers", "0"], "--readers: out of range: 0 (allowed: 1 to 128)"),
        (["srcu", "--updaters", "65"], "--updaters: out of range: 65 (allowed: 1 to 64)"),
        (["srcu", "--seed", "-2"], "--seed: out of range: -2 (allowed: 0 to 4294967295)"),
        (
            ["srcu", "--flavour", "slow"],
            "--flavour: not known: slow (allowed: all, normal, signal_safe, fast, fast_updown)",
        ),
        (["srcu", "--words", "core"], "--words: not known: core (allowed: thread, cpu)"),
        (["srcu", "--without", "futex"], "--without: not known: futex (allowed: membarrier, rseq)"),
    ],
)
def test_a_wrong_request_is_one_line(command, program, arguments, said):
    answer = command("torture", *arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1 and said in answer.stderr


def test_a_program_that_is_not_there_is_one_line(command, program):
    program("/nowhere/linewright-torture")
    answer = command("torture", "srcu")
    assert answer.returncode == 2 and answer.stderr.count("\n") == 1 and "LINEWRIGHT_TORTURE" in answer.stderr


@needs_program
def test_counts_of_a_short_run(command, program):
    answer = command("torture", "srcu", "--seconds", "1", "--json")
    outcome = json.loads(answer.stdout)
    assert answer.returncode == 0 and outcome["errors"] == 0, answer.stderr
    assert min(outcome[name] for name in ("reads", "grace_periods", "callbacks", "domains", "forks")) > 0


@needs_program
def test_the_table_names_every_count(command, program):
    answer = command("torture", "srcu", "--seconds", "0", "--flavour", "fast")
    assert answer.returncode == 0 and "readers handed on" in answer.stdout and "flavour fast" in answer.stdout


def script(folder: Path, text: str) -> Path:
    path = folder / "torture"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def counts(errors: int) -> str:
    names = ("reads", "reads_in_handlers", "readers_handed_on", "grace_periods", "callbacks", "domains", "forks")
    return json.dumps({"torture": "srcu", "fast_flavours": "x", **dict.fromkeys(names, 1), "errors": errors})


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

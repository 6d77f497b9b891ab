# SPDX-License-Identifier: MIT
"""Requests that cannot be served are one line and exit code 2."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no program named"),
        (["--pid", "1", "--", "true"], "a program and --pid"),
        (["--pid", "0"], "no process number"),
        (["--pid", "4194303", "--for", "1s"], "no process 4194303"),
        (["--", "/no/such/program"], "cannot run /no/such/program"),
        (["--for", "soon", "--", "true"], "not a duration"),
        (["-o", ".", "--", "touch", "ran"], ".: Is a directory"),
        (["--prices", ".", "--", "touch", "ran"], ".: is a directory"),
        (["--prices", "/dev/null", "--", "touch", "ran"], "/dev/null: empty file"),
        (["--prices", "/bin/true", "--", "touch", "ran"], "not a record file"),
        (["--exact", "--heap", "--", "touch", "ran"], "--exact knows neither heap blocks"),
    ],
)
def test_a_wrong_request(run, command, words: list[str], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2 and said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (command.directory / "ran").exists(), "before the program has run for nothing"


def test_a_full_disk_loses_no_result(sampling, run) -> None:
    """The program had run, and the page was not shown."""
    done = run("-o", "/dev/full", "--", "true")
    assert done.returncode == 2 and "No space left" in done.stderr
    assert "in true (" in done.stdout

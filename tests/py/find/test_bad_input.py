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
    ],
)
def test_a_wrong_request(run, words: list[str], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2 and said in done.stderr
    assert len(done.stderr.splitlines()) == 1

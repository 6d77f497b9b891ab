# SPDX-License-Identifier: MIT
"""A CPU quota of a control group that holds a program back is named as the cause."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from linewright.errors import RunError
from linewright.find.line_words import note_text
from linewright.find.result_document import headline
from linewright.find.sampled_machine import SamplerPlace
from linewright.find.sampling import _held_back
from support import find_results

GROUPS = Path("/sys/fs/cgroup")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (b"usage_usec 5\nnr_throttled 7\nthrottled_usec 2500000\n", 2.5),
        (b"nr_periods 9\nnr_throttled 7\nthrottled_time 1500000000\n", 1.5),
        (b"", 0),
        (None, 0),
    ],
)
def test_both_versions_of_control_groups_are_read(said: bytes | None, seconds: float) -> None:
    def look(script: str) -> bytes:
        if said is None:
            raise RunError("no shell")
        return said

    place = SimpleNamespace(_place=SimpleNamespace(look=look))
    assert SamplerPlace.held_back_s(place, 7) == seconds


def test_a_quota_is_said_from_a_tenth_of_the_time_and_before_what_follows_from_it() -> None:
    run = SimpleNamespace(end=SimpleNamespace(elapsed_ns=10**10))
    assert _held_back(0.9, run) == [] == _held_back(0, SimpleNamespace(end=None))
    (said,) = _held_back(7.04, run)
    assert "held threads back for 7.0 s in 10.0 s" in note_text(said)
    assert "a CPU quota held its threads back" in headline(find_results.result(notes=[said]))


@pytest.fixture
def held(sampling) -> Iterator[subprocess.Popen]:
    """A planted program that a quota gives a fiftieth of one CPU, less than a busy machine does."""
    first = next((g for g in (GROUPS / "cpu", GROUPS) if (g / "cgroup.procs").exists()), None)
    if first is None:
        pytest.skip("no control groups")
    group, old = first / f"linewright-{os.getpid()}", first.name == "cpu"
    try:
        group.mkdir()
        (group / ("cpu.cfs_quota_us" if old else "cpu.max")).write_text("2000")
    except OSError as refused:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"control groups cannot be made here: {refused}")
    with subprocess.Popen([sampling, "true", "2", "600"], stderr=subprocess.DEVNULL) as program:
        (group / "cgroup.procs").write_text(str(program.pid))
        yield program
        program.kill()
    group.rmdir()


def test_the_page_names_the_quota(held, found) -> None:
    notes = found("--pid", held.pid, "--for", "2s")["notes"]
    assert any("A CPU quota (cgroup) held threads back" in said for said in notes)

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
from linewright.find.sampling import _held_back
from linewright.run.place import Place, Quota
from linewright.run.programs import find_probe
from linewright.run.registry import ProbeTarget
from linewright.say.machine_lines import held_back_remarks, remarks
from linewright.schema import Cpu
from support import analysis_samples, find_results

GROUPS = Path("/sys/fs/cgroup")


@pytest.mark.parametrize(
    ("said", "quota"),
    [
        (b"usage_usec 5\nnr_throttled 7\nthrottled_usec 2500000\nquota 30000 100000\n", (0.3, 2.5)),
        (b"nr_throttled 7\nthrottled_time 1500000000\nquota 150000 100000\nquota\n", (1.5, 1.5)),
        (b"throttled_usec 0\nquota max 100000\n", (None, 0)),
        (b"throttled_time 0\nquota -1 100000\n", (None, 0)),
        (b"", (None, 0)),
        (None, (None, 0)),
    ],
)
def test_both_versions_of_control_groups_are_read(said: bytes | None, quota: tuple) -> None:
    def look(script: str) -> bytes:
        if said is None:
            raise RunError("no shell")
        return said

    place = SimpleNamespace(look=look)
    assert Place.quota(place, 7) == quota


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
    """Beside a load the program may get less than that for a while."""
    for seconds in ("2s", "8s", "32s"):
        notes = found("--pid", held.pid, "--for", seconds)["notes"]
        if any("A CPU quota (cgroup) held threads back" in said for said in notes):
            return
    raise AssertionError(notes)


def test_what_held_a_measurement_back_is_said_and_a_quota_is_a_condition_of_records() -> None:
    assert held_back_remarks(0.1, 20) == [] == held_back_remarks(0, 0)
    (said,) = held_back_remarks(3.1, 20)
    assert "held threads back for 3.1 s in 20.0 s" in said
    cpus = [Cpu(cpu=n, core=n, l3=0, socket=0, node=0, allowed=n < 2) for n in range(4)]
    for quota, allowed in ((None, ""), (2.0, ""), (0.3, "allowed 0.3 of 2 CPUs")):
        of = analysis_samples.context("0" * 16, 0, cpus=cpus, cpu_quota=quota)
        said = " ".join(remarks([of]))
        assert allowed in said and ("quota" in said) is bool(allowed)


def test_a_probe_has_its_machines_quota() -> None:
    place = Place(probe_path=find_probe())
    target = ProbeTarget(place)
    target.quota = lambda: Quota(0.3, 1.0)
    assert target.context().cpu_quota == 0.3
    target.close()

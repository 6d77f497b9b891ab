# SPDX-License-Identifier: MIT
"""Without perf_event_open: samples from a signal handler in a preloaded library, and the page says
so."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support import find_results, waiting
from support.finding import PLANTED, SAMPLER
from support.places import ROOT

DENY = PLANTED.with_name("find_deny_perf")
SECONDS = "0.6"


@pytest.fixture
def refused(built):
    """`linewright find --json` where perf_event_open fails with EPERM."""

    def start(*words: object) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("LINEWRIGHT_")} | {
            "LINEWRIGHT_FIND": str(SAMPLER), "PYTHONPATH": str(ROOT)}  # fmt: skip
        command = [DENY, sys.executable, "-m", "linewright", "find", "--json", *map(str, words)]
        return waiting.run(command, env=env)

    return start


def result(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr
    return find_results.worded(done.stdout)


@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [
        ("true", "true_counter", "true"),
        ("false", "false_counters", "false"),
        ("mutex", "planted_mutex", "true"),
    ],
)
def test_locked_operations_are_found(refused, built, kind: str, name: str, wanted: str) -> None:
    found = result(refused("--", built, kind, 2, SECONDS))
    assert found["source"] == "signal" and found["samples"] > 50
    line = found["lines"][0]
    assert name in line["object"] and line["kind"] == wanted and line["certainty"] == "sampled"


@pytest.mark.parametrize(
    "kind",
    [
        "private",
        *(
            pytest.param(k, marks=pytest.mark.slow)
            for k in ("private_plain", "read_shared", "turns")
        ),
    ],
)
def test_controls_give_none(refused, built, kind: str) -> None:
    assert result(refused("--", built, kind, 2, SECONDS))["lines"] == []


def test_processes_are_followed_through_fork(refused, built) -> None:
    found = result(refused("--", built, "fork", 2, SECONDS))
    assert [line["object_kind"] for line in found["lines"]] == ["shared_mapping"]


def test_the_page_says_what_was_refused_and_what_that_hides(refused, built) -> None:
    found = result(refused("--", built, "false_plain", 2, "0.5"))
    assert found["lines"] == []
    assert "perf_event_open: Operation not permitted" in found["notes"][0]
    assert any("false sharing between plain stores is unseen" in text for text in found["blind"])


def test_a_running_process_cannot_be_joined(refused) -> None:
    done = refused("--pid", os.getpid(), "--for", "1s")
    assert done.returncode == 3 and "cannot be sampled otherwise" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_programs_own_preloaded_library_stays(refused, built, monkeypatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "libSegFault-that-is-not-there.so")
    done = refused("--", "sh", "-c", "echo $LD_PRELOAD >&2")
    assert "liblinewright_find_timer.so:libSegFault-that-is-not-there.so" in done.stderr

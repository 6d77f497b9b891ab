# SPDX-License-Identifier: MIT
"""Without root: what a user's own process shows, another user's process, and the fall-back; each as
a user without privileges."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from linewright.find import stream
from support import find_results, waiting
from support.finding import PLANTED, SAMPLER, sampled
from support.places import ROOT

SECONDS = "1.2"
NOBODY = 65534
READ_ANY_FILE = "-all,+dac_read_search"
"""The checkout may lie in a folder of root's. The capability lets the command read it and changes
nothing about perf or other processes."""
DENY = "find_deny_perf"


@pytest.fixture(scope="module")
def public():
    """What is run, where every user may run it."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, by setpriv (util-linux)")
    with tempfile.TemporaryDirectory(prefix="linewright-public-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        for path in (
            SAMPLER,
            *SAMPLER.parent.glob("liblinewright_find_*.so"),
            PLANTED,
            PLANTED.with_name(DENY),
        ):
            if not path.exists():
                pytest.skip(f"{path.name} is not built")
            shutil.copy(path, folder)
        yield Path(folder)


@pytest.fixture
def as_nobody(public):
    """`linewright find` as a user without privileges, from a folder of the user nobody."""

    def start(*words: object, before: tuple[object, ...] = ()) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("LINEWRIGHT_", "XDG_"))} | {
            "LINEWRIGHT_FIND": str(public / SAMPLER.name),
            "PYTHONPATH": str(ROOT),
            "HOME": "/nonexistent",
            "LINEWRIGHT_FIND_TIMER_LIBRARY": str(public / "liblinewright_find_timer.so"),
            "TMPDIR": "/tmp",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        drop = [
            "setpriv",
            f"--reuid={NOBODY}",
            f"--regid={NOBODY}",
            "--clear-groups",
            f"--bounding-set={READ_ANY_FILE}",
        ]
        drop += [f"--inh-caps={READ_ANY_FILE}", f"--ambient-caps={READ_ANY_FILE}"]
        command = [*drop, *before, sys.executable, "-m", "linewright", "find", *words]
        return waiting.run(list(map(str, command)), env=env, cwd="/")

    return start


def result(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr
    return find_results.worded(done.stdout)


def _paranoid() -> int:
    try:
        return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except OSError:
        return 99


@pytest.mark.skipif(
    _paranoid() > 2, reason="kernel.perf_event_paranoid is above 2, or there is no perf"
)
@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [("true", "true_counter", "true"), ("false_plain", "plain_counters", "false")],
)
def test_a_users_own_program_is_sampled_and_watched(
    as_nobody, public, kind: str, name: str, wanted: str
) -> None:
    found = result(as_nobody("--json", "--", public / PLANTED.name, kind, 2, SECONDS))
    assert found["source"] == "timer" and any(
        "kernel.perf_event_paranoid" in n for n in found["notes"]
    ) == (_paranoid() > 1)
    line = found["lines"][0]
    assert name in line["object"] and line["kind"] == wanted


@pytest.mark.skipif(
    _paranoid() > 2, reason="kernel.perf_event_paranoid is above 2, or there is no perf"
)
def test_a_users_own_running_process_is_joined(as_nobody, public) -> None:
    with subprocess.Popen(
        [public / PLANTED.name, "true", "2", "600"],
        user=NOBODY,
        group=NOBODY,
        extra_groups=(),
        cwd="/",
    ) as program:
        try:
            words = ("--json", "--pid", program.pid, "--for")
            found = sampled(lambda seconds: result(as_nobody(*words, seconds)))
        finally:
            program.kill()
    assert (found["lines"][0]["object"], found["lines"][0]["kind"]) == ("true_counter", "true")


@pytest.mark.skipif(
    _paranoid() > 2, reason="kernel.perf_event_paranoid is above 2, or there is no perf"
)
def test_a_process_that_may_not_be_inspected_is_refused_with_the_reason(as_nobody, public) -> None:
    """The same user, other groups: the kernel compares both."""
    with subprocess.Popen(
        [public / PLANTED.name, "true", "2", "20"], user=NOBODY, cwd="/"
    ) as program:
        try:
            done = as_nobody("--pid", program.pid, "--for", "1s")
        finally:
            program.kill()
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
    assert "may not be inspected" in done.stderr and "start the program with find" in done.stderr


def test_the_cost_of_records_is_measured_where_there_are_some(public) -> None:
    """Where whole CPUs may not be sampled, what was stated was the noise of its measurement."""
    for user in (0, NOBODY):
        words = [public / SAMPLER.name, "--", "true"]
        done = subprocess.run(words, capture_output=True, user=user, group=user, cwd="/")
        start = stream.parse(done.stdout.splitlines()[0])
        if isinstance(start, stream.Start):  # perf_event_open is not refused
            assert bool(start.recorded_switch_ns) == (start.scope == "machine")


def test_another_users_process_is_refused_in_one_line(as_nobody) -> None:
    done = as_nobody("--pid", os.getpid(), "--for", "1s")
    assert (
        done.returncode == 2 and "another user's (0): run as that user, or as root" in done.stderr
    )
    assert len(done.stderr.splitlines()) == 1


def test_a_refusal_leads_to_the_fall_back(as_nobody, public) -> None:
    found = result(
        as_nobody("--json", "--", public / PLANTED.name, "true", 2, 2, before=(public / DENY,))
    )
    assert (
        found["source"] == "signal"
        and "perf_event_open" in found["notes"][0]
        and "CPU timers" in found["notes"][0]
    )
    assert ("true_counter", "true") in [(line["object"], line["kind"]) for line in found["lines"]]

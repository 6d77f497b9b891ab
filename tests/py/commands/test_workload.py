# SPDX-License-Identifier: MIT
"""`linewright workload`: the program behind it by its output and exit codes, and the two commands
that meet in a trial.

No test depends on how fast anything runs; that locks hold, and broken ones are caught, is in
tests/cpp/workload."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from linewright.commands import workload
from support import waiting
from support.places import ROOT

BUILT = ROOT / "build/native/workload/linewright-workload"
KINDS = ("refcount", "spinlock", "ticket", "mcs", "rwlock", "hash-bucket", "handoff")
FUTEX = ("futex-hash", "futex-wake", "futex-wake-parallel", "futex-requeue", "futex-lock-pi")
IN_ROUNDS = ("hash-bucket", "futex-wake", "futex-wake-parallel", "futex-requeue")


@pytest.fixture
def built() -> Path:
    if not BUILT.exists():
        pytest.skip("the native program is not built")
    return BUILT


@pytest.fixture
def run(built):
    """The program itself, which takes the command's place: one start of Python less for each
    test."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LINEWRIGHT_")}
    return lambda *words, env=(): waiting.run([built, *map(str, words)], env=clean | dict(env))


def as_json(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", KINDS + FUTEX)
def test_json_adds_up_and_says_that_it_was_verified(run, kind) -> None:
    options = ("--threads", 3, "--time-every", 1, "--seed", 5, "--json")
    for ms in (20, 200, 2000, 20_000):  # beside other programs a short window may see nothing
        found = as_json(run(kind, "--duration", f"{ms}ms", *options))
        if found["operations"]:
            break
    assert found["linewright_workload"] == 1 and found["workload"] == kind and found["seed"] == 5
    assert len(found["per_thread"]) == found["threads"] == 3
    assert sum(found["per_thread"]) == found["operations"]
    assert found["operations_per_s"] == pytest.approx(found["operations"] / found["seconds"])
    assert found["verified"] is True and found["checks"] and not found["failures"]
    squares = sum(n * n for n in found["per_thread"])
    assert found["fairness"] == pytest.approx(
        found["operations"] ** 2 / (3 * squares) if squares else 0
    )
    waits = found["wait_ns"]
    assert waits["timed"] > 0 and 0 <= waits["p50"] <= waits["p99"] <= waits["longest"]
    assert ("rounds" in found) == (kind in IN_ROUNDS)
    assert ("requeue_ms" in found.get("rounds", {})) == (kind in ("hash-bucket", "futex-requeue"))
    figure = {"futex-requeue": "requeued"}.get(kind, "woken" if "wake" in kind else "rate")
    assert found["figure"]["name"] == figure and found["figure"]["value"] > 0
    assert found["figure"]["higher_is_better"] == (figure == "rate")


def test_256_waiters_on_however_few_cpus_end_and_are_verified(run) -> None:
    found = as_json(run("hash-bucket", "--threads", 256, "--duration", "50ms", "--json"))
    assert found["verified"] and found["rounds"]["count"] >= 1 and found["yields"]


def test_table_has_the_figures_that_a_trial_looks_for(run) -> None:
    text = run("hash-bucket", "--threads", 2, "--duration", "20ms").stdout
    for expression in (
        r"rate +([0-9]+) operations/s",
        r"woken .* in ([0-9.]+) ms",
        r"requeued .* in ([0-9.]+) ms",
        r"fairness +([0-9.]+)",
        r"longest ([0-9.]+) (?:ns|us|ms|s) ",
    ):
        assert re.search(expression, text), (expression, text)
    lines = text.splitlines()
    assert lines[1].startswith("  rate ") and lines[2].startswith("  verified "), (
        "the decision first"
    )
    assert len(lines) <= 30 and max(map(len, lines)) <= 100 and "BROKEN" not in text


def test_the_command_is_the_program(built, command) -> None:
    assert (
        as_json(
            command.apart(
                "workload",
                "spinlock",
                "-t",
                "2",
                "-c",
                "10",
                "--duration",
                "20ms",
                "--json",
            )
        )["critical"]["iterations"]
        == 10
    )
    refused = command.apart("workload", "spinlock", "--threads", "0")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "hash-bucket" in command.apart("workload", "--help").stdout


def test_one_workload_in_a_trial(built, command) -> None:
    """Any pair of environments: that is all a trial needs to know."""
    words = [
        "--env",
        "A=1",
        "--env",
        "A=2",
        "--runs",
        "2",
        "--set",
        "warmup=0",
        "--metric",
        r"rate +([0-9]+) operations/s",
        "--higher-is-better",
        "--json",
    ]
    program = [
        sys.executable,
        "-m",
        "linewright",
        "workload",
        "ticket",
        "--threads",
        "2",
        "--duration",
        "20ms",
    ]
    done = command.apart("trial", *words, "--", *program)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failures"] == []
    assert [s["runs"] for s in found["verdict"]["settings"]] == [2, 2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "KIND"),
        (("mutex",), "hash-bucket"),
        (("mcs", "--threads", "0"), "1 … 1024"),
        (("mcs", "-t", "1025"), "1 … 1024"),
        (("mcs", "-t", "-1"), "1 … 1024"),
        (("mcs", "-t", "1" * 30), "1 … 1024"),
        (("mcs", "--cpus", "65535"), "CPU 65535"),
        (("mcs", "--cpus", "0", "-t", "2"), "pinned to"),
        (("mcs", "--critical", "9" * 30), "--critical"),
        (("mcs", "--duration", "0"), "--duration"),
        (("mcs", "--seed", "-1"), "--seed"),
        (("mcs", "--seed", "9" * 30), "--seed"),
        (("rwlock", "--write-percent", "101"), "0 … 100"),
        (("mcs", "--json=xml"), "--json"),
        (("mcs", "--bogus"), "--bogus"),
        (("mcs", "ticket"), "ticket"),
        (("mcs", "--wait", "spin", "-t", "1024"), "--wait"),
    ],
)
def test_a_wrong_request_is_one_line_and_exit_2(run, words, said) -> None:
    done = run(*words)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert (
        done.stdout == ""
        and done.stderr.startswith("linewright: ")
        and done.stderr.count("\n") == 1
    )
    bounds = re.escape(said).replace("…", "(to|-)")  # older and newer versions of CLI11
    assert re.search(bounds, done.stderr)


def test_a_wrong_setting_runs_nothing(run) -> None:
    done = run("mcs", env={"LINEWRIGHT_ATOMICS": "near"})
    assert done.returncode == 2 and done.stdout == ""
    assert "'near' is unknown" in done.stderr and "nothing was run" in done.stderr
    assert done.stderr.count("\n") == 1 and "default is used" not in done.stderr


def test_a_wrong_hint_runs_nothing_and_another_is_named(run) -> None:
    done = run("mcs", env={"LINEWRIGHT_WAIT": "puase"})
    assert done.returncode == 2 and done.stdout == ""
    assert "LINEWRIGHT_WAIT: 'puase' is no hint" in done.stderr and "nothing was run" in done.stderr
    assert done.stderr.count("\n") == 1 and "auto is used" not in done.stderr
    words = ("mcs", "--duration", "20ms", "--json")
    found = as_json(run(*words, env={"LINEWRIGHT_WAIT": "none,backoff=exponential"}))
    assert found["wait"].startswith("none, back-off exponential,")


def test_competitors_and_slices_are_said(run) -> None:
    words = ("spinlock", "--critical", "50us", "--duration", "50ms", "--competitors")
    found = as_json(run(*words, "--json", env={"LINEWRIGHT_WAIT": "slice"}))
    assert found["competitors"]["cpus"] == sorted(os.sched_getaffinity(0))
    assert {"voluntary", "involuntary"} <= found["switches"].keys()
    assert ("extensions, on request," in found["wait"]) == ("slices" in found)
    assert "time slice extensions" in found["wait"]
    text = run(*words).stdout
    assert "  competing   a thread on each of CPU " in text and "  slices      " not in text
    assert re.search(r"switches +\d+ voluntary, \d+ involuntary; the holder lost its CPU", text)


def test_ctrl_c_shows_what_was_done_and_exits_with_3(built, command) -> None:
    running = command.start("workload", "ticket", "--duration", "1000s")
    # Python handles the signal until the program has taken its place; its threads are there a
    # little later.
    waiting.wait_for(lambda: len(os.listdir(f"/proc/{running.pid}/task")) > 1, running)
    assert Path(f"/proc/{running.pid}/exe").resolve() == BUILT.resolve()
    running.send_signal(signal.SIGINT)
    out, err = waiting.finish(running)
    assert running.returncode == 3, err
    assert b"(interrupted)" in out and b"verified" in out and b"BROKEN" not in out
    assert err.startswith(b"linewright: interrupted") and err.count(b"\n") == 1


def test_a_program_that_is_not_there_is_told(command) -> None:
    done = command.apart(
        "workload", "mcs", env=command.environment() | {"LINEWRIGHT_WORKLOAD": "/nowhere/at-all"}
    )
    assert done.returncode == 2 and "LINEWRIGHT_WORKLOAD: no such file" in done.stderr


@pytest.mark.parametrize(
    ("cpu", "setting"),
    [("max", "store,prefetch"), ("max", "load"), ("cortex-a57", "llsc,prefetch")],
)
def test_arm64_runs_under_every_kind_of_setting(cpu, setting) -> None:
    program = ROOT / "build/arm64/workload/linewright-workload"
    if not program.exists() or not shutil.which("qemu-aarch64"):
        pytest.skip("no arm64 program, or no emulator, here")
    for kind in KINDS + FUTEX:
        done = waiting.run(
            [
                "qemu-aarch64",
                "-cpu",
                cpu,
                program,
                kind,
                "-t",
                "2",
                "--duration",
                "20ms",
                "--json",
            ],
            env=os.environ | {"LINEWRIGHT_ATOMICS": setting},
        )
        assert done.returncode == 0, (kind, done.stdout, done.stderr)
        assert setting in json.loads(done.stdout)["policy"]


def test_the_list_has_the_programs_kinds(run):
    said = " ".join(run("--help").stdout.split())
    named = re.search(r"KIND TEXT REQUIRED ((?:[a-z-]+, )*[a-z-]+)", said)[1]
    assert set(named.split(", ")) == set(workload.KINDS) == {*KINDS, *FUTEX}

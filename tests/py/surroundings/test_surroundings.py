"""Measuring where something is missing, refused, full, changed or shared: it goes on, or says why in a line."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shlex
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from linewright.output.machine import company
from linewright.records import files as records
from support.places import FAKE_PROBE

SMALL = ["--quiet", "--only", "plain_add", "--set", "launches=2"]
CPUS = sorted(os.sched_getaffinity(0))


def cells(*changes: dict, **more: object) -> dict:
    """A plan that takes a moment."""
    base = {"operation": "add", "form": "plain_add", "order": "relaxed", "lines": 1}
    plan = {
        "linewright_plan": 2, "name": "small", "launches": 1, "min_windows": 2, "max_windows": 2, "window_ms": 0.5,
        "contended_window_ms": 1, "budget_s": 30, "cells": [base | change for change in changes or ({},)],
    }  # fmt: skip
    return plan | more


def write_plan(folder: Path, plan: dict) -> str:
    (folder / "p.json").write_text(json.dumps(plan))
    return "p.json"


def probed(real, plan: dict, *before: str, **options) -> list[dict]:
    """The lines of one run of the real probe."""
    done = subprocess.run(
        [*before, real.probe], input=json.dumps(plan), capture_output=True, text=True, timeout=300, **options
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(path: Path) -> list:
    return records.read(path, lambda warning: None)[1]


def wait_for(condition, timeout_s: float = 120.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def test_one_cpu(real):
    """A cpuset of one: what one thread can do is measured, what needs two says so."""
    pair = {"contender": "same_line", "threads": 2, "form": "lock_add", "order": "full"}
    context, alone, together = probed(real, cells({}, pair), preexec_fn=lambda: os.sched_setaffinity(0, {CPUS[-1]}))
    assert [cpu["cpu"] for cpu in context["cpus"] if cpu["allowed"]] == [CPUS[-1]]
    assert alone["status"] == "ok" and alone["cpus"] == [CPUS[-1]]
    assert together["status"] == "unavailable" and "2 pinned threads need 2 CPUs" in together["reason"]


@pytest.mark.skipif(len(CPUS) < 2, reason="asks for two CPUs")
def test_affinity_that_changes_in_the_middle(real):
    """A CPU is taken away while it runs: the launch ends as it should, and no window on another CPU counts."""
    plan = cells({}, precision=1e-9, max_windows=400, window_ms=5)
    process = subprocess.Popen(
        [real.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdin.write(json.dumps(plan))
    process.stdin.close()
    process.stdin = None
    context = json.loads(process.stdout.readline())
    timed = context["cpus"][0]["cpu"]
    for _ in range(40):
        for task in os.listdir(f"/proc/{process.pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task), {CPUS[1] if timed == CPUS[0] else CPUS[0]})
        time.sleep(0.02)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    (record,) = (json.loads(line) for line in said.splitlines())
    assert record["status"] in ("ok", "unreliable", "error"), record
    if record["status"] == "ok":
        assert record["cpus"] == [timed] and sum(record["discarded"].values()) > 0
    if record["status"] == "error":
        assert record["reason"]


def limited(size: int) -> None:
    """A file may not grow further, as on a disk that is full; Python ignores the signal and sees EFBIG."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_that_may_not_grow(command):
    answer = command.apart("measure", "--only", "plain_add", "-o", "r.jsonl", preexec_fn=lambda: limited(20_000))
    assert answer.returncode == 3 and "Traceback" not in answer.stderr
    assert "r.jsonl: File too large" in answer.stderr.splitlines()[-1]
    rows = rows_of(command.directory / "r.jsonl")
    assert rows, "what fitted is kept, and can be read"
    go_on = command("measure", "--quiet", "--only", "plain_add", "--resume", "r.jsonl")
    assert go_on.returncode == 0, go_on.stderr
    runs = [(row.id, row.launch) for row in rows_of(command.directory / "r.jsonl")]
    assert len(runs) == len(set(runs)) == 30


@pytest.mark.skipif(os.getuid() != 0, reason="mounting a small file system asks for root")
def test_a_full_disk(command):
    small = command.directory / "small"
    small.mkdir()
    inside = f'mount -t tmpfs -o size=16k none {small} && "$@"; code=$?; cp {small}/r.jsonl kept.jsonl; exit $code'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inside, "sh", *command.arguments("measure", "--only", "plain_add", "-o", "small/r.jsonl")],
        cwd=command.directory, env=command.environment(), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 3 and "No space left on device" in done.stderr.splitlines()[-1], done.stderr
    assert rows_of(command.directory / "kept.jsonl")


def test_not_a_terminal_and_the_c_locale(command):
    environment = {key: value for key, value in command.environment().items() if not key.startswith(("LC_", "LANG"))}
    for locale in ({"LANG": "C"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        answer = command.apart(
            "measure", "--only", "lock_add", "--set", "launches=2", "-o", "r.jsonl", "--force",
            env=environment | locale, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert answer.returncode == 0 and "\x1b" not in answer.stdout + answer.stderr, answer.stderr
        assert "Fake, 2 CPUs" in answer.stdout and len(rows_of(command.directory / "r.jsonl")) == 24


def test_paths_with_spaces_and_signs(command):
    folder = command.directory / "a b $c 'd' \"e\" é"
    folder.mkdir()
    probe = folder / "my probe"
    probe.write_bytes(FAKE_PROBE.read_bytes())
    probe.chmod(0o755)
    command.probe = probe
    out = str(folder / "r s.jsonl")
    assert command("measure", *SMALL, "-o", out).returncode == 0
    assert command("show", out).returncode == 0
    assert command("report", out, "-o", str(folder / "p q.html")).returncode == 0
    command.fake = {"die_after": 1}
    stopped = command("measure", *SMALL, "-o", str(folder / "t u.jsonl"))
    assert stopped.returncode == 3
    words = shlex.split(stopped.stderr.splitlines()[-1].partition("continue with ")[2])
    command.fake = {}
    assert command("measure", "--quiet", *words).returncode == 0


def test_a_wall_clock_that_steps(command, monkeypatch):
    """Budgets and progress take the clock that never steps; the wall clock only dates the records."""
    steps = iter(range(0, 10**9, 86_400))
    monkeypatch.setattr(time, "time", lambda: 1.7e9 - next(steps))
    assert command("measure", *SMALL, "-o", "r.jsonl").returncode == 0
    assert len(rows_of(command.directory / "r.jsonl")) == 12


def test_no_write_permission_but_for_the_output(command):
    """Home, temporary folder and working directory cannot be written: the records can."""
    closed, open_folder = command.directory / "closed", command.directory / "open"
    closed.mkdir(mode=0o555)
    open_folder.mkdir()
    environment = command.environment() | {"HOME": str(closed), "TMPDIR": str(closed), "XDG_CACHE_HOME": str(closed)}
    # Root writes anywhere, but not without these capabilities.
    plain = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"] if os.getuid() == 0 else []
    options = {"cwd": closed, "env": environment, "capture_output": True, "text": True, "timeout": 300}
    assert subprocess.run([*plain, "touch", "x"], **options).returncode, "the folder is closed"
    words = command.arguments("measure", *SMALL, "-o", str(open_folder / "r.jsonl"))
    done = subprocess.run([*plain, *words], **options)
    assert done.returncode == 0, done.stderr
    refused = subprocess.run([*plain, *words[:-2]], **options)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and "cannot make results/ here" in refused.stderr


PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
BPF_LD_W_ABS, BPF_JEQ, BPF_RET = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBERS = {
    "x86_64": {"perf_event_open": 298, "mbind": 237, "set_mempolicy": 238, "bpf": 321, "keyctl": 250, "unshare": 272,
               "setns": 308, "mount": 165, "membarrier": 324, "rseq": 334, "sched_setscheduler": 144, "mlockall": 151},
    "aarch64": {"perf_event_open": 241, "mbind": 235, "set_mempolicy": 237, "bpf": 280, "keyctl": 219, "unshare": 97,
                "setns": 268, "mount": 40, "membarrier": 283, "rseq": 293, "sched_setscheduler": 119, "mlockall": 230},
}  # fmt: skip
"""System calls by number, <asm/unistd.h> of each architecture."""
DOCKER = ("perf_event_open", "mbind", "set_mempolicy", "bpf", "keyctl", "unshare", "setns", "mount")
"""What Docker's default profile refuses with EPERM without capabilities, as far as a measuring program could want it."""
SYSTEMD = (
    "perf_event_open",
    "sched_setscheduler",
    "mlockall",
    "membarrier",
    "rseq",
    "bpf",
    "mount",
    "setns",
    "unshare",
)
"""What a strict SystemCallFilter of a service refuses: @resources, @privileged, @mount, and what it does not know."""


def refusing(names: tuple[str, ...]) -> None:
    """Install a filter for this process and what it starts: these system calls fail with EPERM."""
    numbers = NUMBERS[os.uname().machine]
    code = [(BPF_LD_W_ABS, 0, 0, 0)]
    for name in names:
        code += [(BPF_JEQ, 0, 1, numbers[name]), (BPF_RET, 0, 0, ERRNO | 1)]
    code.append((BPF_RET, 0, 0, ALLOW))
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    buffer = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.skipif(os.uname().machine not in NUMBERS, reason="no table of system calls for this architecture")
@pytest.mark.parametrize("names", [DOCKER, SYSTEMD], ids=["docker", "systemd"])
def test_a_seccomp_profile(real, names):
    forms = [
        {},
        {"operation": "percpu_add", "form": "percpu_rseq_add", "order": "relaxed"},
        {"operation": "percpu_add", "form": "percpu_lock_add", "order": "full"},
    ]
    every = json.loads(subprocess.run([real.probe, "--list-forms"], capture_output=True, check=True).stdout)
    known = {form["name"] for form in every if form["width_bits"] == 64}
    plan = cells(*(form for form in forms if form.get("form", "plain_add") in known), counters=["cycles", "task-clock"])
    context, *rows = probed(real, plan, preexec_fn=lambda: refusing(names))
    assert context["counters"] == "unavailable" and context["counters_reason"]
    assert all(row["status"] in ("ok", "unavailable") and (row["status"] == "ok" or row["reason"]) for row in rows), (
        rows
    )
    assert rows[0]["status"] == "ok"


@pytest.mark.skipif(os.getuid() != 0, reason="hiding /sys asks for root")
@pytest.mark.parametrize("hidden", ["/sys", "/proc"])
def test_without_sysfs_or_proc(real, hidden: str):
    """As in gVisor or a strict chroot: the scheduler's mask is all that is known."""
    script = f'mount -t tmpfs none {hidden} && exec "$@"'
    context, row = probed(real, cells(), "unshare", "--mount", "sh", "-c", script, "sh")
    assert row["status"] == "ok" and {cpu["cpu"] for cpu in context["cpus"] if cpu["allowed"]} == set(CPUS)
    if hidden == "/proc":
        assert context["other_load"] is None
    else:
        assert all(cpu["socket"] == -1 for cpu in context["cpus"])


def test_another_load_is_noticed_and_said(real):
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        write_plan(real.directory, cells(launches=2))
        answer = real("measure", "--quiet", "--plan", "p.json", "-o", "r.jsonl")
    finally:
        burner.kill()
        burner.wait()
    assert answer.returncode == 0, answer.stderr
    assert "CPUs busy meanwhile" in answer.stderr
    assert all(c.other_load > 0.25 for c in records.read(real.directory / "r.jsonl", pytest.fail)[0])


def test_two_runs_at_once_are_noticed_and_said(real):
    """In a network namespace of its own where there may be one: other tests run probes, too."""
    plan = json.dumps(cells({}, precision=1e-9, max_windows=1000, window_ms=20, min_windows=1000, budget_s=60))
    first = subprocess.Popen([real.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        first.stdin.write(plan.encode())
        first.stdin.close()
        first.stdout.readline()
        write_plan(real.directory, cells())
        answer = real("measure", "--quiet", "--plan", "p.json", "-o", "r.jsonl")
        assert answer.returncode == 0, answer.stderr
        assert "another run was measuring on this machine" in answer.stderr
        refused = real.refused("measure", "--on", "exec:env", "--plan", "p.json", "-o", "s.jsonl")
        assert "another run is measuring there" in refused
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdout.close()


def test_a_quiet_machine_is_not_called_busy(command):
    for load, said in ((0.1, False), (0.3, True), (None, False)):
        command.fake = {"other_load": load}
        answer = command("measure", *SMALL, "-o", "r.jsonl", "--force")
        assert answer.returncode == 0 and ("CPUs busy meanwhile" in answer.stderr) is said, answer.stderr
    assert company([]) == []
    command.fake = {"other_load": 1.5, "cpus": list(range(200))}
    assert "busy" not in command("measure", *SMALL, "-o", "r.jsonl", "--force").stderr, "under 2 % of a large machine"


def test_a_thousand_cpus(command):
    """Numbers with holes and beyond any fixed mask, as on the largest machines."""
    command.fake = {"cpus": [*range(1000), 4000]}
    answer = command("measure", *SMALL, "--cpus", "4000,3", "-o", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    assert command("topology").returncode == 0
    assert "CPU 1000 is absent or offline" in command.refused("measure", "--cpus", "1000")

# SPDX-License-Identifier: MIT
"""Measuring where something is missing, refused, full, changed or shared: it goes on, or says why
in a line."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from linewright.records import files as records
from linewright.say.machine_lines import other_load_remarks
from support import seccomp, waiting
from support.command_lines import go_on
from support.finding import PLANTED
from support.mounts import own_mounts
from support.network import own_network
from support.places import FAKE_PROBE, ROOT

sys.path.insert(0, str(ROOT / "tests" / "system"))
import run_arm64

SIX = ["--format", "none", "--only", "plain_add", "--set", "work=0,10,20,50,100,200"]
"""Options of `measure` for six cells."""
SMALL = [*SIX, "--set", "launches=2"]
CPUS = sorted(os.sched_getaffinity(0))
MEASURED = ("ok", "unreliable")
"""Beside a load every window may be disturbed, which the record then says."""


def cells(*changes: dict, **more: object) -> dict:
    """A plan that takes a moment."""
    base = {"operation": "add", "form": "plain_add", "order": "relaxed", "lines": 1}
    plan = {
        "linewright_plan": 2,
        "name": "small",
        "launches": 1,
        "min_windows": 2,
        "max_windows": 2,
        "window_ms": 0.5,
        "contended_window_ms": 1,
        "budget_s": 30,
        "cells": [base | change for change in changes or ({},)],
    }
    return plan | more


def write_plan(folder: Path, plan: dict) -> str:
    (folder / "p.json").write_text(json.dumps(plan))
    return "p.json"


def probed(real, plan: dict, *before: str, **options) -> list[dict]:
    """The lines of one run of the real probe."""
    done = waiting.run([*before, real.probe], input=json.dumps(plan), **options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows_of(path: Path) -> list:
    return records.read(path, lambda warning: None)[1]


@pytest.fixture
def one_cpu() -> Iterator[Path]:
    """A cpuset of one CPU: the control group's list of processes."""
    for root in ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"):
        group = Path(root, f"linewright-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / "cpuset.cpus").exists():
                (group / "cpuset.cpus").write_text(str(CPUS[-1]))
                (group / "cpuset.mems").write_text("0")
                yield group / "cgroup.procs"
                return
        finally:
            group.rmdir()
    pytest.skip(
        "no control group of one CPU can be made: that asks for root and the controller cpuset"
    )


def test_one_cpu(real, one_cpu):
    """A cpuset of one: what one thread can do is measured, what needs two says so."""
    pair = {"contender": "same_line", "threads": 2, "form": "lock_add", "order": "full"}
    context, alone, together = probed(
        real, cells({}, pair), preexec_fn=lambda: one_cpu.write_text(str(os.getpid()))
    )
    assert [cpu["cpu"] for cpu in context["cpus"] if cpu["allowed"]] == [CPUS[-1]]
    assert alone["status"] in MEASURED and alone["cpus"] == [CPUS[-1]]
    assert (
        together["status"] == "unavailable" and "2 pinned threads need 2 CPUs" in together["reason"]
    )


def test_one_cpu_in_the_whole_command(real, one_cpu):
    """Plan quick in a cpuset of one CPU: what needs two is left out and counted, and there is a
    result."""
    words = [
        "measure",
        "--only",
        "*add/u64*/w0/*",
        "--set",
        "launches=1",
        "--budget",
        "4s",
        "-o",
        "r.jsonl",
    ]
    answer = real.apart(*words, preexec_fn=lambda: one_cpu.write_text(str(os.getpid())))
    assert answer.returncode == 0, answer.stderr
    rows = rows_of(real.directory / "r.jsonl")
    assert "unavailable" in {row.status for row in rows} <= {*MEASURED, "unavailable"}
    assert all((row.status in MEASURED) == (row.cell.threads == 1) for row in rows)
    assert "with a second CPU, because only one CPU could be used" in answer.stdout


def test_a_cpuset_that_shrinks_in_the_middle(real, one_cpu):
    """The whole process is moved into a cpuset of one while it measures: it ends as it should."""
    plan = cells({}, precision=1e-9, max_windows=400, window_ms=5)
    process = subprocess.Popen(
        [real.probe],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write(json.dumps(plan))
    process.stdin.close()
    process.stdin = None
    process.stdout.readline()
    one_cpu.write_text(str(process.pid))
    said, errors = waiting.finish(process)
    assert process.returncode == 0, errors
    (record,) = (json.loads(line) for line in said.splitlines())
    assert record["status"] == "ok" or record["reason"], record


@pytest.mark.skipif(len(CPUS) < 2, reason="asks for two CPUs")
def test_affinity_that_changes_in_the_middle(real):
    """A CPU is taken away while it runs: the launch ends as it should, and no window on another CPU
    counts."""
    plan = cells({}, precision=1e-9, max_windows=400, window_ms=5)
    process = subprocess.Popen(
        [real.probe],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    process.stdin.write(json.dumps(plan))
    process.stdin.close()
    process.stdin = None
    context = json.loads(process.stdout.readline())
    timed = context["cpus"][0]["cpu"]
    while process.poll() is None and waiting.cpu_s(process.pid) < 0.8:  # of two seconds at least
        for task in os.listdir(f"/proc/{process.pid}/task"):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task), {CPUS[1] if timed == CPUS[0] else CPUS[0]})
        time.sleep(0.02)
    said, errors = waiting.finish(process)
    assert process.returncode == 0, errors
    (record,) = (json.loads(line) for line in said.splitlines())
    assert record["status"] in ("ok", "unreliable", "error"), record
    if record["status"] == "ok":
        assert record["cpus"] == [timed] and sum(record["discarded"].values()) > 0
    if record["status"] == "error":
        assert record["reason"]


def limited(size: int) -> None:
    """A file may not grow further, as on a disk that is full; Python ignores the signal and sees
    EFBIG."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_file_that_may_not_grow(command):
    words = ["measure", *SIX, "--set", "launches=5"]
    answer = command.apart(*words, "-o", "r.jsonl", preexec_fn=lambda: limited(20_000))
    assert answer.returncode == 3 and "Traceback" not in answer.stderr
    assert "r.jsonl: File too large" in answer.stderr.splitlines()[-1]
    rows = rows_of(command.directory / "r.jsonl")
    assert rows, "what fitted is kept, and can be read"
    go_on = command(*words, "--resume", "r.jsonl")
    assert go_on.returncode == 0, go_on.stderr
    runs = [(row.id, row.launch) for row in rows_of(command.directory / "r.jsonl")]
    assert len(runs) == len(set(runs)) == 30


@own_mounts
def test_a_full_disk(command):
    small = command.directory / "small"
    small.mkdir()
    inside = (
        f'mount -t tmpfs -o size=16k none {small} && "$@"; code=$?; cp {small}/r.jsonl '
        "kept.jsonl; exit $code"
    )
    done = waiting.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            inside,
            "sh",
            *command.arguments("measure", "--only", "plain_add", "-o", "small/r.jsonl"),
        ],
        cwd=command.directory,
        env=command.environment(),
    )
    assert done.returncode == 3 and "No space left on device" in done.stderr.splitlines()[-1], (
        done.stderr
    )
    assert rows_of(command.directory / "kept.jsonl")


def test_not_a_terminal_and_the_c_locale(command):
    environment = {
        key: value
        for key, value in command.environment().items()
        if not key.startswith(("LC_", "LANG"))
    }
    words = ["--only", "lock_add", "--set", "launches=2"]
    for locale in ({"LANG": "C"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        answer = command.apart(
            "measure", *words, "-o", "r.jsonl", env=environment | locale,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert answer.returncode == 0 and "\x1b" not in answer.stdout + answer.stderr, answer.stderr
        rows = rows_of(command.directory / "r.jsonl")
        assert "Fake, 2 CPUs" in answer.stdout and len(rows) == command.planned(*words)
        (command.directory / "r.jsonl").unlink()


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
    command.fake = {}
    assert command(*go_on(stopped.stderr), "--format", "none").returncode == 0


def test_a_wall_clock_that_steps(command, monkeypatch):
    """Budgets and progress take the clock that never steps; the wall clock only dates the
    records."""
    steps = iter(range(0, 10**9, 86_400))
    monkeypatch.setattr(time, "time", lambda: 1.7e9 - next(steps))
    assert command("measure", *SMALL, "-o", "r.jsonl").returncode == 0
    assert len(rows_of(command.directory / "r.jsonl")) == 12


@pytest.mark.slow
@pytest.mark.parametrize("way", ["forward", "back"])
def test_a_wall_clock_that_is_really_stepped(way, real, tmp_path):
    """By an hour several times in each window, under a kernel of its own: an emulated machine. Its
    CPUs are away whenever this machine does other things, which disturbs windows: there are as many
    tries as it takes. A time read from that clock would call threads away, or end the run."""
    probe, compiler = (
        ROOT / "build/arm64/probe/linewright-probe",
        shutil.which("aarch64-linux-gnu-gcc"),
    )
    if not probe.exists() or compiler is None:
        pytest.skip(
            "the arm64 probe is not built, or there is no compiler: x86-64's clock is not emulated"
        )
    try:
        kernel = run_arm64.kernel(tmp_path)
        run_arm64.tool("qemu-system-aarch64", "qemu-system-arm")
    except run_arm64.Unavailable as missing:
        pytest.skip(str(missing))
    for name in ("init", "step_clock"):
        source = ROOT / f"tests/system/{name}.c"
        subprocess.run([compiler, "-O1", "-static", "-o", tmp_path / name, source], check=True)
    plan = json.dumps(
        cells(
            {},
            {"form": "ldadd", "operation": "fetch_add"},
            min_windows=20,
            max_windows=20_000,
            precision=0.5,
            window_ms=1,
            budget_s=100,
        )
    )
    commands = [[str(tmp_path / "step_clock"), way, plan, "/probe"]]
    archive = tmp_path / "archive"
    archive.write_bytes(
        run_arm64.initramfs(tmp_path / "init", commands, {"probe": probe.read_bytes()})
    )
    console = run_arm64.boot(kernel, archive, 2, 600, 1800).replace("\r", "")
    assert "@@exit 0 0" in console, console[-3000:]
    steps = int(console.partition("\nsteps ")[2].split()[0])
    rows = [
        json.loads(line) for line in console.splitlines() if line.startswith('{"linewright_record"')
    ]
    assert [row["stop"] for row in rows] == ["precision", "precision"], "neither time nor tries"
    kept = [ns for row in rows for ns in row["window_ns"]]
    assert steps > len(kept) >= 40, "an hour is not taken for a switch"
    assert all(0 < ns < 1e6 for ns in kept), "an hour is 3.6e12 ns"


def test_no_write_permission_but_for_the_output(command):
    """Home, temporary folder and working directory cannot be written: the records can."""
    closed, open_folder = command.directory / "closed", command.directory / "open"
    closed.mkdir(mode=0o555)
    open_folder.mkdir()
    environment = command.environment() | {
        "HOME": str(closed),
        "TMPDIR": str(closed),
        "XDG_CACHE_HOME": str(closed),
    }
    # Root writes anywhere, but not without these capabilities.
    plain = (
        ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
        if os.getuid() == 0
        else []
    )
    options = {
        "cwd": closed,
        "env": environment,
        "capture_output": True,
        "text": True,
        "timeout": 300,
    }
    assert subprocess.run([*plain, "touch", "x"], **options).returncode, "the folder is closed"
    words = command.arguments("measure", *SMALL, "-o", str(open_folder / "r.jsonl"))
    done = subprocess.run([*plain, *words], **options)
    assert done.returncode == 0, done.stderr
    refused = subprocess.run([*plain, *words[:-2]], **options)
    assert (
        refused.returncode == 2
        and refused.stderr.count("\n") == 1
        and "cannot make results/ here" in refused.stderr
    )


OLD = (
    "perf_event_open",
    "membarrier",
    "rseq",
    "sched_setscheduler",
    "mlockall",
    "mbind",
    "set_mempolicy",
    "socket",
)
"""What filters refuse that are older than the system calls, or stricter than any default."""
PROFILES = {
    "containers": seccomp.containers,
    "service": seccomp.service,
    "strict": lambda: seccomp.refusing(*OLD),
}


@pytest.fixture(params=PROFILES)
def profile(request) -> Callable[[], None]:
    """What a child calls to be refused what this profile refuses."""
    if seccomp.missing():
        pytest.skip(f"apt install {seccomp.missing()}")
    return PROFILES[request.param]()


def test_a_seccomp_profile(real, profile):
    forms = [
        {},
        {"operation": "percpu_add", "form": "percpu_rseq_add", "order": "relaxed"},
        {"operation": "percpu_add", "form": "percpu_lock_add", "order": "full"},
        {"operation": "readers_pair", "form": "srcu_fast", "order": "acq_rel"},
    ]
    every = json.loads(
        subprocess.run([real.probe, "--list-forms"], capture_output=True, check=True).stdout
    )
    known = {form["name"]: form for form in every}
    plan = cells(
        *(
            form | {"width_bits": known[form["form"]]["width_bits"]} if form else form
            for form in forms
            if form.get("form", "plain_add") in known
        ),
        counters=["cycles", "task-clock"],
    )
    context, *rows = probed(real, plan, preexec_fn=profile)
    assert context["counters"] == "unavailable" and context["counters_reason"]
    # On a machine that is busy with other things, most windows may have been disturbed.
    measured = ("ok", "unreliable")
    assert all(
        row["status"] in measured or (row["status"] == "unavailable" and row["reason"])
        for row in rows
    ), rows
    assert rows[0]["status"] in measured and len(rows) >= 3


def test_the_commands_in_a_container(real):
    """What a container without capabilities refuses: each command goes on, and says what it could
    not do."""
    if seccomp.missing():
        pytest.skip(f"apt install {seccomp.missing()}")
    inside = {"preexec_fn": seccomp.containers(), "env": real.environment()}
    write_plan(real.directory, cells())
    measured = real.apart(
        "measure", "--format", "none", "--plan", "p.json", "-o", "r.jsonl", **inside
    )
    assert measured.returncode == 0 and len(rows_of(real.directory / "r.jsonl")) == 1, (
        measured.stderr
    )
    tried = real.apart(
        "trial",
        "--env",
        "A=1",
        "--runs",
        "2",
        "--set",
        "warmup=0",
        "--metric",
        "cpu",
        "--",
        "sh",
        "-c",
        "echo $(id)",
        **inside,
    )
    assert tried.returncode == 0 and "2 of 2 rounds were run" in tried.stdout, tried.stderr
    worked = real.apart("workload", "ticket", "--threads", "2", "--duration", "50ms", **inside)
    assert worked.returncode == 0, worked.stderr
    found = real.apart("find", "--", PLANTED, "true", "2", "1", **inside)
    assert found.returncode == 0 and "true_counter" in found.stdout, found.stderr
    assert (
        "a container's seccomp profile can be the cause. Chain by CPU timers"
        in found.stdout.replace("\n", " ")
    )


@own_mounts
@pytest.mark.parametrize("hidden", ["/sys", "/proc"])
def test_without_sysfs_or_proc(real, hidden: str):
    """As in gVisor or a strict chroot: the scheduler's mask is all that is known."""
    script = f'mount -t tmpfs none {hidden} && exec "$@"'
    context, row = probed(real, cells(), "unshare", "--mount", "sh", "-c", script, "sh")
    assert row["status"] in MEASURED and {
        cpu["cpu"] for cpu in context["cpus"] if cpu["allowed"]
    } == set(CPUS)
    if hidden == "/proc":
        assert context["other_load"] is None
    else:
        assert all(cpu["socket"] == -1 for cpu in context["cpus"])


def test_another_load_is_noticed_and_said(real):
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        write_plan(real.directory, cells(launches=2))
        answer = real("measure", "--format", "none", "--plan", "p.json", "-o", "r.jsonl")
    finally:
        burner.kill()
        burner.wait()
    assert answer.returncode == 0, answer.stderr
    assert "CPUs busy meanwhile" in answer.stderr
    assert all(
        c.other_load > 0.25 for c in records.read(real.directory / "r.jsonl", pytest.fail)[0]
    )


def test_two_runs_at_once_are_noticed_and_said(real):
    """In a network namespace of its own where there may be one: other tests run probes, too."""
    with own_network():
        until_killed = {"max_windows": 100_000, "min_windows": 100_000, "budget_s": 3600}
        last = [max(os.sched_getaffinity(0))]  # not the CPU that the second times
        plan = json.dumps(cells(precision=1e-9, window_ms=20, cpus=last, **until_killed))
        first = subprocess.Popen(
            [real.probe], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            first.stdin.write(plan.encode())
            first.stdin.close()
            first.stdout.readline()
            write_plan(real.directory, cells())
            answer = real("measure", "--format", "none", "--plan", "p.json", "-o", "r.jsonl")
            assert answer.returncode == 0, answer.stderr
            assert "another run was measuring on this machine" in answer.stderr
            refused = real.refused(
                "measure", "--on", "exec:env", "--plan", "p.json", "-o", "s.jsonl"
            )
            assert "another run is measuring there" in refused
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
            first.stdout.close()


def test_a_quiet_machine_is_not_called_busy(command):
    for load, said in ((0.1, False), (0.3, True), (None, False)):
        command.fake = {"other_load": load}
        answer = command("measure", *SMALL, "-o", f"{load}.jsonl")
        assert answer.returncode == 0 and ("CPUs busy meanwhile" in answer.stderr) is said, (
            answer.stderr
        )
    assert not [*other_load_remarks([])]
    command.fake = {"other_load": 1.5, "cpus": list(range(200))}
    assert "busy" not in command("measure", *SMALL, "-o", "r.jsonl").stderr, (
        "under 2 % of a large machine"
    )


def test_a_thousand_cpus(command):
    """Numbers with holes and beyond any fixed mask, as on the largest machines."""
    command.fake = {"cpus": [*range(1000), 4000]}
    answer = command("measure", *SMALL, "--set", "cpus=4000,3", "-o", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    assert command("topology").returncode == 0
    assert "CPU 1000 is absent or offline" in command.refused("measure", "--set", "cpus=1000")

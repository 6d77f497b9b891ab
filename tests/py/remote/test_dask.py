# SPDX-License-Identifier: MIT
"""Dask workers as machines, each on a loopback address of its own: measured, grouped, stopped, gone
on with, lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from linewright.records import files as records
from support import waiting
from support.helper import PROBE
from support.sshd import free_port, knobs, listens

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")

FEW = ["--only", "lock_add", "--only", "plain_add", "--set", "launches=2", "--budget", "20s"]


class Cluster:
    """A scheduler and workers as processes of their own, as `dask scheduler` and `dask worker`
    start them."""

    def __init__(self) -> None:
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._processes: dict[str, subprocess.Popen] = {}
        self._begin(
            "scheduler",
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            self.address.rpartition(":")[2],
        )

    def add(self, name: str, host: str, **fake: object) -> None:
        more = ["--host", host, "--name", name, "--nthreads", "1", "--no-nanny"]
        self._begin(
            name,
            "worker",
            self.address,
            *more,
            **knobs(**fake),
        )

    def _begin(self, name: str, what: str, *words: str, **environment: str) -> None:
        clean = {
            key: value for key, value in os.environ.items() if not key.startswith("LINEWRIGHT_")
        }
        self._processes[name] = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard"],
            env=clean | environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def wait(self) -> None:
        from distributed import Client

        scheduler, *workers = self._processes.values()
        port = int(self.address.rpartition(":")[2])
        waiting.wait_for(lambda: listens("127.0.0.1", port), scheduler)
        with Client(self.address, set_as_default=False) as client:
            waiting.wait_for(
                lambda: len(client.scheduler_info()["workers"]) == len(workers), scheduler, *workers
            )

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes.pop(name).wait()

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill(name)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    found = Cluster()
    try:
        found.add("one", "127.0.0.2", machine_id=f"{1:016x}")
        found.add("two", "127.0.0.3", machine_id=f"{2:016x}", ns={"lock_add": 15.0})
        found.add("slow", "127.0.0.4", machine_id=f"{3:016x}", pause_s=0.3)
        found.add("doomed", "127.0.0.5", machine_id=f"{4:016x}", pause_s=0.3)
        found.wait()
        yield found
    finally:
        found.stop()


def write_hosts(command, *lines: str) -> None:
    (command.directory / "hosts.txt").write_text("\n".join(lines) + "\n")


def until_records(path, count: int, process: subprocess.Popen) -> None:
    waiting.wait_for(
        lambda: path.exists() and path.read_bytes().count(b'{"linewright_record"') >= count, process
    )


def runs() -> list[str]:
    """Probes that workers run."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if b"./linewright-probe" in words:
            found.append(entry)
    return found


def until_nothing_runs() -> None:
    waiting.wait_for(lambda: not runs())


@pytest.fixture
def over(command, cluster: Cluster):
    """The command, whose Dask knows the scheduler."""
    command.patch.setenv("DASK_SCHEDULER_ADDRESS", cluster.address)
    command.patch.setitem(dask.config.config, "scheduler-address", cluster.address)
    return command


def test_workers_are_measured_grouped_and_remembered(over):
    write_hosts(over, "dask:one", "dask:127.0.0.3  # by its host", "dask:absent")
    words = ["measure", "--on", "@hosts.txt", *FEW]
    answer = over(*words, "-o", "f")
    assert answer.returncode == 3, answer.stderr
    said = " ".join(answer.stdout.split())
    assert said.startswith("2 machines, 2 groups: ")
    assert "A, 1 machine: one (" in said and "B, 1 machine: 127.0.0.3 (" in said
    assert "3.0 times slower than A: add by lock_add" in said
    assert "dask:absent no worker of this name or host at tcp:" in said
    files = {path.name: path.stat().st_mtime_ns for path in (over.directory / "f").glob("*.jsonl")}
    assert set(files) == {"one.jsonl", "127.0.0.3.jsonl"}
    assert len(records.read(over.directory / "f/one.jsonl", pytest.fail)[1]) == over.planned(*FEW)
    write_hosts(over, "dask:one", "dask:127.0.0.3")
    again = over(*words, "--resume", "f")
    assert again.returncode == 0 and "2 of 2 machines are done already" in again.stderr, (
        again.stderr
    )
    assert files == {
        path.name: path.stat().st_mtime_ns for path in (over.directory / "f").glob("*.jsonl")
    }


def test_a_stopped_run_goes_on_and_a_killed_one_ends_there(over):
    words = ["measure", "--format", "none", *FEW, "--on", "dask:slow"]
    process = over.start(*words, "-o", "r.jsonl")
    file = over.directory / "r.jsonl"
    until_records(file, 2, process)
    process.send_signal(signal.SIGINT)
    _, said = waiting.finish(process)
    assert process.returncode == 3 and b"stopped by SIGINT" in said, said
    kept = file.read_bytes()
    assert kept.endswith(b"\n")
    until_nothing_runs()
    again = over.start(*words, "--resume", "r.jsonl")
    until_records(file, kept.count(b'{"linewright_record"') + 1, again)
    again.kill()
    again.wait()
    assert file.read_bytes().startswith(kept)
    until_nothing_runs()


def test_other_commands_run_there_too(over):
    over.probe = PROBE
    done = over.apart(
        "trial", "--on", "dask:one", "--env", "A=1", "--env", "A=2", "--runs", "2",
        "--metric", r"(\d)", "--", "sh", "-c", "echo $A",
    )  # fmt: skip
    assert done.returncode == 0 and "A=2" in done.stdout, done.stderr


def test_a_lost_worker_keeps_its_records_and_the_others_go_on(over, cluster):
    write_hosts(over, "dask:doomed", "dask:one")
    process = over.start("measure", "--on", "@hosts.txt", *FEW, "-o", "f")
    until_records(over.directory / "f/doomed.jsonl", 2, process)
    cluster.kill("doomed")
    out, said = waiting.finish(process)
    assert process.returncode == 3 and b"the connection to dask:doomed was lost" in said, said
    assert b"A, 2 machines: doomed, one (" in out and len(
        records.read(over.directory / "f/one.jsonl", pytest.fail)[1]
    ) == over.planned(*FEW)


def test_requests_that_are_wrong(over):
    def refused(message: str) -> None:
        said = over.refused("measure", "--on", "dask:one")
        assert message in said and "shell" not in said, said

    (said,) = over.refused("measure", "--on", "dask:absent").splitlines()
    assert "no worker of this name" in said and "shell" not in said, said
    nowhere = f"tcp://127.0.0.1:{free_port()}"
    over.patch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    over.patch.setitem(dask.config.config, "scheduler-address", nowhere)
    refused(f"no scheduler at {nowhere}")
    over.patch.setitem(dask.config.config, "scheduler-address", "nonsense://x")
    refused("no scheduler at nonsense")
    over.patch.setitem(dask.config.config, "scheduler-address", None)
    refused("no scheduler named")
    assert "no worker named" in over.refused("measure", "--on", "dask:")
    over.patch.setattr("linewright.wings.find_spec", lambda name: None)
    refused("pip install distributed scipy")

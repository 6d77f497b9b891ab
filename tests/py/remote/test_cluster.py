"""A fleet of Dask workers, each on a loopback address of its own: measured, grouped, stopped, gone on with, lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from linewright import __version__
from linewright.fleet import worker
from linewright.records import files as records
from support.places import FAKE_PROBE, ROOT
from support.sshd import free_port, knobs

pytest.importorskip("distributed")

FEW = ["--only", "lock_add", "--only", "plain_add", "--set", "launches=2", "--budget", "20s"]


class Cluster:
    """A scheduler and workers as processes of their own, as `dask scheduler` and `dask worker` start them."""

    def __init__(self) -> None:
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self._processes: dict[str, subprocess.Popen] = {}
        self._begin("scheduler", "scheduler", "--host", "127.0.0.1", "--port", self.address.rpartition(":")[2])

    def add(self, name: str, host: str, **fake: object) -> None:
        more = ["--host", host, "--name", name, "--nthreads", "1", "--no-nanny"]
        self._begin(name, "worker", self.address, *more, **{"LINEWRIGHT_PROBE": str(FAKE_PROBE), **knobs(**fake)})

    def _begin(self, name: str, what: str, *words: str, **environment: str) -> None:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("LINEWRIGHT_")}
        self._processes[name] = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard"],
            env=clean | {"PYTHONPATH": str(ROOT)} | environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def wait(self) -> None:
        from distributed import Client

        with Client(self.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(len(self._processes) - 1, timeout=300)

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
    end = time.monotonic() + 300
    while not (path.exists() and path.read_bytes().count(b'{"linewright_record"') >= count):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.05)


def runs() -> list[str]:
    """Measurements of workers that go on."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if b"linewright-fleet-" in words:
            found.append(entry)
    return found


def test_workers_are_measured_grouped_and_remembered(command, cluster):
    write_hosts(command, "one", "127.0.0.3  # by its host", "absent")
    words = ["fleet", "hosts.txt", *FEW, "-o", "f", "--scheduler", cluster.address, "--jobs", "2"]
    answer = command(*words)
    assert answer.returncode == 3, answer.stderr
    head, first, second, *rest = answer.stdout.splitlines()
    assert "2 machines, 2 groups" in head and first.startswith("A  1: one") and second.startswith("B  1: 127.0.0.3")
    assert any("3 times slower than A" in line and "lock_add" in line for line in rest)
    assert rest[-1].startswith("failed: absent: no worker of this name or host at tcp://")
    files = {path.name: path.stat().st_mtime_ns for path in (command.directory / "f").glob("*.jsonl")}
    assert set(files) == {"one.jsonl", "127.0.0.3.jsonl"}
    assert len(records.read(command.directory / "f/one.jsonl", pytest.fail)[1]) == 36
    write_hosts(command, "one", "127.0.0.3")
    again = command(*words)
    assert again.returncode == 0 and "2 of 2 machines are done already" in again.stderr, again.stderr
    assert files == {path.name: path.stat().st_mtime_ns for path in (command.directory / "f").glob("*.jsonl")}


def test_a_stopped_fleet_goes_on(command, cluster):
    write_hosts(command, "slow")
    words = ["fleet", "hosts.txt", *FEW, "-o", "f", "--scheduler", cluster.address]
    process = command.start(*words)
    file = command.directory / "f/slow.jsonl"
    until_records(file, 2, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 3 and b"stopped by SIGINT" in said, said
    kept = file.read_bytes()
    assert kept.endswith(b"\n") and not runs()
    again = command.start(*words)
    until_records(file, kept.count(b'{"linewright_record"') + 1, again)
    again.kill()  # the second time nothing can be asked for: the worker notices the silence
    again.communicate()
    assert file.read_bytes().startswith(kept)


def test_a_lost_worker_keeps_its_records_and_the_others_go_on(command, cluster):
    write_hosts(command, "doomed", "one")
    process = command.start("fleet", "hosts.txt", *FEW, "-o", "f", "--scheduler", cluster.address)
    until_records(command.directory / "f/doomed.jsonl", 2, process)
    cluster.kill("doomed")
    out, said = process.communicate(timeout=300)
    assert process.returncode == 3 and b"its worker is gone" in said, said
    assert b"A  2: doomed, one" in out and len(records.read(command.directory / "f/one.jsonl", pytest.fail)[1]) == 36


def test_requests_that_are_wrong(command, cluster):
    there = ["--scheduler", cluster.address]
    write_hosts(command, "ssh://one")
    assert "ssh://one is no worker" in command.refused("fleet", "hosts.txt", *there)
    write_hosts(command, "two", "127.0.0.3")
    assert "two and 127.0.0.3 are one machine" in command.refused("fleet", "hosts.txt", *there)
    write_hosts(command, "one")
    command.patch.setattr("linewright.fleet.cluster.CONNECT_S", 1)
    nowhere = f"tcp://127.0.0.1:{free_port()}"
    assert f"no scheduler at {nowhere}" in command.refused("fleet", "hosts.txt", "--scheduler", nowhere)
    assert "no scheduler at nonsense" in command.refused("fleet", "hosts.txt", "--scheduler", "nonsense://x")
    command.patch.setitem(sys.modules, "distributed", None)
    assert "linewright[cluster]" in command.refused("fleet", "hosts.txt", *there)


def test_what_a_worker_does(command, monkeypatch):
    """Another version is refused there; a run of a command that is gone is ended."""
    refused = worker.measure("t", [], b"", "0.0.9")
    assert refused.code == 2 and b"0.0.9" in refused.said and __version__.encode() in refused.said
    command.fake = {"pause_s": 0.3}
    for key, value in command.environment().items():
        monkeypatch.setenv(key, value)

    def listen() -> None:
        while not (worker.news({"t": (0, 0)}) or {"t": worker.News(b"", b"")})["t"].records:
            time.sleep(0.05)
        worker.SILENT_S = 1.0

    monkeypatch.setattr(worker, "SILENT_S", worker.SILENT_S)
    threading.Thread(target=listen).start()
    ended = worker.measure("t", FEW, b"", __version__)
    assert ended.code == 3 and b"stopped by SIGTERM" in ended.said and ended.records.count(b"\n") > 1
    assert worker.news({"t": (0, 0)}) == {}

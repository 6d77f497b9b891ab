#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What does `linewright find` say of real servers under load, and what does it cost them? Debian's
redis, memcached, PostgreSQL and nginx, each with two workers.

    servers [--seconds S] [--rounds N [--parts] [--before TREE]] [NAME…]

Without --rounds find's page of each. With it what find takes from the throughput: server and load
run on CPU 0, find on another, so that its own CPU time is not in it. In each of N rounds find works
for a fifth of a second, and nothing for another, in random order: its processes are stopped, and
its perf events disabled through descriptors of this program. So both are held against each other
within half a second, and what else changes the machine's speed falls on both. A loop on the other
CPU that touches nothing has its turn in each round, too. It is busy all the time, and find for a
part of it: what find takes lies between the change against nothing and that against the loop.
--parts adds parts of find to each round; --before adds find of another tree that is built.

Needs redis-server redis-tools memcached libmemcached-tools postgresql-15 nginx-light apache2-utils,
and root. A server that is not installed is skipped. Every server listens on this machine alone, in
a folder of its own that is removed."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import itertools
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from in_tree import ENVIRONMENT, FIND, children

# isort: split
import numpy as np
from scipy import stats

from linewright.find.sampling import SampleRequest

PORT = 17_760
POSTGRES = "/usr/lib/postgresql/15/bin"
NGINX = """daemon off; worker_processes 2; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};
fastcgi_temp_path {folder};
uwsgi_temp_path {folder}; scgi_temp_path {folder};
limit_req_zone $server_port zone=all:1m rate=1000000r/s;
server {{ listen 127.0.0.1:{port}; limit_req zone=all burst=100000 nodelay;
location /requests {{ stub_status; }} location / {{ return 200 "hello"; }} }} }}
"""


class Server(NamedTuple):
    """How one is started and loaded; `{folder}` and `{port}` are filled in."""

    start: Sequence[str]
    load: Sequence[str]
    alone: str
    """A load for one CPU that lasts {seconds} or longer."""
    ask: tuple[str, str] | None
    """What to send to the server, and where in the answer its requests so far stand; None where
    the load writes a line with the time of each."""
    heap: bool = False
    """Started by find with the interposed malloc; else joined while it runs."""
    prepare: Sequence[str] = ()
    user: str | None = None


SERVERS = {
    "redis": Server(
        (
            "redis-server",
            "--port",
            "{port}",
            "--bind",
            "127.0.0.1",
            "--io-threads",
            "{threads}",
            "--io-threads-do-reads",
            "yes",
            "--save",
            "",
            "--dir",
            "{folder}",
        ),
        (
            "redis-benchmark",
            "-p",
            "{port}",
            "-c",
            "32",
            "-P",
            "8",
            "-n",
            "100000000",
            "-t",
            "set,get",
            "-q",
        ),
        "redis-benchmark -p {port} -c 32 -P 8 -n 100000000000 -t get -q",
        ("INFO stats\r\n", r"total_commands_processed:(\d+)"),
    ),
    "memcached": Server(
        ("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", "{port}", "-t", "{threads}"),
        ("memcaslap", "-s", "127.0.0.1:{port}", "-T", "2", "-c", "16", "-t", "600s"),
        "memcaslap -s 127.0.0.1:{port} -T 1 -c 16 -t {seconds}s",
        ("stats\r\n", r"STAT cmd_get (\d+)"),
        heap=True,
    ),
    "postgres": Server(
        (
            f"{POSTGRES}/postgres",
            "-D",
            "{folder}/data",
            "-k",
            "{folder}",
            "-p",
            "{port}",
            "-c",
            "listen_addresses=127.0.0.1",
        ),
        (
            "sh",
            "-c",
            "pgbench -h 127.0.0.1 -p {port} -U postgres -i -q postgres && exec pgbench -h "
            "127.0.0.1 -p {port}"
            " -U postgres -S -c 8 -j 1 -T 600 postgres",
        ),
        "pgbench -h 127.0.0.1 -p {port} -U postgres -n -S -c 8 -j 1 -T {seconds} -l"
        " --log-prefix={folder}/log postgres",
        None,
        prepare=(f"{POSTGRES}/initdb", "-D", "{folder}/data", "-A", "trust", "-N"),
        user="postgres",
    ),
    "nginx": Server(
        ("nginx", "-c", "{folder}/conf", "-e", "{folder}/error"),
        ("ab", "-q", "-k", "-c", "16", "-n", "100000000", "http://127.0.0.1:{port}/"),
        "ab -q -k -c 16 -t 3600 -n 100000000 http://127.0.0.1:{port}/",
        ("GET /requests HTTP/1.1\r\nHost: here\r\n\r\n", r"requests\s+\d+ \d+ (\d+)"),
    ),
}


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"nothing listens on {port}")


def end(process: subprocess.Popen) -> None:
    """The process and what it started, also where they are stopped."""
    try:
        os.killpg(process.pid, signal.SIGINT)
        os.killpg(process.pid, signal.SIGCONT)
        process.wait(10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}


def look_at(server: Server, fill: dict, seconds: float) -> None:
    """Starts one server and its load, and prints find's page."""
    start, load = ([word.format(**fill) for word in words] for words in (server.start, server.load))
    if server.heap:  # time for the load to begin is part of the run
        command = [*FIND, "--heap", "--for", f"{seconds + 3:g}s", "--", *start]
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        page = subprocess.Popen(command, env=ENVIRONMENT, **out)
        wait_for(fill["port"])
        client = subprocess.Popen(load, **QUIET)
        print(page.communicate()[0])
    else:
        process = subprocess.Popen(start, user=server.user, **QUIET)
        wait_for(fill["port"])
        client = subprocess.Popen(load, **QUIET)
        time.sleep(3)
        command = [*FIND, "--pid", str(process.pid), "--for", f"{seconds:g}s"]
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
        print(done.stdout)
        end(process)
    end(client)


WITHOUT, WHOLE, BEFORE, UNWATCHED = "nothing", "find", "find before", "find without watchpoints"
SAMPLER, BUSY = "the sampler alone", "a loop"
NO_REQUESTS = (
    "import sys; from linewright.find.watching import Watcher; from linewright.cli import main; "
    "Watcher.requests = lambda self: (); sys.exit(main())"
)
TURN_S, SETTLE_S = 0.2, 0.03
"""How long each works in a round, and how much of that at its beginning is not counted."""
PIDFD_GETFD = 438  # pidfd_getfd(2), which Python does not have
ENABLE, DISABLE = 0x2400, 0x2401  # PERF_EVENT_IOC_ENABLE and _DISABLE


class Beside(contextlib.ExitStack):
    """What can work on another CPU, and be halted."""

    def __init__(self, way: str, pid: int, seconds: float, before: str) -> None:
        super().__init__()
        words = ["--json", "--pid", str(pid), "--for", f"{seconds:g}s"]
        environment, given = dict(ENVIRONMENT), ()
        if way == BUSY:
            words = [sys.executable, "-c", "while True: pass"]
        elif way == SAMPLER:
            receive, send = given = os.pipe()
            words = [ENVIRONMENT["LINEWRIGHT_FIND"], "--commands", str(receive)]
            words += SampleRequest([], pid, seconds, False).arguments(os.cpu_count())
            os.write(send, b"\n")  # which it waits for
        elif way == UNWATCHED:
            words = [sys.executable, "-c", NO_REQUESTS, "find", *words]
        else:
            words = [*FIND, *words]
        if way == BEFORE:
            sampler = Path(before, "build/native/find/linewright-find")
            environment |= {"PYTHONPATH": before, "LINEWRIGHT_FIND": str(sampler)}
        self._page = way in (WHOLE, BEFORE, UNWATCHED)
        self.process = subprocess.Popen(
            words, env=environment, pass_fds=given,
            stdout=subprocess.PIPE if self._page else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for fd in given:
            self.callback(os.close, fd)
        self.callback(end, self.process)
        while self._page and "linewright-find" not in children(self.process.pid).values():
            time.sleep(0.1)
        self._pids = [self.process.pid, *children(self.process.pid)]
        for one in self._pids:
            os.sched_setaffinity(one, set(range(1, os.cpu_count())))
        # The sampler first measures on all CPUs what it costs; then it has a timer for each, and no
        # watchpoint before the load begins.
        looks = 0
        while way != BUSY and looks < 10:
            time.sleep(0.1)
            events = len(self._perf_events())  # changes of tasks have their own, where few
            looks = looks + 1 if events in (os.cpu_count(), 2 * os.cpu_count()) else 0
        self._timers = list(self._taken())
        for fd in self._timers:
            self.callback(os.close, fd)
        self.halt()

    def _perf_events(self) -> list[tuple[int, int]]:
        """Processes and their descriptors of perf events."""
        return [
            (pid, int(entry.name))
            for pid in self._pids
            for entry in Path(f"/proc/{pid}/fd").iterdir()
            if "perf_event" in os.path.realpath(entry)
        ]

    def _taken(self) -> Iterator[int]:
        """Descriptors of this program for the same events."""
        for pid, fd in self._perf_events():
            process = os.pidfd_open(pid)
            yield ctypes.CDLL(None).syscall(PIDFD_GETFD, process, fd, 0)
            os.close(process)

    def halt(self) -> None:
        """Nothing of it runs, and none of its timers or watchpoints stops the server."""
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)
        for fd in self._taken():
            fcntl.ioctl(fd, DISABLE)
            os.close(fd)

    def go(self) -> None:
        """On again, but for watchpoints: each lasts for less than a turn."""
        for fd in self._timers:
            fcntl.ioctl(fd, ENABLE)
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT)

    def overhead(self) -> float | None:
        """What the page says that finding took from the program where it worked, at its end."""
        if not self._page:
            return None
        self.go()
        return json.loads(self.process.communicate()[0])["overhead"]


def cost_of(
    name: str, server: Server, fill: dict, options: argparse.Namespace, ways: Sequence[str]
) -> None:
    """Requests per second with each of these at work beside the server and with none, by rounds,
    as rows of Markdown."""
    there, names = ["taskset", "-c", "0"], [WITHOUT, *ways]
    os.sched_setaffinity(0, set(range(1, os.cpu_count())))
    process = subprocess.Popen(
        [*there, *(word.format(**fill) for word in server.start)], user=server.user, **QUIET
    )
    wait_for(fill["port"])
    if name == "postgres":
        make = "pgbench -h 127.0.0.1 -p {port} -U postgres -i -q postgres".format(**fill).split()
        subprocess.run([*there, *make], check=True, **QUIET)
    seconds = 5 * len(names) + 1.2 * TURN_S * len(names) * options.rounds
    turns: list[tuple[str, list[tuple[float, int]]]] = []
    with contextlib.ExitStack() as stack:
        asked = server.ask and stack.enter_context(
            contextlib.closing(socket.create_connection(("127.0.0.1", fill["port"])))
        )
        beside = {
            way: stack.enter_context(Beside(way, process.pid, seconds, options.before))
            for way in ways
        }
        load = subprocess.Popen(
            [*there, *server.alone.format(**fill, seconds=f"{2 * seconds:.0f}").split()], **QUIET
        )
        time.sleep(1)
        rounds = (random.sample(names, len(names)) for _ in range(options.rounds))
        for way in itertools.chain.from_iterable(rounds):
            if way != WITHOUT:
                beside[way].go()
            ends = []
            for pause in (SETTLE_S, TURN_S - SETTLE_S):
                time.sleep(pause)
                ends.append((time.time(), answered(asked, *server.ask) if asked else 0))
            if way != WITHOUT:
                beside[way].halt()
            turns.append((way, ends))
        said = {way: one.overhead() for way, one in beside.items()}
    end(load)
    end(process)
    rates = {way: [] for way in names}
    times = None if server.ask else logged(Path(fill["folder"]))
    for way, ((begin, before), (over, after)) in turns:
        if times is not None:
            before, after = np.searchsorted(times, (begin, over))
        rates[way].append((after - before) / (over - begin))
    logs = {way: np.log(rates[way]) - np.log(rates[WITHOUT]) for way in ways}
    for way in ways:
        page = "–" if said[way] is None else f"{100 * said[way]:.1f}"
        beyond = "–" if way == BUSY else change(logs[way] - logs[BUSY])
        print(
            f"| {name} | {np.mean(rates[WITHOUT]):,.0f} | {way} | {change(logs[way])} | {beyond} |"
            f" {page} |",
            flush=True,
        )


def answered(connection: socket.socket, question: str, where: str) -> int:
    """Requests that the server has answered so far, by its own count."""
    connection.sendall(question.encode())
    said = ""
    while not (found := re.search(where, said)):
        said += connection.recv(1 << 16).decode()
    return int(found[1])


def logged(folder: Path) -> np.ndarray:
    """Times at which transactions ended, in s since 1970, by pgbench's log; its last line may have
    been cut off."""
    (file,) = folder.glob("log.*")
    lines = file.read_text().splitlines()[:-1]
    return np.sort(np.loadtxt(lines, usecols=(4, 5)) @ (1, 1e-6))


def change(logs: Sequence[float]) -> str:
    """The mean of logarithms of ratios as a change in percent, with its interval of 95 % by
    Student's t."""
    half = stats.t.ppf(0.975, len(logs) - 1) * np.std(logs, ddof=1) / math.sqrt(len(logs))
    steps = (np.mean(logs) + step for step in (-half, 0, half))
    low, mean, high = (f"{100 * math.expm1(step):+.1f}" for step in steps)
    return f"{mean} ({low} to {high})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10, help="of each page")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--before", default="", metavar="TREE")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    options = parser.parse_args()
    ways = [WHOLE, BUSY, *([BEFORE] if options.before else [])]
    ways += [UNWATCHED, SAMPLER] if options.parts else []
    if options.rounds:
        titles = ("server", "requests/s", "beside it", "change, %", "beyond the loop, %")
        print(f"| {' | '.join((*titles, 'the page says, %'))} |")
        print("| --- " * (len(titles) + 1) + "|")
    for number, (name, server) in enumerate(SERVERS.items()):
        if options.names and name not in options.names:
            continue
        missing = [
            words[0]
            for words in (server.start, server.load, server.prepare)
            if words and shutil.which(words[0]) is None
        ]
        if missing:
            print(f"=== {name}: not installed: {', '.join(missing)}\n")
            continue
        with tempfile.TemporaryDirectory(prefix="linewright-servers-") as folder:
            fill = {"folder": folder, "port": PORT + number, "threads": 1 if options.rounds else 2}
            Path(folder, "conf").write_text(NGINX.format(**fill))
            if server.user:
                shutil.chown(folder, server.user)
            if server.prepare:
                prepare = [word.format(**fill) for word in server.prepare]
                subprocess.run(prepare, user=server.user, check=True, **QUIET)
            if options.rounds:
                cost_of(name, server, fill, options, ways)
            else:
                print(f"=== {name}\n", flush=True)
                look_at(server, fill, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

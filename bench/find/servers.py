#!/usr/bin/env python3
"""What does `linewright find` say of real servers under load, and what does it cost them? Debian's
redis, memcached, PostgreSQL and nginx, each with two workers.

    servers [--seconds S] [--rounds N [--parts] [--before TREE]] [NAME…]

Without --rounds find's page of each. With it requests per second in N rounds, each with find joined
and without it in random order, against what the page says that finding took; server and load on CPU
0, find on another, so that the CPU time of find itself is not in it. A loop on the other CPU that
touches nothing is in each round, too: what it takes from the server no program beside it can avoid,
so the change is given against nothing and against the loop. --parts adds parts of find to each
round; --before adds find of another tree that is built.

Needs redis-server redis-tools memcached libmemcached-tools postgresql-15 nginx-light apache2-utils,
and root. A server that is not installed is skipped. Every server listens on this machine alone, in
a folder of its own that is removed."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from in_tree import ENVIRONMENT, FIND, children

# isort: split
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
location / {{ return 200 "hello"; }} }} }}
"""


class Server(NamedTuple):
    """How one is started and loaded; `{folder}` and `{port}` are filled in."""

    start: Sequence[str]
    load: Sequence[str]
    timed: str
    """A load of {seconds}, or of {number} requests."""
    rate: str
    """What it prints of requests per second."""
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
        "redis-benchmark -p {port} -c 32 -P 8 -n {number} -t get -q",
        r"([0-9.]+) requests per second",
    ),
    "memcached": Server(
        ("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", "{port}", "-t", "{threads}"),
        ("memcaslap", "-s", "127.0.0.1:{port}", "-T", "2", "-c", "16", "-t", "600s"),
        "memcaslap -s 127.0.0.1:{port} -T 1 -c 16 -t {seconds}s",
        r"TPS: ([0-9]+)",
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
        "pgbench -h 127.0.0.1 -p {port} -U postgres -n -S -c 8 -j 1 -T {seconds} postgres",
        r"tps = ([0-9.]+)",
        prepare=(f"{POSTGRES}/initdb", "-D", "{folder}/data", "-A", "trust", "-N"),
        user="postgres",
    ),
    "nginx": Server(
        ("nginx", "-c", "{folder}/conf", "-e", "{folder}/error"),
        ("ab", "-q", "-k", "-c", "16", "-n", "100000000", "http://127.0.0.1:{port}/"),
        "ab -q -k -c 16 -n {number} http://127.0.0.1:{port}/",
        r"Requests per second: +([0-9.]+)",
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
    """The process and what it started."""
    try:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(10)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
AHEAD_S = 0.7
"""Time between the sampler's start and its move to other CPUs, and between that and the load."""


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
SAMPLER, WATCHES, BUSY = "the sampler alone", "the sampler with watchpoints", "a loop"
NO_REQUESTS = (
    "import sys; from linewright.find.watching import Watcher; from linewright.cli import main; "
    "Watcher.requests = lambda self: (); sys.exit(main())"
)
UNUSED = 1 << 16
"""An address that no program maps: watchpoints on it only wait."""


class Beside(contextlib.ExitStack):
    """What runs on another CPU during one load."""

    def __init__(self, way: str, pid: int, seconds: float, before: str) -> None:
        super().__init__()
        self._server, self._requests = pid, -1
        words = ["--json", "--pid", str(pid), "--for", f"{seconds:g}s"]
        environment, given = dict(ENVIRONMENT), ()
        if way == BUSY:
            words = [sys.executable, "-c", "while True: pass"]
        elif way in (SAMPLER, WATCHES):
            receive, self._requests = os.pipe()
            given = (receive,)
            self.callback(os.close, receive)
            self.callback(os.close, self._requests)
            words = [ENVIRONMENT["LINEWRIGHT_FIND"], "--commands", str(receive)]
            words += SampleRequest([], pid, seconds, False).arguments(os.cpu_count())
            os.write(self._requests, b"\n")  # which it waits for
        elif way == UNWATCHED:
            words = [sys.executable, "-c", NO_REQUESTS, "find", *words]
        else:
            words = [*FIND, *words]
        if way == BEFORE:
            sampler = Path(before, "build/native/find/linewright-find")
            environment |= {"PYTHONPATH": before, "LINEWRIGHT_FIND": str(sampler)}
        self._watched = way == WATCHES
        self._page = way in (WHOLE, BEFORE, UNWATCHED)
        self.process = subprocess.Popen(
            words, env=environment, pass_fds=given,
            stdout=subprocess.PIPE if self._page else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.callback(end, self.process)
        while self._page and "linewright-find" not in children(self.process.pid).values():
            time.sleep(0.1)
        time.sleep(AHEAD_S)  # the sampler first measures on all CPUs what it costs
        for one in (self.process.pid, *children(self.process.pid)):
            os.sched_setaffinity(one, set(range(1, os.cpu_count())))

    def loaded(self) -> None:
        """The load runs: watch all processes that the server has for it."""
        if self._watched:
            lines = [
                f"watch {number} {pid} {UNUSED + 64 * number} 8 w 20\n"
                for number in range(200)
                for pid in children(self._server)
            ]
            os.set_blocking(self._requests, False)
            os.write(self._requests, "".join(lines).encode())

    def overhead(self) -> float | None:
        """What the page says that finding took."""
        return json.loads(self.process.communicate()[0])["overhead"] if self._page else None


def cost_of(
    name: str, server: Server, fill: dict, options: argparse.Namespace, ways: Sequence[str]
) -> None:
    """Requests per second with each of these beside the server and without, by rounds, as rows of
    Markdown."""
    seconds, rounds = options.seconds, options.rounds
    there = ["taskset", "-c", "0"]
    process = subprocess.Popen(
        [*there, *(word.format(**fill) for word in server.start)], user=server.user, **QUIET
    )
    wait_for(fill["port"])
    if name == "postgres":
        make = "pgbench -h 127.0.0.1 -p {port} -U postgres -i -q postgres".format(**fill).split()
        subprocess.run(make, check=True, **QUIET)

    def rate(number: int, beside: Beside | None = None) -> float:
        words = server.timed.format(**fill, seconds=f"{seconds:g}", number=number).split()
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        load = subprocess.Popen([*there, *words], **out)
        if beside:
            time.sleep(0.5)
            beside.loaded()
        printed = load.communicate()[0]
        return float(re.findall(server.rate, printed.replace("\r", "\n"))[-1])

    number = int(seconds * rate(20_000))
    logs, said = {way: [] for way in ways}, {way: [] for way in ways}
    for _ in range(rounds):
        found = {}
        for way in random.sample([WITHOUT, *ways], len(ways) + 1):
            with contextlib.ExitStack() as stack:
                beside = None
                if way != WITHOUT:
                    about = (way, process.pid, seconds + 2 * AHEAD_S, options.before)
                    beside = stack.enter_context(Beside(*about))
                time.sleep(AHEAD_S)
                found[way] = rate(number, beside)
                said.get(way, []).append(beside and beside.overhead())
        for way in ways:
            logs[way].append(math.log(found[way] / found[WITHOUT]))
    end(process)
    for way in ways:
        pages = [100 * value for value in said[way] if value is not None]
        page = pages and f"{statistics.mean(pages):.1f} ({min(pages):.1f} to {max(pages):.1f})"
        beyond = [own - loop for own, loop in zip(logs[way], logs[BUSY], strict=True)]
        changes = f"{change(logs[way])} | {change(beyond) if way != BUSY else '–'}"
        print(
            f"| {name} | {number / seconds:,.0f} | {way} | {changes} | {page or '–'} |", flush=True
        )


def change(logs: Sequence[float]) -> str:
    """The mean of logarithms of ratios as a change in percent, with its interval of 95 % by
    Student's t."""
    half = stats.t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    steps = (statistics.mean(logs) + step for step in (-half, 0, half))
    low, mean, high = (f"{100 * math.expm1(step):+.1f}" for step in steps)
    return f"{mean} ({low} to {high})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--before", default="", metavar="TREE")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    options = parser.parse_args()
    ways = [WHOLE, BUSY, *([BEFORE] if options.before else [])]
    ways += [UNWATCHED, SAMPLER, WATCHES] if options.parts else []
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

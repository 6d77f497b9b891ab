#!/usr/bin/env python3
"""What does `linewright find` say of real servers under load, and what does it cost them? Debian's
redis, memcached, PostgreSQL and nginx, each with two workers.

    servers [--seconds S] [--rounds N] [NAME…]

Without --rounds find's page of each. With it requests per second in N rounds, each with find joined
and without it in random order, against what the page says that finding took; server and load on CPU
0, find on another, so that the CPU time of find itself is not in it.

Needs redis-server redis-tools memcached libmemcached-tools postgresql-15 nginx-light apache2-utils,
and root. A server that is not installed is skipped. Every server listens on this machine alone, in
a folder of its own that is removed."""

from __future__ import annotations

import argparse
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

ROOT = next(
    parent for parent in Path(__file__).resolve().parents if (parent / "pyproject.toml").exists()
)
VENV = ROOT / ".venv" / "bin" / "python"
if sys.prefix == sys.base_prefix and VENV.exists():
    os.execv(VENV, [str(VENV), *sys.argv])

from scipy import stats  # noqa: E402

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


def find(arguments: Sequence[str]) -> list[str]:
    return [str(VENV) if VENV.exists() else sys.executable, "-m", "linewright", "find", *arguments]


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
AHEAD_S = 2
"""Time that find has to join before a load begins."""


def look_at(server: Server, fill: dict, seconds: float) -> None:
    """Starts one server and its load, and prints find's page."""
    start, load = ([word.format(**fill) for word in words] for words in (server.start, server.load))
    if server.heap:  # time for the load to begin is part of the run
        command = find(["--heap", "--for", f"{seconds + 3:g}s", "--", *start])
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
        command = find(["--pid", str(process.pid), "--for", f"{seconds:g}s"])
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
        print(done.stdout)
        end(process)
    end(client)


def cost_of(name: str, server: Server, fill: dict, seconds: float, rounds: int) -> None:
    """Requests per second with find and without it, by rounds, as a row of Markdown."""
    there = ["taskset", "-c", "0"]
    process = subprocess.Popen(
        [*there, *(word.format(**fill) for word in server.start)], user=server.user, **QUIET
    )
    wait_for(fill["port"])
    if name == "postgres":
        make = "pgbench -h 127.0.0.1 -p {port} -U postgres -i -q postgres".format(**fill).split()
        subprocess.run(make, check=True, **QUIET)

    def rate(number: int) -> float:
        words = server.timed.format(**fill, seconds=f"{seconds:g}", number=number).split()
        done = subprocess.run([*there, *words], capture_output=True, text=True, check=False)
        return float(re.findall(server.rate, done.stdout.replace("\r", "\n"))[-1])

    number = int(seconds * rate(20_000))
    logs, said = [], []
    for _ in range(rounds):
        found = {}
        for joined in random.sample((False, True), 2):
            words = ["--json", "--pid", str(process.pid), "--for", f"{seconds + 2 * AHEAD_S:g}s"]
            page = subprocess.Popen(
                ["taskset", "-c", "1-1023", *find(words)],
                env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            ) if joined else None  # fmt: skip
            time.sleep(AHEAD_S)
            found[joined] = rate(number)
            if page:
                said.append(json.loads(page.communicate()[0])["overhead"])
        logs.append(math.log(found[True] / found[False]))
    end(process)
    half = stats.t.ppf(0.975, rounds - 1) * statistics.stdev(logs) / math.sqrt(rounds)
    steps = (statistics.mean(logs) + step for step in (-half, 0, half))
    low, mean, high = (f"{100 * math.expm1(step):+.1f}" for step in steps)
    page = [f"{100 * value:.1f}" for value in (statistics.mean(said), min(said), max(said))]
    change = f"{mean} ({low} to {high}) | {page[0]} ({page[1]} to {page[2]})"
    print(f"| {name} | {number / seconds:,.0f} | {change} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    options = parser.parse_args()
    if options.rounds:
        print("| server | requests/s | change with find, % | the page says, % |")
        print("| --- " * 4 + "|")
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
                cost_of(name, server, fill, options.seconds, options.rounds)
            else:
                print(f"=== {name}\n", flush=True)
                look_at(server, fill, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())

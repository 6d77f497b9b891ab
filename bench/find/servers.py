#!/usr/bin/env python3
"""What does `linewright find` say of real servers under load? Debian's redis, memcached, PostgreSQL
and nginx, each with two workers.

    servers [--seconds S] [NAME…]

Needs redis-server redis-tools memcached libmemcached-tools postgresql-15 nginx-light apache2-utils,
and root. A server that is not installed is skipped. Every server listens on this machine alone, in
a folder of its own that is removed."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
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
            "2",
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
    ),
    "memcached": Server(
        ("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", "{port}", "-t", "2"),
        ("memcaslap", "-s", "127.0.0.1:{port}", "-T", "2", "-c", "16", "-t", "600s"),
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
        prepare=(f"{POSTGRES}/initdb", "-D", "{folder}/data", "-A", "trust", "-N"),
        user="postgres",
    ),
    "nginx": Server(
        ("nginx", "-c", "{folder}/conf", "-e", "{folder}/error"),
        ("ab", "-q", "-k", "-c", "16", "-n", "100000000", "http://127.0.0.1:{port}/"),
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


def look_at(server: Server, port: int, seconds: float, folder: Path) -> None:
    """Starts one server and its load, and prints find's page."""
    fill = {"folder": str(folder), "port": port}
    start, load, prepare = (
        [word.format(**fill) for word in words]
        for words in (server.start, server.load, server.prepare)
    )
    (folder / "conf").write_text(NGINX.format(**fill))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    if server.user:
        shutil.chown(folder, server.user)
    if prepare:
        subprocess.run(prepare, user=server.user, check=True, **quiet)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    if server.heap:  # time for the load to begin is part of the run
        command = find(["--heap", "--for", f"{seconds + 3:g}s", "--", *start])
        page = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        wait_for(port)
        client = subprocess.Popen(load, **quiet)
        print(page.communicate()[0])
    else:
        process = subprocess.Popen(start, user=server.user, **quiet)
        wait_for(port)
        client = subprocess.Popen(load, **quiet)
        time.sleep(3)
        command = find(["--pid", str(process.pid), "--for", f"{seconds:g}s"])
        print(
            subprocess.run(
                command, capture_output=True, text=True, env=environment, check=False
            ).stdout
        )
        end(process)
    end(client)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    options = parser.parse_args()
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
        print(f"=== {name}\n", flush=True)
        with tempfile.TemporaryDirectory(prefix="linewright-servers-") as folder:
            look_at(server, PORT + number, options.seconds, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())

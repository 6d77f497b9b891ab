#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Real programs with Linewright's readers-writer locks, unchanged: how often each uses its locks,
and what `linewright trial --locks` says of its rate. A program that is not installed is named.

    programs [--runs N] [--threads N] [--seconds S] [--only NAME]"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LINEWRIGHT = [str(ROOT / ".venv" / "bin" / "python"), "-m", "linewright"]
STATISTICS = {"LINEWRIGHT_RWLOCK_STATISTICS": "1"}
SHOWN = 4
"""Lines of a program's statistics."""


class Missing(Exception):
    """A program that cannot be run here, and the package that has it."""


class Trial(NamedTuple):
    """A program's command, and where its output has the rate."""

    command: list[str]
    rate: str
    counted: str = ""
    """Of the programs that the command starts, the one whose locks are shown; "": the first."""


def shared_re2(folder: Path, options: argparse.Namespace) -> Trial:
    """One RE2 object for all threads (Debian's libre2-dev)."""
    program = folder / "shared_re2"
    words = [
        "g++",
        "-std=c++20",
        "-O2",
        "-pthread",
        HERE / "shared_re2.cpp",
        "-lre2",
        "-o",
        program,
    ]
    if subprocess.run(words, stderr=subprocess.DEVNULL).returncode:
        raise Missing("libre2-dev")
    return Trial([str(program), str(options.threads), str(options.seconds)], r"([0-9]+) matches/s")


def db_bench(folder: Path, options: argparse.Namespace) -> Trial:
    """Random reads of a database in memory (Debian's rocksdb-tools)."""
    if not shutil.which("db_bench"):
        raise Missing("rocksdb-tools")
    usual = ["db_bench", f"--db={folder}/db", "--num=100000", "--cache_size=268435456"]
    subprocess.run([*usual, "--benchmarks=fillrandom,compact"], check=True, capture_output=True)
    reads = ["--benchmarks=readrandom", "--use_existing_db=1", f"--duration={options.seconds:g}"]
    return Trial([*usual, *reads, f"--threads={options.threads}"], r"readrandom.* ([0-9]+) ops/sec")


SBIN = f"{os.environ['PATH']}:/usr/sbin"
NAMES = 500
"""Names of the zone that the name servers answer from."""
UNBOUND = """server:
  num-threads: {threads}
  interface: 127.0.0.1@{port}
  so-reuseport: yes
  do-daemonize: no
  use-syslog: no
  logfile: "/dev/null"
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: "{folder}/pid"
  access-control: 127.0.0.0/8 allow
  local-zone: "example." static
{zone}remote-control:
  control-enable: no
"""
KNOT = """server:
  udp-workers: {threads}
  listen: 127.0.0.1@{port}
  rundir: {folder}
log:
  - target: {folder}/errors
    any: error
database:
  storage: {folder}/database
zone:
  - domain: example.
    file: {folder}/zone
"""
ASKED = """#!/bin/bash
ask="dnsperf -s 127.0.0.1 -p {port} -d {folder}/queries"
{server} & server=$!
for try in {{1..100}}; do $ask -n 1 -t 1 > {folder}/log 2>&1 && break; sleep 0.05; done
$ask -l {seconds} -c 4 -q 200 2>&1
kill $server; wait $server
"""


def unused_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def needs(*packages: tuple[str, str]) -> None:
    """Programs, and Debian's packages that have them."""
    for program, package in packages:
        if not shutil.which(program, path=SBIN):
            raise Missing(package)


def executable(script: Path, text: str) -> list[str]:
    script.write_text(text)
    script.chmod(0o755)
    return [str(script)]


def asked_server(
    folder: Path, options: argparse.Namespace, server: str, name: str, settings: str, line: str
) -> Trial:
    """A name server that answers from a zone of its own, asked over the loopback by dnsperf."""
    needs((name, server), ("dnsperf", "dnsperf"))
    names = [f"h{i}.example" for i in range(NAMES)]
    values = {
        "folder": folder,
        "port": unused_port(socket.SOCK_DGRAM),
        "threads": options.threads,
        "zone": "".join(line.format(name=each) for each in names),
    }
    (folder / "conf").write_text(settings.format(**values))
    (folder / "zone").write_text(
        f"$TTL 1h\n@ SOA ns.example. me.example. 1 1h 1h 1h 1h\n{values['zone']}"
    )
    (folder / "queries").write_text("".join(f"{each} A\n" for each in names))
    text = ASKED.format(seconds=options.seconds, server=f"{name} -c {folder}/conf", **values)
    return Trial(executable(folder / "asked", text), r"Queries per second: +([0-9.]+)", name)


def unbound(folder: Path, options: argparse.Namespace) -> Trial:
    """Debian's unbound."""
    line = '  local-data: "{name}. A 192.0.2.1"\n'
    return asked_server(folder, options, "unbound", "unbound", UNBOUND, line)


def knot(folder: Path, options: argparse.Namespace) -> Trial:
    """Debian's knot."""
    return asked_server(folder, options, "knot", "knotd", KNOT, "{name}. A 192.0.2.1\n")


PLACES = {
    "exec_prefix": "/usr",
    "bindir": "/usr/bin",
    "sbindir": "/usr/bin",
    "includedir": "/usr/include/ts",
    "libdir": "/usr/lib/trafficserver",
    "libexecdir": "/usr/lib/trafficserver/modules",
}
"""What Traffic Server has in Debian's places; all else is in a folder of its own."""
OWN_PLACES = "prefix sysconfdir datadir localstatedir runtimedir logdir mandir infodir cachedir"
RECORDS = """CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT {threads}
CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.http.cache.required_headers INT 0
CONFIG proxy.config.http.wait_for_cache INT 1
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.cache.ram_cache.size INT 33554432
"""
ALLOWED = """ip_allow:
  - apply: in
    ip_addrs: 127.0.0.1
    action: allow
    methods: ALL
"""
LOADED = """#!/bin/bash
cd {folder} || exit
{python} -m http.server -b 127.0.0.1 -d pages {origin} > origin.log 2>&1 & origin=$!
TS_RUNROOT={folder}/runroot.yaml traffic_server > log 2>&1 & server=$!
for port in {origin} {port}; do
    until (: < /dev/tcp/127.0.0.1/$port) 2> none; do sleep 0.05; done
done
wrk -t 1 -c 16 -d {seconds} http://127.0.0.1:{port}/page
kill $server; wait $server; cat log >&2
kill $origin; wait $origin
exit 0
"""


def traffic_server(folder: Path, options: argparse.Namespace) -> Trial:
    """A caching proxy that answers from its memory, after one request of its origin (Debian's
    trafficserver and wrk)."""
    needs(("traffic_server", "trafficserver"), ("wrk", "wrk"))
    values = {
        "folder": folder,
        "python": sys.executable,
        "port": unused_port(socket.SOCK_STREAM),
        "origin": unused_port(socket.SOCK_STREAM),
        "threads": options.threads,
        "seconds": options.seconds,
    }
    places = PLACES | dict.fromkeys(OWN_PLACES.split(), str(folder))
    files = {
        "runroot.yaml": "".join(f"{name}: {place}\n" for name, place in places.items()),
        "records.config": RECORDS.format(**values),
        "remap.config": "map http://127.0.0.1:{port}/ http://127.0.0.1:{origin}/\n".format(
            **values
        ),
        "ip_allow.yaml": ALLOWED,
        "cache.config": "url_regex=.* ttl-in-cache=1h\n",
        "storage.config": f"{folder}/cache 64M\n",
        "pages/page": "x" * 1000,
    }
    for made in ("cache", "pages"):
        (folder / made).mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    command = executable(folder / "loaded", LOADED.format(**values))
    return Trial(command, r"Requests/sec: +([0-9.]+)", "traffic_server")


PROGRAMS: dict[str, Callable[[Path, argparse.Namespace], Trial]] = {
    "shared_re2": shared_re2,
    "db_bench": db_bench,
    "unbound": unbound,
    "knot": knot,
    "traffic_server": traffic_server,
}


def shown(name: str, trial: Trial, folder: Path, options: argparse.Namespace) -> None:
    """The program's locks, from a run of their own, since counting slows it; then the trial."""
    print(f"\n## {name}\n\n    {shlex.join(trial.command)}\n", flush=True)
    counted = subprocess.run(
        [*LINEWRIGHT, "run", "--locks", "--", *trial.command],
        env=os.environ | STATISTICS,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = counted.stderr.splitlines()
    begin = next(
        i
        for i, line in enumerate(lines)
        if line.startswith("linewright-rwlock[") and f"{trial.counted}]:" in line
    )
    print("\n".join(f"    {line}" for line in lines[begin : begin + 2 + SHOWN]), "\n", flush=True)
    if lines[begin].endswith(": 0 locks"):
        print("It takes no such lock, and no trial is run.")
        return
    words = ["trial", "--locks", "--runs", str(options.runs), "--metric", trial.rate]
    words += ["--higher-is-better", "--output", str(folder / f"{name}.jsonl")]
    subprocess.run([*LINEWRIGHT, *words, "--", *trial.command], cwd=folder, check=True)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--runs", type=int, default=20)
    asked.add_argument("--threads", type=int, default=os.cpu_count())
    asked.add_argument("--seconds", type=int, default=2)
    asked.add_argument("--only", choices=PROGRAMS)
    options = asked.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    for program, made in PROGRAMS.items():
        if options.only in (None, program):
            with tempfile.TemporaryDirectory(prefix="linewright-") as name:
                try:
                    shown(program, made(Path(name), options), Path(name), options)
                except Missing as package:
                    print(f"\n## {program}\n\nnot run: {package} is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

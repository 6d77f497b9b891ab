#!/usr/bin/env python3
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


NAMES = 500
"""Names of the zone that the name server answers from."""
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
ASKED = """#!/bin/bash
ask="dnsperf -s 127.0.0.1 -p {port} -d {folder}/queries"
unbound -c {folder}/unbound.conf & server=$!
for try in {{1..100}}; do $ask -n 1 -t 1 > {folder}/log 2>&1 && break; sleep 0.05; done
$ask -l {seconds} -c 4 -q 200 2>&1
kill $server; wait $server
"""


def unbound(folder: Path, options: argparse.Namespace) -> Trial:
    """A name server that answers from a zone of its own, asked over the loopback (Debian's unbound
    and dnsperf)."""
    for program in ("unbound", "dnsperf"):
        if not shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin"):
            raise Missing(program)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = [f"h{i}.example" for i in range(NAMES)]
    zone = "".join(f'  local-data: "{name}. A 192.0.2.1"\n' for name in names)
    values = {"folder": folder, "port": port, "threads": options.threads, "zone": zone}
    (folder / "unbound.conf").write_text(UNBOUND.format(**values))
    (folder / "queries").write_text("".join(f"{name} A\n" for name in names))
    script = folder / "asked"
    script.write_text(ASKED.format(seconds=options.seconds, **values))
    script.chmod(0o755)
    return Trial([str(script)], r"Queries per second: +([0-9.]+)", "unbound")


PROGRAMS: dict[str, Callable[[Path, argparse.Namespace], Trial]] = {
    "shared_re2": shared_re2,
    "db_bench": db_bench,
    "unbound": unbound,
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
    words = ["trial", "--locks", "--runs", str(options.runs), "--metric", trial.rate]
    words += ["--higher-is-better", "--save", str(folder / f"{name}.jsonl")]
    subprocess.run([*LINEWRIGHT, *words, "--", *trial.command], cwd=folder, check=True)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--runs", type=int, default=20)
    asked.add_argument("--threads", type=int, default=os.cpu_count())
    asked.add_argument("--seconds", type=int, default=2)
    asked.add_argument("--only", choices=PROGRAMS)
    options = asked.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory(prefix="linewright-") as name:
        for program, made in PROGRAMS.items():
            if options.only in (None, program):
                try:
                    shown(program, made(Path(name), options), Path(name), options)
                except Missing as package:
                    print(f"\n## {program}\n\nnot run: {package} is not installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

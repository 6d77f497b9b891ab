# SPDX-License-Identifier: MIT
"""`linewright workload` on another machine: its arguments, its output, its exit code, the library's
settings."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support import waiting

PROGRAM = """\
#!/bin/sh
case $1 in
  fail) echo broken >&2; exit 7 ;;
  wait) echo waiting; exec sleep 1000 ;;
esac
echo "args: $*; atomics: $LINEWRIGHT_ATOMICS; input: $(cat | wc -c)"
"""


@pytest.fixture
def program(command) -> Path:
    path = command.directory / "a workload"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    before = command.environment
    command.environment = lambda: before() | {"LINEWRIGHT_WORKLOAD": str(path)}
    return path


def test_arguments_output_and_settings(over, start, program):
    server = start()
    environment = over.environment() | {"LINEWRIGHT_ATOMICS": "store,prefetch"}
    done = over.apart(
        "workload", "--on", "ssh://far", "ticket", "--threads", "2", "a 'b' $c", env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "args: ticket --threads 2 a 'b' $c; atomics: store,prefetch; input: 0\n"
    assert server.left() == []


def test_exit_codes_and_errors(over, start, program):
    start()
    done = over.apart("workload", "--on", "ssh://far", "fail")
    assert (done.returncode, done.stderr) == (7, "broken\n")
    assert "no machine 'telnet:x'" in over.refused("workload", "--on", "telnet:x", "ticket")


def test_behind_a_command(command, program):
    done = command.apart("workload", "--on", "exec:env", "spin")
    assert done.returncode == 0 and done.stdout.startswith("args: spin;")


def test_an_interrupt_ends_it_there(over, start, program):
    server = start()
    process = over.start("workload", "--on", "ssh://far", "wait")
    assert process.stdout.readline() == b"waiting\n"
    os.killpg(process.pid, signal.SIGINT)
    _, said = waiting.finish(process)
    assert process.returncode == 3 and b"stopped by SIGINT" in said
    waiting.wait_for(lambda: not server.left())

# SPDX-License-Identifier: MIT
"""`find` that the user ends before its time: what was seen until then is shown and kept."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from support import find_results, waiting
from support.finding import PLANTED, SAMPLER

LONG = "600"
"""Seconds that the program would run."""


def child(pid: int, name: str) -> int:
    """A descendant of a process by its name; 0 without one."""
    try:
        some = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in map(int, some):
            if Path(f"/proc/{one}/comm").read_text().strip() == name[:15]:
                return one
            if found := child(one, name):
                return found
    except OSError:
        pass
    return 0


@pytest.fixture
def joined(sampling):
    """A program that runs by itself, in a session of its own."""
    process = subprocess.Popen([PLANTED, "true", "2", LONG], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def started(words: list[object], terminal: int | None = None) -> subprocess.Popen:
    """The command; `terminal`: it is the one of a new session."""

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

    streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal)
    if terminal is None:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [sys.executable, "-m", "linewright", "find", *map(str, words)],
        env=os.environ | {"LINEWRIGHT_FIND": str(SAMPLER)},
        preexec_fn=None if terminal is None else take_terminal,
        **streams,
    )


def samples(sampler: int) -> bool:
    """Whether it holds its buffers, one for each CPU. Before that it has one, which it tries."""
    try:
        return Path(f"/proc/{sampler}/maps").read_text().count("[perf_event]") >= os.cpu_count()
    except OSError:
        return False


def wait_until_sampled(command: subprocess.Popen, target: int | None) -> int:
    """The program's number, when it has run for a second under a sampler that reads its samples:
    one that is ended before that has seen nothing."""
    waiting.wait_for(lambda: samples(child(command.pid, SAMPLER.name)), command)
    waiting.wait_for(lambda: target or child(command.pid, PLANTED.name), command)
    pid = target or child(command.pid, PLANTED.name)
    before = waiting.cpu_s(pid)
    waiting.wait_for(lambda: waiting.cpu_s(pid) > before + 1, command)
    return pid


def seen(path: Path, number: signal.Signals) -> None:
    result = find_results.worded(path.read_text())
    assert result["samples"] > 20 and "true_counter" in result["lines"][0]["object"]
    assert any(f"Ended by {number.name} before its time" in said for said in result["notes"])


@pytest.mark.parametrize("join", [False, True])
def test_ctrl_c_at_the_terminal_shows_what_was_seen(joined, tmp_path, join) -> None:
    """It reaches the command, the sampler, and a program that find started."""
    above, below = pty.openpty()
    file = tmp_path / "found.json"
    words = ["--pid", joined.pid] if join else ["--", PLANTED, "true", "2", LONG]
    command = started(["-o", file, *words], below)
    os.close(below)
    pid = wait_until_sampled(command, joined.pid if join else None)
    os.write(above, b"\x03")
    shown = b""
    while command.poll() is None or not shown.rstrip().endswith(b"shown"):
        try:
            shown += os.read(above, 65536)
        except OSError:  # the last one that had it open is gone
            break
    assert command.wait() == 3, shown
    assert b"true_counter" in shown and b"ended by SIGINT" in shown
    seen(file, signal.SIGINT)
    assert waiting.lives(pid) == join
    os.close(above)


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_alone_shows_what_was_seen(joined, tmp_path, join, number) -> None:
    file = tmp_path / "found.json"
    words = ["--pid", joined.pid] if join else ["--", PLANTED, "true", "2", LONG]
    command = started(["-o", file, *words])
    pid = wait_until_sampled(command, joined.pid if join else None)
    command.send_signal(number)
    out, error = waiting.finish(command)
    assert command.returncode == 3, error
    assert b"true_counter" in out and f"ended by {number.name}".encode() in error
    seen(file, number)
    assert waiting.lives(pid) == join


def test_an_end_that_is_asked_for_before_the_program_begins_lets_it_not_begin(sampling) -> None:
    """The sampler's first request is the end."""
    receive, send = os.pipe()
    os.write(send, b"\nstop\n")
    words = [SAMPLER, "--commands", str(receive), "--", "touch", "/nonexistent/began"]
    done = waiting.run(words, pass_fds=(receive,))
    assert "ended before the program began" in done.stdout and "start" not in done.stdout
    assert "touch" not in done.stderr


DAEMON = """
import os, sys
if os.fork():
    sum(range(20_000_000))
    os._exit(0)
os.setsid()
for stream in range(3):
    os.dup2(os.open(os.devnull, os.O_RDWR), stream)
with open(sys.argv[2], "w") as own:
    own.write(str(os.getpid()))
open(sys.argv[1]).read()  # until the test opens and closes it
"""


def test_a_daemon_that_goes_on_is_named_and_passes_no_guard(run, tmp_path) -> None:
    life, own = tmp_path / "life", tmp_path / "own"
    os.mkfifo(life)
    done = run("--fail-new", "--", sys.executable, "-c", DAEMON, life, own)
    waiting.wait_for(lambda: own.exists() and own.read_text())
    try:
        assert done.returncode == 3, done.stderr
        assert f"the option --pid {own.read_text()} samples one" in " ".join(done.stdout.split())
        assert "the program went on in another process" in " ".join(done.stdout.split())
    finally:
        life.open("w").close()

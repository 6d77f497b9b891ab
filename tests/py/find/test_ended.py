# SPDX-License-Identifier: MIT
"""`find` that the user ends before its time: what was seen until then is shown and kept."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest

from linewright.errors import RunError
from linewright.find import sources
from linewright.find.sampled_machine import SamplerPlace
from linewright.find.sampling import SampleRequest
from support import find_results, waiting
from support.finding import PLANTED, SAMPLER

LONG = "600"
"""Seconds that the program would run."""
ENOUGH = 200
"""Samples after which its one line is known on any machine that lets both threads run at once."""


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


class Terminal:
    """One that shows what is written to it; a thread of the test reads it all the time."""

    def __init__(self) -> None:
        self.above, self.below = pty.openpty()
        self.shown = b""
        self._reader = threading.Thread(target=self._drain, daemon=True)

    def drain(self) -> None:
        """The command has it open now: its own end of it closes."""
        os.close(self.below)
        self._reader.start()

    def _drain(self) -> None:
        with suppress(OSError):  # the last one that had it open is gone
            while part := os.read(self.above, 65536):
                self.shown += part

    def samples(self) -> int:
        """How many the progress that is shown counts so far."""
        plain = re.sub(rb"\x1b\[[\d;?]*[a-zA-Z]", b"", self.shown)
        return max(
            (int(n.replace(b",", b"")) for n in re.findall(rb"([\d,]+) samples", plain)), default=0
        )

    def text(self) -> str:
        """Everything, once all that had it open have ended."""
        self._reader.join()
        os.close(self.above)
        return self.shown.decode(errors="replace")


def started(words: list[object], terminal: Terminal, own: bool = False) -> subprocess.Popen:
    """The command, whose errors and progress the terminal shows; `own`: it is the one of a new
    session, and the rest of the output is shown there, too."""

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(terminal.below, termios.TIOCSCTTY, 0)

    streams = {"stderr": terminal.below, "stdout": subprocess.PIPE}
    if own:
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), terminal.below)
    command = subprocess.Popen(
        [sys.executable, "-m", "linewright", "find", *map(str, words)],
        env=os.environ | {"LINEWRIGHT_FIND": str(SAMPLER), "TERM": "xterm"},
        preexec_fn=take_terminal if own else None,
        **streams,
    )
    terminal.drain()
    return command


def watched(joined: subprocess.Popen, join: bool) -> list[object]:
    """Joined, or started by the command; either is ended by the signal, not by its time."""
    return (
        ["--for", f"{LONG}s", "--pid", joined.pid] if join else ["--", PLANTED, "true", "2", LONG]
    )


def wait_until_sampled(command: subprocess.Popen, terminal: Terminal, target: int | None) -> int:
    """The program's number, when the command counts enough samples of it to name its line."""
    waiting.wait_for(lambda: terminal.samples() > ENOUGH, command, said=lambda: str(terminal.shown))
    waiting.wait_for(lambda: target or child(command.pid, PLANTED.name), command)
    return target or child(command.pid, PLANTED.name)


def seen(path: Path, number: signal.Signals) -> None:
    result = find_results.worded(path.read_text())
    assert result["samples"] > ENOUGH and "true_counter" in result["lines"][0]["object"]
    assert any(f"Ended by {number.name} before its time" in said for said in result["notes"])


@pytest.mark.parametrize("join", [False, True])
def test_ctrl_c_at_the_terminal_shows_what_was_seen(joined, tmp_path, join) -> None:
    """It reaches the command, the sampler, and a program that find started."""
    terminal, file = Terminal(), tmp_path / "found.json"
    command = started(["-o", file, *watched(joined, join)], terminal, own=True)
    pid = wait_until_sampled(command, terminal, joined.pid if join else None)
    os.write(terminal.above, b"\x03")
    waiting.wait_for(lambda: command.poll() is not None)
    shown = terminal.text()
    assert command.returncode == 3, shown
    assert "true_counter" in shown and "ended by SIGINT" in shown
    seen(file, signal.SIGINT)
    assert waiting.lives(pid) == join


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_command_alone_shows_what_was_seen(joined, tmp_path, join, number) -> None:
    terminal, file = Terminal(), tmp_path / "found.json"
    command = started(["-o", file, *watched(joined, join)], terminal)
    pid = wait_until_sampled(command, terminal, joined.pid if join else None)
    command.send_signal(number)
    out, _ = waiting.finish(command)
    error = terminal.text()
    assert command.returncode == 3, error
    assert b"true_counter" in out and f"ended by {number.name}" in error
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


def test_a_sampler_that_breaks_off_is_no_completed_run(command, monkeypatch, tmp_path) -> None:
    """The exit code was 0, and the guard's green: it had enough samples, of the beginning."""
    monkeypatch.setenv("LINEWRIGHT_FIND", str(find_results.sampler(tmp_path)))
    whole, file = tmp_path / "sampled.jsonl", tmp_path / "found.json"
    words = ("find", "-o", file, "--", "p")
    assert command(*words).returncode == 0
    whole.write_text("".join(whole.read_text().splitlines(True)[:-1]))
    done = command(*words)
    assert done.returncode == 3 and "the sampler ended with 0 before its last line" in done.stderr
    assert find_results.worded(file.read_text())["samples"] == 100
    file = file.with_suffix(".xml")
    assert command("find", "-o", file, "--fail-new", "--", "p").returncode == 3


def test_a_failure_of_the_reader_ends_the_sampler(sampling, monkeypatch) -> None:
    """It may be writing what no process reads any more, into a pipe that is full."""

    def fail(lines, *_) -> None:
        fcntl.fcntl(lines, fcntl.F_SETPIPE_SZ, 4096)
        next(lines)
        raise RunError("as planted")

    monkeypatch.setenv("LINEWRIGHT_FIND", str(SAMPLER))
    monkeypatch.setattr(sources, "gather", fail)
    with closing(SamplerPlace("local")) as there, pytest.raises(RunError, match="as planted"):
        given = SampleRequest([], None, None, False).arguments(there.cpus)
        there.run(given, [sys.executable, "-c", "while True: pass"], True)

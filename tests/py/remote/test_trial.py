# SPDX-License-Identifier: MIT
"""`linewright trial` on another machine: its settings in turns there, timed there, ended there,
gone on with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import msgspec
import pytest

from linewright.errors import UserError
from linewright.trial import switching, trial_file, trial_place
from linewright.trial.trial_file import FOLDER
from support import waiting
from support.command_lines import go_on
from support.helper import here
from support.places import ROOT

RATE = "echo rate $((1000 + STEP + $$ % 5))"
TWO = ["--env", "STEP=0", "--env", "STEP=100"]


def running(word: str) -> list[int]:
    """Processes with this word on their command line."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if word.encode() in Path("/proc", entry, "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry))
        except OSError:
            continue
    return found


def test_a_planted_difference_is_found_over_ssh_and_nothing_stays(over, start, real):
    server = start()
    answer = over(
        "trial",
        "--on",
        "ssh://far",
        *TWO,
        "--runs",
        "12",
        "--metric",
        r"rate (\d+)",
        "--higher-is-better",
        "--output",
        "t.jsonl",
        "--",
        "sh",
        "-c",
        RATE,
    )
    assert answer.returncode == 0, answer.stderr
    assert "STEP=100: better than STEP=0, +" in answer.stdout
    (session,), samples = (
        (kept := trial_file.read(str(over.directory / "t.jsonl"))).sessions,
        kept.samples,
    )
    assert session.target == "ssh://far"
    assert {name: getattr(session, name) for name in here()} == here()
    assert {s.setting for s in samples} == {"STEP=0", "STEP=100"} and all(s.value for s in samples)
    assert server.left() == []
    resumed = over("trial", "--resume", "t.jsonl", "--json")
    assert (
        resumed.returncode == 0 and json.loads(resumed.stdout)["session"]["target"] == "ssh://far"
    )


def samples_of(command, *words: str, program: str) -> list[trial_file.ProgramRun]:
    """Runs of a shell program behind `env`, which is no other machine but another way."""
    answer = command(
        "trial",
        "--on",
        "exec:env",
        "--set",
        "warmup=0",
        "--runs",
        "2",
        "--output",
        "s.jsonl",
        *words,
        "--",
        "sh",
        "-c",
        program,
    )
    assert answer.returncode in (0, 3), answer.stderr
    kept = trial_file.read(str(command.directory / "s.jsonl")).samples
    (command.directory / "s.jsonl").unlink()
    return kept


def test_what_a_run_there_gives(real):
    """The clock, processor time and memory are the program's own: the helper is small, and no
    connection is in them."""
    plain = samples_of(real, program="sleep 0.2")
    for s in plain:
        assert s.wall_s >= 0.2 and s.cpu_s <= s.wall_s - 0.1, "it sleeps for most of its time"
        assert s.maxrss_bytes < 8e6
    busy = samples_of(
        real, "--metric", "cpu", program="(i=0; while test $i -lt 30000; do i=$((i+1)); done)"
    )
    assert all(s.value == s.cpu_s > 0 for s in busy), "children that were waited for count"
    (failed, _) = samples_of(real, program="echo first >&2; echo why it failed >&2; exit 5")
    assert (failed.value, failed.reason, failed.exit_code) == (
        None,
        "exited with 5: why it failed",
        5,
    )
    (killed, _) = samples_of(real, program="kill -SEGV $$")
    assert (killed.reason, killed.exit_code) == ("ended by SIGSEGV", -signal.SIGSEGV)
    (late, _) = samples_of(
        real, "--set", "limit=300ms", program="trap '' TERM; sleep 611 & setsid sleep 611 & wait"
    )
    assert "longer than its limit" in late.reason and not running("611")
    (big, _) = samples_of(
        real, "--metric", r"last (\d)", program="head -c 17000000 /dev/zero; echo last 7"
    )
    assert "nothing in the first 16 MiB" in big.reason
    (binary, _) = samples_of(
        real, "--metric", r"rate (\d+)", program=r"printf '\377\n\000rate 42\n'; echo >&2"
    )
    assert binary.value == 42 and binary.cpu_s >= 0
    (quiet, _) = samples_of(
        real, "--env", "A=1", "--metric", r"(\d)", program='echo 3; test -z "$(cat)"'
    )
    assert quiet.value == 3, "its input is empty"


def test_an_interrupt_there_and_resume(over, start, real, tmp_path):
    start()
    script = (
        f"cd {tmp_path}; echo x >>ran; test $(wc -l <ran) -ne 6 || {{ touch waiting; sleep "
        "612; }; echo 5"
    )
    child = over.start(
        "trial",
        "--on",
        "ssh://far",
        *TWO,
        "--runs",
        "4",
        "--output",
        "t.jsonl",
        "--metric",
        r"(\d)",
        "--",
        "sh",
        "-c",
        script,
    )
    waiting.wait_for((tmp_path / "waiting").exists, child)
    for command in ("measure", "find"):  # two runs on one machine
        assert "another run is measuring there" in over.refused(
            command, "--on", "ssh://far", *(["--", "true"] if command == "find" else [])
        )
    os.killpg(child.pid, signal.SIGINT)
    _, said = waiting.finish(child)
    assert child.returncode == 3 and b"interrupted; 3 runs are kept; continue with " in said, said
    waiting.wait_for(lambda: not running("612"))
    again = over(*go_on(said))
    assert again.returncode == 0, again.stderr
    counted = [s for s in trial_file.read(str(over.directory / "t.jsonl")).samples if not s.warm_up]
    assert len({(s.round, s.setting) for s in counted}) == len(counted) == 8


def test_a_lost_connection_keeps_the_runs_and_ends_the_program(over, start, real, tmp_path):
    server = start()
    script = (
        f"cd {tmp_path}; echo x >>ran; test $(wc -l <ran) -lt 6 || {{ touch waiting; sleep "
        "613; }; echo 5"
    )
    child = over.start(
        "trial",
        "--on",
        "ssh://far",
        *TWO,
        "--output",
        "t.jsonl",
        "--metric",
        r"(\d)",
        "--",
        "sh",
        "-c",
        script,
    )
    waiting.wait_for((tmp_path / "waiting").exists, child)
    server.cut()
    _, said = waiting.finish(child)
    last = said.decode().splitlines()[-1]
    assert child.returncode == 3 and "the connection to ssh:far was lost" in last, said
    assert "3 runs are kept" in last and go_on(last) == ["trial", "--resume", "t.jsonl"]
    waiting.wait_for(lambda: not running("613") and server.left() == [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "telnet:x", "--env", "A=1", "--", "true"], "no machine 'telnet:x'"),
        (["--on", "ssh:x", "--env", "A=1", "--", "true"], "not an address"),
        (["--on", "exec:false", "--env", "A=1", "--", "true"], "a POSIX shell is needed there"),
        (
            ["--on", "exec:env", "--env", "A=1", "--", "no-such-program"],
            "no such program on exec:env: no-such-program",
        ),
        (
            ["--on", "exec:env", "--env", "A=1", "--", "/etc/passwd"],
            "no such program on exec:env: /etc/passwd",
        ),
        (
            ["--on", "exec:env", "--pad", "absent_function", "--", "true"],
            "no function 'absent_function'",
        ),
    ],
)
def test_wrong_requests_are_one_line(real, words, message):
    assert message in real.refused("trial", *words)
    assert not list(real.directory.glob("**/*.jsonl"))


def test_a_program_that_cannot_be_started_there(real):
    """A shell there finds it, and the kernel refuses it."""
    (real.directory / "odd").write_bytes(b"\x7fELF" + bytes(100))
    (real.directory / "odd").chmod(0o755)
    said = real("trial", "--on", "exec:env", "--env", "A=1", "--output", "t.jsonl", "--", "./odd")
    assert said.returncode == 2 and "cannot run ./odd on exec:env: Exec format error" in said.stderr


def test_another_boot_there_is_refused(real):
    words = [
        "trial",
        "--on",
        "exec:env",
        "--env",
        "A=1",
        "--runs",
        "2",
        "--set",
        "warmup=0",
        "--output",
        "t.jsonl",
    ]
    assert real(*words, "--metric", r"(\d)", "--", "echo", "3").returncode == 0
    path = real.directory / "t.jsonl"
    session = path.read_bytes().splitlines()[0]
    path.write_bytes(session.replace(here()["boot_id"].encode(), b"earlier") + b"\n")
    assert "another boot or machine" in real.refused("trial", "--resume", "t.jsonl")


class Stub(trial_place.TrialPlace):
    """A machine of another architecture, as far as settings need it."""

    def __init__(self, folder: str) -> None:
        from types import SimpleNamespace

        self.name, self.machine, self._warn = "ssh://far", "aarch64", switching.IGNORE
        self._place = SimpleNamespace(folder=folder, arch="arm64", name="ssh:far", far=True)


def test_settings_of_an_arm64_machine_load_the_library_that_is_copied_there(monkeypatch, tmp_path):
    library = tmp_path / "liblinewright_audit.so"
    library.write_bytes(b"")
    library.chmod(0o755)
    monkeypatch.setenv("LINEWRIGHT_AUDIT_ARM64", str(library))
    found = Stub("/tmp/x").switched(["default", "prefetch"], "true")
    assert [e["LINEWRIGHT_ATOMICS"] for e in found] == ["default", "prefetch"]
    assert {e["LD_AUDIT"] for e in found} == {f"{FOLDER}/liblinewright_audit.so"}
    assert {e["GLIBC_TUNABLES"] for e in found} == {"glibc.rtld.optional_static_tls=16384"}
    with pytest.raises(UserError, match="LD_AUDIT cannot name"):
        Stub("/tmp/a:b").switched(["default"], "true")
    monkeypatch.setenv("LINEWRIGHT_AUDIT_ARM64", str(tmp_path / "absent"))
    with pytest.raises(UserError, match="no such file"):
        Stub("/tmp/x").switched(["default"], "true")


HELPER = ROOT / "build/native/probe/linewright-probe"


def test_a_helper_that_is_started_with_a_blocked_signal_hears_of_its_programs_end(real, tmp_path):
    request = {"command": ["sleep", "0.2"], "limit_s": 0, "output": 0}
    request |= {"threads": False, "environment": {}}
    said = tmp_path / "said"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        with open(said, "wb") as out:
            helper = subprocess.Popen([HELPER, "--programs"], stdin=subprocess.PIPE, stdout=out)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with helper:
        try:
            helper.stdin.write(json.dumps(request).encode() + b"\n")
            helper.stdin.flush()
            waiting.wait_for(lambda: said.read_bytes().count(b"\n") == 2, helper)
        finally:
            helper.kill()
    assert json.loads(said.read_bytes().splitlines()[1])["status"] == 0


def test_a_line_that_is_no_request_is_refused_by_the_helper(real):
    """It never starts what it does not understand."""
    for line, said in (
        (b"{}\n", "command"),
        (b"nonsense\n", "not JSON at byte 2"),
        (
            b'{"command":[],"limit_s":0,"output":0,"threads":false,"environment":{}}\n',
            "without a program",
        ),
    ):
        done = subprocess.run([HELPER, "--programs"], input=line, capture_output=True)
        assert done.returncode == 3 and said in json.loads(done.stderr)["error"], done.stderr
    done = subprocess.run([HELPER, "--programs"], input=b"end\nkill\n", capture_output=True)
    assert done.returncode == 0 and msgspec.json.decode(done.stdout)["linewright_programs"] == 1

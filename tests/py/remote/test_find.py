# SPDX-License-Identifier: MIT
"""`linewright find` on another machine: sampled there, watched from here, named by files that are
fetched from there."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
from pathlib import Path

import pytest

from linewright.errors import RunError
from linewright.find import mapped_files
from linewright.find.mapped_files import RemoteFiles, build_id
from linewright.find.stream import Map
from support import find_results, waiting
from support.finding import PLANTED, SAMPLER, TRIES, sampled
from support.mounts import own_mounts
from support.places import ROOT

DENY = PLANTED.with_name("find_deny_perf")
SECONDS = "1"


@pytest.fixture
def find(real, tmp_path):
    """`linewright find --json` with a cache of its own."""
    for path in (SAMPLER, PLANTED):
        if not path.exists():
            pytest.skip(f"{path.name} is not built")
    before = real.environment
    real.environment = lambda: (
        before() | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "LINEWRIGHT_FIND": str(SAMPLER)}
    )
    return lambda *words, **more: real.apart("find", "--json", *words, **more)


@pytest.fixture
def sampling(find):
    """Where perf_event_open is refused, the fall-back's test runs instead."""
    done = subprocess.run([SAMPLER, "--", "true"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"perf_event_open is refused: {done.stdout.strip()}")
    return find


def result(done: subprocess.CompletedProcess[str]) -> dict:
    assert done.returncode == 0, done.stderr
    return find_results.worded(done.stdout)


def samplers(seconds: str, names: tuple[str, ...] = (SAMPLER.name, PLANTED.name)) -> list[str]:
    """Processes of a run that was to take so long: the sampler and its program."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.path.basename(words[0].decode()) in names and seconds.encode() in words:
            found.append(entry)
    return found


def test_false_sharing_of_plain_stores_over_ssh(over, start, sampling, tmp_path):
    """Only watchpoints see it, so requests must reach the sampler there. Beside a load the program
    may end before they were answered, and is run again."""
    server = start()
    words = ("--on", "ssh://far", "--", PLANTED, "false_plain", 2, 3)
    lines = (line for _ in range(TRIES) for line in result(sampling(*words))["lines"])
    line = next(lines)
    assert (
        "plain_counters" in line["object"]
        and line["kind"] == "false"
        and line["certainty"] == "watched"
    )
    assert "planted.cpp:" in line["sites"][0]["source"]
    (kept,) = (tmp_path / "cache/linewright/files").glob(f"{build_id(PLANTED.read_bytes())}-*")
    assert kept.read_bytes() == PLANTED.read_bytes()
    assert server.left() == []


@pytest.mark.slow
@own_mounts
def test_names_come_from_files_that_are_only_there(sampling, tmp_path):
    """The program lies where nothing lies here."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "far_away").write_bytes(PLANTED.read_bytes())
    (there / "far_away").chmod(0o755)
    into = f"exec:unshare --mount sh -c 'mount --bind {there} /mnt && exec \"$@\"' sh"
    words = ("--on", into, "--heap", "--", "/mnt/far_away", "heap_false", 2)
    found = sampled(lambda seconds: result(sampling(*words, seconds.rstrip("s"))))
    line = found["lines"][0]
    assert (
        line["kind"] == "false"
        and line["object_kind"] == "heap"
        and "allocated in" in line["object"]
    )
    assert line["allocated_in"] and "planted.cpp" in line["object"] + line["sites"][0]["source"]
    if line["movement"]["answer"] not in ("by_turns", "one_cpu") or line["next_command"]:
        assert line["next_command"].startswith("linewright trial --on 'exec:unshare")
        assert "--pad" in line["next_command"]


@pytest.mark.slow
def test_a_running_process_there(over, start, sampling):
    start()
    program = subprocess.Popen([PLANTED, "true", "2", "600"], stdout=subprocess.DEVNULL)
    try:
        words = ("--on", "ssh://far", "--pid", program.pid, "--for")
        found = sampled(lambda seconds: result(sampling(*words, seconds)))
        assert program.poll() is None, "it goes on"
    finally:
        program.kill()
        program.wait()
    assert "true_counter" in found["lines"][0]["object"] and found["program"].startswith(
        "find_planted ("
    )


@pytest.mark.slow
def test_without_perf_event_open_there(find, tmp_path):
    if not DENY.exists():
        pytest.skip("find_deny_perf is not built")
    words = ("--on", f"exec:{DENY} env TMPDIR=/tmp", "--", PLANTED, "true", 2)
    found = sampled(lambda seconds: result(find(*words, seconds.rstrip("s"))), "2s")
    assert found["source"] == "signal" and "true_counter" in found["lines"][0]["object"]
    spaced = tmp_path / "a b"
    spaced.mkdir()
    refused = find("--on", f"exec:{DENY} env 'TMPDIR={spaced}'", "--", PLANTED, "true", 2, "2")
    assert refused.returncode == 2 and "LD_PRELOAD cannot name" in refused.stderr


def test_the_program_has_our_output_its_exit_code_and_no_input(real, sampling):
    """With --json our standard output is the result alone, and the program's goes to standard
    error."""
    program = 'echo said; echo loud >&2; test -z "$(cat)" && exit 7'
    words = ("--on", "exec:env", "--", "sh", "-c", program)
    done = sampling(*words, input="x")
    assert done.returncode == 3 and find_results.worded(done.stdout)["exit_code"] == 7
    assert {"said", "loud"} <= set(done.stderr.splitlines())
    plain = real.apart("find", *words, input="x")
    assert plain.stdout.startswith("said\n") and "loud" in plain.stderr.splitlines()


def test_a_lost_connection_keeps_what_was_seen_and_ends_the_program(over, start, sampling):
    server = start()
    child = over.start("find", "--on", "ssh://far", "--", PLANTED, "true", 2, "1201.5")
    # So long, and it was sampled.
    waiting.wait_for(lambda: any(waiting.cpu_s(int(pid)) > 1 for pid in samplers("1201.5")), child)
    server.cut()
    out, said = waiting.finish(child)
    assert (
        child.returncode == 3 and b"the connection to ssh:far was lost" in said.splitlines()[-1]
    ), said
    assert b"Broken off: the connection to ssh:far was lost; what came before counts." in out
    waiting.wait_for(lambda: not samplers("1201.5") and server.left() == [])


def test_an_interrupt_ends_the_program_there_and_shows_what_was_seen(over, start, sampling):
    server = start()
    child = over.start("find", "--on", "ssh://far", "--", PLANTED, "true", 2, "1202.5")
    waiting.wait_for(lambda: any(waiting.cpu_s(int(pid)) > 1 for pid in samplers("1202.5")), child)
    os.killpg(child.pid, signal.SIGINT)
    out, said = waiting.finish(child)
    assert child.returncode == 3 and b"ended by SIGINT" in said, said
    assert b"true_counter" in out and b"Ended by SIGINT before its time" in out
    assert b"Broken off" not in out, "the sampler there came to its last line"
    waiting.wait_for(lambda: not samplers("1202.5") and server.left() == [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--on", "telnet:x", "--", "true"], "no machine 'telnet:x'"),
        (["--on", "exec:false", "--", "true"], "a POSIX shell is needed there"),
        (["--on", "exec:env", "--exact", "--", "true"], "works here alone"),
        (["--on", "exec:env", "--", "no-such-program"], "cannot run no-such-program: No such file"),
        (["--on", "exec:env", "--pid", "4194304"], "no process 4194304"),
        (["--on", "exec:env"], "no program named"),
    ],
)
def test_wrong_requests_are_one_line(real, find, words, message):
    assert message in real.refused("find", *words)


I386 = ROOT / "build/i386"
PLANTED_I386 = I386 / "tests/cpp/find/find_planted"


@pytest.mark.skipif(
    not (I386 / "find/linewright-find").exists(), reason="the i386 sampler is not built"
)
@pytest.mark.parametrize(
    ("options", "kind", "name"),
    [
        ((), "true", "true_counter"),
        ((), "false_plain", "plain_counters"),
        (("--heap",), "heap_false", "allocated in"),
    ],
)
def test_a_32_bit_machine_gets_the_i386_sampler(
    over, start, sampling, monkeypatch, tmp_path, options, kind, name
):
    """Programs there are i386; watchpoints, which alone see plain stores, watch four bytes
    there."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/uname").write_text("#!/bin/sh\necho i686\n")
    (tmp_path / "bin/uname").chmod(0o755)
    before = over.environment
    over.environment = lambda: (
        before() | {"LINEWRIGHT_FIND": "/absent"}
    )  # this machine's own is not even looked for
    server = start(PATH=f"{tmp_path}/bin:/usr/bin:/bin", TMPDIR="/dev/shm")
    words = ("--on", "ssh://far", *options, "--", PLANTED_I386, kind, 2)
    found = sampled(lambda seconds: result(sampling(*words, seconds.rstrip("s"))), "3s")
    assert found["arch"] == "i386" and found["source"] == "timer"
    line = found["lines"][0]
    assert name in line["object"], (line, found["notes"])
    assert line["kind"] == kind.partition("_")[0].replace("heap", "false")
    assert "planted.cpp" in line["object"] + line["sites"][0]["source"]
    assert server.left() == []


@pytest.mark.skipif(
    not (I386 / "find/linewright-find").exists(), reason="the i386 sampler is not built"
)
def test_a_32_bit_machine_without_perf_event_open(find, tmp_path):
    """The fall-back's library is the other machine's, and so are its registers."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/uname").write_text("#!/bin/sh\necho i686\n")
    (tmp_path / "bin/uname").chmod(0o755)
    deny = I386 / "tests/cpp/find/find_deny_perf"
    into = f"exec:{deny} env TMPDIR=/tmp PATH={tmp_path}/bin:/usr/bin:/bin"
    words = ("--on", into, "--", PLANTED_I386, "true", 2)
    found = sampled(lambda seconds: result(find(*words, seconds.rstrip("s"))), "2s")
    assert found["source"] == "signal" and found["arch"] == "i386"
    assert "true_counter" in found["lines"][0]["object"]


@pytest.mark.slow
def test_two_at_once_are_noticed_and_said(sampling, real):
    """Here the second says so; on another machine it is refused, as `measure` is, whichever of the
    two came first."""
    first = real.start("find", "--", PLANTED, "private", 2, "614.5")
    try:
        # The sampler takes the name before it starts the program.
        waiting.wait_for(lambda: samplers("614.5", (PLANTED.name,)), first)
        found = result(sampling("--", PLANTED, "private", 2, SECONDS))
        assert any("Another run was measuring or sampling" in note for note in found["notes"])
        for words in (["find", "--on", "exec:env", "--", "true"], ["measure", "--on", "exec:env"]):
            assert "another run is measuring there" in real.refused(*words)
    finally:
        os.killpg(first.pid, signal.SIGINT)
        waiting.finish(first)
    assert not any(
        "Another run" in note
        for note in result(sampling("--", PLANTED, "private", 2, SECONDS))["notes"]
    )


class Shell:
    """A machine whose scripts run here; counts them."""

    def __init__(self) -> None:
        self.scripts: list[str] = []

    def __call__(self, script: str) -> bytes:
        self.scripts.append(script)
        done = subprocess.run(["sh", "-c", script], capture_output=True)
        if done.returncode:
            raise RunError(done.stderr.decode())
        return done.stdout


def test_files_are_fetched_once_and_kept_by_build_id(tmp_path, monkeypatch):
    program = tmp_path / "a 'b'"
    program.write_bytes(Path("/bin/sh").resolve().read_bytes() + bytes(100))
    kept, look = tmp_path / "kept", Shell()
    first = RemoteFiles(look, str(tmp_path), kept)
    here = Path(first.here(str(program)))
    assert here.parent == kept and here.read_bytes() == program.read_bytes()
    assert first.inode(str(program)) == program.stat().st_ino and first.here(str(program)) == str(
        here
    )
    assert len(look.scripts) == 2
    again = RemoteFiles(look, str(tmp_path), kept)
    assert again.here(str(program)) == str(here) and len(look.scripts) == 3, (
        "asked for, not fetched"
    )
    # Without a build ID it is kept for this run only; a shell script has none.
    plain = tmp_path / "script"
    plain.write_text("#!/bin/sh\n")
    assert Path(again.here(str(plain))).parent == tmp_path and len(list(kept.iterdir())) == 1
    assert again.here("/absent") == "" and again.inode("/absent") == 0
    assert not again.left_out, "no file that a program has mapped"
    again.mapped(Map(time_ns=0, pid=1, start=0, length=1, offset=0, device=0, inode=5,
                     path="/deleted", executable=True, writable=False, shared=False))  # fmt: skip
    assert again.here("/deleted") == "" and again.left_out == {"/deleted": "replaced"}
    monkeypatch.setattr(mapped_files, "MOST_FILE", 1000)
    assert RemoteFiles(look, str(tmp_path), tmp_path / "other").here(str(program)) == ""
    long = RemoteFiles(look, str(tmp_path), tmp_path / "other")
    assert long.here(str(program)) == "" and long.left_out == {str(program): "too_large"}


def test_what_is_kept_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_files, "MOST_KEPT", 250)
    for number in range(4):
        (tmp_path / str(number)).write_bytes(bytes(100))
        os.utime(tmp_path / str(number), (number, number))
    mapped_files._prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]


def test_a_machine_without_gzip(tmp_path):
    text = mapped_files.packed("x")
    (tmp_path / "x").write_bytes(b"whole")
    done = subprocess.run(
        ["/bin/sh", "-c", text], cwd=tmp_path, env={"PATH": "/absent"}, capture_output=True
    )
    assert b"cat" in done.stderr, "neither is there, and cat is asked"
    assert (
        mapped_files.unpacked(b"whole")
        == mapped_files.unpacked(gzip.compress(b"whole"))
        == b"whole"
    )


def test_no_build_id_where_none_is():
    assert build_id(b"") == build_id(b"\x7fELF" + bytes(60)) == ""
    assert len(build_id(PLANTED.read_bytes())) == 40 if PLANTED.exists() else True

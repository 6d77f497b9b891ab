# SPDX-License-Identifier: MIT
"""Measuring over ssh, against a real sshd: streamed, stopped, lost, resumed, and what is left
behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from linewright.records import files as records
from support import waiting
from support.command_lines import go_on
from support.mounts import own_mounts
from support.places import ROOT
from support.sshd import Sshd, knobs

FEW = ["--format", "none", "--only", "plain_add", "--set", "work=0,10,20,50,100,200"]
FEW += ["--set", "launches=2"]  # two times six records


def rows_of(path: Path) -> list:
    return records.read(path, lambda warning: None)[1]


def finished(path: Path) -> int:
    return path.read_bytes().count(b'{"linewright_record"') if path.exists() else 0


def probes(server: Sshd) -> list[int]:
    """Processes that run a probe out of a folder of this server's."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
            folder = os.readlink(f"/proc/{entry}/cwd")
        except OSError:
            continue
        if b"./linewright-probe" in words and folder.startswith(str(server.temporary)):
            found.append(int(entry))
    return found


def test_records_come_from_there_and_nothing_stays(over, start, out):
    server = start()
    answer = over("measure", *FEW[2:], "--on", "ssh://far", "-o", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    contexts, rows = records.read(out, pytest.fail)
    assert {context.target for context in contexts} == {"ssh:far"} and {
        row.launch for row in rows
    } == {0, 1}
    assert answer.stdout.startswith("Fake, 2 CPUs")
    assert server.left() == [] and probes(server) == []


def test_the_real_probe_over_ssh(over, start, real, out):
    server = start()
    plan = {
        "linewright_plan": 2,
        "name": "one",
        "launches": 2,
        "min_windows": 2,
        "max_windows": 2,
        "window_ms": 0.5,
        "budget_s": 20,
        "cells": [{"operation": "add", "form": "plain_add", "order": "relaxed", "lines": 1}],
    }
    (over.directory / "p.json").write_text(json.dumps(plan))
    here = over("measure", "--format", "none", "--plan", "p.json", "-o", "here.jsonl")
    assert here.returncode == 0, here.stderr
    answer = over(
        "measure", "--format", "none", "--plan", "p.json", "--on", "ssh://far", "-o", "r.jsonl"
    )
    assert answer.returncode == 0, answer.stderr
    there, local = (
        records.read(out, pytest.fail)[0],
        records.read(over.directory / "here.jsonl", pytest.fail)[0],
    )
    assert there[0].machine_id == local[0].machine_id and len(rows_of(out)) == 2
    assert server.left() == []


def test_what_is_copied_is_only_what_runs(real):
    from linewright.elf.symbols import loadable

    copy = real.directory / "copy"
    copy.write_bytes(loadable(real.probe))
    copy.chmod(0o755)
    assert copy.stat().st_size < real.probe.stat().st_size / 2
    forms = [
        subprocess.run([path, "--list-forms"], capture_output=True, check=True).stdout
        for path in (copy, real.probe)
    ]
    assert forms[0] == forms[1]


def test_records_are_streamed_and_an_interrupt_keeps_them(over, start, out):
    server = start(**knobs(pause_s=0.2))
    process = over.start("measure", *FEW, "--on", "ssh://far", "-o", "r.jsonl")
    waiting.wait_for(lambda: finished(out) >= 2, process)
    assert process.poll() is None, "streamed while it runs"
    os.killpg(process.pid, signal.SIGINT)
    _, said = waiting.finish(process)
    assert process.returncode == 3
    last = said.decode().splitlines()[-1]
    assert (
        "stopped by SIGINT" in last and "--resume r.jsonl" in last and "--on ssh://far" in last
    ), said
    assert len(rows_of(out)) >= 2
    waiting.wait_for(lambda: not probes(server) and server.left() == [])


def test_a_lost_connection_keeps_all_records_and_resume_goes_on(over, start, out):
    server = start(**knobs(pause_s=0.1))
    process = over.start("measure", *FEW, "--on", "ssh://far", "-o", "r.jsonl")
    waiting.wait_for(lambda: finished(out) >= 2, process)
    server.cut()
    _, said = waiting.finish(process)
    assert process.returncode == 3
    last = said.decode().splitlines()[-1]
    assert (
        "the connection to ssh:far was lost in launch 0" in last
        and " cell runs are kept; continue with " in last
    ), said
    kept = [(row.id, row.launch) for row in rows_of(out)]
    assert len(kept) >= 2
    waiting.wait_for(
        lambda: not probes(server) and server.left() == []
    )  # there the probe ends and the folder goes
    answer = over(*go_on(last))
    assert answer.returncode == 0, answer.stderr
    runs = [(row.id, row.launch) for row in rows_of(out)]
    assert runs[: len(kept)] == kept and len(runs) == len(set(runs)) == 12


def test_a_killed_command_leaves_nothing_there(over, start, out):
    server = start(**knobs(pause_s=0.2))
    process = over.start("measure", *FEW, "--on", "ssh://far", "-o", "r.jsonl")
    waiting.wait_for(lambda: finished(out) >= 1, process)
    assert server.left() and probes(server)
    process.kill()
    process.communicate()
    waiting.wait_for(lambda: not probes(server) and server.left() == [])


def test_a_login_shell_that_talks_is_no_record(over, start, out, tmp_path):
    """What a profile prints comes before the first line of the probe."""
    talk = tmp_path / "talk"
    talk.write_text('#!/bin/sh\necho "Welcome! {"\neval "$SSH_ORIGINAL_COMMAND"\n')
    talk.chmod(0o755)
    start(forced=talk)
    answer = over("measure", *FEW, "--on", "ssh://far", "-o", "r.jsonl")
    assert answer.returncode == 0, answer.stderr
    assert len(rows_of(out)) == 12


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("ssh://far:1", "ssh:far:1: "),
        ("ssh://stranger@far", "Permission denied"),
        ("ssh:far", "not an address"),
        ("ssh://far:99999", "no port 99999"),
        ("ssh://-oProxyCommand=x", "not an address"),
        ("ssh://-l@far", "not an address"),
        ("ssh://far/path", "not an address"),
        ("telnet:far", "no target 'telnet:far'"),
    ],
)
def test_a_host_that_refuses_is_one_line(over, start, out, target: str, message: str):
    start()
    assert message in over.refused("measure", *FEW, "--on", target, "-o", "r.jsonl")
    assert not out.exists()


def test_a_password_without_a_terminal(over, start, keys, out):
    start()
    (keys.folder / "user.pub").write_text("")
    said = over.refused("measure", *FEW, "--on", "ssh://far", "-o", "r.jsonl")
    assert "Permission denied" in said and "use a key or an agent" in said


def test_a_host_key_that_is_not_known(over, start, keys, out):
    start()
    (keys.folder / "known").write_text("")
    said = over.refused("measure", *FEW, "--on", "ssh://far", "-o", "r.jsonl")
    assert "Host key verification failed" in said and "connect once with ssh" in said


def test_no_ssh_here(over, start):
    start()
    over.patch.setattr(
        over, "environment", lambda: {"LINEWRIGHT_SSH": "/absent/ssh", "PYTHONPATH": str(ROOT)}
    )
    assert "cannot run /absent/ssh" in over.refused("measure", "--on", "ssh://far")


def fake_tool(folder: Path, name: str, text: str) -> str:
    """A PATH on which one program is ours."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    (bin_folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (bin_folder / name).chmod(0o755)
    return f"{bin_folder}:/usr/local/bin:/usr/bin:/bin"


def test_another_architecture(over, start, tmp_path):
    server = start(PATH=fake_tool(tmp_path, "uname", "echo armv7l"))
    said = over.refused("measure", "--on", "ssh://far")
    assert "no probe for architecture 'armv7l'" in said and "x86_64, i386, arm64" in said
    assert server.left() == []


I386 = ROOT / "build/i386/probe/linewright-probe"


@pytest.mark.skipif(not I386.exists(), reason="the i386 probe is not built")
@pytest.mark.parametrize("said", ["i686", "i586"])
def test_a_32_bit_machine_gets_the_i386_probe(over, start, out, tmp_path, said):
    """Its kernel's answer decides, whatever this machine is; the probe of this machine is not even
    found."""
    server = start(PATH=fake_tool(tmp_path, "uname", f"echo {said}"))
    before = over.environment
    over.environment = lambda: before() | {"LINEWRIGHT_PROBE": "/absent"}
    plan = {
        "linewright_plan": 2,
        "name": "one",
        "launches": 1,
        "min_windows": 2,
        "max_windows": 2,
        "window_ms": 0.5,
        "budget_s": 20,
        "cells": [
            {
                "operation": "add",
                "form": "plain_add",
                "order": "relaxed",
                "lines": 1,
                "width_bits": 32,
            }
        ],
    }
    (over.directory / "p.json").write_text(json.dumps(plan))
    answer = over(
        "measure", "--format", "none", "--plan", "p.json", "--on", "ssh://far", "-o", "r.jsonl"
    )
    assert answer.returncode == 0, answer.stderr
    (context,), (row,) = records.read(out, pytest.fail)
    assert context.arch == "i386" and row.status == "ok" and server.left() == []


def test_an_architecture_whose_probe_cannot_run_there(over, start, tmp_path):
    """The host says one architecture and runs programs of another, as a wrong emulator would."""
    server = start(PATH=fake_tool(tmp_path, "uname", "echo aarch64"))
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xb7" + bytes(100))
    wrong.chmod(0o755)
    over.patch.setattr(
        over,
        "environment",
        (lambda before: lambda: before() | {"LINEWRIGHT_PROBE_ARM64": str(wrong)})(
            over.environment
        ),
    )
    said = over.refused("measure", "--on", "ssh://far")
    assert "the probe cannot be copied there or started" in said and server.left() == []


@own_mounts
def test_no_space_for_the_probe(over, start, real, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    script = f'mount -t tmpfs -o size=64k none {small} && exec "$@"'
    start(under=("unshare", "--mount", "sh", "-c", script, "sh"), TMPDIR=str(small))
    said = over.refused("measure", "--on", "ssh://far")
    assert "No space left on device" in said


def test_a_folder_that_starts_no_programs_is_passed_over(over, start, tmp_path, out):
    """TMPDIR is no folder: the next one of the list is taken."""
    start(TMPDIR=str(tmp_path / "absent"))
    assert over("measure", *FEW, "--on", "ssh://far", "-o", "r.jsonl").returncode == 0
    assert not [name for name in os.listdir("/dev/shm") if name.startswith("linewright-")]


def test_a_probe_of_another_version(over, start):
    server = start(**knobs(version="linewright-probe 0.0.9"))
    said = over.refused("measure", "--on", "ssh://far")
    assert "'linewright-probe 0.0.9'" in said and server.left() == []


def test_two_runs_on_one_host(over, start):
    start(**knobs(other_probe=True))
    assert "another run is measuring there" in over.refused("measure", "--on", "ssh://far")


@pytest.mark.usefixtures("without_vega")
def test_several_machines_have_a_file_each_and_one_report(over, start):
    start("near", **knobs(machine_id="00000000000000aa"))
    start("far", **knobs(machine_id="00000000000000bb"))
    answer = over("measure", *FEW[2:], "--on", "ssh://near", "--on", "ssh://far", "-o", "both")
    assert answer.returncode == 0, answer.stderr
    folder = over.directory / "both"
    assert {path.name for path in folder.iterdir()} == {
        "near.jsonl",
        "far.jsonl",
        "report.html",
        "fleet.json",
    }
    assert {
        c.target
        for name in ("near", "far")
        for c in records.read(folder / f"{name}.jsonl", pytest.fail)[0]
    } == {
        "ssh:near",
        "ssh:far",
    }


def test_several_machines_of_which_one_refuses(over, start):
    start("near")
    words = ["measure", *FEW, "--on", "ssh://near", "--on", "ssh://far:1"]
    answer = over(*words, "-o", "both")
    assert answer.returncode == 3 and "1 of 2 machines failed" in answer.stderr.splitlines()[-1], (
        answer.stderr
    )
    assert len(rows_of(over.directory / "both/near.jsonl")) == 12
    before = (over.directory / "both/near.jsonl").read_bytes()
    again = over(*words, "--resume", "both")
    assert again.returncode == 3 and (over.directory / "both/near.jsonl").read_bytes() == before


def test_several_machines_and_a_wrong_option(over, start):
    start("near")
    answer = over(
        "measure", "--set", "wrong=1", "--on", "ssh://near", "--on", "local", "-o", "both"
    )
    assert answer.returncode == 2 and "no parameter 'wrong=1'" in answer.stderr.splitlines()[-1]
    assert "named twice" in over.refused("measure", "--on", "local", "--on", "local")

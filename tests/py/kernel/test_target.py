"""`measure --on kernel`, with a runner that answers as the module would: requests, records, refusals, and what is
missing."""

from __future__ import annotations

import json
import os
import sys

import pytest

from linewright.records.files import decode_line
from linewright.schema import Context, Record
from linewright.target import kernel
from support.places import HERE

SMALL = (
    "--set",
    "launches=2",
    "--set",
    "work=0,20",
    "--set",
    "contender_iters=0",
    "--set",
    "lines=4",
    "--budget",
    "20s",
)


@pytest.fixture
def inside(command, monkeypatch):
    """The command with the fake runner; called with its faults, it gives back the command."""

    def chosen(**faults: object):
        environment = command.environment() | {
            "LINEWRIGHT_KERNEL_RUNNER": f"{sys.executable} {HERE}/support/fake_runner.py",
            "FAKE_RUNNER": json.dumps(faults),
        }
        monkeypatch.setattr(command, "environment", lambda: environment)
        return command

    return chosen


def measured(command, *words: str) -> tuple[list[Context], list[Record]]:
    done = command("measure", "--on", "kernel", "-o", str(command.directory / "out.jsonl"), *words)
    assert done.returncode == 0, done.stderr
    lines = [decode_line(line, "out") for line in (command.directory / "out.jsonl").read_bytes().splitlines()]
    return [x for x in lines if isinstance(x, Context)], [x for x in lines if isinstance(x, Record)]


def test_the_matrix_becomes_records_of_the_usual_shape(inside):
    contexts, records = measured(inside(), "--plan", "rmw", *SMALL)
    assert len(contexts) == 2 and {context.target for context in contexts} == {"kernel"}
    assert contexts[0].kernel == "6.99-test" and contexts[0].timer_cost_ns == 20
    assert contexts[0].machine_id == contexts[1].machine_id
    add = next(
        r for r in records if r.cell.form == "atomic_add" and r.cell.contender == "none" and not r.cell.work_iters
    )
    assert add.status == "ok" and add.issue.median_ns == pytest.approx(5.0, rel=1e-3)
    assert add.baseline_ns[0] == pytest.approx(1.0, rel=1e-3) and add.sum_expected == add.sum_found > 0
    assert sorted(set(add.window_line)) == [0, 1, 2, 3] and len(add.window_ns) >= 8
    together = next(r for r in records if r.cell.form == "atomic_add" and r.cell.contender == "same_line")
    assert len(together.thread_ops) == 2 and together.fairness == pytest.approx(1.0) and together.cpus == [0, 1]
    assert together.total_mops == pytest.approx(2e3 / together.issue.median_ns, rel=0.01)
    assert not [r for r in records if r.cell.form == "plain_add" and r.cell.contender == "same_line"]
    missing = next(r for r in records if r.cell.form == "xchg")
    assert missing.status in ("ok", "unavailable")


def test_lines_are_visited_in_an_order_drawn_for_every_round(inside):
    """As the probe does it: what drifts while a cell is measured must not appear as a difference of lines."""
    words = ("launches=1", "work=0", "contender_iters=0", "lines=16")
    _, records = measured(inside(), "--plan", "rmw", *(w for word in words for w in ("--set", word)), "--budget", "20s")
    alone = [r.window_line for r in records if r.cell.contender == "none"]
    rounds = [tuple(lines[at : at + 16]) for lines in alone for at in range(0, len(lines) - 15, 16)]
    assert len(rounds) >= 8 and all(sorted(lines) == list(range(16)) for lines in rounds)
    assert len(set(rounds)) > len(rounds) / 2, "rounds have orders of their own"


def test_other_plans_are_translated(inside):
    _, percpu = measured(inside(), "--plan", "percpu", "--set", "launches=1", "--set", "work=0", "--budget", "20s")
    assert {r.cell.form for r in percpu} == {"percpu_empty", "this_cpu_add"}
    os.remove(inside().directory / "out.jsonl")
    _, readers = measured(
        inside(), "--plan", "readers", "--set", "launches=1", "--set", "read_delay=0", "--budget", "20s"
    )
    assert {r.cell.operation for r in readers} == {"readers_none", "readers_pair", "readers_grace", "readers_lookup"}
    assert all(r.status == "ok" for r in readers)


def test_lists_are_mapped_beside_the_explicit_instructions(inside):
    _, records = measured(inside(), "--plan", "cache", "--set", "launches=1", "--budget", "20s")
    mapped = [r for r in records if r.cell.operation == "dma_map"]
    assert {r.cell.params["entries"] for r in mapped if r.cell.params["entry_bytes"] == 4096} == {2560, 640}
    beside = {(r.cell.params["entries"], r.cell.params["wait"]) for r in records if r.cell.form == "dc_cvac"}
    assert {(2560, "each"), (2560, "once")} <= beside


def test_a_refused_cell_is_kept_with_its_reason(inside):
    _, records = measured(inside(refuse="lock_add"), "--plan", "rmw", *SMALL)
    refused = [r for r in records if r.cell.form == "lock_add"]
    assert refused and all(r.status == "unavailable" and "it is Sunday" in r.reason for r in refused)


def test_a_wrong_sum_is_no_result(inside):
    _, records = measured(inside(wrong_sum="atomic_add"), "--plan", "rmw", *SMALL)
    wrong = [r for r in records if r.cell.form == "atomic_add"]
    assert all(r.status == "error" and "add up to" in r.reason and not r.window_ns for r in wrong)


def test_a_runner_that_dies_keeps_what_there_is(inside):
    done = inside(die="atomic_add")("measure", "--on", "kernel", "-o", "kept.jsonl", "--plan", "rmw", *SMALL)
    assert done.returncode == 3 and "linewright-kernel ended" in done.stderr


@pytest.mark.parametrize(
    "faults, said",
    [
        ({"interface": 1}, "the loaded module is of version 9.9"),
        ({"load": "the kernel takes signed modules only"}, "the kernel takes signed modules only"),
    ],
)
def test_a_module_that_does_not_fit_is_refused(inside, faults, said):
    assert said in inside(**faults).refused("measure", "--on", "kernel", "--plan", "rmw", "--dry-run")


def test_the_target_has_no_further_name(inside):
    said = inside().refused("measure", "--on", "kernel:other", "--plan", "rmw", "--dry-run")
    assert "kernel takes nothing behind a colon" in said


@pytest.mark.parametrize(
    "cell, said",
    [
        ({"operation": "handoff", "form": "load_cmpxchg"}, "the module has no form load_cmpxchg of handoff"),
        ({"form": "lock_add", "work": "nop_loop", "work_iters": 10}, "not the NOP loop"),
        ({"form": "lock_add", "params": {"colour": 1}}, "no parameter colour"),
        ({"operation": "dma_map", "form": "dma_sg", "width_bits": 8, "params": {"state": "absent"}}, "lines absent"),
        ({"form": "lock_add", "placement": "same_l3", "threads": 2, "contender": "same_line"}, "no pair of CPUs"),
    ],
)
def test_a_cell_that_the_module_cannot_be_asked_for_is_refused(inside, tmp_path, cell, said):
    plan = {"linewright_plan": 2, "name": "own", "cells": [{"operation": "add"} | cell]}
    (tmp_path / "own.json").write_text(json.dumps(plan))
    assert said in inside().refused("measure", "--on", "kernel", "--plan", str(tmp_path / "own.json"), "--dry-run")


def test_missing_headers_name_their_package(command, monkeypatch, tmp_path):
    monkeypatch.setenv("LINEWRIGHT_KMOD", str(tmp_path))
    monkeypatch.setattr(kernel.os, "uname", lambda: os.uname_result(("Linux", "x", "6.99-none", "#1", "x86_64")))
    with pytest.raises(kernel.UserError, match=r"apt install linux-headers-6\.99-none, then make -C kmod"):
        kernel.module_folder()


def test_sudo_starts_the_runner_and_its_refusal_ends_the_run(monkeypatch, tmp_path):
    for name in ("linewright.ko", "linewright-kernel"):
        (tmp_path / name).touch()
    sudo = tmp_path / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    sudo.chmod(0o755)
    monkeypatch.setenv("LINEWRIGHT_KMOD", str(tmp_path))
    monkeypatch.delenv("LINEWRIGHT_KERNEL_RUNNER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(kernel.os, "geteuid", lambda: 1000)
    assert kernel.runner_command()[0] == "sudo"
    with pytest.raises(kernel.RunError, match="ended with exit code 1"):
        _ = kernel.KernelTarget().runner


def test_a_system_without_sudo_says_so(monkeypatch, tmp_path):
    for name in ("linewright.ko", "linewright-kernel"):
        (tmp_path / name).touch()
    monkeypatch.setenv("LINEWRIGHT_KMOD", str(tmp_path))
    monkeypatch.delenv("LINEWRIGHT_KERNEL_RUNNER", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kernel.os, "geteuid", lambda: 1000)
    with pytest.raises(kernel.UserError, match="cannot run sudo"):
        _ = kernel.KernelTarget().runner

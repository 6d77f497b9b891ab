# SPDX-License-Identifier: MIT
"""The plan of library operations: every class, width, order and policy, and a probe that runs them
with exact sums."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from linewright import plans
from linewright.plans import definition
from linewright.plans.builtin.operations_plan import OPERATIONS, POLICIES
from linewright.plans.definition import Inputs
from linewright.schema import Cpu, Plan
from linewright.target import Topology
from support import waiting
from support.forms import every_form
from support.places import ROOT


def build(arch: str, *settings: str) -> Plan:
    forms = [form for form in every_form() if form.operation.startswith("library_")]
    topology = Topology(arch=arch, cpus=[Cpu(cpu=0), Cpu(cpu=1)], pairs={"same_l3": ["0,1"]})
    built_in = plans.find("operations")
    return built_in.build(
        Inputs(forms, topology, definition.settings(built_in, settings), 60, keep=list)
    )


def test_arm64_gets_every_class_width_order_policy_and_work() -> None:
    cells = build("arm64").cells
    assert len(cells) == 2 * 4 * (2 * len(POLICIES["library_add"]) + 3 * 5 * len(POLICIES[None]))
    assert len({cell.id for cell in cells}) == len(cells)
    assert {cell.operation for cell in cells} == set(OPERATIONS)
    assert {cell.width_bits for cell in cells} == {8, 16, 32, 64}
    assert {cell.work_iters for cell in cells} == {0, 200}
    assert {cell.params["policy"] for cell in cells if cell.operation != "library_add"} == set(
        POLICIES[None]
    )


def test_x86_has_one_form_and_so_one_policy_unless_all_are_asked_for() -> None:
    assert {cell.params["policy"] for cell in build("x86_64").cells} == {"default"}
    assert {cell.params["policy"] for cell in build("x86_64", "policies=all").cells} == set(
        POLICIES["library_add"]
    )


def test_parameters_thin_the_plan() -> None:
    cells = build(
        "arm64", "operations=library_xchg", "widths=64", "orders=full", "policies=default", "work=7"
    ).cells
    assert [(c.form, c.width_bits, c.order, c.work_iters) for c in cells] == [
        ("op_xchg", 64, "full", 7)
    ]
    contended = build("x86_64", "widths=8", "contended=yes").cells
    assert {c.contender for c in contended} == {"none", "same_line"}


def probe_command(arch: str, cpu: str) -> list[str]:
    if arch == "arm64":
        program = ROOT / "build/arm64/probe/linewright-probe"
        if not program.exists() or not shutil.which("qemu-aarch64"):
            pytest.skip("no arm64 probe, or no emulator, here")
        return ["qemu-aarch64", "-cpu", cpu, str(program)]
    program = ROOT / "build" / {"x86_64": "native"}.get(arch, arch) / "probe/linewright-probe"
    if not program.exists():
        pytest.skip(f"no {arch} probe built here")
    return [str(program)]


def run(command: list[str], cells: list[dict], **plan) -> subprocess.CompletedProcess[str]:
    text = json.dumps({"linewright_plan": 2, "name": "operations", "cells": cells, **plan})
    return waiting.run(command, input=text)


def cell(operation: str, form: str, bits: int, order: str, policy: str, **more) -> dict:
    return {
        "operation": operation,
        "form": form,
        "width_bits": bits,
        "order": order,
        "lines": 2,
        "params": {"policy": policy},
        **more,
    }


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="cells of two threads need two CPUs")
@pytest.mark.parametrize(
    ("arch", "cpu"), [("x86_64", ""), ("i386", ""), ("arm64", "max"), ("arm64", "cortex-a57")]
)
def test_the_probe_runs_each_with_an_exact_sum_or_says_that_the_cpu_cannot(
    arch: str, cpu: str
) -> None:
    together = {"contender": "same_line", "threads": 2}
    cells = [
        cell("library_add", "op_add", 8, "relaxed", "store+prefetch"),
        cell("library_add", "op_add_release", 32, "release", "llsc", **together),
        cell("library_fetch_add", "op_fetch_add", 16, "full", "default", **together),
        cell("library_xchg", "op_xchg_acquire", 64, "acquire", "prefetch", **together),
        cell("library_cmpxchg", "op_cmpxchg", 8, "full", "prefetch+cas-llsc", **together),
    ]
    done = run(
        probe_command(arch, cpu),
        cells,
        budget_s=4,
        window_ms=1,
        contended_window_ms=5,
        min_windows=2,
        max_windows=2,
        launches=1,
    )
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()[1:]]
    assert len(records) == len(cells)
    for record in records:
        needs_lse = record["cell"]["params"]["policy"] == "store+prefetch"
        if cpu == "cortex-a57" and needs_lse:
            assert record["status"] == "unavailable" and "LSE" in record["reason"]
            continue
        assert record["status"] in ("ok", "unreliable"), record["reason"]
        assert record["sum_expected"] == record["sum_found"]
    assert any(record["sum_found"] > 0 for record in records)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"policy": "near"}, "'near' is unknown"),
        ({"policy": 3}, "allowed: policy, a word"),
        ({"form": "x"}, "allowed: policy"),
    ],
)
def test_the_probe_refuses_what_is_no_policy(params: dict, said: str) -> None:
    bad = {"operation": "library_add", "form": "op_add", "params": params}
    done = run(probe_command("x86_64", ""), [bad])
    assert done.returncode == 2 and said in done.stderr

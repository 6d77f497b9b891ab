# SPDX-License-Identifier: MIT
"""The plan of per-CPU counters: which forms, how they are varied, and that the probe finds every
count again."""

from __future__ import annotations

import os
import shutil

import msgspec
import pytest

from linewright import plans
from linewright.errors import UserError
from linewright.plans import definition
from linewright.plans.definition import Inputs
from linewright.schema import Cpu, Plan
from linewright.target import Topology
from support import waiting
from support.forms import every_form
from support.places import ROOT

FORMS = [form for form in every_form() if form.operation.startswith("percpu_")]


def build(*settings: str, arch: str = "x86_64") -> Plan:
    topology = Topology(arch=arch, cpus=[Cpu(cpu=0), Cpu(cpu=1)], pairs={"same_l3": ["0,1"]})
    built_in = plans.find("percpu")
    return built_in.build(
        Inputs(FORMS, topology, definition.settings(built_in, settings), 60, keep=list)
    )


@pytest.mark.parametrize(("arch", "bits"), [("x86_64", 64), ("i386", 32), ("arm64", 64)])
def test_every_form_of_the_architecture_at_its_words_width(arch: str, bits: int) -> None:
    cells = build(arch=arch).cells
    expected = {
        form.name for form in FORMS if form.arch in ("any", arch) and form.width_bits == bits
    }
    assert {c.form for c in cells} == expected
    assert {c.width_bits for c in cells} == {bits}


def test_arm64_has_the_published_comparison() -> None:
    forms = {cell.form for cell in build(arch="arm64").cells}
    assert {
        "percpu_own_stadd",
        "percpu_own_ldadd",
        "percpu_own_prfm_strm_stadd",
        "percpu_own_llsc_add",
    } <= forms


def test_back_to_back_and_exposed_on_one_word_and_in_rotation() -> None:
    cells = [c for c in build("threads=1").cells if c.form == "percpu_rseq_add"]
    assert {(c.work_iters, c.params["slots"]) for c in cells} == {
        (work, slots) for work in (0, 20, 200) for slots in (1, 16)
    }


def test_the_empty_loop_counts_alone() -> None:
    assert {c.threads for c in build().cells if c.operation == "percpu_none"} == {1}


def test_slots_that_are_no_power_of_two_are_refused() -> None:
    with pytest.raises(UserError, match="power of two"):
        build("slots=1,12")


def probe_of(arch: str) -> list[str]:
    """The probe that was built for the architecture, under the emulator where it has to be; skips
    without either."""
    probe = ROOT / "build" / {"x86_64": "native"}.get(arch, arch) / "probe" / "linewright-probe"
    if not probe.exists() or (arch == "arm64" and not shutil.which("qemu-aarch64")):
        pytest.skip(f"no {arch} probe built here, or no emulator")
    return ["qemu-aarch64", "-cpu", "max", str(probe)] if arch == "arm64" else [str(probe)]


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="cells of two threads need two CPUs")
@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_the_probe_finds_every_count_again(arch: str) -> None:
    """Under the emulator there are no sequences: their cells say so, and counting by everything
    else goes on."""
    threads = "threads=1" if arch == "arm64" else "threads=1,2"
    plan = build(
        "work=0",
        "slots=1,4",
        "lines=2",
        "launches=1",
        "window_ms=0.2",
        "contended_window_ms=0.5",
        threads,
        arch=arch,
    )
    plan = msgspec.structs.replace(plan, max_windows=4, budget_s=100)
    done = waiting.run(probe_of(arch), input=msgspec.json.encode(plan), check=True, text=False)
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    records = [line for line in lines if "linewright_record" in line]
    assert len(records) == len(plan.cells)
    measured = 0
    for record in records:
        assert record["status"] != "error", record["reason"]
        if record["status"] == "unavailable":
            assert (
                record["cell"]["form"].startswith("percpu_rseq")
                and "no restartable sequences" in record["reason"]
            )
        elif record["cell"]["operation"] != "percpu_none":
            assert record["sum_found"] == record["sum_expected"] > 0
            measured += 1
    assert measured
    if arch == "arm64":
        assert "unavailable" in {record["status"] for record in records}

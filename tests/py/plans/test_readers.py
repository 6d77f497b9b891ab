# SPDX-License-Identifier: MIT
"""The plan of readers: which forms, how they are varied, that every loop holds what it says, and
that no section saw poison."""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

import msgspec
import pytest

from linewright import plans
from linewright.errors import UserError
from linewright.plans import definition
from linewright.plans.definition import Inputs
from linewright.schema import Cpu, Plan
from linewright.target import Topology
from machine_code import OBJDUMP, Instruction, disassemble
from support import waiting
from support.forms import every_form
from support.places import ROOT

FORMS = [form for form in every_form() if form.operation.startswith("readers_")]
PROTECTING = [form.name for form in FORMS if form.operation == "readers_pair"]


def build(*settings: str, arch: str = "x86_64", cpus: int = 2) -> Plan:
    topology = Topology(
        arch=arch, cpus=[Cpu(cpu=n) for n in range(cpus)], pairs={"same_l3": ["0,1"]}
    )
    built_in = plans.find("readers")
    return built_in.build(
        Inputs(FORMS, topology, definition.settings(built_in, settings), 60, keep=list)
    )


def probe_of(arch: str) -> Path:
    path = ROOT / "build" / {"x86_64": "native"}.get(arch, arch) / "probe" / "linewright-probe"
    if not path.exists():
        pytest.skip(f"no {arch} probe built here")
    return path


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_every_form_of_the_architecture(arch: str) -> None:
    expected = {form.name for form in FORMS if form.arch in ("any", arch)}
    assert {c.form for c in build(arch=arch).cells} == expected


def test_arm64_has_the_pair_of_the_published_complaint_in_each_form() -> None:
    forms = {
        c.form.removeprefix("srcu_percpu_")
        for c in build(arch="arm64").cells
        if c.operation == "readers_shape"
    }
    adds = {"stadd", "ldadd", "llsc_add"}
    assert adds | {f"prfm_{hint}_{add}" for hint in ("keep", "strm") for add in adds} <= forms


def test_readers_by_machine_or_as_set() -> None:
    plain = [
        c
        for c in build(cpus=6).cells
        if c.operation == "readers_pair" and c.form == "srcu_fast" and "updater" not in c.params
    ]
    assert sorted({c.threads for c in plain}) == [1, 2, 4, 6]
    assert {c.contender for c in plain if c.threads > 1} == {"same_line"}
    chosen = [
        c
        for c in build("readers=1,3", "updater=none", "read_delay=7").cells
        if c.form == "srcu_fast"
    ]
    assert [(c.threads, c.params["read_delay"]) for c in chosen] == [(1, 7), (3, 7)]


def test_an_updater_is_one_thread_more_and_stands_where_it_can_wait() -> None:
    cells = build("updater=synchronize,expedited", "read_delay=0", cpus=4).cells
    grace = [c for c in cells if c.operation == "readers_grace"]
    assert {c.form for c in grace} == set(PROTECTING) - {"refcnt"}
    assert {c.form for c in grace if c.params["updater"] == "expedited"} == {
        f for f in PROTECTING if f.startswith("srcu")
    }
    assert sorted({c.threads for c in grace}) == [1, 2, 3, 4], (
        "alone, beside one reader, two, and all but one CPU's"
    )
    beside = [
        c
        for c in cells
        if c.operation == "readers_pair" and c.params.get("updater") == "synchronize"
    ]
    assert {c.threads for c in beside} == {2, 3, 4}
    assert not any(c.operation == "readers_grace" for c in build("updater=none").cells)
    assert not any(c.threads > 1 for c in build(cpus=1).cells), (
        "one CPU: no updater beside a reader"
    )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (("instances=12",), "power of two"),
        (("updater=none,expedited",), "none and an updater"),
        (("updater=sometimes",), "synchronize, expedited"),
        (("readers=0",), "from 1"),
    ],
)
def test_wrong_settings_are_refused(settings: tuple[str, ...], text: str) -> None:
    with pytest.raises(UserError, match=text):
        build(*settings)


# ---- the probe ---------------------------------------------------------------------------------


def run(arch: str, plan: Plan) -> list[dict]:
    done = waiting.run(
        [*EMULATOR.get(arch, []), probe_of(arch)], input=msgspec.json.encode(plan), text=False
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    return [line for line in lines if "linewright_record" in line]


EMULATOR = {"arm64": ["qemu-aarch64", "-cpu", "max"]}
CPUS = len(__import__("os").sched_getaffinity(0))


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_every_section_saw_what_it_should(arch: str) -> None:
    """Alone, together, and beside an updater that poisons what it replaced: the counts add up and
    no reader saw poison."""
    if arch == "arm64" and not shutil.which("qemu-aarch64"):
        pytest.skip("no qemu-aarch64 here")
    probe_of(arch)
    plan = build(
        "readers=1,2",
        "read_delay=0,3",
        "updater=synchronize,expedited",
        "lines=1",
        "launches=1",
        "window_ms=0.1",
        "contended_window_ms=0.2",
        "instances=4",
        arch=arch,
    )
    fits = [
        c
        for c in plan.cells
        if c.threads <= min(CPUS, 2) and (c.params["read_delay"] == 3 or c.threads > 1)
    ]
    # A launch of few windows says nothing of times and enough of counts.
    plan = msgspec.structs.replace(plan, cells=fits, min_windows=1, max_windows=2, budget_s=6)
    records = run(arch, plan)
    assert len(records) == len(fits)
    for record in records:
        cell = record["cell"]
        assert record["status"] != "error", (
            record["id"],
            record["reason"],
            record["sum_expected"],
            record["sum_found"],
        )
        if record["status"] == "unavailable":
            assert record["reason"].startswith(
                ("no restartable sequences", "this CPU lacks", "updaters of", "not enough")
            ), record
            continue
        if cell["operation"] != "readers_grace" or cell["threads"] > 1:
            assert record["sum_found"] == record["sum_expected"] > 0
        if cell["params"].get("updater", "none") != "none":
            assert record["metrics"]["updates"] > 0
    names = {r["cell"]["form"] for r in records if r["status"] != "unavailable"}
    assert {
        "srcu",
        "srcu_fast",
        "srcu_fast_updown",
        "srcu_signal_safe",
        "rwlock",
        "typesafe_ref",
        "typesafe_seqlock",
    } <= names


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"params": {"read_delay": 1, "sleep": 3}}, "allowed: read_delay, updater, instances"),
        ({"params": {"updater": "never"}}, "allowed: none, synchronize, expedited"),
        ({"params": {"updater": "synchronize"}}, "at least 2"),
        ({"params": {"instances": 3}}, "power of two"),
        ({"operation": "readers_grace", "params": {"updater": "none"}}, "synchronize or expedited"),
        ({"work_iters": 4}, "read_delay, no work"),
    ],
)
def test_the_probe_refuses_cells_that_make_no_sense(changes: dict, text: str) -> None:
    plan = build("updater=none", "readers=1")
    cell = next(c for c in plan.cells if c.form == "srcu_fast")
    plan = msgspec.structs.replace(
        plan, cells=[msgspec.structs.replace(cell, **({"params": {}} | changes))]
    )
    done = waiting.run([probe_of("x86_64")], input=msgspec.json.encode(plan), text=False)
    assert done.returncode == 2 and text in done.stderr.decode() and done.stdout == b""


def test_a_form_whose_updater_cannot_wait_is_unavailable() -> None:
    plan = build("updater=none", "readers=1")
    cell = next(c for c in plan.cells if c.form == "refcnt")
    grace = msgspec.structs.replace(cell, operation="readers_grace")
    (record,) = run("x86_64", msgspec.structs.replace(plan, cells=[grace]))
    assert record["status"] == "unavailable" and "refcnt" in record["reason"]


# ---- instructions in loops ---------------------------------------------------------------------

X86_TWICE = {
    "srcu_percpu_builtin_add": "lock add",
    "srcu_percpu_lock_add": "lock add",
    "srcu_percpu_lock_inc": "lock inc",
    "srcu_percpu_lock_xadd": "lock xadd",
    "srcu_percpu_prefetchw_lock_add": "prefetchw,lock add",
    "srcu_percpu_prefetchw_lock_inc": "prefetchw,lock inc",
}
ARM64_TWICE = {
    f"srcu_percpu_{prefix}{add}": ",".join(([f"prfm {hint}"] if hint else []) + insns.split(","))
    for add, insns in (("stadd", "stadd"), ("ldadd", "ldadd"), ("llsc_add", "ldxr,stxr"))
    for prefix, hint in (("", ""), ("prfm_keep_", "pstl1keep"), ("prfm_strm_", "pstl1strm"))
}  # fmt: skip
OTHERS = {
    "x86_64": {
        "readers_empty": [],
        "refcnt": ["lock add", "lock sub"],
        "percpuinc": ["lock add", "lock sub"],
        "acqrel": ["mov", "mov"],
        "sched_clock": ["rdtsc"],
        "incpercpu": ["add", "sub"],
        "srcu_fast": ["mov", "mov", "add", "mov", "add"],
        "srcu_fast_updown": ["mov", "mov", "add", "mov", "add"],
        "srcu": ["mov", "mov", "lock add", "mov", "add"],
        "srcu_signal_safe": ["mov", "mov", "lock add", "mov", "add"],
    },
    "arm64": {"readers_empty": [], "acqrel": ["ldar", "stlr"], "sched_clock": ["mrs"]},
}
OTHERS["i386"] = {
    name: insns for name, insns in OTHERS["x86_64"].items() if not name.startswith("srcu")
}


@cache
def loops(arch: str) -> dict[str, list[Instruction]]:
    """Each lw_reader_… function's instructions, in order."""
    objdump = OBJDUMP.get(arch, "objdump")
    if not shutil.which(objdump):
        pytest.skip(f"no {objdump} here")
    code = disassemble(probe_of(arch), objdump, wanted="lw_reader_")
    return {name: body for name, body in code.items() if "." not in name}


def without_delay(arch: str, form: str) -> list[str]:
    """Memory instructions (and clock reads) of the loop without a delay: of those without work, the
    one with the most."""
    code = [(i.address, i.text) for i in loops(arch)[f"lw_reader_{form}"]]
    bodies = []
    for address, text in code:
        branch = re.match(r"^(j(?!mp)\w+|b\.\w+|cbn?z|tbn?z)\s+(?:.*,\s*)?([0-9a-f]+) <", text)
        if branch and int(branch.group(2), 16) <= address:
            body = [t for a, t in code if int(branch.group(2), 16) <= a <= address]
            if not any(
                t.strip() == "nop" or re.match(r"^(jmp\s+\*|br\s)|ret", t) for t in body
            ):  # NOP loop, chain
                bodies.append(body)
    assert bodies, f"{arch} {form}: no loop"
    return max(map(memory_instructions, bodies), key=len)


def memory_instructions(body: list[str]) -> list[str]:
    found = []
    for text in body:
        mnemonic = re.match(r"^(lock \S+|\S+)", text).group(1)
        operands = text[len(mnemonic) :]
        if mnemonic in ("rdtsc", "mrs"):
            found.append(mnemonic)
        elif (
            ("(" in operands or "[" in operands or "%fs:" in operands)
            and "nop" not in mnemonic
            and mnemonic not in ("lea", "data16", "cs")
        ):
            plain = re.sub(r"^(lock )?(add|sub|inc|mov|xadd|cmp)[lqb]$", r"\1\2", mnemonic)
            found.append(f"prfm {operands.split(',')[0].strip()}" if plain == "prfm" else plain)
    return found


@pytest.mark.parametrize("arch", ["x86_64", "i386", "arm64"])
def test_every_reader_has_its_loops(arch: str) -> None:
    forms = {form.name for form in FORMS if form.arch in ("any", arch)}
    names = {f"lw_reader_{form}" for form in forms} | {
        f"lw_reader_checked_{form}" for form in forms
    }
    assert {name for name in loops(arch) if not name.endswith("_form")} == names


@pytest.mark.parametrize(
    ("arch", "form"),
    [(a, f) for a in ("x86_64", "i386") for f in X86_TWICE] + [("arm64", f) for f in ARM64_TWICE],
)
def test_an_srcu_shaped_pair_holds_its_form_twice(arch: str, form: str) -> None:
    want = (ARM64_TWICE if arch == "arm64" else X86_TWICE)[form].split(",")
    found = [
        i for i in without_delay(arch, form) if i not in ("mov", "ldr") or i in want
    ]  # the index is read too
    assert found == want * 2


@pytest.mark.parametrize("arch", ["x86_64", "i386"])
@pytest.mark.parametrize(
    ("form", "want"), [("rwlock", ["lock xadd", "lock sub"]), ("spinlock", ["lock xadd"])]
)
def test_locks_lock_as_often_as_they_should(arch: str, form: str, want: list[str]) -> None:
    assert [i for i in without_delay(arch, form) if i.startswith("lock ")] == want


@pytest.mark.parametrize(("arch", "form"), [(a, f) for a in OTHERS for f in OTHERS[a]])
def test_other_loops_hold_what_they_are_named_after(arch: str, form: str) -> None:
    want = OTHERS[arch][form]
    found = without_delay(arch, form)
    rotations = [found[at:] + found[:at] for at in range(len(found))] or [
        []
    ]  # a compiler may begin anywhere
    assert any(rotated[: len(want)] == want for rotated in rotations), found

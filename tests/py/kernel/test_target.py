# SPDX-License-Identifier: MIT
"""`measure --on kernel`, with a runner that answers as the module would: requests, records,
refusals, and what is missing."""

from __future__ import annotations

import json
import lzma
import os
import re
import signal
import subprocess
import sys

import pytest

from linewright.analysis.machine_figures import PRICES
from linewright.errors import RunError
from linewright.kernel import kernel_target as kernel
from linewright.plans.builtin.readers_plan import EXPEDITED
from linewright.records.files import decode_line
from linewright.schema import Context, Record
from linewright.show.terminal import LINES
from support import waiting
from support.places import DATA, HERE, ROOT

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
def inside(real, monkeypatch):
    """The command with the fake runner; called with its faults, it gives back the command."""

    def chosen(**faults: object):
        environment = real.environment() | {
            "LINEWRIGHT_KERNEL_RUNNER": f"{sys.executable} -E -S {HERE}/support/fake_runner.py",
            "FAKE_RUNNER": json.dumps(faults),
        }
        monkeypatch.setattr(real, "environment", lambda: environment)
        return real

    return chosen


RUNS: dict[tuple[str, ...], tuple[list[Context], list[Record]]] = {}
"""What was measured, by the faults of the runner and the options."""


def measured(command, *words: str) -> tuple[list[Context], list[Record]]:
    key = (command.environment()["FAKE_RUNNER"], *words)
    if key in RUNS:
        return RUNS[key]
    done = command("measure", "--on", "kernel", "-o", str(command.directory / "out.jsonl"), *words)
    assert done.returncode == 0, done.stderr
    lines = [
        decode_line(line, "out")
        for line in (command.directory / "out.jsonl").read_bytes().splitlines()
    ]
    RUNS[key] = tuple([x for x in lines if isinstance(x, kind)] for kind in (Context, Record))
    return RUNS[key]


def test_the_matrix_becomes_records_of_the_usual_shape(inside):
    contexts, records = measured(inside(), "--plan", "rmw", *SMALL)
    assert len(contexts) == 2 and {context.target for context in contexts} == {"kernel"}
    assert contexts[0].kernel == "6.99-test" and contexts[0].timer_cost_ns == 20
    assert contexts[0].machine_id == contexts[1].machine_id
    add = next(
        r
        for r in records
        if r.cell.form == "atomic_add" and r.cell.contender == "none" and not r.cell.work_iters
    )
    assert add.status == "ok" and add.issue.median_ns == pytest.approx(5.0, rel=1e-3)
    assert (
        add.baseline_ns[0] == pytest.approx(1.0, rel=1e-3) and add.sum_expected == add.sum_found > 0
    )
    assert sorted(set(add.window_line)) == [0, 1, 2, 3] and len(add.window_ns) >= 8
    together = next(
        r for r in records if r.cell.form == "atomic_add" and r.cell.contender == "same_line"
    )
    assert (
        len(together.thread_ops) == 2
        and together.fairness == pytest.approx(1.0)
        and together.cpus == [0, 1]
    )
    assert together.total_mops == pytest.approx(2e3 / together.issue.median_ns, rel=0.01)
    assert not [
        r for r in records if r.cell.form == "plain_add" and r.cell.contender == "same_line"
    ]
    missing = next(r for r in records if r.cell.form == "xchg")
    assert missing.status in ("ok", "unavailable")


def test_lines_are_visited_in_an_order_drawn_for_every_round(inside):
    """As the probe does it: what drifts while a cell is measured must not appear as a difference of
    lines."""
    words = ("launches=1", "work=0", "contender_iters=0", "lines=16")
    _, records = measured(
        inside(),
        "--plan",
        "rmw",
        *(w for word in words for w in ("--set", word)),
        "--budget",
        "20s",
    )
    alone = [r.window_line for r in records if r.cell.contender == "none"]
    rounds = [tuple(lines[at : at + 16]) for lines in alone for at in range(0, len(lines) - 15, 16)]
    assert len(rounds) >= 6 and all(sorted(lines) == list(range(16)) for lines in rounds)
    assert len(set(rounds)) > len(rounds) / 2, "rounds have orders of their own"


def test_other_plans_are_translated(inside):
    _, percpu = measured(
        inside(), "--plan", "percpu", "--set", "launches=1", "--set", "work=0", "--budget", "20s"
    )
    assert {r.cell.form for r in percpu} == {"percpu_empty", "this_cpu_add"}
    (inside().directory / "out.jsonl").unlink(missing_ok=True)
    _, readers = measured(
        inside(),
        "--plan",
        "readers",
        "--set",
        "launches=1",
        "--set",
        "read_delay=0",
        "--budget",
        "20s",
    )
    assert {r.cell.operation for r in readers} == {
        "readers_none",
        "readers_pair",
        "readers_grace",
        "readers_lookup",
    }
    assert all(r.status == "ok" for r in readers)


READERS = dict(
    re.findall(
        r"^\tPAIR_ROW\((\w+), \w+, (\w+)", (ROOT / "kmod/readers.c").read_text(), re.MULTILINE
    )
)
"""The module's readers with the loop of their expedited updater."""


def test_every_reader_whose_updater_can_be_expedited_is_planned_so():
    """User space has forms of its own beside these, and none of another name."""
    own = {"srcu_signal_safe"}
    assert {name for name, loop in READERS.items() if loop != "NULL"} == set(EXPEDITED) - own


def test_the_screen_has_a_price_for_every_kind_of_reader(inside):
    """Those of 6.1 all fit; what a kernel has beyond them is in the list, too."""
    priced = {form for _, operation, forms, _ in PRICES if "pair" in operation for form in forms}
    assert priced >= READERS.keys()
    older = [name for name in READERS if not name.startswith("srcu_")]
    costs = {name: 3.0 + at for at, name in enumerate(older) if name not in ("rcu", "rwlock")}
    done = inside(readers=costs)(
        *("measure", "--on", "kernel", "--plan", "readers", "--set", "launches=5"),
        *("--set", "read_delay=0", "--set", "kinds=pair", "--set", "lines=2", "--budget", "60s"),
    )
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^(read: .*?)  +", done.stdout, re.MULTILINE)
    assert len(shown) == len(older) == 10 and len(done.stdout.splitlines()) <= LINES, done.stdout


def test_the_quick_plan_prices_what_the_kernel_has(inside):
    _, records = measured(inside(), "--plan", "quick", "--set", "launches=1", "--budget", "30s")
    forms = {(record.cell.operation, record.cell.form) for record in records}
    assert {
        ("percpu_add", "this_cpu_add"), ("readers_pair", "rcu"), ("readers_grace", "rcu"),
        ("readers_pair", "rwlock"), ("clean", "dc_cvac"),
    } <= forms  # fmt: skip


def test_the_guide_begins_with_the_command_and_the_screen_of_its_records(command):
    """Records of one run in an emulated guest, kept: what is printed of them stands in the guide,
    and its numbers are said to mean nothing."""
    begins = (ROOT / "docs/guide/kernel.md").read_text().split("\n\n", 2)
    assert begins[1].startswith("    linewright measure --on kernel ")
    shown, _, after = begins[2].removeprefix("```text\n").partition("```\n\n")
    records = command.directory / "kernel.jsonl"
    records.write_bytes(lzma.decompress((DATA / "kernel-quick-emulated.jsonl.xz").read_bytes()))
    assert command("show", str(records), columns=100).stdout == shown
    assert "inside the kernel" in shown and "run by an emulator: times mean nothing" in shown
    assert "its numbers mean nothing, only the shape does" in after.partition("\n\n")[0]


def test_lists_are_mapped_beside_the_explicit_instructions(inside):
    _, records = measured(inside(), "--plan", "cache", "--set", "launches=1", "--budget", "20s")
    mapped = [r for r in records if r.cell.operation == "dma_map"]
    assert {r.cell.params["entries"] for r in mapped if r.cell.params["entry_bytes"] == 4096} == {
        2560,
        640,
    }
    beside = {
        (r.cell.params["entries"], r.cell.params["wait"])
        for r in records
        if r.cell.form == "dc_cvac"
    }
    assert {(2560, "each"), (2560, "once")} <= beside


def test_the_published_list_is_measured_as_often_as_asked(inside):
    """40 iterations are 10 windows at least, of that list alone, as in user space."""
    words = ("launches=1", "experiment=published", "iterations=40")
    _, records = measured(
        inside(),
        "--plan",
        "cache",
        *(w for word in words for w in ("--set", word)),
        "--budget",
        "20s",
    )
    lists = {(r.cell.params["entry_bytes"], r.cell.params["entries"]) for r in records}
    assert lists == {(4096, 2560)} and {"dma_map", "clean"} <= {r.cell.operation for r in records}
    assert all(len(r.window_ns) >= 10 for r in records)


REFUSED_AND_WRONG = {"refuse": "lock_add", "wrong_sum": "atomic_add"}


def test_a_refused_cell_is_kept_with_its_reason(inside):
    _, records = measured(inside(**REFUSED_AND_WRONG), "--plan", "rmw", *SMALL)
    refused = [r for r in records if r.cell.form == "lock_add"]
    assert refused and all(
        r.status == "unavailable" and "it is Sunday" in r.reason for r in refused
    )


def test_a_wrong_sum_is_no_result(inside):
    _, records = measured(inside(**REFUSED_AND_WRONG), "--plan", "rmw", *SMALL)
    wrong = [r for r in records if r.cell.form == "atomic_add"]
    assert all(r.status == "error" and "not the sum" in r.reason for r in wrong)


def test_a_runner_that_dies_keeps_what_there_is(inside):
    done = inside(die="atomic_add")(
        "measure", "--on", "kernel", "-o", "kept.jsonl", "--plan", "rmw", *SMALL
    )
    assert done.returncode == 3 and "linewright-kernel ended" in done.stderr


@pytest.mark.parametrize(
    "faults, said",
    [
        ({"interface": 1}, "the loaded module is of version 9.9"),
        ({"interface": 1}, "name the new one's folder in LINEWRIGHT_KMOD"),
        ({"load": "the kernel takes signed modules only"}, "the kernel takes signed modules only"),
    ],
)
def test_a_module_that_does_not_fit_is_refused(inside, faults, said):
    assert said in inside(**faults).refused(
        "measure", "--on", "kernel", "--plan", "rmw", "--dry-run"
    )


def test_the_target_has_no_further_name(inside):
    said = inside().refused("measure", "--on", "kernel:other", "--plan", "rmw", "--dry-run")
    assert "kernel takes nothing behind a colon" in said


@pytest.mark.parametrize(
    "cell, said",
    [
        (
            {"operation": "handoff", "form": "load_cmpxchg"},
            'unknown form "load_cmpxchg"',
        ),
        ({"form": "lock_add", "work": "nop_loop", "work_iters": 10}, "chain or memory"),
        ({"form": "lock_add", "params": {"colour": 1}}, "no parameter colour"),
        (
            {
                "operation": "dma_map",
                "form": "dma_sg",
                "width_bits": 8,
                "params": {"state": "absent"},
            },
            "lines absent",
        ),
        ({"operation": "xchg", "form": "lock_add"}, 'form "lock_add" performs add, not xchg'),
    ],
)
def test_a_cell_that_the_module_cannot_be_asked_for_is_refused(inside, tmp_path, cell, said):
    plan = {"linewright_plan": 2, "name": "own", "cells": [{"operation": "add"} | cell]}
    (tmp_path / "own.json").write_text(json.dumps(plan))
    assert said in inside().refused(
        "measure", "--on", "kernel", "--plan", str(tmp_path / "own.json"), "--dry-run"
    )


def test_work_in_memory_is_asked_of_the_module(inside, tmp_path):
    cell = {"operation": "add", "form": "lock_add", "work": "memory", "work_iters": 10}
    plan = {"linewright_plan": 2, "name": "own", "cells": [cell]}
    (tmp_path / "own.json").write_text(json.dumps(plan))
    asked = tmp_path / "asked"
    _, (record, *_) = measured(
        inside(asked=str(asked)), "--plan", str(tmp_path / "own.json"), "--budget", "5s"
    )
    assert record.status == "ok" and "/mem10/" in record.id
    assert "work_kind=memory" in asked.read_text() and "work=10" in asked.read_text()


def test_what_the_module_counts_is_in_the_record_and_what_it_cannot_is_named(inside):
    contexts, records = measured(inside(), "--plan", "rmw", *SMALL)
    assert contexts[0].counters == "available"
    assert contexts[0].counters_reason == (
        "this kernel and its CPU do not count instructions,cache_references"
    )
    for record in records:
        if record.status == "ok" and record.cell.form == "atomic_add":
            per_op = record.issue.median_ns
            assert record.metrics["timed_task_clock_per_op"] == pytest.approx(per_op, rel=0.01)
            assert record.metrics["timed_cycles_per_op"] == pytest.approx(3 * per_op, rel=0.01)
            assert "timed_instructions_per_op" not in record.metrics


@pytest.mark.parametrize("said", ["", "below_a_hypervisor", "0x200000000,ld_force_near:1"])
def test_the_control_register_of_atomics_is_in_every_record(inside, said):
    given = {"cpuectlr": said} if said else {}
    contexts, _ = measured(inside(**given), "--plan", "rmw", *SMALL)
    features = [name for context in contexts for name in context.features if "cpuectlr" in name]
    assert features == [f"cpuectlr_el1={said}"] * (2 if said else 0)


def test_every_option_of_our_patches_is_in_every_record(inside):
    """As it was given at boot; of lists, which can be switched while the kernel runs, as it is."""
    sources = "".join(path.read_text() for path in (ROOT / "kernel/patches").rglob("*.[cp]*"))
    names = re.findall(r"(?:early|core)_param\(\"?([\w.]+)", sources)
    names += [f"srcutree.{name}" for name in re.findall(r"module_param_cb\((\w+)", sources)]
    assert {"arm64.near_atomics_optimization", "srcutree.fast_updown_irqsave"} < set(names)
    given = " ".join(f"{name}=1" for name in sorted(set(names)))
    faults = {"command_line": f"quiet {given} mitigations=off", "dma_one_wait": "N"}
    contexts, _ = measured(inside(**faults), "--plan", "rmw", *SMALL)
    kept = f"{given} mitigations=off dma_one_wait=N"
    assert [context.boot_parameters for context in contexts] == [kept] * 2


def test_dkms_brings_the_runner_that_is_then_taken(monkeypatch, tmp_path):
    """`make tree` has the runner's source and its script, which DKMS calls."""
    subprocess.run(["make", "-s", "-C", ROOT / "kmod", "tree", f"DEST={tmp_path}/t"], check=True)
    conf = (tmp_path / "t/dkms.conf").read_text()
    script = re.search(r'POST_INSTALL="(\S+)"', conf)[1]
    environment = os.environ | {"DESTDIR": str(tmp_path / "root")}
    subprocess.run(["sh", tmp_path / "t" / script], check=True, env=environment)
    runner = tmp_path / "root/usr/local/libexec/linewright/linewright-kernel"
    assert str(runner).endswith(str(kernel.RUNNERS[0])) and os.access(runner, os.X_OK)
    usage = subprocess.run([runner, "one", "two"], capture_output=True, text=True)
    assert usage.returncode == 2 and "--module FILE|NAME" in usage.stderr
    module = tmp_path / f"lib/modules/{os.uname().release}/updates/dkms/linewright.ko.zst"
    module.parent.mkdir(parents=True)
    module.touch()
    monkeypatch.setattr(kernel, "RUNNERS", [tmp_path / "none", runner])
    monkeypatch.setattr(kernel, "MODULES", tmp_path / "lib/modules")
    monkeypatch.delenv("LINEWRIGHT_KERNEL_RUNNER", raising=False)
    monkeypatch.delenv("LINEWRIGHT_KMOD", raising=False)
    monkeypatch.setattr(kernel.os, "geteuid", lambda: 0)
    assert kernel.runner_command() == [str(runner), "--module", "linewright"]
    subprocess.run(["sh", tmp_path / "t" / script, "remove"], check=True, env=environment)
    assert not runner.parent.exists()


def test_a_placement_that_the_machine_lacks_is_recorded_with_its_reason(inside, tmp_path):
    cell = {"operation": "add", "form": "lock_add", "contender": "same_line", "threads": 2}
    plan = {"linewright_plan": 2, "name": "own", "cells": [cell | {"placement": "other_socket"}]}
    (tmp_path / "own.json").write_text(json.dumps(plan))
    _, (record, *_) = measured(inside(), "--plan", str(tmp_path / "own.json"), "--budget", "5s")
    assert record.status == "unavailable" and "placement other_socket finds 1" in record.reason


@pytest.mark.parametrize(
    "faults", [{"cut": "atomic_add", "late": "lock_add"}, {"switched": "atomic_add"}]
)
def test_windows_are_thrown_out_by_the_rules_of_user_space(inside, faults):
    causes = {f: "switched" if fault == "switched" else "long_batch" for fault, f in faults.items()}
    _, records = measured(inside(**faults), "--plan", "rmw", *SMALL)
    assert {*causes, "plain_add"} <= {record.cell.form for record in records}
    for record in records:
        if cause := causes.get(record.cell.form):
            lost = getattr(record.discarded, cause)
            assert record.status == "unreliable" and not record.window_ns, record.id
            assert lost == record.discarded.switched + record.discarded.long_batch > 0
        elif record.cell.form != "xchg":
            assert record.status == "ok" and not record.discarded.long_batch, record.id


def test_means_of_batches_are_in_the_record(inside):
    _, records = measured(inside(), "--plan", "rmw", *SMALL)
    add = next(r for r in records if r.cell.form == "atomic_add" and r.cell.contender == "none")
    assert add.batch.of == "batch_mean" and add.batch.ops_per_sample == 1000
    assert add.batch.samples == 100 * len(add.window_ns)


def test_an_interrupted_run_ends_the_runner_and_keeps_no_cell(inside, tmp_path):
    """Ctrl-C reaches the probe, which ends the runner's input: the runner unloads the module."""
    told, kept = tmp_path / "told", tmp_path / "kept.jsonl"
    process = inside(told=str(told), slow=0.1).start(
        *("measure", "--on", "kernel", "-o", str(kept), "--plan", "rmw", "--budget", "600s"),
    )
    waiting.wait_for(lambda: kept.exists() and kept.read_bytes(), process)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = waiting.finish(process)
    assert process.returncode == 3 and b"SIGINT" in stderr, stderr
    assert told.read_text() == "0 cells left"


def test_missing_headers_name_their_package(command, monkeypatch, tmp_path):
    monkeypatch.setenv("LINEWRIGHT_KMOD", str(tmp_path))
    monkeypatch.setattr(
        kernel.os, "uname", lambda: os.uname_result(("Linux", "x", "6.99-none", "#1", "x86_64"))
    )
    with pytest.raises(
        kernel.UserError, match=r"apt install linux-headers-6\.99-none, then make -C kmod"
    ):
        kernel.module_folder()


@pytest.mark.parametrize(
    "compiler, missing",
    [
        ("x86_64-linux-gnu-gcc-99 (Ubuntu 99.3.0-1ubuntu1~22.04) 99.3.0", "apt install gcc-99"),
        ('"gcc-98 (Debian 98.2.0-14) 98.2.0"', "apt install gcc-98"),  # of 6.1
        ("gcc (GCC) 12.3.0", ""),
        ("clang version 19.1.7", ""),
    ],
)
def test_a_build_that_lacks_the_compiler_of_the_kernel_names_it(tmp_path, compiler, missing):
    """Where the kernel's own Makefile asks for that compiler; others may be built by any."""
    config = tmp_path / "headers/include/config/auto.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f"CONFIG_CC_VERSION_TEXT={compiler}\n")
    makefile = tmp_path / "headers/Makefile"
    words = [f"KDIR={makefile.parent}", f"OUT={tmp_path}/out", "KERNEL=6.99", "module"]
    for works in (False, True):
        makefile.write_text(f"modules:\n\t{str(works).lower()}\n")
        done = subprocess.run(["make", "-C", ROOT / "kmod", *words], capture_output=True, text=True)
        said = re.findall("^kmod: .*: (apt install .*)", done.stderr, re.MULTILINE)
        assert (done.returncode == 0) == works
        assert said == [missing] * bool(missing and not works)


def test_an_installed_command_does_not_ask_for_a_make_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "lib/linewright/kernel/x.py"))
    monkeypatch.delenv("LINEWRIGHT_KMOD", raising=False)
    with pytest.raises(kernel.UserError, match="make -C kmod in a checkout of linewright"):
        kernel.module_folder()


@pytest.fixture
def built(monkeypatch, tmp_path):
    """A built module that has never been loaded, for a user who is not root."""
    for name in ("linewright.ko", "linewright-kernel"):
        (tmp_path / name).touch()
    monkeypatch.setenv("LINEWRIGHT_KMOD", str(tmp_path))
    monkeypatch.delenv("LINEWRIGHT_KERNEL_RUNNER", raising=False)
    monkeypatch.setattr(kernel.os, "geteuid", lambda: 1000)
    return tmp_path


def test_sudo_starts_the_runner_and_its_refusal_ends_the_run(monkeypatch, built):
    sudo = built / "sudo"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", str(built), prepend=os.pathsep)
    assert kernel.runner_command()[0] == "sudo"
    with pytest.raises(RunError, match="ended with exit code 1"):
        kernel.KernelTarget().forms()


def test_a_system_without_sudo_says_so(monkeypatch, built):
    (built / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(built))
    with pytest.raises(RunError, match="ended with exit code 127"):
        kernel.KernelTarget().forms()

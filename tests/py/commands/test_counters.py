# SPDX-License-Identifier: MIT
"""Performance counters from the plan to the table: counted where allowed, absent and explained
where not."""

from __future__ import annotations

import json
import os
import platform

import msgspec
import pytest

from linewright.records import files as records
from linewright.say.cell_tables import counted
from support.analysis_samples import cell, context, record, write

FORMS = {"x86_64": ("lock_add", "full"), "aarch64": ("llsc_add", "relaxed")}


def test_software_events_are_counted_by_the_real_probe(real):
    """Software counters take the whole path that hardware counters take; a sandbox may forbid
    them."""
    if platform.machine() not in FORMS:
        pytest.skip("no form is known here")
    form, order = FORMS[platform.machine()]
    plan = {
        "linewright_plan": 2,
        "name": "counted",
        "launches": 1,
        "budget_s": 10,
        "max_windows": 12,
        "counters": ["task-clock", "page-faults", "context-switches"],
    }
    cells = [{"operation": "add", "form": form, "order": order, "lines": 2}]
    if len(os.sched_getaffinity(0)) > 1:
        cells.append(cells[0] | {"contender": "same_line", "threads": 2})
    (real.directory / "plan.json").write_text(json.dumps(plan | {"cells": cells}))
    assert real("measure", "--plan", "plan.json", "-o", "r.jsonl").returncode == 0
    answer = real("show", "r.jsonl", "--all")
    contexts, rows = records.read(real.directory / "r.jsonl", print)
    if contexts[0].counters == "unavailable":
        assert "task_clock" in contexts[0].counters_reason
        assert "counters absent: " in answer.stdout
        pytest.skip(contexts[0].counters_reason)
    kept = [row for row in rows if row.window_ns]
    for row in kept:
        found = counted(row.metrics)
        assert {
            ("timed", name)
            for name in ("task_clock", "page_faults", "context_switches", "counted_share")
        } <= set(found), row.metrics
        assert 0 < found["timed", "counted_share"] <= 1.0001 and ("timed", "ghz") not in found
        assert found["timed", "task_clock"] > 0, "nanoseconds on the CPU per operation"
        assert (("others", "task_clock") in found) == (row.cell.threads > 1)
    if kept:  # a machine that disturbs every window has nothing to count in
        assert "counters, per operation" in answer.stdout and "task_clock" in answer.stdout


def test_an_event_that_nobody_has_is_refused(real):
    said = real.refused("measure", "--set", "counters=snoops-of-mars", "-o", "r.jsonl")
    assert (
        '"snoops-of-mars" is no event of the kernel or of this CPU' in said
        and "allowed: cycles, instructions" in said
    )


@pytest.mark.parametrize(
    "text", ["", "cycles,,", "cycles,cycles", "rm -rf", ",".join(f"e{i}" for i in range(17))]
)
def test_names_of_events_are_checked(command, text):
    assert "--set counters" in command.refused("measure", "--set", f"counters={text}")


def test_the_plan_carries_the_events(command):
    assert (
        command(
            "measure", "--set", "counters=none", "--only", "lock_add/u64/full/none", "-o", "r.jsonl"
        ).returncode
        == 0
    )
    for name in ("plan", "trial", "trial_run", "find", "find_line"):
        shape = json.loads(command("schema", name).stdout)
        assert shape["$defs"]
    assert "counters" in json.loads(command("schema", "plan").stdout)["$defs"]["Plan"]["properties"]


def test_what_was_counted_is_shown_and_what_is_absent_is_absent(command):
    reason = "instructions: no such counter on this CPU or in this virtual machine"
    both = {
        "timed_cycles_per_op": 21.5,
        "timed_ghz": 3.25,
        "timed_counted_share": 1.0,
        "others_cycles_per_op": 80.0,
        "others_counted_share": 0.4,
    }
    rows = [
        record(cell("stadd"), [5.0] * 9, metrics=both),
        record(cell("ldadd"), [5.0] * 9, metrics={"grace_ns": 3.0}),
    ]
    name = write(
        command.directory / "r.jsonl", [context(counters="available", counters_reason=reason)], rows
    )
    said = command("show", name, "--all").stdout
    shown = said[said.index("counters, per operation") :].splitlines()
    assert (
        "cycles" in shown[1]
        and "GHz" in shown[1]
        and "cycles, others" in shown[1]
        and "instructions" not in shown[1]
    )
    assert shown[2].split() == ["add", "stadd*", "21.5", "3.25", "80"], (
        "no row for a cell that was not counted"
    )
    assert "took turns" in said and f"counters absent: {reason}" in said
    assert "timed_ghz=3.25" in command("show", name, "--format", "csv").stdout
    name = write(command.directory / "old.jsonl", [context()], [record(cell("stadd"), [5.0] * 9)])
    assert "counters" not in command("show", name, "--all").stdout


def test_records_from_before_there_were_counters_are_read(command):
    old = {
        key: value
        for key, value in msgspec.to_builtins(context()).items()
        if key != "counters_reason"
    }
    (command.directory / "r.jsonl").write_bytes(
        msgspec.json.encode(old)
        + b"\n"
        + msgspec.json.encode(record(cell("stadd"), [5.0] * 9))
        + b"\n"
    )
    assert command("show", "r.jsonl").returncode == 0

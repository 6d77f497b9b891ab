# SPDX-License-Identifier: MIT
"""A simulated machine as a target: the same plan in, the same records out, marked; a machine that
is not calibrated is none."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from linewright.cli import main
from linewright.errors import UserError
from linewright.model import machine_file
from linewright.model.ensemble import Sweep, draws, run_sweep
from linewright.records.files import decode_line
from linewright.run.registry import open_target
from linewright.schema import Cell, Context, Plan, Record
from support.model import CALIBRATED


def plan_of(*cells: dict) -> dict:
    return {"linewright_plan": 2, "name": "try", "launches": 2, "cells": list(cells)}


STADD = {"operation": "add", "form": "stadd", "lines": 1}
LDADD = {"operation": "fetch_add", "form": "ldadd", "lines": 1}
BESIDE = {"contender": "same_line", "contender_iters": 10, "threads": 2}


@pytest.fixture
def plan_file(tmp_path: Path):
    def write(*cells: dict) -> str:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan_of(*cells)))
        return str(path)

    return write


def measure(out: Path, plan: str, *words: str) -> None:
    to = ["--on", f"model:{CALIBRATED}", "--plan", plan, "-o", str(out)]
    assert main(["measure", *to, *words]) == 0


def measured(path: Path) -> tuple[list[Context], list[Record]]:
    values = [decode_line(line, "file") for line in path.read_bytes().splitlines()]
    return [v for v in values if isinstance(v, Context)], [
        v for v in values if isinstance(v, Record)
    ]


def test_measure_on_a_model_writes_records_that_say_so(plan_file, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out.jsonl"
    plan = plan_file(STADD, LDADD, STADD | BESIDE)
    measure(out, plan, "--json")
    said = capsys.readouterr().err
    assert f"3 cells, each in 2 launches, simulated by model:{CALIBRATED}" in said
    assert "simulating takes about " in said
    assert "at least" not in said and "to reach" not in said, (
        "a simulation takes what time it needs"
    )
    contexts, records = measured(out)
    assert {context.target for context in contexts} == {f"simulated:{CALIBRATED}"}
    assert {record.id for record in records if record.launch == 0} == {
        Cell(**cell).id for cell in (STADD, LDADD, STADD | BESIDE)
    }
    for record in records:
        assert record.status == "ok"
        assert "simulated" in record.flags
        assert record.sum_expected == record.sum_found
        spent = sum(record.metrics[f"{phase}_ns"] for phase in PHASES)
        assert spent == pytest.approx(record.issue.median_ns, rel=0.05)
        assert record.metrics["p05_ns"] <= record.metrics["p50_ns"] <= record.metrics["p95_ns"]


PHASES = ("work", "wait_for_home", "wait_for_snoop", "execute", "retry")


UNCALIBRATED = sorted(set(machine_file.known()) - set(machine_file.calibrated()))


@pytest.mark.parametrize("name", [*UNCALIBRATED, "./mine.toml"])
def test_a_machine_without_calibration_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    text = machine_file.to_toml(machine_file.find(UNCALIBRATED[0]))
    Path("mine.toml").write_text(text)
    for plan in ("quick", "cache"):
        assert main(["measure", "--on", f"model:{name}", "--plan", plan]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert (
            f"model:{name} is not calibrated: it is an example for `linewright model explain`"
            in line
        )
        assert f"model:{CALIBRATED}" in line and not list(tmp_path.glob("*.jsonl"))


def test_the_machines_that_plans_run_on_are_the_two_that_were_fitted() -> None:
    assert machine_file.calibrated() == [CALIBRATED, "x86-server-2025"]


def test_the_same_seed_gives_the_same_records(plan_file, tmp_path: Path, capsys) -> None:
    plan = plan_file(LDADD | BESIDE)
    found = []
    for name in ("a", "b"):
        out = tmp_path / name
        measure(out, plan, "--format", "csv")
        found.append([(r.launch, r.window_ns, r.metrics) for r in measured(out)[1]])
    assert found[0] == found[1]


def test_the_nearest_calibrated_cell_is_in_every_record(plan_file, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out.jsonl"
    seen = STADD | {"work": "nop_loop", "work_iters": 100}
    plan = plan_file(seen, seen | {"work_iters": 400})
    measure(out, plan)
    assert main(["show", str(out), "--all"]) == 0
    apart = {
        record.cell.work_iters: record.metrics["calibrated_distance"] for record in measured(out)[1]
    }
    assert apart[100] == 0
    assert 0.5 < apart[400] < 2  # from 200 to 400 units: one doubling
    shown = capsys.readouterr().out
    assert "band 5 %" in shown and "distance to the nearest cell" in shown
    assert main(["show", str(out), "--why", measured(out)[1][0].id]) == 0
    assert "Over draws of the machine's constants, and with the model's own error:" in (
        capsys.readouterr().out
    )


def test_the_interval_of_a_simulated_figure_is_its_band(plan_file, tmp_path, capsys) -> None:
    out = tmp_path / "out.jsonl"
    measure(out, plan_file(LDADD, LDADD | BESIDE))
    bands = {r.cell.threads: (r.metrics["p05_ns"], r.metrics["p95_ns"]) for r in measured(out)[1]}
    capsys.readouterr()
    assert main(["show", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    found = re.search(
        r"atomic add: [0-9.]+ ns \(([0-9.]+) to ([0-9.]+)\) alone, "
        r"[0-9.]+ ns \(([0-9.]+) to ([0-9.]+)\) with a second CPU",
        said,
    )
    assert [float(end) for end in found.groups()] == pytest.approx(bands[1] + bands[2], rel=0.05)
    assert " 90 %" in said and "95 %" not in said


def test_counters_readers_and_wide_forms_run(plan_file, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out.jsonl"
    cells = (
        {
            "operation": "percpu_add",
            "form": "percpu_own_ldadd",
            "params": {"slots": 16},
            "lines": 1,
        },
        {"operation": "percpu_add", "form": "percpu_shared_ldadd", "lines": 1} | BESIDE,
        {"operation": "readers_shape", "form": "srcu_percpu_stadd", "width_bits": 8, "lines": 1},
        {
            "operation": "wide_read",
            "form": "casp_read",
            "width_bits": 128,
            "lines": 1,
            "params": {"write_percent": 10},
        },
        {
            "operation": "readers_grace",
            "form": "srcu_fast",
            "width_bits": 8,
            "order": "acq_rel",
            "lines": 1,
        }
        | BESIDE,
    )
    measure(out, plan_file(*cells), "--format", "csv")
    of = {record.cell.form: record for record in measured(out)[1]}
    assert of["percpu_own_ldadd"].issue.median_ns < of["percpu_shared_ldadd"].issue.median_ns
    assert of["srcu_fast"].status == "unavailable"
    assert of["srcu_fast"].reason == "the model has no updater that waits for readers"
    assert {record.status for form, record in of.items() if form != "srcu_fast"} == {"ok"}


def test_built_in_plans_run_as_far_as_the_model_knows_their_forms(capsys) -> None:
    for plan in ("quick", "rmw", "percpu", "readers", "wide", "published"):
        assert main(["measure", "--on", f"model:{CALIBRATED}", "--plan", plan, "--dry-run"]) == 0, (
            plan
        )
    assert "percpu_own_ldadd" in capsys.readouterr().out


def test_the_published_plan_has_the_published_work(capsys) -> None:
    assert main(["measure", "--on", f"model:{CALIBRATED}", "--plan", "published", "--dry-run"]) == 0
    cells = [line for line in capsys.readouterr().out.splitlines() if line.count("/") >= 9]
    assert len(cells) == 32
    assert all("/nop" in cell or "/w0/" in cell for cell in cells)
    assert sum("/nop" in cell for cell in cells) == 16


def test_the_states_that_a_cell_begins_with_decide_its_mode() -> None:
    target = open_target(f"model:{CALIBRATED}")

    def first(start: str) -> float:
        rare = {"contender": "same_line", "contender_iters": 1_000_000, "threads": 2}
        cell = Cell(
            operation="add", form="prfm_keep_stadd", lines=1, params={"start": start}, **rare
        )
        plan = Plan(linewright_plan=2, name="try", launches=1, cells=[cell])
        record = next(event for event in target.run(plan) if isinstance(event, Record))
        return record.metrics.get("mode_1_ns", record.issue.median_ns)

    assert first("ud") < 10
    plan = Plan(
        linewright_plan=2, name="try", launches=1, cells=[Cell(**STADD, params={"start": "ud.ud"})]
    )
    with pytest.raises(UserError, match="2 states for 1 threads"):
        target.check(plan)


def test_a_sweep_is_the_same_however_it_is_divided() -> None:
    plan = Plan(linewright_plan=2, name="try", cells=[Cell(**STADD), Cell(**LDADD | BESIDE)])
    sweep = Sweep(machine_file.find(CALIBRATED), plan, 7)
    with ThreadPoolExecutor(3) as three, ThreadPoolExecutor(1) as one:
        assert run_sweep(sweep, three, 3) == run_sweep(sweep, one, 1)


def test_a_sweep_runs_on_a_dask_cluster(plan_file, tmp_path: Path, capsys) -> None:
    distributed = pytest.importorskip("distributed")
    found = []
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as cluster:
        for name, more in (("a", []), ("b", ["--set", f"scheduler={cluster.scheduler_address}"])):
            out = tmp_path / name
            request = [
                "measure",
                "--on",
                f"model:{CALIBRATED}",
                "--plan",
                plan_file(LDADD | BESIDE),
                "--set",
                "draws=24",
            ]
            assert main([*request, "-o", str(out), "--format", "csv", *more]) == 0
            found.append([record.metrics for record in measured(out)[1]])
    assert found[0] == found[1]


def test_only_a_model_has_constants_to_draw(capsys) -> None:
    assert main(["measure", "--set", "draws=30", "--dry-run"]) == 2
    assert "allowed with --on model:NAME" in capsys.readouterr().err
    assert main(["measure", "--on", f"model:{CALIBRATED}", "--set", "draws=5", "--dry-run"]) == 2
    assert (
        main(
            [
                "measure",
                "--on",
                f"model:{CALIBRATED}",
                "--set",
                "scheduler=tcp://127.0.0.1:1",
                "--only",
                "*/stadd/*/w0/*",
            ]
        )
        == 2
    )


def test_wrong_requests_are_refused(plan_file) -> None:
    for name, words in (
        ("model:", "no machine named"),
        ("model:nowhere", "no machine 'nowhere'"),
        (f"model:{CALIBRATED}:yours", "no harness 'yours'"),
        ("moon:x", "no target 'moon:x'"),
    ):
        with pytest.raises(UserError, match=words):
            open_target(name)
    plan = plan_file({"operation": "percpu_add", "form": "percpu_getcpu_c11_add"})
    assert main(["measure", "--on", f"model:{CALIBRATED}", "--plan", plan]) == 2


def test_draws_stay_in_their_intervals_and_repeat() -> None:
    machine = machine_file.find(CALIBRATED)
    found = draws(machine, 20)
    assert found == draws(machine, 20)
    together = set(
        machine.posterior[0]
    )  # draws of the posterior may leave an interval that holds 90 % of it
    for draw in found:
        assert {name: draw[name] for name in together} in machine.posterior
        for name in set(draw) - together:
            value = draw[name]
            constant = machine.constants[name]
            assert constant.low * 0.999 <= value <= constant.high * 1.001, name

# SPDX-License-Identifier: MIT
"""The plan of wide operations: which form is run at which share of writes, the 2009 experiment, and
its layout."""

from __future__ import annotations

import csv
import io
from pathlib import Path

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
from support.published import published

FORMS = [form for form in every_form() if form.operation.startswith("wide_")]


def machine(arch: str = "i386", cpus: int = 2) -> Topology:
    pairs = (
        {"same_l3": ["0,1"], "other_socket": ["0,2"]}
        if cpus > 2
        else {"same_l3": ["0,1"]}
        if cpus == 2
        else {}
    )
    return Topology(arch=arch, cpus=[Cpu(cpu=number) for number in range(cpus)], pairs=pairs)


def build(*settings: str, topology: Topology | None = None) -> Plan:
    topology = topology or machine()
    forms = [form for form in FORMS if form.arch == topology.arch]
    built_in = plans.find("wide")
    return built_in.build(
        Inputs(forms, topology, definition.settings(built_in, settings), 60, keep=list)
    )


def test_every_form_is_in_the_mix_of_every_architecture() -> None:
    for arch in ("i386", "x86_64", "arm64"):
        plan = build(topology=machine(arch))
        assert {cell.form for cell in plan.cells} == {
            form.name for form in FORMS if form.arch == arch
        }
        assert {cell.width_bits for cell in plan.cells} == {64 if arch == "i386" else 128}


def test_a_form_runs_where_the_share_of_writes_leaves_it_something_to_do() -> None:
    shares: dict[str, set] = {}
    for cell in build().cells:
        shares.setdefault(cell.operation, set()).add(cell.params["write_percent"])
    assert shares == {
        "wide_read": {0, 1, 10, 50},
        "wide_write": {1, 10, 50, 100},
        "wide_add": {1, 10, 50, 100},
    }


def test_two_threads_stand_in_every_class_of_nearness() -> None:
    cells = build(topology=machine(cpus=3)).cells
    assert {cell.placement for cell in cells if cell.threads == 2} == {"cpus:0,1", "cpus:0,2"}
    assert {cell.placement for cell in cells if cell.threads == 1} == {"auto"}


def test_rounds_are_counted_in_cells_of_their_own() -> None:
    cells = build("operations=wide_add", "writes=100", "threads=2").cells
    counted = [cell for cell in cells if "rounds" in cell.params]
    assert len(counted) == len(cells) / 2 and {cell.form for cell in counted} == {
        cell.form for cell in cells
    }
    assert not [cell for cell in build("rounds=no").cells if "rounds" in cell.params]


def test_the_published_experiment_reads_one_location_with_all_cpus() -> None:
    plan = build("experiment=published", "reads=1000000", topology=machine(cpus=4))
    assert [cell.form for cell in plan.cells][:2] == [
        "read_twice_cmpxchg8b_verify",
        "cmpxchg8b_read_once",
    ]
    assert {(c.threads, c.lines, c.contender, c.params["write_percent"]) for c in plan.cells} == {
        (4, 1, "same_line", 0)
    }
    assert plan.contended_window_ms == pytest.approx(80)


def test_a_share_that_is_no_share_is_refused() -> None:
    with pytest.raises(UserError, match="101"):
        build("writes=101")


@pytest.mark.parametrize("arch", ["i386", "native"])
def test_the_probe_runs_the_plan_and_its_layout_comes_out(arch: str, tmp_path: Path) -> None:
    import msgspec

    from linewright.records import files as records
    from linewright.run.probe_questions import Topology  # noqa: F401

    probe = ROOT / "build" / arch / "probe" / "linewright-probe"
    if not probe.exists():
        pytest.skip(f"no {arch} probe built here")
    of = "i386" if arch == "i386" else "x86_64"
    plan = build("experiment=published", "reads=20000", "launches=1", topology=machine(of))
    mixed = build("writes=50", "rounds=yes", "lines=1", topology=machine(of))
    few = msgspec.structs.replace(
        plan,
        cells=plan.cells
        + [msgspec.structs.replace(cell, placement="auto") for cell in mixed.cells],
        budget_s=3.0,
        contended_window_ms=1.0,
        window_ms=0.5,
    )
    done = waiting.run([probe], input=msgspec.json.encode(few), text=False)
    assert done.returncode in (0, 3), done.stderr.decode()[-500:]
    path = tmp_path / "wide.jsonl"
    path.write_bytes(done.stdout)
    contexts, rows = records.read(str(path), print)
    assert len(rows) == len(few.cells)
    assert not [row.id for row in rows if row.status == "error"]  # no torn value, every sum exact
    measured = [row for row in rows if row.status != "unavailable"]  # two threads on one CPU are
    counted = [row for row in measured if "rounds" in row.cell.params]
    assert all(row.metrics["failed_rounds_per_op"] >= 0 for row in counted)
    for row in measured:
        if row.window_ns:
            tick_ns = contexts[0].tick_ns
            assert row.thread_ticks == pytest.approx(
                [ns / tick_ns for ns in row.thread_ns], rel=1e-3
            )
        assert row.metrics["wide_reads"] + row.metrics["wide_writes"] > 0
    table = list(csv.reader(io.StringIO(published.wide_as_csv(contexts, rows))))
    assert table[0] == list(published.WIDE_COLUMNS)
    kept = {
        row.cell.form
        for row in rows
        if row.cell.params == {"write_percent": 0} and any(row.thread_ops)
    }
    assert {line[0] for line in table[1:]} == kept
    assert all(float(line[3]) > 0 for line in table[1:])


def test_the_probe_refuses_parameters_that_it_does_not_know() -> None:
    probe = ROOT / "build" / "native" / "probe" / "linewright-probe"
    if not probe.exists():
        pytest.skip("no native probe built here")
    cell = '{"operation":"wide_read","form":"movdqa_read","width_bits":128,"order":"acquire",'
    cell += '"params":{"write_percent":101}}'
    text = '{"linewright_plan":2,"name":"wide","cells":[' + cell + "]}"
    done = waiting.run([probe], input=text.encode(), text=False)
    assert done.returncode == 2
    assert b"write_percent from 0 to 100" in done.stderr

# SPDX-License-Identifier: MIT
"""A machine that was edited after its calibration: what was changed is known and said, bands follow
the edit, and bands are as wide as the model's own misses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from linewright.cli import main
from linewright.model import calibration, ensemble, machine_file, story
from linewright.model.machine_file import edited, parse, to_toml
from linewright.model.simulator import Figures, Simulator, find_model
from linewright.records.files import read
from linewright.say.phrases import measure_on
from linewright.schema import Cell, Plan
from support.model import CALIBRATED
from support.places import ROOT

SATURATED = "add/stadd/u64/relaxed/same_line/ci10/nop0/auto/l1/t2"
LLSC = "add/llsc_add/u64/relaxed/same_line/ci1000/nop0/auto/l1/t2"


def with_constant(name: str, value: float, low: float, high: float, **changes: str) -> bytes:
    machine = machine_file.find(CALIBRATED)
    constant = msgspec.structs.replace(
        machine.constants[name], value=value, low=low, high=high, **changes
    )
    constants = machine.constants | {name: constant}
    return to_toml(msgspec.structs.replace(machine, constants=constants)).encode()


@pytest.mark.parametrize("name", machine_file.known())
def test_a_machine_that_comes_along_is_as_it_was_fitted(name: str) -> None:
    machine = machine_file.find(name)
    assert edited(machine) == []
    assert not machine.posterior or machine.fitted_to
    assert machine_file.parts(parse(to_toml(machine).encode(), name)) == machine_file.parts(machine)


def test_every_edit_that_moves_an_answer_is_known() -> None:
    text = to_toml(machine_file.find(CALIBRATED))
    for pattern, becomes, named in (
        (r"(near_load = \{ value =) [0-9.]+", r"\1 4.4", "near_load"),
        (r"(near_load = .* high =) [0-9.]+", r"\1 5", "near_load"),
        (r"^store = .*", 'store = ["near", "near", "near", "near"]', "policy"),
        (r'^arch = "arm64"', 'arch = "x86_64"', "arch"),
        (r"^locked_drains = false", "locked_drains = true", "options"),
        (r"^homes = 64", "homes = 32", "topology"),
    ):
        changed = re.sub(pattern, becomes, text, count=1, flags=re.M)
        assert changed != text
        assert edited(parse(changed.encode(), "file")) == [named]
    beside = re.sub(r'(near_load = .*source = )"\w+"', r'\1"guess"', text)
    assert edited(parse(beside.encode(), "file")) == []


def explained(capsys, tmp_path: Path, text: bytes, cell: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_bytes(text)
    assert main(["model", "explain", cell, "--on", f"model:{path}"]) == 0
    return capsys.readouterr().out


def band(said: str) -> tuple[float, float, float]:
    """The figure of a story and the ends of its band."""
    found = re.search(r"takes ([0-9.]+) ns .* error, ([0-9.]+) to ([0-9.]+) ns", said)
    middle, low, high = map(float, found.groups())
    return low, middle, high


def test_a_band_follows_what_was_edited(capsys, tmp_path: Path) -> None:
    alone = SATURATED.replace("same_line/ci10", "none/ci0").replace("t2", "t1")
    load = alone.replace("add/stadd", "fetch_add/ldadd")
    slow = explained(capsys, tmp_path, with_constant("near_load", 40, 39, 41), load)
    low, middle, high = band(slow)
    assert low <= middle <= high and low > 30
    assert "near_load was changed after the calibration" in slow
    assert "fitted to this very point" not in slow
    quick = explained(capsys, tmp_path, with_constant("far_busy", 10, 9, 11), SATURATED)
    low, middle, high = band(quick)
    assert low <= middle <= high < 100, "117 ns is what the machine took that was fitted"


def test_records_of_an_edited_machine_say_so(capsys, tmp_path: Path) -> None:
    machine, out = tmp_path / "mine.toml", tmp_path / "out.jsonl"
    machine.write_bytes(with_constant("far_busy", 10, 9, 11))
    plan = tmp_path / "plan.json"
    cell = {"operation": "add", "form": "stadd", "lines": 1}
    plan.write_text(
        json.dumps({"linewright_plan": 2, "name": "try", "launches": 1, "cells": [cell]})
    )
    words = ["measure", "--on", f"model:{machine}", "--plan", str(plan), "-o", str(out)]
    assert main(words) == 0
    assert "far_busy was changed after the calibration" in capsys.readouterr().err
    contexts, records = read(out, print)
    assert measure_on(contexts) == f"linewright measure --on model:{machine}", "not the one it was"
    assert "edited" in records[0].flags
    for words in (["show", str(out)], ["advise", str(out)]):
        assert main(words) == 0
        assert "its file was changed after the calibration" in " ".join(
            capsys.readouterr().out.split()
        )
    assert "calibrated_distance" not in records[0].metrics


def measured(folder: Path, machine: str, name: str) -> str:
    """Records of a load form and of LL/SC, alone and with a second CPU."""
    alone = [
        {"operation": "fetch_add", "form": form, "lines": 1} for form in ("ldadd", "llsc_fetch_add")
    ]
    beside = {"contender": "same_line", "contender_iters": 10, "threads": 2}
    cells = [*alone, *(cell | beside for cell in alone)]
    plan, out = folder / "plan.json", folder / name
    plan.write_text(json.dumps({"linewright_plan": 2, "name": "try", "cells": cells}))
    words = ["measure", "--on", f"model:{machine}", "--plan", str(plan), "--set", "launches=1"]
    assert main([*words, "-o", str(out)]) == 0
    return str(out)


def test_what_an_edit_changes_is_a_band_and_what_it_does_not_is_nothing(capsys, tmp_path) -> None:
    """The load form in the core takes nine times as long; LL/SC asks for no load form."""
    machine = tmp_path / "mine.toml"
    machine.write_bytes(with_constant("near_load", 40, 36, 44))
    files = [
        measured(tmp_path, name, f"{at}.jsonl") for at, name in enumerate((CALIBRATED, machine))
    ]
    capsys.readouterr()
    assert main(["compare", *files, "--json"]) == 1
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    for cell, row in rows.items():
        ends = [row[name] for name in ("ratio_low", "ratio", "ratio_high")]
        assert ends == sorted(ends)
        if "llsc" in cell:
            assert row["answer"] == "same" and ends == [1, 1, 1]
    (slower,) = (row for cell, row in rows.items() if "/ldadd/" in cell and "/none/" in cell)
    assert slower["answer"] == "slower"
    assert 36 / 4.45 < slower["ratio_low"] < 40 / 4.33 < slower["ratio_high"]
    assert slower["ratio_high"] < 12, "the model's error of this cell is the same on both sides"


def test_other_constants_keep_what_is_believed_of_them() -> None:
    machine = parse(with_constant("far_busy", 10, 9, 11), "file")
    for draw in ensemble.draws(machine, 20):
        assert 9 <= draw["far_busy"] <= 11
        fitted = [known for known in machine.posterior if known["home"] == draw["home"]]
        assert any(known["far"] == draw["far"] for known in fitted), "one draw, taken together"


def test_a_copy_in_another_order_has_the_same_draws() -> None:
    machine = machine_file.find(CALIBRATED)
    turned = dict(reversed(machine.constants.items()))
    copy = msgspec.structs.replace(machine, constants=turned)
    assert ensemble.draws(copy, 20) == ensemble.draws(machine, 20)


def figures(*ns: float) -> list[Figures]:
    return [Figures(p50=n, low=n, high=n, modes=[(n, 1.0)], events=1) for n in ns]


def test_a_band_is_as_wide_as_the_model_missed() -> None:
    rows = [figures(10.0, 10.0) for _ in range(20)]
    sure, missed = ensemble.bands(rows, [[], [math.log(0.7), math.log(0.8)]])
    assert (sure.p05, sure.p95) == (10, 10)
    assert missed.p05 == pytest.approx(10) and missed.p95 == pytest.approx(10 / 0.7)


def test_no_form_borrows_the_misses_of_another(capsys) -> None:
    """`percpu_rseq_add` was never measured: that PRFM was missed by 210 % says nothing of it."""
    machine = machine_file.find(CALIBRATED)
    shared = {"contender": "same_line", "threads": 2}
    for cell, kind in (
        (Cell(operation="fetch_add", form="ldadd", **shared), "ldadd/same_line"),
        (Cell(operation="add", form="llsc_add"), "llsc_add/none"),
        (Cell(operation="percpu_add", form="percpu_rseq_add", **shared), None),
        (Cell(operation="xchg", form="llsc_swp", **shared), None),
    ):
        assert ensemble.misses_of(machine, cell) == (machine.misses[kind] if kind else []), cell.id
    never = Cell(operation="percpu_add", form="percpu_rseq_add", lines=1, **shared)
    assert main(["model", "explain", never.id, "--on", f"model:{CALIBRATED}"]) == 0
    said = capsys.readouterr().out
    assert "has no error of the model for contended percpu_rseq_add" in said
    assert "no fit had seen" not in said and "with the model's own error" not in said


HOST = "x86-server-2025"
OPERATIONS = {"lock_add": "add", "lock_xadd": "fetch_add", "xchg": "xchg"}


def test_misses_of_this_projects_host_are_what_the_model_makes_of_its_figures() -> None:
    """Of the contended figures on the results page, by where the CPUs were: one placement for all
    cells of a work length, the one that fits them better (bench/model/host.py)."""
    page = (ROOT / "docs/results/model.md").read_text()
    rows = re.findall(rf"^\| `(\w+)` {'[|] ([0-9.]+), ([0-9.]+) ' * 3}\|$", page, re.M)
    found: dict[str, list[float]] = {f"{row[0]}/same_line": [] for row in rows}
    assert len(found) == 5
    with Simulator(find_model()) as simulator:
        for column, work in enumerate((0, 20, 200)):
            measured, shown = (
                [float(row[1 + 2 * column + beside]) for row in rows] for beside in (0, 1)
            )
            ns = min(
                (host_figures(simulator, [row[0] for row in rows], work, p) for p in PLACEMENTS),
                key=lambda ns: sum(abs(np.log(ns) - np.log(measured))),
            )
            assert ns == pytest.approx(shown, rel=0.004), work
            for misses, miss in zip(found.values(), np.log(ns) - np.log(measured), strict=True):
                misses.append(miss)
    assert machine_file.find(HOST).misses == {
        kind: pytest.approx(misses, abs=1e-4) for kind, misses in found.items()
    }


PLACEMENTS = ("same_l3", "other_l3")


def host_figures(simulator: Simulator, forms: list[str], work: int, where: str) -> list[float]:
    """The model's figures of contended forms in one placement."""
    shared = dict(work_iters=work, placement=where, contender="same_line", threads=2, lines=8)
    cells = [
        Cell(operation=OPERATIONS.get(form, "cmpxchg"), form=form, order="full", **shared)
        for form in forms
    ]
    plan = Plan(linewright_plan=2, name="host", cells=cells)
    machine = machine_file.resolve(machine_file.find(HOST))
    return [figure.p50 for figure in simulator.ask(machine, plan)]


def test_what_the_model_gets_wrong_is_said_where_it_is_asked(capsys) -> None:
    assert main(["model", "explain", LLSC, "--on", f"model:{CALIBRATED}"]) == 0
    said = capsys.readouterr().out
    assert re.search(
        r"contended llsc_add that no fit had seen, the model says \d+ to \d+ % less than was", said
    )
    low, middle, high = band(said)
    assert low <= middle <= high and high > 17, "15.5 to 17.6 ns in the published table"


def test_the_coverage_of_bands_is_counted_without_the_cell_itself() -> None:
    machine = machine_file.find(CALIBRATED)
    cells = [Cell(operation="fetch_add", form="ldadd", work_iters=n) for n in range(12)]
    surely = np.random.default_rng(1).normal(0, 0.001, (12, 20))
    # Draws of the constants know nothing of an error of the model of 20 % to either side.
    off = [0.2 * (-1) ** n for n in range(12)]
    draws = (surely + np.array(off)[:, None]).tolist()
    folds = [calibration.HeldOut(left_out="form=ldadd", cells=cells, misses=off, draws=draws)]
    alone, wide, of = calibration.coverage(machine, folds)
    assert (alone, of) == (0, 12) and wide >= 11
    once = [msgspec.structs.replace(folds[0], cells=cells[:1], misses=off[:1], draws=draws[:1])]
    assert calibration.coverage(machine, once) == (0, 0, 1), "its own miss is not among the others"


def test_an_answer_hangs_on_what_moves_it() -> None:
    with Simulator(find_model(), windows=2, ops=300) as simulator:
        machine = machine_file.find("arm64-server-generic")
        said = story.tornado(machine, story.cell_of(SATURATED), simulator)
        list_free = [line.split()[0] for line in said[1:]]
        assert list_free[0] == "far_busy" and "maintain_drain" not in list_free
        assert not any(" ns  " in line.split("over")[0] for line in said), "no bare time"

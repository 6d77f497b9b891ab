# SPDX-License-Identifier: MIT
"""Where a simulated figure decides or is shown, how far the model was off such cells is said with
it, and nowhere else."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.cli import main
from linewright.say.document import render, render_all
from linewright.say.machine_document import documents
from linewright.schema import Cell, Context, DrawnCosts, Record
from support.analysis_samples import as_simulated, contexts_of, points, together, write
from support.model import CALIBRATED

ALONE = {"ldadd": 8.0, "llsc_fetch_add": 12.0}
BESIDE = {"ldadd": 30.0, "llsc_fetch_add": 12.0}
LLSC = (0.69, 0.79)
SAID = "of contended llsc_fetch_add the model says 21 to 31 % less than was measured"


def is_contended_llsc(a_cell: Cell) -> bool:
    return a_cell.form.startswith("llsc") and a_cell.situation.contended


def simulated(
    contended=BESIDE, of=is_contended_llsc, missed=LLSC, target="simulated:mine", seed=1, **changes
) -> tuple[list[Context], list[Record]]:
    """A run with the model's error on some cells; `missed` None: it is not known."""
    rng = np.random.default_rng(seed)
    records = together(points(ALONE, contended=contended), rng, own=0.002, shared=0.005)
    known = contexts_of(records, target=target, features=["lse"], **changes)

    def own(record: Record) -> Record:
        misses = [math.log(end) for end in missed] if missed and of(record.cell) else []
        drawn = [record.window_ns[0] * factor for factor in (0.9, 1.0, 1.1)]
        return as_simulated(record, DrawnCosts(ns=drawn, misses=misses))

    measured = target == "local"
    return known, records if measured else [own(record) for record in records]


def said(known: list[Context], records: list[Record]) -> dict[str, str]:
    """What the document of a machine says, part by part."""
    (found,) = documents(summarise(known, records), known, "evidence")
    parts = {name: " ".join(render_all(found.of(name))) for name in PARTS}
    (unknown,) = (topic for topic in found.evidence if topic.name == "unknown")
    return parts | {
        "warning": " ".join(render_all(found.of("warning"))),
        "unknown": " ".join(render_all(unknown.lines)),
        "decision": render(found.decision.sentence),
    }


PARTS = ("headline", "uses", "settings", "limits")


def test_it_is_said_where_a_missed_cell_decides() -> None:
    parts = said(*simulated())
    assert re.search(rf"Take llsc_fetch_add for [^;]*; {SAID}", parts["uses"])
    for part in ("warning", "unknown", "settings", "decision"):
        assert SAID.lower() in parts[part].lower(), part


@pytest.mark.parametrize(
    "other",
    [
        {"target": "local"},  # measured
        {"missed": None},  # nothing is known of the model's error
        {"missed": (0.9, 1.1)},  # it is small
        {"contended": {"ldadd": 30.0}},  # no such cell
    ],
)
def test_it_is_not_said_where_no_cell_was_missed(other) -> None:
    assert "the model says" not in " ".join(said(*simulated(**other)).values())


def test_a_sentence_that_rests_on_other_cells_does_not_say_it() -> None:
    parts = said(*simulated(of=lambda c: c.form == "ldadd" and c.situation.contended))
    assert "the model says" in parts["warning"]
    known, records = simulated()
    (found,) = documents(summarise(known, records), known, "evidence")
    missed = {r.id for r in records if is_contended_llsc(r.cell)}
    for part in PARTS:
        for sentence in found.of(part):
            assert ("the model says" in sentence.text) == bool(missed & {*sentence.cells}), sentence


def test_either_direction_is_named() -> None:
    assert (
        "the model says 57 % less to 210 % more" in said(*simulated(missed=(0.43, 3.1)))["warning"]
    )
    assert "the model says 40 to 60 % more" in said(*simulated(missed=(1.4, 1.6)))["warning"]


def test_a_cell_without_a_figure_is_not_spoken_of() -> None:
    known, records = simulated()
    left_out = [
        msgspec.structs.replace(r, status="unavailable", reason="no", window_ns=[], window_line=[])
        if is_contended_llsc(r.cell)
        else r
        for r in records
    ]
    assert "the model says" not in " ".join(said(known, left_out).values())


def compared(folder: Path, capsys, one, two, *words: str) -> str:
    for name, side in zip("ab", (one, two), strict=True):
        write(folder / f"{name}.jsonl", *side)
    with contextlib.chdir(folder):
        assert main(["compare", "a.jsonl", "b.jsonl", *words]) in (0, 1)
    return " ".join(capsys.readouterr().out.split())


def moved(side, **changes):
    """The same run under other contexts."""
    known, records = side
    other = lambda i: f"f{i[1:]}"
    known = [msgspec.structs.replace(c, context_id=other(c.context_id), **changes) for c in known]
    return known, [msgspec.structs.replace(r, context_id=other(r.context_id)) for r in records]


def test_compare_says_it_of_simulations_and_beside_a_measurement(tmp_path: Path, capsys) -> None:
    one = simulated()
    two = moved(simulated(seed=2), target="simulated:other", machine_id="2" * 16)
    text = compared(tmp_path, capsys, one, two)
    assert text.lower().count(SAID) == 1
    worse = moved(simulated(missed=(0.5, 0.6)), target="simulated:other", machine_id="2" * 16)
    text = compared(tmp_path, capsys, one, worse)
    assert f"a.jsonl: {SAID}" in text and "40 to 50 % less than was measured" in text
    measured = moved(simulated(target="local"), machine_id="3" * 16)
    assert SAID in compared(tmp_path, capsys, measured, one, "--unlike").lower()


def test_compare_does_not_say_it_of_what_it_does_not_compare(tmp_path: Path, capsys) -> None:
    one = simulated(contended={"ldadd": 30.0})
    two = moved(simulated(), target="simulated:other", machine_id="2" * 16)
    assert "the model says" not in compared(tmp_path, capsys, one, two)
    local = simulated(target="local")
    assert "the model says" not in compared(tmp_path, capsys, local, moved(local), "--unlike")


def test_a_model_writes_what_it_knows_of_its_error(tmp_path: Path, capsys) -> None:
    cell = {"operation": "add", "form": "llsc_add", "lines": 1}
    beside = cell | {"contender": "same_line", "contender_iters": 10, "threads": 2}
    swapped = beside | {"operation": "xchg", "form": "llsc_swp"}
    plan, out = tmp_path / "plan.json", tmp_path / "out.jsonl"
    cells = [cell, beside, swapped]
    plan.write_text(
        json.dumps({"linewright_plan": 2, "name": "try", "launches": 1, "cells": cells})
    )
    assert (
        main(["measure", "--on", f"model:{CALIBRATED}", "--plan", str(plan), "-o", str(out)]) == 0
    )
    capsys.readouterr()
    found = {
        r["id"]: [math.exp(end(r["drawn"].get("misses") or [0])) for end in (min, max)]
        for r in map(json.loads, out.read_text().splitlines())
        if "cell" in r
    }
    beside_ends = [pytest.approx(math.exp(miss), rel=1e-3) for miss in (-0.3699, -0.2417)]
    alone = [pytest.approx(math.exp(miss), rel=1e-3) for miss in (-0.08933, 0.08935)]
    ids = [Cell(**fields).id for fields in cells]
    # No exchange was measured: nothing of another form's misses is said of it.
    assert [found[i] for i in ids] == [alone, beside_ends, [1, 1]]
    for command in (["show"], ["show", "--all"], ["advise"]):
        assert main([*command, str(out)]) == 0
        text = " ".join(capsys.readouterr().out.split())
        text = text.replace("Of cont", "of cont")
        said = "of contended llsc_add the model says 21 to 31 % less than was measured"
        assert said in text, command
        unknown = "of contended llsc_swp no error of the model is known"
        assert (unknown in text) == (command != ["show"]), command

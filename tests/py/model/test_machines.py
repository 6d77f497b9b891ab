# SPDX-License-Identifier: MIT
"""What is said of described machines: `linewright model machines`, the list's curve, and advice on
simulated records."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from linewright.cli import main
from linewright.model import machine_file, story
from linewright.model.constants import KINDS
from linewright.model.machine_file import parse, resolve
from linewright.schema import Cell
from support.model import CALIBRATED


def test_every_machine_is_listed_once_with_what_it_yields(capsys) -> None:
    assert main(["list"]) == 0
    listed = capsys.readouterr().out.partition("\nMachines, ")[2]
    lines = {line.split()[0]: line.split()[1] for line in listed.splitlines()[1:] if line[0] != " "}
    assert set(lines) == set(machine_file.known())
    for name, kind in lines.items():
        assert (kind == "example:") != machine_file.find(name).calibrated, name


@pytest.mark.parametrize("columns", [80, 120])
def test_a_machine_is_explained_down_to_the_source_of_each_constant(
    capsys, monkeypatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    machine = machine_file.find("xeon-2009")
    assert main(["model", "machines", "xeon-2009"]) == 0
    said = capsys.readouterr().out
    words = " ".join(said.split())
    assert "not calibrated: an example for `linewright model explain`, which says bounds" in words
    assert max(map(len, said.splitlines())) <= min(columns, 100)
    assert "last-level caches of 2 cores, sockets of 4; 1 home" in words
    assert "locked_drains" in words and "upgrade_at_once" not in words
    for name, constant in machine.constants.items():
        assert f"{name} " in said and constant.provenance in said
    for name, text in machine.sources.items():
        assert f"{name}: {text}" in words
    assert all(
        " ".join(KINDS[name].meaning.split()) in words
        for name in machine.constants
        if name in KINDS
    )


def test_a_machine_is_printed_as_a_file(capsys) -> None:
    assert main(["model", "machines", CALIBRATED, "--toml"]) == 0
    assert resolve(parse(capsys.readouterr().out.encode(), "file")) == resolve(
        machine_file.find(CALIBRATED)
    )
    assert main(["model", "machines", "nowhere"]) == 2
    assert main(["model", "machines", "--toml"]) == 2


def test_a_saving_that_was_given_to_a_machine_is_no_prediction(capsys) -> None:
    """Its times are bounds only; what one wait saves of the published list is narrow, and known."""
    published = {"entries": 2560, "entry_bytes": 4096, "wait": "once"}
    of = Cell(operation="clean", form="dc_cvac", width_bits=8, lines=1, params=published)
    assert main(["model", "explain", of.id, "--on", "model:phone-2025"]) == 0
    said = capsys.readouterr().out
    low, high = map(float, re.search(r"takes ([\d.]+) to ([\d.]+) % less than", said).groups())
    assert (low, high) == (pytest.approx(64.6, abs=0.4), pytest.approx(66.6, abs=0.4))
    assert "Given to the machine, and no prediction: maintain_issue, maintain_busy and" in said
    assert "saves 64.61 % (map) and 66.60 % (unmap)" in said
    stadd = Cell(operation="add", form="stadd", lines=1)
    assert main(["model", "explain", stadd.id, "--on", "model:phone-2025"]) == 0
    assert "Given to" not in capsys.readouterr().out
    assert main(["model", "machines", "phone-2025"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "64.6 to 66.6 % at entries of 4 KiB, was given to the machine" in shown


def test_each_constant_is_given_by_its_own_source() -> None:
    machine = machine_file.find("phone-2025")
    sources = machine.sources | {"other": "Another result"}
    drain = msgspec.structs.replace(machine.constants["maintain_drain"], source="other")
    constants = machine.constants | {"maintain_drain": drain}
    changed = msgspec.structs.replace(machine, sources=sources, constants=constants)
    of = Cell(operation="clean", form="dc_cvac", params={"entries": 1})
    first, second = story.given(changed, of)
    assert "maintain_issue and maintain_busy. Fitted to one" in first
    assert second.endswith("no prediction: maintain_drain. Another result.")


def test_advice_takes_simulated_records_and_says_what_they_are(tmp_path: Path, capsys) -> None:
    beside = {"contender": "same_line", "contender_iters": 10, "threads": 2}
    stores = [
        {"operation": "add", "form": form, "lines": 1} for form in ("stadd", "prfm_strm_stadd")
    ]
    cells = [
        {"operation": "fetch_add", "form": "ldadd", "lines": 1},
        *stores,
        *(cell | beside for cell in stores),
    ]
    plan, out = tmp_path / "plan.json", tmp_path / "records.jsonl"
    plan.write_text(
        json.dumps({"linewright_plan": 2, "name": "try", "launches": 5, "cells": cells})
    )
    assert (
        main(["measure", "--on", f"model:{CALIBRATED}", "--plan", str(plan), "-o", str(out)]) == 0
    )
    capsys.readouterr()
    assert main(["advise", str(out), "--all"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"simulated: {CALIBRATED}" in said
    assert "the model's constants and its own error leave it open" in said
    assert "linewright measure" not in said  # more launches of a model would decide nothing
    assert "what silicon does: a model produced these records" in said

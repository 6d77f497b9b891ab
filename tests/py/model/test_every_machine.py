# SPDX-License-Identifier: MIT
"""Every calibrated machine runs a sample of every built-in plan, every page that is made of the
records is whole, and the commands that it names can be typed."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from linewright import plans
from linewright.model import machine_file
from linewright.records import files as records
from support.command_lines import follow, refused
from support.said import BROKEN, check_sentences

CELLS = 3
"""Cells of each plan that are simulated: the first, one in the middle and the last."""
FEWER = "--set launches=2 --set draws=20"


SAMPLES = [
    pytest.param(machine, plan, marks=[pytest.mark.nightly] * ((m + p) % 2 and plan != "quick"))
    for p, plan in enumerate(plans.built_in())
    for m, machine in enumerate(machine_file.calibrated())
]
"""The long lane has every plan on some machine, in turn, and `quick` on each."""


@pytest.mark.parametrize(("machine", "plan"), SAMPLES)
def test_every_machine_runs_every_plan(command, machine: str, plan: str) -> None:
    on = ("measure", "--on", f"model:{machine}", "--plan", plan, "--set", "launch=0")
    listed = command(*on, "--dry-run")
    if listed.returncode == 2:
        assert "has no operations for" in command.refused(*on)
        return
    ids = [line.split()[0] for line in listed.stdout.splitlines() if line.count("/") >= 9]
    chosen = sorted({ids[at * (len(ids) - 1) // (CELLS - 1)] for at in range(CELLS)})
    only = [word for cell in chosen for word in ("--only", cell)]
    whole(command, *on, *only, "--set", "draws=20", "-o", "sample.jsonl")
    pages = ""
    for page in (
        ("show", "sample.jsonl"),
        ("show", "--all", "sample.jsonl"),
        ("advise", "sample.jsonl"),
        ("report", "sample.jsonl", "-o", "page.html"),
        ("model", "explain", chosen[-1], "--on", f"model:{machine}"),
    ):
        said = whole(command, *page)
        check_sentences(said)
        assert refused(command, said) == {}, page
        pages += said
    # As many launches of other plans take minutes; theirs are planned.
    for line, (answer, made) in follow(command, pages * (plan == "quick"), "launches=").items():
        assert answer.returncode == 0, (line, answer.stderr)
        assert cells_of(made) == cells_of(command.directory / "sample.jsonl"), line
    page = (command.directory / "page.html").read_text()
    words = re.sub("<script.*?</script>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert refused(command, html.unescape(words)) == {}
    assert (command.directory / "page.html").stat().st_size > 0
    check_intervals(json.loads(command("show", "sample.jsonl", "--json").stdout))
    check_records(command.directory / "sample.jsonl")


def test_what_was_not_measured_is_measured_by_the_plan_that_is_named(command) -> None:
    """With fewer launches and draws than by default, which decide nothing of what is measured."""
    few = ("--only", "*/none/*/w0/*", *FEWER.split(), "-o", "few.jsonl")
    said = whole(command, "measure", "--on", "model:arm64-server-2025", *few)
    sentence = said.partition("Not measured: ")[2].partition(" measures")[0]
    ((line, (answer, _)),) = follow(command, f"{sentence} {FEWER}").items()
    assert answer.returncode == 0 and "Not measured" not in answer.stdout, (line, answer.stdout)


def cells_of(path: Path) -> set[str]:
    """The ids of a record file's cells."""
    return {row.id for row in records.read(path, pytest.fail)[1]}


def whole(command, *words: str) -> str:
    """What a command that must succeed says."""
    answer = command(*words)
    said = answer.stdout + answer.stderr
    assert answer.returncode == 0, (words, said)
    assert not BROKEN.search(said), (words, said)
    return said


def structs(value: Any) -> Iterator[dict]:
    """Every object inside a JSON value."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from structs(part)


def check_intervals(shown: Any) -> None:
    """An interval that is shown contains the figure that it is of."""
    for found in structs(shown):
        for middle in ("median", "median_ns", "value", "estimate"):
            if all(isinstance(found.get(name), int | float) for name in ("low", middle, "high")):
                assert found["low"] <= found[middle] <= found["high"], found
        if "p05_ns" in (found.get("metrics") or {}):
            check_band(found)


def check_band(cell: dict) -> None:
    """The intervals of a simulated cell are its band, as far from the figure on either side."""
    ends = [
        [cell[f"{figure}_{end}_ns"] for end in ("low", "median", "high")]
        for figure in ("issue", "exposed")
        if cell[f"{figure}_median_ns"] is not None
    ]
    low, middle, high = ends[0]
    metrics = dict(pair.split("=") for pair in cell["metrics"].split())
    p05, p95 = (float(metrics[name]) for name in ("p05_ns", "p95_ns"))
    band = (min(p05, middle), max(p95, middle))
    assert (low, high) == pytest.approx(band, rel=1e-3), cell
    for below, ns, above in ends:
        assert (below - ns, above - ns) == pytest.approx((low - middle, high - middle), abs=1e-3)


def check_records(path: Path) -> None:
    """Percentiles are in order, and no thread starves where every thread had the same share."""
    for record in filter(lambda line: "cell" in line, map(json.loads, path.open())):
        metrics = record.get("metrics", {})
        values = [metrics[name] for name in ("p05_ns", "p50_ns", "p95_ns") if name in metrics]
        assert values == sorted(values), record
        if "starved" in record.get("flags", []) and record["status"] == "ok":
            ops = record["thread_ops"]
            assert min(ops) < max(ops), record

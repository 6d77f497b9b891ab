# SPDX-License-Identifier: MIT
"""`linewright model explain`: sentences that follow from the record, and a trace that adds up."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import msgspec
import pytest

from linewright.cli import main
from linewright.errors import UserError
from linewright.model import machine_file, story
from linewright.model.simulator import Figures, Simulator, find_model
from linewright.schema import Cell, Plan
from support.model import CALIBRATED
from support.said import check_sentences

STADD = "add/stadd/u64/relaxed/same_line/ci10/nop0/auto/l1/t2"
RARE = "add/prfm_keep_stadd/u64/relaxed/same_line/ci1000000/nop0/auto/l1/t2"


def test_what_is_said_of_a_form_of_another_architecture_can_be_typed(real) -> None:
    find_model()
    said = real.refused("model", "explain", STADD, "--on", "model:xeon-2009")
    (line,) = re.findall("`linewright (.*)`", said)
    listed = real.apart(*line.split())
    assert [form["arch"] for form in json.loads(listed.stdout) if form["name"] == "stadd"]


@pytest.mark.parametrize(
    "cell",
    [
        Cell(operation="add", form="stadd"),
        Cell(
            operation="add",
            form="stadd",
            contender="same_line",
            contender_iters=7,
            threads=3,
            work_iters=9,
        ),
        Cell(
            operation="cmpxchg",
            form="x",
            width_bits=32,
            order="full",
            work="nop_loop",
            placement="cpus:0,5",
            lines=4,
        ),
        Cell(operation="percpu_add", form="percpu_own_ldadd", params={"slots": 4, "start": "ud.i"}),
    ],
)
def test_an_id_is_read_back(cell: Cell) -> None:
    assert story.cell_of(cell.id) == cell


@pytest.mark.parametrize(
    "text", ["", "add", STADD + "/more", STADD.replace("u64", "u63"), STADD.replace("t2", "t9999")]
)
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(UserError):
        story.cell_of(text)


def test_a_saturated_home_is_named_as_the_reason(capsys) -> None:
    assert main(["model", "explain", STADD, "--on", f"model:{CALIBRATED}"]) == 0
    said = capsys.readouterr().out
    assert "waiting for the line's home to take up its request" in said
    assert "Fairness (Jain's index) is 1.00" in said
    assert "metastable" not in said
    assert "fitted to this very point" in said


def test_modes_are_listed_and_not_averaged(capsys) -> None:
    assert main(["model", "explain", RARE, "--on", f"model:{CALIBRATED}"]) == 0
    said = capsys.readouterr().out
    assert "metastable" in said
    assert "An operation takes" not in said
    # A batch has as many operations in a fast mode as in a slow one, and not as much time.
    assert "% of the operations)" in said and "% of the time" not in said


def test_show_why_lists_the_modes_of_a_simulated_cell(capsys, tmp_path: Path) -> None:
    """Its launches have no modes, and the sentence that they have was all that was said."""
    plan, out = tmp_path / "plan.json", tmp_path / "out.jsonl"
    cells = [json.loads(msgspec.json.encode(story.cell_of(RARE)))]
    plan.write_text(json.dumps({"linewright_plan": 2, "name": "try", "cells": cells}))
    words = ["measure", "--on", f"model:{CALIBRATED}", "--plan", str(plan), "--set", "launches=1"]
    assert main([*words, "-o", str(out), "--format", "none"]) == 0
    assert main(["show", "--why", RARE, str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "it sustains itself at" in said and "of a simulated cell its windows" in said


def test_a_cell_on_more_lines_is_not_the_point_that_was_fitted(capsys) -> None:
    assert main(["model", "explain", STADD.replace("l1", "l4"), "--on", f"model:{CALIBRATED}"]) == 0
    said = capsys.readouterr().out
    assert "this very point" not in said and f"{STADD}, 0.0 away" in said


def test_a_cell_without_a_figure_hangs_on_nothing(capsys) -> None:
    cell = "readers_grace/srcu_fast/u8/acq_rel/none/ci0/w0/auto/l8/t1/read_delay=0/updater="
    assert main(["model", "explain", f"{cell}synchronize", "--on", f"model:{CALIBRATED}"]) == 0
    said = capsys.readouterr().out
    assert "no updater that waits" in said and "moves the answer" not in said


@pytest.mark.slow
def test_a_timed_thread_that_starves_is_said_and_has_no_modes(capsys) -> None:
    starving = "xchg/prfm_strm_llsc_swp/u64/relaxed/same_line/ci0/w0/auto/l8/t2"
    with Simulator(find_model(), windows=1, ops=100) as simulator:
        plan = Plan(linewright_plan=2, name="try", cells=[story.cell_of(starving)])
        (figures,) = simulator.ask(machine_file.resolve(machine_file.find(CALIBRATED)), plan)
    assert figures.starved and figures.modes == []
    assert main(["model", "explain", starving, "--on", f"model:{CALIBRATED}"]) == 0
    said = capsys.readouterr().out
    assert "The timed thread starved" in said
    assert "An operation takes" not in said and "the answer" not in said
    check_sentences(said)


def test_many_threads_that_share_a_line_evenly_do_not_starve(capsys) -> None:
    assert (
        main(["model", "explain", STADD.replace("t2", "t16"), "--on", f"model:{CALIBRATED}"]) == 0
    )
    said = capsys.readouterr().out
    assert "Fairness (Jain's index) is 1.00" in said
    assert "starves" not in said


def test_without_calibration_only_bounds_are_said(capsys, tmp_path: Path) -> None:
    assert main(["model", "explain", STADD, "--on", "model:arm64-server-generic"]) == 0
    said = capsys.readouterr().out
    assert "Bounds only: " in said
    assert "An operation takes" not in said
    trace = str(tmp_path / "trace.json")
    assert (
        main(["model", "explain", STADD, "--on", "model:arm64-server-generic", "--trace", trace])
        == 2
    )


def test_a_thread_that_starves_has_no_upper_bound() -> None:
    """The time that a window was waited for passed for the greatest time of an operation."""

    class Starving:
        turns = itertools.count()

        def ask(self, resolved: dict, plan: Plan) -> list[Figures]:
            ran = Figures(p50=9.0, low=8.0, high=10.0, modes=[(9.0, 1.0)], events=1)
            late = Figures(p50=2e7, low=2e7, high=2e7, modes=[], events=1, starved=True)
            return [late if next(self.turns) % 4 == 0 else ran]

    machine = machine_file.find("arm64-server-generic")
    said = story.bounds(machine, story.cell_of(STADD), Starving())
    assert "Bounds only: 8.00 to 10.0 ns" in said[1]
    assert said[2].startswith("In 15 of 60 draws") and "from above" in said[2]


def test_the_trace_is_one_that_perfetto_opens(tmp_path: Path, capsys) -> None:
    path = tmp_path / "trace.json"
    assert (
        main(["model", "explain", STADD, "--on", f"model:{CALIBRATED}", "--trace", str(path)]) == 0
    )
    events = json.loads(path.read_text())["traceEvents"]
    core = sorted((e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == 0)
    assert len(core) > 60
    for (begin, length), (following, _) in itertools.pairwise(core):
        assert following == pytest.approx(
            begin + length, abs=1e-6
        )  # the core is always in one phase
    assert (
        main(["model", "explain", STADD, "--on", f"model:{CALIBRATED}", "--trace", str(path)]) == 2
    )


def test_only_a_simulated_machine_explains() -> None:
    assert main(["model", "explain", STADD, "--on", "model:nowhere"]) == 2
    assert main(["model", "explain", "nonsense", "--on", f"model:{CALIBRATED}"]) == 2


def test_the_nearest_calibrated_cell_is_the_nearest() -> None:
    machine = machine_file.find(CALIBRATED)
    found, apart = story.nearest(machine, story.cell_of(STADD.replace("ci10", "ci12")))
    assert found == story.cell_of(STADD)
    assert 0 < apart < 1

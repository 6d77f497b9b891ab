# SPDX-License-Identifier: MIT
"""Machine files: what comes along is right, and each wrong one is refused with a line that says
why."""

from __future__ import annotations

import contextlib
import re

import pytest

from linewright.errors import UserError
from linewright.model import machine_file
from linewright.model.machine_file import parse, resolve, to_toml
from linewright.model.simulator import Simulator, find_model
from linewright.schema import Cell, Plan
from support.model import CALIBRATED, mangled, refusal


@pytest.fixture(scope="module")
def text() -> str:
    return machine_file.known()[CALIBRATED].read_text()


@pytest.mark.parametrize("name", sorted(machine_file.known()))
def test_every_machine_that_comes_along_is_valid_and_named_as_its_file(name: str) -> None:
    machine = machine_file.find(name)
    assert machine.name == name
    assert {constant.source for constant in machine.constants.values()} <= set(machine.sources)
    if not machine.calibrated:
        assert not any(constant.provenance == "fitted" for constant in machine.constants.values())


@pytest.mark.parametrize("name", sorted(machine_file.known()))
def test_a_machine_written_and_read_again_is_the_same(name: str) -> None:
    machine = machine_file.find(name)
    again = parse(to_toml(machine).encode(), "file")
    assert resolve(again) == resolve(machine)
    assert again.sources == machine.sources


def edit(text: str, constant: str, pattern: str, replacement: str) -> str:
    line = re.search(rf"^{constant} = .*$", text, re.M).group()
    return text.replace(line, re.sub(pattern, replacement, line))


def test_wrong_files_are_refused_with_the_place(text: str) -> None:
    def refused(text: str) -> str:
        return refusal(parse, text.encode(), "file")

    assert "no machine 'nowhere'" in refusal(machine_file.find, "nowhere")
    assert "a constant without provenance" in refused(
        edit(text, "far", r', provenance = "\w+"', "")
    )
    assert "constant far: 1e+09 is out of range" in refused(
        edit(text, "far", r"high = [0-9.]+", "high = 1e9")
    )
    assert "constant far: -1 is out of range" in refused(
        edit(text, "far", r"low = [0-9.]+", "low = -1")
    )
    assert "constant far: nan is out of range" in refused(
        edit(text, "far", r"value = [0-9.]+", "value = nan")
    )
    assert "lies outside its interval" in refused(edit(text, "far", r"low = [0-9.]+", "low = 90"))
    assert "constant far is in count" in refused(
        edit(text, "far", r'unit = "ns"', 'unit = "count"')
    )
    assert "constant far has source 'rumour'" in refused(
        edit(text, "far", r'source = "\w+"', 'source = "rumour"')
    )
    assert "constant far is missing" in refused(edit(text, "far", r".*", ""))
    assert "no constant 'xfar'" in refused(edit(text, "far", r"^(.*)$", r"\1\nx\1"))
    assert "is not square" in refused(
        text.replace("[sources]", "round_trips_ns = [[0.0, 1.0]]\n[sources]", 1)
    )
    assert "expected load, store, swap, compare" in refused(
        re.sub(r"^swap = .*\n", "", text, flags=re.M)
    )
    assert "Invalid enum value 'elsewhere'" in refused(
        text.replace('store = ["far"', 'store = ["elsewhere"', 1)
    )
    assert "unknown field `more`" in refused("more = 1\n" + text)
    assert "not TOML" in refused("= 1")


def test_a_mangled_file_is_never_more_than_refused(text: str) -> None:
    for broken in mangled(text.encode(), 3):
        with contextlib.suppress(UserError):
            resolve(parse(broken, "file"))


def test_a_published_matrix_becomes_distances(text: str) -> None:
    cores = machine_file.find(CALIBRATED).topology.cores
    matrix = [
        [0.0 if a == b else 50.0 + 8.0 * ((a ^ b) > 1) for b in range(cores)] for a in range(cores)
    ]
    machine = parse(
        text.replace("[sources]", f"round_trips_ns = {matrix}\n[sources]", 1).encode(), "file"
    )
    between = resolve(machine)["core_core"]
    assert between[0][1] == 0
    assert between[0][2] == 1000


def test_medians_by_class_are_a_matrix_that_handoffs_come_back_to() -> None:
    machine = machine_file.find("x86-server-2021")
    between = resolve(machine)["core_core"]
    assert (between[0][1], between[0][8], between[0][48]) == (0, 42_000, 87_000)
    cell = {
        "operation": "handoff",
        "form": "cmpxchg_blind",
        "order": "full",
        "contender": "same_line",
        "threads": 2,
    }
    cells = [Cell(**cell, lines=1, placement=f"cpus:0,{other}") for other in (1, 8, 48)]
    with Simulator(find_model(), windows=8, ops=400) as simulator:
        near, far, socket = simulator.ask(
            resolve(machine), Plan(linewright_plan=2, name="try", cells=cells)
        )
    assert far.p50 - near.p50 == pytest.approx(214 - 46, rel=0.1)
    assert socket.p50 - near.p50 == pytest.approx(394 - 46, rel=0.15)


def test_a_class_that_the_machine_has_needs_its_round_trip() -> None:
    text = machine_file.known()["x86-server-2021"].read_text()
    missing = text.replace(", other_socket = 394.0", "")
    assert "topology.round_trips_ns has no other_socket" in refusal(parse, missing.encode(), "file")
    assert "out of range" in refusal(
        parse, text.replace("same_l3 = 46.0", "same_l3 = -1.0").encode(), "file"
    )

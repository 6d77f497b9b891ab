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

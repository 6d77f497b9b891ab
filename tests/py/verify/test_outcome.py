# SPDX-License-Identifier: MIT
"""The page of what was explored names each scenario and each case beside other code that there is,
and no other."""

import re

import pytest

from support.places import ROOT

TESTS = ROOT / "tests" / "cpp"
SECTIONS = (TESTS / "rc11" / "outcome.md").read_text().split("\n## ")
CASES = {
    "beside.c": (r'^    \{"([^"]*)", \w+\},$', "{}"),
    "posix.c": (r'^    "([^"]*)",$', "POSIX: {}"),
    "foreign.c": (r'^    check\("([^"]*)",', "found by {}"),
}


def table(section: str) -> list[list[str]]:
    """The rows below the heading and its rule."""
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


@pytest.mark.parametrize("name", ["rwlock", "interpose", "srcu", "percpu", "wait"])
def test_every_scenario_has_its_counts(name):
    section = next(text for text in SECTIONS if f"rc11/{name}.c" in text)
    there = re.findall(r'\{\.name = "([^"]*)"', (TESTS / "rc11" / f"{name}.c").read_text())
    assert there and [row[0] for row in table(section)] == there
    assert all(re.fullmatch(r"[\d,]+", count) for row in table(section) for count in row[1:])


def test_every_case_beside_other_code_has_its_row():
    section = next(text for text in SECTIONS if text.startswith("Beside other code"))
    there = [
        as_written.format(name)
        for file, (pattern, as_written) in CASES.items()
        for name in re.findall(pattern, (TESTS / "rwlock" / file).read_text(), re.MULTILINE)
    ]
    assert len(there) > len(CASES) and [row[0] for row in table(section)] == there
    assert {cell for row in table(section) for cell in row[1:]} == {"PASS", "—"}

# SPDX-License-Identifier: MIT
"""Durations, percentages, CPU lists and cell patterns: what is read back, and that nothing else
than UserError comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linewright import numbers, units
from linewright.errors import UserError, one_line
from linewright.records.store import choose, matches
from linewright.schema import Cell


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("2m", 120),
        ("2min", 120),
        ("1.5h", 5400),
        ("500ms", 0.5),
        (" 1 s", 1),
        (".5s", 0.5),
        ("168h", 604800),
    ],
)
def test_duration(text: str, seconds: float):
    assert units.duration_s(text, "--budget") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "-1",
        "0",
        "0s",
        "0ms",
        "169h",
        "1e3",
        "nan",
        "inf",
        "1d",
        "1 2",
        "٣s",
        "1s s",
        "9" * 40,
    ],
)
def test_no_duration(text: str):
    with pytest.raises(UserError, match="--budget.*allowed"):
        units.duration_s(text, "--budget")


@pytest.mark.parametrize(
    ("text", "value"), [("2%", 0.02), ("0.02", 0.02), ("50%", 0.5), ("0.5", 0.5), ("0.1 %", 0.001)]
)
def test_precision(text: str, value: float):
    assert units.fraction(text, "--precision") == pytest.approx(value)


@pytest.mark.parametrize("text", ["0", "0%", "50.1%", "0.51", "2", "-1%", "", "%", "two", "nan"])
def test_no_precision(text: str):
    with pytest.raises(UserError, match="--precision.*allowed"):
        units.fraction(text, "--precision")


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", [0]), ("3,1", [3, 1]), ("0-2,8", [0, 1, 2, 8]), (" 1 , 2 ", [1, 2])]
)
def test_cpu_list(text: str, cpus: list[int]):
    assert units.cpu_list(text, "--cpus") == cpus


@pytest.mark.parametrize(
    "text", ["", ",", "0,", "2-1", "a", "0,0", "0-2,1", "-1", "70000", "0-99999"]
)
def test_no_cpu_list(text: str):
    with pytest.raises(UserError, match="--cpus"):
        units.cpu_list(text, "--cpus")


@given(st.lists(st.integers(0, 300), unique=True, min_size=1, max_size=40))
def test_cpu_text_reads_back(cpus: list[int]):
    assert sorted(units.cpu_list(numbers.cpu_text(cpus), "--cpus")) == sorted(cpus)


@given(st.text(max_size=40))
def test_parsers_refuse_or_answer(text: str):
    for parse in (units.duration_s, units.fraction, units.cpu_list):
        try:
            value = parse(text, "--here")
        except UserError as error:
            assert "\n" not in str(error)
        else:
            assert value


@given(st.floats(0.05, units.LONGEST_S))
def test_duration_text_is_near(seconds: float):
    """What is printed is within 5 % of what was meant."""
    total, number = 0.0, None
    for word in units.duration_text(seconds).split():
        if word in ("s", "min", "h"):
            total += number * {"s": 1, "min": 60, "h": 3600}[word]
        else:
            number = float(word)
    assert total == pytest.approx(seconds, rel=0.05, abs=0.051)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0.00"),
        (0.004, "0.00"),
        (2.044, "2.04"),
        (-3.5, "-3.50"),
        (9.996, "10.0"),
        (115.33, "115"),
        (7000.4, "7000"),
    ],
)
def test_a_figure_has_three_digits_and_at_most_two_behind_the_point(value, text: str):
    assert numbers.figure(value) == text


CELLS = [
    Cell(operation="add", form="lock_add", order="full"),
    Cell(operation="add", form="prefetchw_lock_add", order="full", work_iters=20),
    Cell(operation="add", form="lock_add", order="full", contender="same_line", threads=2, lines=8),
]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("lock_add", [0, 2]),
        ("*lock_add", [0, 1, 2]),
        ("same_line", [2]),
        ("full/none", [0, 1]),
        ("add/*/w20/*", [1]),
        ("w0", [0, 2]),
        ("lock_add/*/full", [0, 2]),
        (CELLS[1].id, [1]),
        ("/w20/", [1]),
        ("[lp]*_add/u64", [0, 1, 2]),
    ],
)
def test_patterns(pattern: str, found: list[int]):
    assert choose(CELLS, [pattern]) == [CELLS[i] for i in found]


def test_patterns_add_up_in_plan_order():
    assert choose(CELLS, ["same_line", "w20"]) == CELLS[1:]
    assert choose(CELLS, []) == CELLS


def test_a_pattern_that_fits_nothing_names_what_exists():
    with pytest.raises(
        UserError, match=r"'lok_add'.*did you mean.*lock_add.*contenders: none same_line"
    ):
        choose(CELLS, ["lock_add", "lok_add"])


@given(st.text(max_size=30))
def test_any_text_is_a_pattern(pattern: str):
    for cell in CELLS:
        matches(cell.id, pattern)
    try:
        assert choose(CELLS, [pattern])
    except UserError as error:
        assert "\n" not in str(error)


@given(st.text(max_size=60))
def test_one_line_is_one_line_and_drives_no_terminal(text: str):
    line = one_line(text)
    assert line.splitlines() in ([], [line]) and "\x1b" not in line and "\x9b" not in line

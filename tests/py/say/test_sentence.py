# SPDX-License-Identifier: MIT
"""Figures in sentences: a bound that is rounded must still be one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linewright import numbers
from linewright.say.document import capital


@pytest.mark.parametrize(
    ("share", "text"), [(0.0404, "4.1 %"), (0.04, "4.0 %"), (0.0, "0.0 %"), (0.1201, "13 %")]
)
def test_a_share_is_rounded_up(share: float, text: str) -> None:
    assert numbers.at_most(share) == text


@pytest.mark.parametrize(("ns", "text"), [(0.04, "0.1 ns"), (0.3, "0.3 ns"), (0.0, "0.0 ns")])
def test_a_time_is_rounded_up(ns: float, text: str) -> None:
    assert numbers.within(ns, "ns") == text


@pytest.mark.parametrize(
    ("ends", "text"),
    [((13.7, 20.2), "14 to 20 times"), ((1.04,), "1.0 times"), ((0.031, 0.4), "0.03 to 0.4 times")],
)
def test_a_multiple_has_two_digits_however_small(ends: tuple[float, ...], text: str) -> None:
    assert numbers.multiple(*ends) == text


def test_what_rounds_to_zero_has_no_sign() -> None:
    assert numbers.figure(-0.004) == "0.00" and numbers.percent(
        -0.0004
    ) == "0.0 %" == numbers.percent(0.0002)
    assert (
        numbers.rounded(-0.04, 1, signed=True) == "0.0"
        and numbers.rounded(-0.06, 1, signed=True) == "-0.1"
    )


def test_texts_that_differ_in_their_numbers_are_one_range() -> None:
    reasons = ["3 of 12 windows", "5 of 12 windows"]
    assert len(set(map(numbers.without_numbers, reasons))) == 1
    assert numbers.merge_texts_with_ranges(reasons) == "3 to 5 of 12 windows"


@given(st.floats(0, 100))
def test_no_bound_is_below_what_it_bounds(value: float) -> None:
    assert float(numbers.at_most(value).removesuffix(" %")) >= 100 * value - 1e-6
    assert float(numbers.within(value, "ns").removesuffix(" ns")) >= value - 1e-6


@given(st.floats(1e-9, 1e12))
def test_a_number_of_any_size_has_no_exponent(value: float) -> None:
    text = numbers.plain(value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.0006)
    assert numbers.plain(19497060.4) == "19,497,060" and numbers.plain(3.95e-5) == "0.0000395"


@pytest.mark.parametrize(
    ("low", "high", "words", "signs"),
    [
        (0.003, 0.004, "250 to 333 times less", "-99.7 to -99.6 %"),
        (0.0003, 0.0004, "2500 to 3333 times less", "-99.97 to -99.96 %"),
        (0.05, 0.06, "17 to 20 times less", "-95 to -94 %"),
        (0.5, 0.52, "48 to 50 % less", "-50 to -48 %"),
    ],
)
def test_nothing_costs_a_hundred_percent_less(low, high, words: str, signs: str) -> None:
    assert numbers.change_in_words(low, high, "ratio") == words
    assert numbers.change(low, high, "ratio") == signs


def test_a_sentence_leaves_the_name_of_a_form_as_it_is_in_code() -> None:
    assert capital("srcu_fast and srcu cost the same") == "srcu_fast and srcu cost the same"
    assert capital("srcu: 2 ns") == "srcu: 2 ns"
    assert capital("readers cost the same") == "Readers cost the same"

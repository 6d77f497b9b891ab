# SPDX-License-Identifier: MIT
"""Intervals keep what they promise: checked by simulation with seeds, and against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from linewright.analysis.intervals import (
    extremes,
    finite,
    median,
    medians_of,
    order_ranks,
    repeat_interval,
    wilson_score,
)

numbers = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)


def at_least(hits: int, trials: int, promised: float) -> bool:
    """True unless the hits contradict the promise at one in ten thousand (exact binomial)."""
    return stats.binom.cdf(hits, trials, promised) > 1e-4


@pytest.mark.parametrize("n", [6, 7, 10, 31, 100, 512])
def test_order_ranks_cover_exactly_what_they_say_and_no_narrower_pair_does(n):
    low, high, reached = order_ranks(n)
    assert low == n - 1 - high
    outside = sum(math.comb(n, i) for i in range(low + 1)) / 2**n
    assert reached == pytest.approx(1 - 2 * outside)
    assert reached >= 0.95
    assert 1 - 2 * sum(math.comb(n, i) for i in range(low + 2)) / 2**n < 0.95


@given(st.lists(numbers, min_size=1, max_size=40))
def test_the_quick_median_is_numpys(values):
    assert median(np.array(values)) == pytest.approx(float(np.median(values)), rel=1e-12, abs=1e-12)


def luck(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "normal":
        return np.exp(rng.normal(0, 0.1, n))
    if kind == "skewed":
        return 1 + rng.exponential(0.3, n)
    if kind == "heavy":
        return np.exp(0.05 * rng.standard_t(3, n))
    share = float(kind.removeprefix("bimodal_"))
    return np.where(rng.random(n) < share, 4.0, 1.0) * np.exp(rng.normal(0, 0.05, n))


@pytest.mark.parametrize("kind", ["normal", "heavy", "bimodal_0.2", "bimodal_0.5"])
@pytest.mark.parametrize("launches", [5, 8])
def test_a_repeat_falls_into_the_interval_95_times_in_100(kind, launches):
    """The repeat has launches of its own: this is what a reader takes an interval of a contended
    cell to mean."""
    rng = np.random.default_rng(launches)

    def measure():
        return [25 * m * np.exp(rng.normal(0, 0.02, 24)) for m in luck(kind, launches, rng)]

    hits = 0
    for _ in range(400):
        found, again = repeat_interval(measure()), median(medians_of(measure()))
        hits += found.low_ns <= again <= found.high_ns
    assert at_least(hits, 400, 0.95), f"{hits} of 400"


@pytest.mark.parametrize("kind", ["normal", "heavy", "bimodal_0.3"])
@pytest.mark.parametrize("lines", [16, 32])
def test_lines_of_one_launch_cover_a_repeat_on_other_lines(lines, kind):
    rng = np.random.default_rng(lines)

    def measure():
        return [5 * m * np.exp(rng.normal(0, 0.01, 2)) for m in luck(kind, lines, rng)]

    hits = sum(
        f.low_ns <= median(medians_of(measure())) <= f.high_ns
        for f in (repeat_interval(measure()) for _ in range(300))
    )
    assert at_least(hits, 300, 0.95)


def test_odd_lines_do_not_move_the_interval_of_a_difference():
    """Differences near zero vary by amounts, not by factors: once, their logarithms gave an
    interval of 2e19 ns."""
    rng = np.random.default_rng(13)
    values = np.abs(rng.normal(2, 0.5, 32)) + 1e-9
    values[:4] = [1e-9, 500.0, -300.0, 90.0]
    found = repeat_interval([np.array([v]) for v in values], logarithmic=False)
    assert 1 < found.low_ns < found.median_ns < found.high_ns < 3


def test_two_modes_of_the_known_loop_are_both_inside():
    groups = [np.full(10, m) for m in (25.0, 25.0, 27.0, 35.0, 95.0, 113.0)]
    found = repeat_interval(groups)
    assert found.median_ns == 31.0 and found.low_ns <= 25 and found.high_ns >= 113


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(numbers, min_size=0, max_size=12), max_size=9))
def test_no_values_make_it_raise_or_leave_the_numbers(groups):
    found = repeat_interval([np.array(g, dtype=float) for g in groups])
    if found is None:
        assert not any(groups)
    else:
        assert math.isfinite(found.low_ns) and math.isfinite(found.high_ns)
        assert found.low_ns <= found.median_ns <= found.high_ns


def test_what_is_no_number_is_left_out():
    assert finite([1.0, float("nan"), float("inf")]).tolist() == [1.0]


def test_the_extremes_cover_the_median_as_often_as_they_say():
    draws = np.random.default_rng(3).lognormal(size=(4000, 4))
    found = [extremes(launches) for launches in draws]
    covered = np.mean([one.low_ns <= 1.0 <= one.high_ns for one in found])
    assert found[0].confidence == 1 - 2 / 2**4
    assert covered == pytest.approx(found[0].confidence, abs=0.02)
    assert extremes([7.0]).confidence == 0, "one value covers nothing"


def test_the_interval_of_a_share_is_wilsons():
    """Against values by hand from Brown, Cai and DasGupta (2001), equation 4."""
    half = wilson_score(50, 100)
    assert (half.value, half.low, half.high) == pytest.approx((0.5, 0.40383, 0.59617), abs=1e-5)
    none = wilson_score(0, 35)
    assert (none.low, none.high) == pytest.approx((0, 0.0989), abs=1e-4)
    assert wilson_score(1, 0) is None

# SPDX-License-Identifier: MIT
"""Modes are found where they are planted, and seldom where they are not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from linewright.analysis.intervals import LINE_SHARE, lines_spread, modes


def test_the_known_two_thread_loop_has_its_two_modes():
    found = modes([25, 25, 25.5, 26, 27, 27, 95, 113])
    assert [round(m.median_ns) for m in found] == [26, 104]
    assert [m.share for m in found] == pytest.approx([6 / 8, 2 / 8])
    assert found[1].share_low == pytest.approx(0.032, abs=0.001) and found[
        1
    ].share_high == pytest.approx(0.651, abs=0.001)


@pytest.mark.parametrize("n", [8, 10, 32])
@pytest.mark.parametrize("spread", [0.02, 0.3, 1.0])
def test_one_mode_is_called_two_no_more_often_than_stated(n, spread):
    rng = np.random.default_rng(n)
    trials = 600
    alarms = sum(len(modes(np.exp(rng.normal(3, spread, n)))) > 1 for _ in range(trials))
    assert stats.binom.sf(alarms - 1, trials, 0.05) > 1e-4, (
        f"{alarms}: docs/reference/method.md promises 5 %"
    )
    if spread == 0.02:
        assert alarms == 0, "differences that change no decision are never modes"


@pytest.mark.parametrize("n", [8, 10, 16])
def test_planted_modes_are_found(n):
    rng = np.random.default_rng(100 + n)
    found = 0
    for _ in range(200):
        high = rng.permutation(n) < 2
        answer = modes(np.where(high, 100.0, 25.0) * np.exp(rng.normal(0, 0.05, n)))
        found += len(answer) == 2 and answer[1].share == pytest.approx(2 / n)
    assert found >= 190


def test_a_run_of_many_cells_seldom_calls_one_of_them_metastable():
    """Forty-five contended cells at 30 % between launches: without the correction 83 % of runs had
    a false one."""
    rng = np.random.default_rng(3)
    false = sum(
        any(len(modes(np.exp(rng.normal(3, 0.3, 8)), alarm=0.05 / 45)) > 1 for _ in range(45))
        for _ in range(100)
    )
    assert stats.binom.sf(false - 1, 100, 0.05) > 1e-3, f"{false} of 100 runs"
    assert len(modes([25, 25, 25.5, 26, 95, 96, 95.5, 97], alarm=0.05 / 45)) == 2


def test_one_launch_apart_is_an_outlier_and_no_mode():
    launches = [10.0, 10.1, 9.9, 10.2, 9.8, 10.1, 10.0]
    assert len(modes([*launches, 30.0])) == 1 == len(modes([*launches, 3.0]))
    assert len(modes([*launches[:6], 30.0, 31.0])) == 2


def test_few_launches_have_no_modes():
    assert len(modes([25, 25, 27, 95, 113])) == 1, (
        "four of five launches can fall into one state by chance"
    )


def test_three_modes_and_shares_that_add_up():
    answer = modes([5.0, 5.1, 5.05, 5.02, 29.0, 29.3, 29.1, 29.2, 120.0, 121.0, 120.5, 119.0])
    assert [round(m.median_ns) for m in answer] == [5, 29, 120]
    assert sum(m.share for m in answer) == pytest.approx(1)


def test_a_few_odd_lines_are_outliers_but_a_second_home_is_not():
    near = [5.8 + 0.01 * i for i in range(30)]
    assert len(modes([*near, 29.0, 29.1], LINE_SHARE)) == 1
    assert len(modes([*near[:20], *(29.0 + 0.01 * i for i in range(12))], LINE_SHARE)) == 2


def test_too_little_says_nothing():
    assert modes([]) == []
    assert len(modes([1.0, 100.0, 100.0])) == 1
    assert len(modes([5.0] * 8)) == 1
    assert len(modes([-1.0, 5.0, 5.0, 5.0, 100.0])) == 1


def test_spread_over_lines():
    assert lines_spread([1.0]) == 0
    assert lines_spread([10.0] * 8) == 0
    values = np.linspace(9, 11, 101)
    assert lines_spread(values) == pytest.approx((10.9 - 9.1) / 10)

"""Intervals keep what they promise: checked by simulation with seeds, and against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from linewright.analysis.intervals import (
    centre,
    contrast,
    finite,
    holm,
    median,
    order_ranks,
    order_statistic,
    repeat_interval,
    replicates,
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


def test_few_values_say_which_confidence_they_reach():
    found = order_statistic([3.0, 1.0, 2.0, 5.0])
    assert (found.low_ns, found.high_ns, found.median_ns) == (1.0, 5.0, 2.5)
    assert found.confidence == pytest.approx(1 - 2 / 16)
    assert order_statistic([7.0]).confidence == 0.0
    assert order_statistic([]) is None


def test_order_statistic_interval_covers_the_median_of_a_skewed_distribution():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(800):
        found = order_statistic(rng.exponential(1.0, 25))
        hits += found.low_ns <= math.log(2) <= found.high_ns
    assert at_least(hits, 800, 0.95)


@given(st.lists(numbers, min_size=1, max_size=40))
def test_the_quick_median_is_numpys(values):
    assert median(np.array(values)) == pytest.approx(float(np.median(values)), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", [5, 8, 33, 64])
def test_resampling_one_group_agrees_with_scipys_bootstrap(n):
    values = np.random.default_rng(n).lognormal(3, 0.5, n)
    ours = np.percentile(replicates([values], resamples=20_000), [2.5, 50, 97.5])
    theirs = stats.bootstrap(
        (values,), np.median, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2), vectorized=True
    )
    theirs = np.percentile(theirs.bootstrap_distribution, [2.5, 50, 97.5])
    ordered = np.sort(values)
    steps = np.searchsorted(ordered, ours), np.searchsorted(ordered, theirs)
    assert np.abs(steps[0] - steps[1]).max() <= 1, (ours, theirs)


def test_the_hierarchical_bootstrap_agrees_with_one_spelled_out():
    rng = np.random.default_rng(3)
    groups = [
        rng.lognormal(mean, 0.05, size)
        for mean, size in zip((3, 3.1, 3.3, 2.9, 3.05), (20, 31, 40, 25, 30), strict=True)
    ]
    spelled = []
    for _ in range(6000):
        chosen = rng.integers(0, 5, 5)
        spelled.append(np.median([np.median(rng.choice(groups[i], groups[i].size)) for i in chosen]))
    ours = replicates(groups, resamples=6000)
    assert np.percentile(ours, [10, 50, 90]) == pytest.approx(np.percentile(spelled, [10, 50, 90]), rel=0.01)
    assert stats.ks_2samp(ours, spelled).pvalue > 1e-4


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
    """The repeat has launches of its own: this is what a reader takes an interval of a contended cell to mean."""
    rng = np.random.default_rng(launches)

    def measure():
        return [25 * m * np.exp(rng.normal(0, 0.02, 24)) for m in luck(kind, launches, rng)]

    hits = 0
    for _ in range(400):
        found, again = repeat_interval(measure()), centre(measure())
        hits += found.low_ns <= again <= found.high_ns
    assert at_least(hits, 400, 0.95), f"{hits} of 400"


def test_a_plain_percentile_bootstrap_would_not_keep_that_promise():
    """Why the interval is more than a bootstrap: five launches cover a repeat about 83 times in 100."""
    rng = np.random.default_rng(9)

    def measure():
        return [25 * m * np.exp(rng.normal(0, 0.02, 24)) for m in luck("normal", 5, rng)]

    hits = 0
    for _ in range(300):
        low, high = np.percentile(replicates(measure(), resamples=199), [2.5, 97.5])
        hits += low <= centre(measure()) <= high
    assert not at_least(hits, 300, 0.95)


@pytest.mark.parametrize("kind", ["normal", "heavy", "bimodal_0.3"])
@pytest.mark.parametrize("lines", [16, 32])
def test_lines_of_one_launch_cover_a_repeat_on_other_lines(lines, kind):
    rng = np.random.default_rng(lines)

    def measure():
        return [5 * m * np.exp(rng.normal(0, 0.01, 2)) for m in luck(kind, lines, rng)]

    hits = sum(f.low_ns <= centre(measure()) <= f.high_ns for f in (repeat_interval(measure()) for _ in range(300)))
    assert at_least(hits, 300, 0.95)


def test_odd_lines_do_not_move_the_interval_of_a_difference():
    """Differences near zero vary by amounts, not by factors: once, their logarithms gave an interval of 2e19 ns."""
    rng = np.random.default_rng(13)
    values = np.abs(rng.normal(2, 0.5, 32)) + 1e-9
    values[:4] = [1e-9, 500.0, -300.0, 90.0]
    found = repeat_interval([np.array([v]) for v in values], logarithmic=False)
    assert 1 < found.low_ns < found.median_ns < found.high_ns < 3


def test_two_modes_of_the_known_loop_are_both_inside():
    groups = [np.full(10, m) for m in (25.0, 25.0, 27.0, 35.0, 95.0, 113.0)]
    found = repeat_interval(groups)
    assert found.median_ns == 31.0 and found.low_ns <= 25 and found.high_ns >= 113


def test_equal_seeds_give_equal_intervals():
    groups = [np.random.default_rng(i).lognormal(3, 0.1, 20) for i in range(5)]
    assert repeat_interval(groups) == repeat_interval(groups)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(numbers, min_size=0, max_size=12), max_size=9))
def test_no_values_make_it_raise_or_leave_the_numbers(groups):
    found = repeat_interval([np.array(g, dtype=float) for g in groups])
    if found is None:
        assert not any(groups)
    else:
        assert math.isfinite(found.low_ns) and math.isfinite(found.high_ns)
        assert found.low_ns <= found.median_ns <= found.high_ns


@pytest.mark.parametrize("units", [5, 13, 32])
def test_comparing_a_cell_with_itself_finds_nothing_at_the_promised_rate(units):
    rng = np.random.default_rng(units)
    alarms = sum(
        contrast(np.exp(rng.normal(3, 0.1, units)), np.exp(rng.normal(3, 0.1, units))).p < 0.05 for _ in range(2000)
    )
    assert stats.binom.sf(alarms - 1, 2000, 0.05) > 1e-4, alarms


def test_a_planted_difference_is_found_and_its_interval_holds_it():
    rng = np.random.default_rng(5)
    found = covered = 0
    for _ in range(300):
        c = contrast(np.exp(rng.normal(math.log(11), 0.02, 8)), np.exp(rng.normal(math.log(10), 0.02, 8)))
        found += c.p < 0.05
        covered += c.ratio.low <= 1.1 <= c.ratio.high and c.difference.low_ns <= 1 <= c.difference.high_ns
    assert found > 290
    assert at_least(covered, 300, 0.95)


def test_contrasts_of_too_little_are_none():
    assert contrast([], [1.0, 2.0]) is None
    assert contrast([1.0], [2.0]) is None
    assert contrast([1.0], [2.0], relative_floor=0.01).p < 0.05
    assert contrast([5.0, 5.0], [5.0, 5.0]).p == 1.0
    assert contrast([-1.0, 1.0, 0.5], [2.0, 3.0, 2.5]).ratio is None


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert finite([1.0, float("nan"), float("inf")]).tolist() == [1.0]

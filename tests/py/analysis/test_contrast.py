# SPDX-License-Identifier: MIT
"""Contrasts of launches against SciPy, their coverage, and the three answers."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from scipy import stats

from linewright.analysis.comparison import (
    ALPHA,
    FEWEST_LAUNCHES,
    detectable,
    holm,
    judge,
    launches_needed,
    left_open,
    level_of,
)
from linewright.analysis.contrast import ancova, paired_t, paired_t_by_rounds, signed_rank, welch_t
from linewright.analysis.control import (
    MOST_DEGREES,
    add_components,
    heterogeneity,
    pool_components,
    prior_degrees,
)
from linewright.analysis.questions import QUESTIONS


def alike(found, **more):
    """Contrasts that were all measured in one situation."""
    return pool_components(found, ["one"] * len(found), **more)


@pytest.mark.parametrize("pairs", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_many_quiet_launches_do_not_vouch_for_few_of_a_busy_hour(pairs):
    """Each run has its own spread: joined, 40 launches at 2 % and 5 at 20 % were called different
    in a third of all comparisons."""
    rng = np.random.default_rng(1)
    for before, after in (((40, 0.02), (5, 0.20)), ((5, 0.20), (40, 0.02)), ((5, 0.02), (5, 0.20))):
        one, two = (np.exp(rng.normal(0, spread, (pairs, n))) for n, spread in (before, after))
        alarms = sum(ancova(b, a).p < 0.01 for a, b in zip(one, two, strict=True))
        assert stats.binom.sf(alarms - 1, pairs, 0.01) > 1e-3, (before, after)


@pytest.mark.parametrize(("count", "placed"), [(8, 0.05), (8, 0.0), (12, 0.05), (5, 0.05)])
def test_launches_at_one_placement_of_code_are_no_independent_witnesses(count, placed):
    """Thirteen forms of equal cost, each with luck of its own at each of four placements, which
    come again: eight launches were taken for eight witnesses, and a quarter of all runs held a
    false claim."""
    rng = np.random.default_rng(count)
    names = [str(i) for i in range(count)]
    places = {name: i % 4 for i, name in enumerate(names)}

    def measured():
        luck = rng.normal(0, placed, 4)
        return {name: math.exp(luck[places[name]] + rng.normal(0, 0.01)) for name in names}

    wrong = 0
    for _ in range(200):
        default = measured()
        found = alike([paired_t(measured(), default, places=places) for _ in range(13)])
        wrong += min(p for p in holm(found)) < 0.05
    assert stats.binom.sf(wrong - 1, 200, 0.05) > 1e-3


def by_launch(values):
    return {f"{i:x}": float(v) for i, v in enumerate(values)}


def test_pairs_are_scipys_paired_t_test_on_log_ratios():
    rng = np.random.default_rng(1)
    a, b = 10 * np.exp(rng.normal(0, 0.1, 7)), 9 * np.exp(rng.normal(0, 0.1, 7))
    found, wanted = paired_t(by_launch(a), by_launch(b)), stats.ttest_rel(np.log(a), np.log(b))
    ends = wanted.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    assert found.p == pytest.approx(wanted.pvalue) and found.launches == 7 and found.paired
    plain = paired_t(by_launch(a), by_launch(b), "ns")
    assert plain.value == pytest.approx((a - b).mean()) and plain.scale == "ns"


def test_only_launches_that_ran_both_are_pairs():
    found = paired_t({"a": 1.0, "b": 2.0, "c": 3.0}, {"b": 1.0, "c": 1.6, "d": 9.0})
    assert found.launches == 2
    assert paired_t({"a": 1.0}, {"a": 2.0}) is None and paired_t({"a": 1.0}, {"b": 1.0}) is None
    assert paired_t({"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0}) is None, "no ratio to nothing"


def test_luck_that_falls_on_both_cancels():
    """Thirty percent between launches, the same for both sides: a true factor of 1.1 is seen,
    unpaired it is not."""
    rng = np.random.default_rng(2)
    luck = np.exp(rng.normal(0, 0.3, 5))
    a, b = 11 * luck * np.exp(rng.normal(0, 0.01, 5)), 10 * luck * np.exp(rng.normal(0, 0.01, 5))
    assert paired_t(by_launch(a), by_launch(b)).p < 1e-3 < 0.05 < welch_t(a, b).p


def test_independent_is_welchs_test_and_what_a_side_shares_widens_it():
    rng = np.random.default_rng(3)
    a, b = 10 * np.exp(rng.normal(0, 0.1, 6)), 10 * np.exp(rng.normal(0, 0.2, 9))
    found, wanted = welch_t(a, b), stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
    assert found.p == pytest.approx(wanted.pvalue)
    assert welch_t(a, b, common=0.5).p > found.p
    assert welch_t([5.0], [6.0]) is None


@pytest.mark.parametrize("n", [6, 9, 15, 40])
def test_single_runs_are_scipys_wilcoxon_test(n):
    """The p value, and an interval that excludes 1 exactly when SciPy's exact test rejects."""
    rng, seen = np.random.default_rng(n), set()
    for shift in np.linspace(0, 1.5, 40):
        d = rng.normal(shift, 1, n)
        found = signed_rank(dict(enumerate(np.exp(d))), dict.fromkeys(range(n), 1.0))
        assert found.p == pytest.approx(stats.wilcoxon(d, method="exact").pvalue)
        assert found.separate == (found.p <= 0.05) and found.low <= found.value <= found.high
        seen.add(found.separate)
    assert seen == {True, False}


def test_few_single_runs_have_no_interval_and_many_have():
    assert signed_rank({}, {}) is None and signed_rank({0: 1.0}, {1: 1.0}) is None
    few = signed_rank({0: 2.0, 1: 2.1, 2: 2.2}, dict.fromkeys(range(3), 1.0))
    assert few.high == math.inf and few.low == 0 and not few.separate
    d = np.random.default_rng(1).normal(0.2, 1, 80)
    many = signed_rank(dict(enumerate(np.exp(d))), dict.fromkeys(range(80), 1.0))
    assert many.low < many.value < many.high
    assert many.p == pytest.approx(stats.wilcoxon(d, method="exact").pvalue, rel=0.1)
    alike = signed_rank(dict.fromkeys(range(9), 3.0), dict.fromkeys(range(9), 3.0))
    assert (alike.p, alike.low, alike.high) == (1.0, 1.0, 1.0)


def test_a_drift_through_two_runs_is_no_change_and_a_step_is_one():
    rng = np.random.default_rng(4)
    alarms = seen = 0
    for _ in range(200):
        values = 10 * np.exp(0.025 * np.arange(10) + rng.normal(0, 0.01, 10))
        alarms += ancova(values[5:], values[:5]).p < 0.05
        seen += ancova(2.9 * values[5:], values[:5]).p < 0.01
    assert stats.binom.sf(alarms - 1, 200, 0.05) > 1e-3, f"{alarms} of 200"
    assert seen == 200


def test_a_lucky_row_of_launches_is_no_more_certain_than_its_neighbours():
    rng = np.random.default_rng(5)
    usual = [
        paired_t(by_launch(np.exp(rng.normal(0, 0.2, 5))), by_launch(np.ones(5))) for _ in range(6)
    ]
    lucky = paired_t(by_launch(1.5 + 1e-6 * np.arange(5)), by_launch(np.ones(5)))
    *_, found = alike([*usual, lucky])
    assert lucky.p < 1e-9 and found.p > 1e-4 and found.value == pytest.approx(lucky.value)
    assert alike([None, lucky]) == [None, lucky], "two are no condition"


def test_states_that_fell_alike_in_every_launch_are_no_difference():
    """Six conditions of eight cells, each cell 1.5 times slower in half of the launches: of five,
    all may fall the same way."""
    rng = np.random.default_rng(8)
    alarms = 0
    for _ in range(300):
        found = []
        for _ in range(6):
            cells = 1.5 ** rng.integers(0, 2, (8, 5)) * np.exp(rng.normal(0, 0.01, (8, 5)))
            found += [paired_t(by_launch(form), by_launch(cells[0])) for form in cells[1:]]
        under = pool_components(found, [i // 7 for i in range(len(found))])
        alarms += min(holm(under)) < QUESTIONS["forms"].alpha
    assert stats.binom.cdf(alarms, 300, 0.05) < 0.5, f"{alarms} of 300"


def test_a_condition_has_its_own_component():
    rng = np.random.default_rng(9)
    noisy, quiet = (
        [
            paired_t(by_launch(np.exp(rng.normal(0, spread, 5))), by_launch(np.ones(5)))
            for _ in range(3)
        ]
        for spread in (0.3, 0.01)
    )
    mixed = [c for pair in zip(noisy, quiet, strict=True) for c in pair]
    assert pool_components(mixed, ["noisy", "quiet"] * 3)[1::2] == alike(quiet)


def test_many_launches_do_not_make_unlike_cells_alike():
    """Of 40 launches the usual spread is known well, and that of one cell is still another: beside
    its own it counts no more than MOST_DEGREES degrees of freedom."""
    rng = np.random.default_rng(7)
    own = [
        paired_t(by_launch(np.exp(rng.normal(0, 0.1, 40))), by_launch(np.ones(40)))
        for _ in range(9)
    ]
    assert {c.degrees for c in alike(own)} == {39 + MOST_DEGREES} and MOST_DEGREES < 39


@pytest.mark.parametrize(
    "times", [3.0, *(pytest.param(t, marks=pytest.mark.slow) for t in (2.0, 5.0))]
)
def test_cells_of_unlike_spread_are_judged_by_their_own(times: float):
    """Two conditions of thirteen cells, of which every third has more spread between its five
    launches. Judged by the middle one of its neighbours wherever an F test on four degrees of
    freedom failed to see that, three times as much made a quarter of all runs false."""
    rng = np.random.default_rng(14)
    spread = np.where(np.arange(13) % 3 == 0, times, 1.0)[:, None]
    wrong, one = 0, by_launch(np.ones(5))
    for _ in range(300):
        cells = np.exp(0.05 * spread * rng.standard_normal((2, 13, 5))).reshape(26, 5)
        found = [paired_t(by_launch(cell), one) for cell in cells]
        made = pool_components(found, [i // 13 for i in range(26)], kind=lambda _: "all")
        wrong += min(holm(made)) < 0.05
    assert stats.binom.cdf(wrong, 300, 0.05) < 0.9, f"{wrong} of 300"


@pytest.mark.parametrize("alike_by", [2.5, 4.0, 10.0])
def test_a_pooled_variance_counts_as_the_variances_are_alike(alike_by: float):
    """Variances that are themselves a scaled inverse chi-squared with `alike_by` degrees (Smyth
    2004); with a trigamma function that is SciPy's, and a little doubt."""
    rng = np.random.default_rng(15)
    true = alike_by / rng.chisquare(alike_by, 4000)
    logs = np.log(true * rng.chisquare(4, 4000) / 4)
    found = prior_degrees([(x, 4.0) for x in logs])
    assert found == pytest.approx(alike_by, rel=0.2)
    few = prior_degrees([(x, 4.0) for x in logs[:26]])
    assert few < prior_degrees([(x, 4.0) for x in 0.5 * logs[:26]]), "more alike, more degrees"
    equal = np.log(rng.chisquare(4, 4000))
    assert prior_degrees([(x, 4.0) for x in equal]) > 30
    assert prior_degrees([(0.0, 4.0)] * 2) == prior_degrees([(0.0, 4.0)] * 9) == math.inf


def test_launches_that_differ_by_more_than_usual_keep_their_variance():
    rng = np.random.default_rng(6)
    usual = [
        paired_t(by_launch(np.exp(rng.normal(0, 0.02, 5))), by_launch(np.ones(5))) for _ in range(6)
    ]
    wild = paired_t(by_launch(np.exp(rng.normal(0.3, 0.3, 5))), by_launch(np.ones(5)))
    assert alike([*usual, wild])[-1] == wild


def in_rounds(rng, count=8, launches=5, state=0.5, within=0.05, times=1.0):
    """Two cells whose rounds meet the machine in one state."""
    one, two = {}, {}
    for launch in range(launches):
        shared = np.exp(rng.normal(0, state, count))
        own = np.exp(rng.normal(0, within, (2, count)))
        one[str(launch)] = dict(enumerate(times * shared * own[0]))
        two[str(launch)] = dict(enumerate(shared * own[1]))
    return one, two


def test_what_a_round_shares_cancels():
    """Rounds differ by half, the cells in them by five percent: of launches as wholes 1.2 times is
    seen less well than of rounds."""
    one, two = in_rounds(np.random.default_rng(10), times=1.2)
    whole = paired_t(*({k: np.median(list(v.values())) for k, v in s.items()} for s in (one, two)))
    close = paired_t_by_rounds(one, two)
    assert close.error < whole.error and close.p < 1e-3 and close.low < 1.2 < close.high
    assert close.residual_degrees == 35
    assert close.residual == pytest.approx(2 * 0.05**2 / 8, rel=0.5)


def test_rounds_that_only_one_cell_has_are_left_out():
    one, two = in_rounds(np.random.default_rng(11))
    one["0"][99.0] = 1e6
    assert paired_t_by_rounds(one, two) == paired_t_by_rounds(*in_rounds(np.random.default_rng(11)))
    assert (
        paired_t_by_rounds(one, {k: {n + 50: x for n, x in v.items()} for k, v in two.items()})
        is None
    )


def test_intervals_by_rounds_hold_the_truth_with_a_launch_component():
    """Twelve contrasts in one situation, launches adding 10 % of each cell's own."""
    rng = np.random.default_rng(12)
    held = 0
    for _ in range(60):
        found = []
        for _ in range(12):
            one, two = in_rounds(rng)
            luck = dict(zip(one, np.exp(rng.normal(0, 0.1, 5)), strict=True))
            one = {k: {n: luck[k] * x for n, x in v.items()} for k, v in one.items()}
            found.append(paired_t_by_rounds(one, two))
        held += sum(c.low < 1 < c.high for c in alike(found))
    assert 0.92 < held / 720 < 0.985


def test_identical_code_widens_and_forbids_nothing():
    """Identical code 4 % apart: 3 % more is no difference any more, three times is."""
    rng = np.random.default_rng(13)

    def times(x):
        return paired_t(by_launch(x * np.exp(rng.normal(0, 0.002, 5))), by_launch(np.ones(5)))

    same = heterogeneity([times(1.04), times(0.96), times(1.03)])
    assert math.sqrt(same.variance) == pytest.approx(0.037, abs=0.01) and same.degrees == 3
    found = add_components(
        [times(1.03), times(3.0), times(1.0)], ["one"] * 3, {("one", "ratio"): same}
    )
    assert found[0].p > 0.05 and found[1].p < 1e-3


def test_holm_is_the_step_down_correction():
    ps = [0.01, None, 0.04, 0.03]
    found = [p and msgspec.structs.replace(contrast_of(0.9, 1.1), p=p) for p in ps]
    assert holm(found) == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06)]


def contrast_of(low, high, count=FEWEST_LAUNCHES):
    """A contrast with about these ends."""
    rng = np.random.default_rng(6)
    noise = rng.normal(0, 1, count)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    reach = (math.log(high) - math.log(low)) / 2
    spread = reach / stats.t.ppf(0.975, count - 1) * math.sqrt(count)
    middle = (math.log(high) + math.log(low)) / 2
    return paired_t(by_launch(np.exp(middle + spread * noise)), by_launch(np.ones(count)))


@pytest.mark.parametrize(
    ("low", "high", "answer", "why"),
    [
        (0.98, 1.03, "same", ""),
        (1.02, 1.04, "same", ""),
        (1.10, 1.30, "slower", ""),
        (0.60, 0.90, "cheaper", ""),
        (0.96, 1.30, "undecided", "wide"),
        (1.03, 1.08, "slower", ""),
    ],
)
def test_the_four_answers(low, high, answer, why):
    found = contrast_of(low, high)
    judgement = judge(found, found.p, alpha=0.05, same=0.05)
    assert (judgement.answer, judgement.why, judgement.same) == (answer, why, 0.05)
    assert (judgement.slower, judgement.cheaper) == (answer == "slower", answer == "cheaper")
    if answer == "same":
        assert judgement.within == pytest.approx(max(high - 1, 1 / low - 1), rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (1.01, 1.30, "undecided"),  # without a correction the interval holds no 1
        (0.96, 1.30, "undecided"),
        (0.20, 0.30, "cheaper"),
        (3.00, 4.00, "slower"),
        (1.01, 1.04, "same"),
    ],
)
def test_the_interval_that_is_printed_agrees_with_the_answer(low, high, answer):
    found = [contrast_of(low, high), *(contrast_of(0.8, 1.2 + n / 100) for n in range(9))]
    ps = holm(found)
    judgement = judge(found[0], ps[0], alpha=0.05, same=0.05, left=left_open(ps, 0.05))
    assert judgement.answer == answer and judgement.contrast is found[0]
    shown = judgement.shown
    if answer == "same":
        assert shown is found[0] and judgement.within == shown.farthest
    else:
        assert shown.separate == judgement.differs
        assert shown.low < found[0].low and shown.high > found[0].high
        assert shown.confidence == pytest.approx(0.995, abs=1e-9), "five in a hundred over ten"
        assert shown.p == found[0].p and shown.value == found[0].value


def test_levels_are_those_of_holms_steps():
    """The second of three that differ is judged with two left, and what is open with all of it."""
    ps = [0.001, 0.02, 0.3, 0.4]
    found = [msgspec.structs.replace(contrast_of(0.9, 1.1), p=p) for p in ps]
    adjusted = holm(found)
    left = left_open(adjusted, 0.07)
    assert left == 2
    levels = [level_of(c, p, 0.07, left) for c, p in zip(found, adjusted, strict=True)]
    assert levels == [pytest.approx(0.07 / n) for n in (4, 3, 2, 2)]


def test_nothing_is_claimed_with_few_launches_or_none():
    found = contrast_of(1.5, 1.6, count=4)
    assert judge(found, found.p, alpha=0.05, same=0.05).why == "few_launches"
    assert (
        judge(contrast_of(0.99, 1.01, count=4), 1.0, alpha=0.05, same=0.05).answer == "undecided"
    ), "nor equality"
    assert judge(None, None, alpha=0.05, same=0.05, why="one_launch").why == "one_launch"


@pytest.mark.parametrize("left", [1, 60])
def test_the_launches_that_would_decide_show_a_difference_of_the_tolerance(left):
    """With a power of 80 % at the corrected significance level. At the level of one comparison the
    power was 30 % for 60 of them."""
    tolerance = math.log1p(0.05)
    found = msgspec.structs.replace(paired_t({"a": 1.0, "b": 1.01}, {"a": 1.0, "b": 1.0}), p=1.0)
    contrast = msgspec.structs.replace(found, spread=0.1, degrees=1e4, launches=5)
    judgement = judge(contrast, 1.0, alpha=ALPHA, same=0.05, left=left)
    needed, end = launches_needed(judgement), stats.norm.isf(ALPHA / left / 2)
    assert stats.norm.sf(end - tolerance / (0.1 / math.sqrt(needed))) >= 0.79
    least = detectable(judgement, 40)
    assert stats.norm.sf(end - least / (0.1 / math.sqrt(40))) >= 0.79

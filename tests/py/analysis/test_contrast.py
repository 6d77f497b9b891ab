"""Contrasts of launches against SciPy, their coverage, and the three answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from linewright.analysis.contrast import (
    FEWEST_LAUNCHES,
    QUESTIONS,
    corrected,
    holm,
    in_sequence,
    judge,
    no_surer,
    paired,
    steadied,
    unpaired,
)


def alike(rule, found):
    """Contrasts that were all measured under one condition."""
    return rule(found, ["one"] * len(found))


def test_many_quiet_launches_do_not_vouch_for_few_of_a_busy_hour():
    """Each run has its own spread: joined, 40 launches at 2 % and 5 at 20 % were called different in a third of all
    comparisons."""
    rng = np.random.default_rng(1)
    for before, after in (((40, 0.02), (5, 0.20)), ((5, 0.20), (40, 0.02)), ((5, 0.02), (5, 0.20))):
        one, two = (np.exp(rng.normal(0, spread, (2000, n))) for n, spread in (before, after))
        alarms = sum(in_sequence(b, a).p < 0.01 for a, b in zip(one, two, strict=True))
        assert stats.binom.sf(alarms - 1, 2000, 0.01) > 1e-3, (before, after)


@pytest.mark.parametrize(("count", "placed"), [(8, 0.05), (8, 0.0), (12, 0.05), (5, 0.05)])
def test_launches_at_one_placement_of_code_are_no_independent_witnesses(count, placed):
    """Thirteen forms of equal cost, each with luck of its own at each of four placements, which come again: eight
    launches were taken for eight witnesses, and a quarter of all runs held a false claim."""
    rng = np.random.default_rng(count)
    names = [str(i) for i in range(count)]
    places = {name: i % 4 for i, name in enumerate(names)}

    def measured():
        luck = rng.normal(0, placed, 4)
        return {name: math.exp(luck[places[name]] + rng.normal(0, 0.01)) for name in names}

    wrong = 0
    for _ in range(200):
        default = measured()
        found = alike(steadied, [paired(measured(), default, places=places) for _ in range(13)])
        wrong += min(p for p in corrected(found)) < 0.05
    assert stats.binom.sf(wrong - 1, 200, 0.05) > 1e-3


def test_placements_cost_nothing_where_they_make_no_difference():
    rng = np.random.default_rng(2)
    names = [str(i) for i in range(8)]
    places = {name: i % 4 for i, name in enumerate(names)}
    sides = [[{n: math.exp(rng.normal(at, 0.01)) for n in names} for at in (0.0, 0.1)] for _ in range(40)]
    apart, known = ([paired(b, a, places=of) for a, b in sides] for of in ({}, places))
    widths = [np.mean([math.log(c.high / c.low) for c in alike(steadied, side)]) for side in (apart, known)]
    assert widths[1] == pytest.approx(widths[0], rel=0.1)
    assert all(c.placed is None for c in apart) and all(c.placed.places == 4 for c in known)


def by_launch(values):
    return {f"{i:x}": float(v) for i, v in enumerate(values)}


def test_pairs_are_scipys_paired_t_test_on_log_ratios():
    rng = np.random.default_rng(1)
    a, b = 10 * np.exp(rng.normal(0, 0.1, 7)), 9 * np.exp(rng.normal(0, 0.1, 7))
    found, wanted = paired(by_launch(a), by_launch(b)), stats.ttest_rel(np.log(a), np.log(b))
    ends = wanted.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    assert found.p == pytest.approx(wanted.pvalue) and found.launches == 7 and found.paired
    plain = paired(by_launch(a), by_launch(b), "ns")
    assert plain.value == pytest.approx((a - b).mean()) and plain.scale == "ns"


def test_only_launches_that_ran_both_are_pairs():
    found = paired({"a": 1.0, "b": 2.0, "c": 3.0}, {"b": 1.0, "c": 1.6, "d": 9.0})
    assert found.launches == 2
    assert paired({"a": 1.0}, {"a": 2.0}) is None and paired({"a": 1.0}, {"b": 1.0}) is None
    assert paired({"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0}) is None, "no ratio to nothing"


def test_luck_that_falls_on_both_cancels():
    """Thirty percent between launches, the same for both sides: a true factor of 1.1 is seen, unpaired it is not."""
    rng = np.random.default_rng(2)
    luck = np.exp(rng.normal(0, 0.3, 5))
    a, b = 11 * luck * np.exp(rng.normal(0, 0.01, 5)), 10 * luck * np.exp(rng.normal(0, 0.01, 5))
    assert paired(by_launch(a), by_launch(b)).p < 1e-3 < 0.05 < unpaired(a, b).p


def test_unpaired_is_welchs_test_and_a_floor_widens_it():
    rng = np.random.default_rng(3)
    a, b = 10 * np.exp(rng.normal(0, 0.1, 6)), 10 * np.exp(rng.normal(0, 0.2, 9))
    found, wanted = unpaired(a, b), stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
    assert found.p == pytest.approx(wanted.pvalue)
    assert unpaired(a, b, floor=0.5).p > found.p
    assert unpaired([5.0], [6.0]) is None and unpaired([5.0], [6.0], floor=0.01).p < 1e-6


def test_a_drift_through_two_runs_is_no_change_and_a_step_is_one():
    rng = np.random.default_rng(4)
    alarms = seen = 0
    for _ in range(200):
        values = 10 * np.exp(0.025 * np.arange(10) + rng.normal(0, 0.01, 10))
        alarms += in_sequence(values[5:], values[:5]).p < 0.05
        seen += in_sequence(2.9 * values[5:], values[:5]).p < 0.01
    assert stats.binom.sf(alarms - 1, 200, 0.05) > 1e-3, f"{alarms} of 200"
    assert seen == 200


def test_a_lucky_row_of_launches_is_no_more_certain_than_its_neighbours():
    rng = np.random.default_rng(5)
    usual = [paired(by_launch(np.exp(rng.normal(0, 0.2, 5))), by_launch(np.ones(5))) for _ in range(6)]
    lucky = paired(by_launch(1.5 + 1e-6 * np.arange(5)), by_launch(np.ones(5)))
    *_, steady = alike(steadied, [*usual, lucky])
    assert lucky.p < 1e-9 and steady.p > 1e-4 and steady.value == pytest.approx(lucky.value)
    assert alike(steadied, [None, lucky]) == [None, lucky], "two are no kind"


def test_states_that_fell_alike_in_every_launch_are_no_difference():
    """Six conditions of eight cells, each cell 1.5 times slower in half of the launches: of five, all may fall the same
    way."""
    rng = np.random.default_rng(8)
    alarms = 0
    for _ in range(300):
        found = []
        for _ in range(6):
            cells = 1.5 ** rng.integers(0, 2, (8, 5)) * np.exp(rng.normal(0, 0.01, (8, 5)))
            found += [paired(by_launch(form), by_launch(cells[0])) for form in cells[1:]]
        steady = steadied(found, [i // 7 for i in range(len(found))])
        alarms += min(corrected(steady)) < QUESTIONS["forms"]
    assert stats.binom.cdf(alarms, 300, 0.05) < 0.05, f"{alarms} of 300"


def test_what_is_borrowed_is_borrowed_of_its_own_kind():
    rng = np.random.default_rng(9)
    noisy = [paired(by_launch(np.exp(rng.normal(0, 0.3, 5))), by_launch(np.ones(5))) for _ in range(3)]
    quiet = [paired(by_launch(np.exp(rng.normal(0, 0.01, 5))), by_launch(np.ones(5))) for _ in range(3)]
    mixed = [c for pair in zip(noisy, quiet, strict=True) for c in pair]
    for rule in (steadied, no_surer):
        assert rule(mixed, ["noisy", "quiet"] * 3)[1::2] == alike(rule, quiet)


def test_a_wider_spread_than_usual_is_kept():
    rng = np.random.default_rng(6)
    usual = [paired(by_launch(np.exp(rng.normal(0, 0.02, 5))), by_launch(np.ones(5))) for _ in range(6)]
    wild = paired(by_launch(np.exp(rng.normal(0.3, 0.3, 5))), by_launch(np.ones(5)))
    assert alike(steadied, [*usual, wild])[-1] == wild
    assert alike(no_surer, [*usual, wild])[-1] == wild


def test_unlike_cells_borrow_doubt_alone():
    rng = np.random.default_rng(7)
    usual = [paired(by_launch(np.exp(rng.normal(0, 0.1, 5))), by_launch(np.ones(5))) for _ in range(6)]
    for before, after in zip(usual, alike(no_surer, usual), strict=True):
        assert after.p >= before.p and after.value == pytest.approx(before.value)


def test_holm_is_the_step_down_correction():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert corrected([None]) == [None]


def contrast_of(low, high, count=FEWEST_LAUNCHES):
    """A contrast with about these ends."""
    rng = np.random.default_rng(6)
    noise = rng.normal(0, 1, count)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    reach = (math.log(high) - math.log(low)) / 2
    spread = reach / stats.t.ppf(0.975, count - 1) * math.sqrt(count)
    middle = (math.log(high) + math.log(low)) / 2
    return paired(by_launch(np.exp(middle + spread * noise)), by_launch(np.ones(count)))


@pytest.mark.parametrize(
    ("low", "high", "answer", "why"),
    [
        (0.98, 1.03, "same", ""),
        (1.02, 1.04, "same", ""),
        (1.10, 1.30, "different", ""),
        (0.60, 0.90, "different", ""),
        (0.96, 1.30, "undecided", "wide"),
        (1.03, 1.08, "undecided", "noise_floor"),
    ],
)
def test_the_three_answers(low, high, answer, why):
    found = contrast_of(low, high)
    judged = judge(found, found.p, alpha=0.05, same=0.05, floor=0.04)
    assert (judged.answer, judged.why) == (answer, why)
    assert judged.slower == (answer == "different" and low > 1) and judged.cheaper == (
        answer == "different" and low < 1
    )
    if answer == "same":
        assert judged.within == pytest.approx(max(high - 1, 1 / low - 1), rel=1e-6)


def test_nothing_is_claimed_with_few_launches_or_none():
    found = contrast_of(1.5, 1.6, count=4)
    assert judge(found, found.p, alpha=0.05, same=0.05).why == "few_launches"
    assert judge(contrast_of(0.99, 1.01, count=4), 1.0, alpha=0.05, same=0.05).answer == "undecided", "nor equality"
    assert judge(None, None, alpha=0.05, same=0.05, why="one_launch").why == "one_launch"

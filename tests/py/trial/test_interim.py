# SPDX-License-Identifier: MIT
"""Trials of settings: no false claims beyond the promised rate whatever the number of interim
analyses; planted differences found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from linewright.analysis.comparison import ALPHA, Obstacle
from linewright.trial.interim_analysis import (
    alpha_at,
    analyse,
    cumulative_alpha,
    interim_rounds,
    schedule,
)


def trial(rng, changes, planned=24, noise=0.01, drift=0.05, **options):
    """Run settings with the given relative changes until analyse() says stop; drift from round to
    round is common to all."""
    runs, verdict = {f"s{i}": {} for i in range(len(changes))}, None
    for number in range(planned):
        common = math.exp(rng.normal(0, drift))
        for own, change in zip(runs.values(), changes, strict=True):
            own[number] = common * (1 + change) * math.exp(rng.normal(0, noise))
        verdict = analyse(runs, planned, **options)
        if verdict.stop:
            return verdict
    return verdict


def test_every_round_runs_every_setting_once_in_random_order():
    order = schedule(["a", "b", "c"], 200, seed=3)
    rounds = [[s for n, s in order if n == number] for number in range(200)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    first = [r[0] for r in rounds]
    assert all(40 < first.count(s) < 95 for s in "abc")
    assert order == schedule(["a", "b", "c"], 200, seed=3) != schedule(["a", "b", "c"], 200, seed=4)


@pytest.mark.parametrize("planned", [10, 24, 100])
def test_the_looks_spend_the_error_rate_and_no_more(planned):
    assert sum(alpha_at(n, planned) for n in interim_rounds(planned)) == pytest.approx(ALPHA)
    assert cumulative_alpha(1.0) == pytest.approx(ALPHA) and cumulative_alpha(0) == 0
    assert alpha_at(planned, planned) > 0.4 * ALPHA, "most is kept for the end"


@pytest.mark.parametrize("others", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_program_tried_against_itself_differs_at_most_as_often_as_promised(others):
    rng = np.random.default_rng(others)
    trials = 200
    wrong = sum(
        any(c.differs for c in trial(rng, [0.0] * (others + 1), precision=1e-9).comparisons)
        for _ in range(trials)
    )
    assert stats.binom.sf(wrong - 1, trials, ALPHA) > 1e-3, wrong


def test_a_planted_slow_down_of_two_percent_is_found_and_zero_percent_is_not():
    rng = np.random.default_rng(9)
    for _ in range(20):
        slow, same = trial(
            rng, [0.0, 0.02, 0.0], planned=40, noise=0.008, precision=1e-9
        ).comparisons
        assert slow.slower and 1 < slow.contrast.low < 1.02 < slow.contrast.high < 1.04
        assert not same.differs and same.contrast.low < 1 < same.contrast.high


def test_it_stops_early_when_the_answer_is_clear():
    found = trial(np.random.default_rng(10), [0.0, 0.3], planned=40)
    assert (found.stop, found.why) == (True, "clear") and found.rounds < 40
    assert found.comparisons[0].contrast.value == pytest.approx(1.3, rel=0.03)


def test_it_stops_when_precise_enough_and_claims_nothing():
    found = trial(np.random.default_rng(11), [0.0, 0.0], planned=60, noise=0.002, precision=0.01)
    assert found.why == "precise" and found.rounds < 60 and not found.comparisons[0].differs


@pytest.mark.parametrize(("percent", "same"), [(0.0, True), (4.0, False), (-12.0, False)])
def test_what_is_shown_to_be_within_five_percent_is_the_same(percent, same):
    found = trial(np.random.default_rng(3), [0.0, percent / 100], noise=0.002).comparisons[0]
    assert (found.answer == "same") == same == (found.within is not None)
    if same:
        assert found.contrast.farthest == found.within <= 0.05


def test_an_interval_excludes_no_change_exactly_where_a_difference_is_claimed():
    """Whatever Holm's steps are: nine settings, some of which differ by little."""
    rng, answers = np.random.default_rng(8), set()
    for _ in range(40):
        for c in trial(rng, [0.0] * 5 + [0.01] * 5, planned=20, precision=1e-9).comparisons:
            assert c.differs == c.contrast.separate
            answers.add(c.differs)
    assert answers == {True, False}


def test_between_looks_nothing_is_claimed():
    runs = {s: {n: v + 0.001 * n for n in range(7)} for s, v in (("a", 1.0), ("b", 9.0))}
    found = analyse(runs, planned=20)
    assert not found.interim and not found.stop and not found.comparisons[0].differs
    assert found.comparisons[0].contrast.value > 8 and not found.rounds_needed


def test_higher_is_better_turns_the_judgement():
    found = trial(np.random.default_rng(12), [0.0, 0.1], higher_is_better=True)
    assert found.comparisons[0].cheaper


def test_failed_runs_are_counted_and_never_averaged_in():
    rng = np.random.default_rng(13)
    runs = {s: dict(enumerate(np.exp(rng.normal(0, 0.01, 20)))) for s in "ab"}
    runs["b"] |= dict.fromkeys(range(0, 20, 5))
    found = analyse(runs, planned=20)
    assert (found.settings[1].runs, found.settings[1].failed) == (20, 4)
    assert found.comparisons[0].contrast.launches == 16
    assert found.settings[1].median == pytest.approx(1, rel=0.02)
    runs["b"] = {n: value if n < 5 else None for n, value in runs["b"].items()}
    assert analyse(runs, planned=20).rounds_needed == {"b": 35}, "4 of 20 have figures, 7 must"
    runs["b"] = dict.fromkeys(range(20))
    assert not analyse(runs, planned=20).rounds_needed, "no number of rounds would decide"
    (none,) = analyse({"a": {}, "b": {}}, planned=20).comparisons
    assert none.answer == "undecided" and none.obstacle == Obstacle("few_rounds", what="0")


def test_a_bimodal_program_is_recognised():
    rng = np.random.default_rng(14)
    runs = {s: dict(enumerate(np.exp(rng.normal(0, 0.01, 30)))) for s in "ab"}
    runs["b"] = {n: value * 1.6 ** rng.integers(0, 2) for n, value in runs["b"].items()}
    a, b = analyse(runs, planned=30).settings
    assert len(a.modes) == 1 and [round(m.median_ns, 1) for m in b.modes] == [1.0, 1.6]

"""Trials of settings: no false claims beyond the promised rate whatever the number of interim analyses; planted
differences found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from linewright.analysis.paired import (
    ALPHA,
    Run,
    hodges_lehmann,
    interim_rounds,
    judge,
    level,
    schedule,
    spent,
)


def trial(rng, changes, planned=24, noise=0.01, drift=0.05, **options):
    """Run settings with the given relative changes until judge() says stop; round by round drift is common to all."""
    names = [f"s{i}" for i in range(len(changes))]
    runs, verdict = [], None
    for number in range(planned):
        common = math.exp(rng.normal(0, drift))
        for name, change in zip(names, changes, strict=True):
            runs.append(
                Run(setting=name, round=number, value=float(common * (1 + change) * math.exp(rng.normal(0, noise))))
            )
        verdict = judge(runs, names, planned, **options)
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
    assert sum(level(n, planned) for n in interim_rounds(planned)) == pytest.approx(ALPHA)
    assert spent(1.0) == pytest.approx(ALPHA) and spent(0) == 0
    assert level(planned, planned) > 0.4 * ALPHA, "most is kept for the end"


@pytest.mark.parametrize("n", [6, 9, 15, 40])
def test_the_interval_agrees_with_scipys_wilcoxon_test(n):
    """0 is outside the interval exactly when SciPy's exact test rejects it."""
    rng = np.random.default_rng(n)
    seen = set()
    for shift in np.linspace(0, 1.5, 40):
        d = rng.normal(shift, 1, n)
        found = hodges_lehmann(d, 0.95)
        rejected = stats.wilcoxon(d, method="exact").pvalue <= 0.05
        assert (found[1] > 0 or found[2] < 0) == rejected
        assert found[1] <= found[0] <= found[2]
        seen.add(rejected)
    assert seen == {True, False}


def test_too_few_rounds_give_no_interval():
    assert hodges_lehmann([], 0.95) is None
    assert hodges_lehmann([1.0, 2.0, 3.0], 0.95) is None
    wide = hodges_lehmann(np.random.default_rng(1).normal(0, 1, 80), 0.95)
    assert wide[1] < wide[0] < wide[2]


@pytest.mark.parametrize("others", [1, 3])
def test_a_program_tried_against_itself_differs_at_most_as_often_as_promised(others):
    rng = np.random.default_rng(others)
    trials = 200
    wrong = sum(
        any(c.different for c in trial(rng, [0.0] * (others + 1), precision=1e-9).comparisons) for _ in range(trials)
    )
    assert stats.binom.sf(wrong - 1, trials, ALPHA) > 1e-3, wrong


def test_a_planted_slow_down_of_two_percent_is_found_and_zero_percent_is_not():
    rng = np.random.default_rng(9)
    for _ in range(20):
        slow, same = trial(rng, [0.0, 0.02, 0.0], planned=40, noise=0.008, precision=1e-9).comparisons
        assert slow.different and slow.better is False
        assert 0 < slow.change_percent.low < 2 < slow.change_percent.high < 4
        assert not same.different and same.better is None
        assert same.change_percent.low < 0 < same.change_percent.high


def test_it_stops_early_when_the_answer_is_clear():
    found = trial(np.random.default_rng(10), [0.0, 0.3], planned=40)
    assert (found.stop, found.why) == (True, "clear") and found.rounds < 40
    assert found.comparisons[0].change_percent.value == pytest.approx(30, rel=0.1)


def test_it_stops_when_precise_enough_and_claims_nothing():
    found = trial(np.random.default_rng(11), [0.0, 0.0], planned=60, noise=0.002, precision=0.01)
    assert found.why == "precise" and found.rounds < 60 and not found.comparisons[0].different


@pytest.mark.parametrize(("percent", "same"), [(0.0, True), (4.0, False), (-12.0, False)])
def test_what_is_shown_to_be_within_five_percent_is_the_same(percent, same):
    found = trial(np.random.default_rng(3), [0.0, percent / 100], noise=0.002).comparisons[0]
    assert (found.within_percent is not None) == same
    if same:
        assert max(abs(found.change_percent.low), abs(found.change_percent.high)) == found.within_percent <= 5


def test_between_looks_nothing_is_claimed():
    runs = [Run(setting=s, round=n, value=v + 0.001 * n) for n in range(7) for s, v in (("a", 1.0), ("b", 9.0))]
    found = judge(runs, ["a", "b"], planned=20)
    assert not found.interim and not found.stop and not found.comparisons[0].different
    assert found.comparisons[0].change_percent.value > 700


def test_higher_is_better_turns_the_judgement():
    found = trial(np.random.default_rng(12), [0.0, 0.1], higher_is_better=True)
    assert found.comparisons[0].better is True


def test_failed_runs_are_counted_and_never_averaged_in():
    rng = np.random.default_rng(13)
    runs = []
    for n in range(20):
        runs.append(Run(setting="a", round=n, value=float(np.exp(rng.normal(0, 0.01)))))
        failed = n % 5 == 0
        value = None if failed else float(np.exp(rng.normal(0, 0.01)))
        runs.append(Run(setting="b", round=n, value=value, reason="exit 1" if failed else ""))
    found = judge(runs, ["a", "b"], planned=20)
    assert (found.settings[1].runs, found.settings[1].failed, found.comparisons[0].rounds) == (20, 4, 16)
    assert found.settings[1].median == pytest.approx(1, rel=0.02)
    assert judge([], ["a", "b"], planned=20).comparisons[0].change_percent is None


def test_a_bimodal_program_is_recognised():
    rng = np.random.default_rng(14)
    runs = []
    for n in range(30):
        runs.append(Run(setting="a", round=n, value=float(np.exp(rng.normal(0, 0.01)))))
        runs.append(
            Run(setting="b", round=n, value=float((1.0 if rng.random() < 0.5 else 1.6) * np.exp(rng.normal(0, 0.01))))
        )
    a, b = judge(runs, ["a", "b"], planned=30).settings
    assert len(a.modes) == 1 and [round(m.median_ns, 1) for m in b.modes] == [1.0, 1.6]

"""Comparisons find what was planted, and nothing in a run compared with itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from linewright.analysis import summarise
from linewright.compare.changes import benjamini_hochberg, compare, false_alarms, worse_than
from support.analysis_samples import cell, context, contexts_of, launches, published, record


def run(rng, medians, **options):
    records = [r for work, m in enumerate(medians) for r in launches(cell("stadd", work_iters=work), m, rng, **options)]
    return summarise(contexts_of(records), records)


def test_a_run_against_its_like_has_no_difference_at_the_promised_rate():
    """Family-wise: of 120 comparisons of 20 cells each, at most one in twenty may name any cell."""
    rng = np.random.default_rng(1)
    medians = np.linspace(5, 50, 12)
    options = dict(windows=8, between=0.05)
    wrong = sum(
        any(c.finding != "no_difference" for c in compare(run(rng, medians, **options), run(rng, medians, **options)))
        for _ in range(60)
    )
    assert stats.binom.sf(wrong - 1, 60, 0.05) > 1e-3, wrong


def test_planted_changes_are_found_and_sorted_by_size():
    rng = np.random.default_rng(2)
    before, after = [10.0, 20.0, 30.0, 40.0], [10.0, 24.0, 27.0, 40.0]
    changes = compare(run(rng, before, between=0.005), run(rng, after, between=0.005))
    assert [(c.cell.work_iters, c.finding) for c in changes[:2]] == [(1, "slower"), (2, "faster")]
    assert {c.finding for c in changes[2:]} == {"no_difference"}
    assert changes[0].ratio.low < 1.2 < changes[0].ratio.high
    assert worse_than(changes, 0.05) == changes[:1] and not worse_than(changes, 0.5)


def test_one_launch_alone_does_not_turn_launch_luck_into_a_change():
    """Two runs of one launch each, 1 % apart with windows a tenth of that wide: launch luck, not a change."""
    rng = np.random.default_rng(3)
    one = run(rng, [5.00], count=1, between=0, within=0.001, windows=64)
    assert compare(one, run(rng, [5.05], count=1, between=0, within=0.001, windows=64))[0].finding == "no_difference"
    assert compare(one, run(rng, [5.50], count=1, between=0, within=0.001, windows=64))[0].finding == "slower"


def test_what_cannot_be_compared_says_why():
    rng = np.random.default_rng(4)
    good = run(rng, [5.0])
    missing = [record(cell("stadd", work_iters=0), status="unavailable", reason="no lse here")]
    (change,) = compare(good, summarise([context()], missing))
    assert (change.finding, change.ratio, change.reason) == (
        "not_comparable", None, "after: status unavailable (no lse here)",
    )  # fmt: skip
    table = summarise(*published())
    assert {c.reason for c in compare(table, table)} == {"before: no windows, only percentiles"}
    emulated = summarise([context(emulated=True)], [record(cell("stadd"), [5.0] * 9)])
    assert "emulator" in compare(emulated, emulated)[0].reason
    assert compare(good, []) == []


def test_two_machines_on_one_side_are_refused():
    records = [record(cell("stadd"), [5.0] * 9, c * 16) for c in "ab"]
    both = summarise([context("a" * 16, "1" * 16), context("b" * 16, "2" * 16)], records)
    with pytest.raises(ValueError, match="two machines"):
        compare(both, both)


def test_benjamini_hochberg_agrees_with_scipy():
    p = np.random.default_rng(5).random(40) ** 2
    assert benjamini_hochberg(list(p)) == pytest.approx(stats.false_discovery_control(p, method="bh"))


def test_corrections_differ_as_they_should():
    rng = np.random.default_rng(6)
    before = run(rng, [10.0] * 30, between=0.01)
    after = run(rng, [10.0 if i % 3 else 10.4 for i in range(30)], between=0.01)
    found = {
        how: sum(c.finding != "no_difference" for c in compare(before, after, correction=how))
        for how in ("holm", "bh", "none")
    }
    assert found["holm"] <= found["bh"] <= found["none"] and found["bh"] > 0


def test_splitting_recorded_cells_raises_alarms_at_the_promised_rate():
    rng = np.random.default_rng(7)
    found = false_alarms(run(rng, [10.0] * 40, count=12, windows=10), splits=10)
    assert found.trials == 400 and found.low <= 0.05, found
    planted = run(rng, [10.0], count=12)
    assert false_alarms(planted, splits=1).trials == 1
    assert false_alarms([], splits=5).high == 1.0

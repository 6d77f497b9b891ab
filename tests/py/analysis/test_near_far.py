"""Near and far are told apart by cost alone, line by line; what straddles a bound stays undecided."""

from __future__ import annotations

import numpy as np
import pytest

from linewright.analysis import summarise, verdict
from linewright.analysis.near_far import crossovers, line_class, near_far
from linewright.schema import Interval
from support.analysis_samples import cell, context, contexts_of, record


def about(value, half=0.02):
    return Interval(median_ns=value, low_ns=value * (1 - half), high_ns=value * (1 + half))


def sweep(form, back_to_back, exposed, far_lines=(), seed=1, context_id="00000000000000aa"):
    """Back to back and with 200 iterations of work; `far_lines` cost `back_to_back[1]`, the others `[0]`."""
    rng = np.random.default_rng(seed)
    far = np.isin(np.arange(64) % 32, far_lines)
    noise = lambda: np.exp(rng.normal(0, 0.005, 64))
    plain = np.where(far, back_to_back[1], back_to_back[0]) * noise()
    empty = 62.0 * noise()
    loaded = empty + np.where(far, exposed[1], exposed[0]) * noise()
    return [
        record(cell(form), plain, context_id, cpus=[3]),
        record(cell(form, work_iters=200), loaded, context_id, cpus=[3], baseline_ns=empty.tolist()),
    ]


def classes(records):
    return {c.form: c for c in near_far([context()], records)}


def test_a_posted_far_add_a_waited_one_and_a_near_one():
    """63.65 ns back to back and 0 exposed under work: far and posted, as the published store form was."""
    every = range(32)
    found = classes(
        sweep("stadd", (0, 63.65), (0, 0.3), every) + sweep("prfm_strm_stadd", (3.97, 0), (1.0, 0), seed=2)
        + sweep("ldadd", (0, 69.6), (0, 66.0), every, seed=3)
    )  # fmt: skip
    assert {form: c.where for form, c in found.items()} == {
        "stadd": "far_posted", "prfm_strm_stadd": "near", "ldadd": "far_waited",
    }  # fmt: skip
    assert found["stadd"].far == 32 and found["stadd"].cpu == 3 and len(found["stadd"].lines) == 32


def test_lines_with_far_homes_are_told_from_near_ones():
    found = classes(
        sweep("stadd", (5.8, 29.0), (2.0, 0.2), range(12)) + sweep("llsc_add", (6.6, 6.6), (3.0, 3.0), seed=2)
    )
    assert (found["stadd"].where, found["stadd"].near, found["stadd"].far) == ("mixed", 20, 12)
    assert found["llsc_add"].where == "near"


def test_the_verdict_says_which_forms_are_far():
    records = sweep("stadd", (0, 63.65), (0, 0.3), range(32)) + sweep("ldadd", (4.3, 4.3), (1.0, 1.0), seed=2)
    summaries = summarise([context()], records)
    assert {s.cell.form: (s.nearness, s.near_lines, s.far_lines) for s in summaries if not s.cell.work_iters} == {
        "stadd": ("far_posted", 0, 32), "ldadd": ("near", 32, 0),
    }  # fmt: skip
    text = verdict(summaries, [context()])
    assert "From CPU 3, stadd: performed far and posted (32 of 32 lines far" in " ".join(text) and len(text) <= 3


def test_without_a_work_sweep_a_dear_form_is_undecided():
    found = classes([sweep("stadd", (0, 63.0), (0, 0), range(32))[0], sweep("llsc_add", (6, 6), (3, 3), seed=2)[0]])
    assert (found["stadd"].where, found["llsc_add"].where) == ("undecided", "near")


@pytest.mark.parametrize(
    ("back", "exposed", "where"),
    [
        (about(4.0), about(1.0), "near"),
        (about(64.0), about(0.2), "far_posted"),
        (about(64.0), about(60.0), "far_waited"),
        (about(64.0), about(32.0), "undecided"),
        (about(64.0), None, "undecided"),
        (Interval(median_ns=9, low_ns=4, high_ns=30), about(0.1), "undecided"),
    ],
)
def test_the_rule(back, exposed, where):
    assert line_class(back, exposed, cheapest=about(4.0), cycle_ns=0.31) == where


def test_emulated_times_classify_nothing():
    records = sweep("stadd", (5, 5), (1, 1))
    assert near_far([context(emulated=True)], records) == []
    assert near_far([], records) == []


def test_crossover_with_margins_on_both_sides():
    rng = np.random.default_rng(4)
    records = []
    for work, a, b in ((0, 64.0, 4.0), (100, 64.0, 35.0), (200, 68.0, 67.9), (300, 95.0, 110.0)):
        for form, ns in (("stadd", a), ("ldadd", b)):
            records += [record(cell(form, work_iters=work), ns * np.exp(rng.normal(0, 0.01, 64)))]
    (found,) = crossovers(summarise(contexts_of(records), records))
    assert (found.cheaper_below, found.below, found.cheaper_above, found.above) == ("ldadd", 100, "stadd", 300)
    assert found.margin_below_ns == pytest.approx(29, rel=0.05) and found.margin_above_ns == pytest.approx(15, rel=0.1)


def test_no_crossover_within_noise():
    rng = np.random.default_rng(5)
    records = [
        record(cell(form, work_iters=work), 50 * np.exp(rng.normal(0, 0.02, 64)))
        for form in ("stadd", "ldadd") for work in (0, 10, 20, 100, 200, 300)
    ]  # fmt: skip
    assert crossovers(summarise(contexts_of(records), records)) == []

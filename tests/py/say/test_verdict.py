# SPDX-License-Identifier: MIT
"""The verdict on machines whose truth is known: what is true is said, and nothing that the records
do not show."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from linewright.analysis import findings, summarise
from linewright.analysis.findings import crossovers
from linewright.say.document import render
from linewright.say.phrases import answer_text, runs_of
from linewright.say.verdict import verdict_sentences
from linewright.schema import Quantiles
from support.analysis_samples import (
    cell,
    constructed,
    contexts_of,
    points,
    published,
    record,
    together,
)
from support.said import verdict


def at(found, **fields):
    return [f for f in found if all(getattr(f, k) == v for k, v in fields.items())]


def judgement(found):
    return {r.first.form: r.answer for r in found.rows}


def spoken(records, **context):
    contexts = contexts_of(records, **context)
    return " ".join(verdict(summarise(contexts, records), contexts))


def found_in(records, **context):
    return findings(summarise(contexts_of(records, **context), records))


# ---- published tables --------------------------------------------------------------------------


def test_of_a_published_table_only_percentiles_that_do_not_overlap_differ():
    """p50 - (p95 - p50) reaches -135 ns: percentiles are no interval, and "alike within noise" hid
    a factor of 13."""
    contexts, records = published()
    summaries = summarise(contexts, records)
    assert all(s.published and s.exposed is None and s.issue.confidence == 0 for s in summaries)
    assert all(s.issue.low_ns == s.issue.median_ns == s.issue.high_ns for s in summaries)
    batches = {s.id: s.batch for s in summaries}
    for f in findings(summaries):
        for row in f.rows:
            ours, other = batches[row.first.id], batches[f.side.id]
            apart = ours.p50_ns > other.p99_ns or other.p50_ns > ours.p99_ns
            assert row.differs == apart
            assert row.differs or row.why == "published"
    text = " ".join(verdict(summaries, contexts))
    assert "ldadd 12.5, stadd 115, prfm_keep_stadd 126, llsc_add 164 ns, 13 times" in text
    assert "median of one lies above the 99th percentile" in text and "alike" not in text


def test_equal_published_forms_are_never_apart_and_a_planted_difference_is():
    """100 means of equal forms, with 5 % between means: 400 tables; and one form 40 % slower."""
    chance = np.random.default_rng(7)

    def table(slower: float) -> set[str]:
        records = []
        for form, factor in (("stadd", slower), ("ldadd", 1.0)):
            p50, p95, p99 = np.percentile(factor * chance.normal(10, 0.5, 100), [50, 95, 99])
            costs = {"p50_ns": p50, "p95_ns": p95, "p99_ns": p99, "max_ns": p99, "histogram": []}
            batch = Quantiles(of="batch_means", ops_per_sample=1, samples=100, **costs)
            records.append(record(cell(form), (), batch=batch))
        found = findings(summarise(contexts_of(records), records))
        return {r.answer for f in found for r in f.rows}

    assert all(table(1.0) == {"undecided"} for _ in range(400))
    assert all(table(1.4) == {"slower"} for _ in range(50))


# ---- what is true must be found ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("medians", "answers"),
    [
        (
            {"stadd": 29.0, "llsc_add": 6.6, "ldadd": 69.6},
            {"stadd": "cheaper", "llsc_add": "cheaper"},
        ),
        ({"ldadd": 5.0, "llsc_add": 7.3}, {"llsc_add": "slower"}),
        ({"ldadd": 5.0, "llsc_add": 5.02}, {"llsc_add": "same"}),
    ],
)
def test_machines_on_which_the_answer_differs(medians, answers):
    contexts, records = constructed(medians, "00000000000000c1")
    for found in findings(summarise(contexts, records)):
        assert (found.default, judgement(found)) == ("ldadd", answers)


def test_a_contended_class_never_vanishes_behind_others():
    """Contended, the store form is 18 times cheaper; a cap of three sentences once left only what
    recommends LDADD."""
    rng = np.random.default_rng(1)
    forms = {"ldadd": 4.0, "stadd": 60.0, "llsc_add": 6.0}
    records = together(
        points(forms, contended={"ldadd": 90.0, "stadd": 5.0, "llsc_add": 160.0}), rng
    )
    for spacing in (100, 1000, 10_000):
        shared = dict(contender="same_line", contender_iters=spacing, threads=2, lines=8)
        records += together([(cell(form, **shared), ns) for form, ns in forms.items()], rng)
    text = spoken(records)
    assert "With a second CPU: back to back, add: stadd takes 5" in text
    assert text.count("With a second CPU, spacing") == 3


def test_an_alone_and_a_contended_winner_are_both_named():
    rng = np.random.default_rng(2)
    contended = {"lock_xadd": 16.0, "cmpxchg_loop_read_first": 39.0, "prefetchw_lock_xadd": 10.0}
    text = spoken(
        together(points({"lock_xadd": 5.0, "prefetchw_lock_xadd": 9.0}, contended=contended), rng),
        arch="x86_64",
    )
    assert (
        "Alone: back to back, fetch_add: lock_xadd takes" in text
        and "prefetchw_lock_xadd costs more" in text
    )
    assert re.search(r"prefetchw_lock_xadd takes 10\.\d ns, \d+ to \d+ % less than lock_xadd", text)


def test_the_crossover_is_named_and_rests_on_launches():
    rng = np.random.default_rng(7)
    costs = []
    for work in (0, 10, 20, 100, 200):
        costs += [
            (cell("stadd", work_iters=work), max(60.0 - 0.5 * work, 0.2)),
            (cell("ldadd", work_iters=work), 15.0),
        ]
    records = together(costs, rng)
    (found,) = [c for c in crossovers(found_in(records)) if c.axis == "work_iters"]
    assert [c.cheapest.form for c in (found.below, found.above)] == ["ldadd", "stadd"]
    assert found.ends == (20, 100)
    assert found.below.difference.median_ns == pytest.approx(35, rel=0.1)
    assert re.search(
        r"ldadd is cheaper up to 20 units of work, by .* ns; stadd from 100 \(about .* ns\), by ",
        spoken(records),
    )
    lone = [r for r in records if r.launch == 0]
    assert crossovers(found_in(lone)) == [], "one launch has its own luck"


def test_distrusted_cells_make_no_crossover():
    rng = np.random.default_rng(8)
    costs = [
        (cell(f, work_iters=w), ns)
        for w, a, b in ((0, 60.0, 4.0), (100, 4.0, 60.0))
        for f, ns in (("stadd", a), ("ldadd", b))
    ]
    records = [
        msgspec.structs.replace(r, flags=["doubled"]) if r.cell.work_iters else r
        for r in together(costs, rng)
    ]
    assert crossovers(found_in(records)) == []


# ---- what is not shown must not be said --------------------------------------------------------


def test_one_launch_and_few_launches_are_not_judged():
    rng = np.random.default_rng(5)
    for count, why in ((1, "one_launch"), (4, "few_launches")):
        records = together(points({"ldadd": 90.0, "stadd": 10.0}), rng, count=count)
        (found,) = found_in(records)
        assert {r.why for r in found.rows} == {why}
        assert "launches=5" in spoken(records)


def test_forms_that_are_undecided_for_one_reason_have_it_once():
    forms = {"ldadd": 9.0, "stadd": 9.0, "prfm_pstl1keep_stadd": 9.0, "llsc_add": 9.0}
    rng = np.random.default_rng(5)
    (found,) = found_in(together(points(forms), rng, count=4))
    assert answer_text(found).endswith(
        "; undecided: stadd, prfm_pstl1keep_stadd and llsc_add (fewer than 5 launches)"
    )
    (found,) = found_in(together(points(forms | {"prfm_pstl1keep_ldadd": 9.0}), rng, count=4))
    assert answer_text(found).endswith("; undecided: all 4 others (fewer than 5 launches)")


def test_uncontended_cells_need_launches_as_well():
    """Identical code alone differed with p < 0.05 in 16 of 45 comparisons when lines of one launch
    were the unit."""
    windows = 10 * np.exp(np.random.default_rng(1).normal(0, 0.001, 64))
    records = [record(cell("ldadd"), windows), record(cell("stadd"), windows * 1.2)]
    assert [r.answer for f in found_in(records) for r in f.rows] == ["undecided"]


def test_forms_that_part_along_the_sweep_are_not_called_the_same_throughout():
    """LL/SC is 50 % more expensive from 300 units on; a span from 0 to 311 once called both
    alike."""
    rng = np.random.default_rng(6)
    costs = []
    for work in (0, 20, 300, 311):
        costs += [
            (cell("ldadd", work_iters=work), 10.0),
            (cell("llsc_add", work_iters=work), 10.0 if work < 300 else 15.0),
        ]
    records = together(costs, rng, within=0.005, shared=0.02)
    found = sorted(found_in(records), key=lambda f: f.situation.work_iters)
    assert [judgement(f)["llsc_add"] for f in found] == ["same", "same", "slower", "slower"]
    assert [[f.situation.work_iters for f in run] for run in runs_of(found)] == [
        [0],
        [20],
        [300, 311],
    ], "issue and exposed apart"
    text = spoken(records)
    assert "from 300 to 311 units of work" in text and "from 0 to" not in text


def test_what_is_undecided_says_what_remains_possible_and_what_would_help():
    rng = np.random.default_rng(9)
    text = spoken(together(points({"ldadd": 10.0, "stadd": 10.0}), rng, own=0.05))
    assert re.search(
        r"Undecided: add alone: [+-]\d+(\.\d)? to [+-]\d+(\.\d)? % remains possible", text
    )
    assert "would decide them" in text
    wild = spoken(together(points({"ldadd": 10.0, "stadd": 10.0}), rng, own=0.6))
    assert "even 40 launches would show no" in wild and "would decide" not in wild


def test_exposed_costs_need_launches_by_their_tolerance_in_ns():
    """Once 5 % was taken for 0.05 ns: "more launches would not decide them" in 39 of 40 runs."""
    costs = points({"ldadd": 10.0, "stadd": 10.0}, works=(20,))
    text = spoken(together(costs, np.random.default_rng(3), own=0.04))
    asked = re.search(r"about (\d+) launches would decide them", text)
    assert asked and int(asked[1]) <= 40, text
    more = spoken(together(costs, np.random.default_rng(3), count=2 * int(asked[1]), own=0.04))
    assert "Undecided" not in more
    wild = spoken(together(costs, np.random.default_rng(3), own=0.4))
    assert re.search(r"even 40 launches would show no difference below about \d+(\.\d+)? ns", wild)


def test_a_bimodal_baseline_makes_the_operation_neither_metastable_nor_different():
    rng = np.random.default_rng(10)
    records = together(points({"ldadd": 10.0, "stadd": 10.0}, works=(200,)), rng, count=16)
    slow = []
    for r in records:
        extra = 40.0 if r.launch % 3 == 0 else 0.0
        slow.append(
            msgspec.structs.replace(
                r,
                window_ns=[w + extra for w in r.window_ns],
                baseline_ns=[b + extra for b in r.baseline_ns],
            )
        )
    summaries = summarise(contexts_of(slow), slow)
    assert not any(s.metastable for s in summaries)
    assert all(r.answer == "same" for f in findings(summaries) for r in f.rows)
    truly = together(
        points({"ldadd": 10.0, "stadd": 10.0}, works=(200,)), rng, count=16, states=3.0
    )
    assert all(s.metastable for s in summarise(contexts_of(truly), truly)), (
        "what is metastable is still found"
    )


def test_per_cpu_operations_are_judged_alone():
    """No second CPU uses their words: a contended point of a shared counter says nothing about a
    per-CPU one."""
    rng = np.random.default_rng(11)
    costs = []
    for form, alone, both in (("percpu_shared_c11_add", 5.0, 16.0), ("percpu_rseq_add", 0.6, 30.0)):
        own = dict(operation="percpu_add", params={"slots": 1})
        costs += [
            (cell(form, **own), alone),
            (cell(form, contender="same_line", threads=2, **own), both),
        ]
    (found,) = found_in(together(costs, rng))
    assert found.situation.contender == "none" and found.best.first.form == "percpu_rseq_add"


def test_the_floor_is_never_recommended():
    contexts, records = constructed(
        {"plain_add": 0.4, "lock_add": 5.0, "lock_xadd": 9.0}, "00000000000000c3"
    )
    found = findings(summarise(contexts, records))
    assert {f.default for f in found} == {"lock_add"} and {
        r.first.form for f in found for r in f.rows
    } == {"lock_xadd"}
    assert "plain_add" not in " ".join(verdict(summarise(contexts, records), contexts))


def test_a_value_returning_form_serves_an_add_but_not_the_other_way():
    contexts, records = constructed({"stadd": 3.0, "ldadd": 9.0}, "00000000000000c2")
    assert {f.operation for f in findings(summarise(contexts, records))} == {"add"}, (
        "one fetch_add form alone is no choice"
    )


def test_a_form_that_starves_its_contender_is_pointed_out():
    rng = np.random.default_rng(8)
    shared = dict(contender="same_line", threads=2, lines=8)
    records = [
        msgspec.structs.replace(
            r, total_mops=(20.0 if r.cell.form == "stadd" else 30.0) + 0.1 * r.launch
        )
        for r in together([(cell("stadd", **shared), 40.0), (cell("ldadd", **shared), 60.0)], rng)
    ]
    (found,) = found_in(records)
    assert found.best.first.form == "stadd" and "stadd" in found.lost_rates
    assert "all threads together do more with ldadd" in spoken(records)


# ---- form --------------------------------------------------------------------------------------


def test_emulated_times_are_not_judged():
    _, records = constructed({"stadd": 3.0, "ldadd": 9.0}, "00000000000000c4")
    (sentence,) = verdict(
        summarise(contexts_of(records, emulated=True), records), contexts_of(records, emulated=True)
    )
    assert "emulator" in sentence


def test_sentences_are_data_and_render_to_the_lines():
    contexts, records = constructed({"stadd": 3.0, "ldadd": 9.0}, "00000000000000c5")
    summaries = summarise(contexts, records)
    sentences = verdict_sentences(summaries, contexts)
    assert [render(s) for s in sentences] == verdict(summaries, contexts)
    (alone,) = [s for s in sentences if s.lead == "alone"]
    assert alone.family == "one_line" and alone.clauses[0].numbers["best_ns"] == pytest.approx(
        3.0, rel=0.05
    )


def test_the_figure_of_the_verdict_is_the_one_of_the_summary():
    """7.14 ns in the verdict and 6.51 in the table were one cell: median of windows against a
    merged percentile."""
    contexts, records = constructed({"stadd": 3.0, "ldadd": 9.0}, "00000000000000c6")
    summaries = summarise(contexts, records)
    figures = {s.id: s.issue.median_ns for s in summaries}
    for f in findings(summaries):
        assert f.side.ns.median_ns == figures[f.side.id]
        assert all(r.first.ns.median_ns == figures[r.first.id] for r in f.rows)


def test_two_machines_are_named_apart():
    one = constructed({"stadd": 29.0, "llsc_add": 6.6}, "00000000000000d1")
    two = constructed({"stadd": 5.0, "llsc_add": 7.3}, "00000000000000d2")
    text = verdict(summarise(one[0] + two[0], one[1] + two[1]), one[0] + two[0])
    assert any("d1]: Alone" in line and "stadd costs more" in line for line in text)
    assert any("d2]: Alone" in line and "stadd takes 5" in line for line in text)


def test_unavailable_cells_leave_no_verdict():
    records = [record(cell("stadd"), status="unavailable", reason="this CPU lacks lse")]
    contexts = contexts_of(records)
    (summary,) = summarise(contexts, records)
    assert (summary.status, summary.issue, summary.reason) == (
        "unavailable",
        None,
        "this CPU lacks lse",
    )
    assert verdict([summary], contexts) == [
        "No two forms of one operation were measured in equal situations, so nothing is compared."
    ]

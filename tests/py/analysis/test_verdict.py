"""The verdict on tables whose answer is known: published, constructed and synthetic machines."""

from __future__ import annotations

import numpy as np
import pytest

from linewright.analysis import findings, summarise, verdict
from support.analysis_samples import cell, constructed, contexts_of, launches, published, record


def at(found, **fields):
    return [f for f in found if all(getattr(f, k) == v for k, v in fields.items())]


def test_the_published_table_gives_its_known_answer():
    contexts, records = published()
    summaries = summarise(contexts, records)
    assert all(s.published and s.exposed is None for s in summaries)
    (alone,) = at(findings(summaries), operation="add", contender="none", work_iters=0)
    assert alone.best == "prfm_keep_stadd"
    assert set(alone.tied) == {"prfm_keep_stadd", "prfm_strm_stadd", "ldadd", "llsc_add"}, (
        "3.97 to 5.66 ns overlap at p95"
    )
    assert alone.beaten == alone.worst == "stadd"
    (contended,) = at(findings(summaries), operation="add", contender_iters=10, contender="same_line", work_iters=0)
    assert (contended.best, contended.beaten) == ("ldadd", "stadd")
    text = " ".join(verdict(summaries, contexts))
    assert "ldadd" in text and "NaN" not in text and "nan" not in text
    (hundred,) = at(findings(summaries), operation="add", contender="none", work_iters=100)
    assert (hundred.best, hundred.beaten, hundred.separated) == ("ldadd", "stadd", True)


@pytest.mark.parametrize(
    ("medians", "best", "worst"),
    [
        ({"stadd": 29.0, "llsc_add": 6.6, "ldadd": 69.6}, "llsc_add", "ldadd"),
        ({"stadd": 5.0, "llsc_add": 7.3}, "stadd", "llsc_add"),
    ],
    ids=["load_form_worst", "store_form_best"],
)
def test_machines_on_which_the_answer_differs(medians, best, worst):
    contexts, records = constructed(medians, "00000000000000c1")
    summaries = summarise(contexts, records)
    (found,) = findings(summaries)
    assert (found.best, found.worst, found.separated) == (best, worst, True)
    (sentence,) = verdict(summaries, contexts)
    assert sentence.startswith(f"Alone: back to back, add: {best} takes")


def test_nothing_is_said_where_intervals_overlap():
    rng = np.random.default_rng(4)
    records = launches(cell("stadd"), 10.0, rng) + launches(cell("llsc_add"), 10.05, rng)
    contexts = contexts_of(records)
    (found,) = findings(summarise(contexts, records))
    assert not found.separated and found.why == "noise" and not found.beaten
    (sentence,) = verdict(summarise(contexts, records), contexts)
    assert sentence == "The difference between forms is within noise for add alone."


def test_noise_at_some_work_lengths_is_not_said_of_all():
    rng = np.random.default_rng(4)
    records = launches(cell("stadd"), 3.0, rng) + launches(cell("llsc_add"), 9.0, rng)
    for work in (300, 20):
        records += launches(cell("stadd", work_iters=work), 60.0, rng) + launches(
            cell("llsc_add", work_iters=work), 60.1, rng
        )
    contexts = contexts_of(records)
    said, unsaid = verdict(summarise(contexts, records), contexts)
    assert said.startswith("Alone: back to back, add: stadd takes")
    assert unsaid == "The difference between forms is within noise for add alone (20 and 300 iterations of work)."


def test_a_value_returning_form_serves_an_add_but_not_the_other_way():
    contexts, records = constructed({"stadd": 3.0, "ldadd": 9.0}, "00000000000000c2")
    found = findings(summarise(contexts, records))
    assert [f.operation for f in found] == ["add"], "one fetch_add form alone is no choice"
    assert (found[0].best, found[0].beaten) == ("stadd", "ldadd")


def test_the_floor_is_never_recommended():
    contexts, records = constructed({"plain_add": 0.4, "lock_add": 5.0, "lock_xadd": 9.0}, "00000000000000c3")
    (found,) = findings(summarise(contexts, records))
    assert found.best == "lock_add"
    assert "plain_add" not in " ".join(verdict(summarise(contexts, records), contexts))


def test_one_contended_launch_is_not_judged():
    rng = np.random.default_rng(5)
    same = dict(contender="same_line", threads=2)
    records = launches(cell("stadd", **same), 10.0, rng, count=1) + launches(cell("ldadd", **same), 90.0, rng, count=1)
    contexts = contexts_of(records)
    summaries = summarise(contexts, records)
    assert all("one_launch" in s.flags for s in summaries)
    assert findings(summaries)[0].why == "one_launch"
    (sentence,) = verdict(summaries, contexts)
    assert "too few" in sentence


def test_emulated_times_are_not_judged():
    contexts, records = constructed({"stadd": 3.0, "ldadd": 9.0}, "00000000000000c4")
    contexts = contexts_of(records, emulated=True)
    (sentence,) = verdict(summarise(contexts, records), contexts)
    assert "emulator" in sentence


def test_order_is_part_of_the_need():
    """A relaxed caller may take a stronger form; a sequentially consistent one may not take a weaker."""
    rng = np.random.default_rng(6)
    forms = {"ldadd": ("relaxed", 5.0), "ldaddal": ("seq_cst", 7.0), "other_al": ("seq_cst", 9.0)}
    records = []
    for form, (order, ns) in forms.items():
        records += launches(cell(form, operation="fetch_add", order=order), ns, rng, between=0.005)
    found = findings(summarise(contexts_of(records), records))
    assert {(f.operation, f.order): (f.best, f.beaten) for f in found} == {
        ("fetch_add", "relaxed"): ("ldadd", "ldaddal"),
        ("fetch_add", "seq_cst"): ("ldaddal", "other_al"),
    }
    text = " ".join(verdict(summarise(contexts_of(records), records), contexts_of(records)))
    assert "ldadd is relaxed, ldaddal seq_cst" in text


def test_a_stronger_need_with_the_same_answer_is_said_once():
    rng = np.random.default_rng(6)
    records = []
    for form, order, ns in (
        ("builtin", "seq_cst", 9.0),
        ("lock_xadd", "full", 5.0),
        ("prefetchw_lock_xadd", "full", 9.1),
    ):
        records += launches(cell(form, operation="fetch_add", order=order), ns, rng, between=0.002)
    contexts = contexts_of(records)
    summaries = summarise(contexts, records)
    assert {(f.order, f.best, f.beaten) for f in findings(summaries)} == {
        ("seq_cst", "lock_xadd", "builtin"), ("full", "lock_xadd", "prefetchw_lock_xadd"),
    }  # fmt: skip
    same = [r for r in records if r.cell.form != "builtin"] + launches(
        cell("builtin", operation="fetch_add", order="seq_cst"), 30.0, rng, between=0.002
    )
    (sentence,) = verdict(summarise(contexts_of(same), same), contexts_of(same))
    assert sentence.count("lock_xadd takes") == 1


def test_the_crossover_is_named():
    rng = np.random.default_rng(7)
    records = []
    for work in (0, 10, 20, 100, 200):
        records += launches(cell("stadd", work_iters=work), max(60.0, 0.3 * work + 1), rng, between=0.005)
        records += launches(cell("ldadd", work_iters=work), 30 + 0.35 * work, rng, between=0.005)
    for form in ("stadd", "ldadd"):
        for iters in (0, 1, 10, 100, 1000, 10_000):
            same = cell(form, contender="same_line", contender_iters=iters, threads=2)
            records += launches(same, 100.0 if form == "stadd" else 40.0, rng)
    for form in ("stadd", "ldadd"):
        for iters in (1, 10, 100):
            same = cell(form, contender="same_line", contender_iters=iters, threads=2, work_iters=50)
            records += launches(same, 100.0 if form == "stadd" else 40.0, rng)
    contexts = contexts_of(records)
    text = verdict(summarise(contexts, records), contexts)
    assert any("ldadd is cheaper up to 20 iterations of work, stadd from 100" in s for s in text), text


def test_a_form_that_starves_its_contender_is_pointed_out():
    rng = np.random.default_rng(8)
    same = dict(contender="same_line", threads=2)
    greedy = [
        r.__class__(**{**{f: getattr(r, f) for f in r.__struct_fields__}, "total_mops": 20.0 + r.launch * 0.1})
        for r in launches(cell("stadd", **same), 40.0, rng)
    ]
    fair = [
        r.__class__(**{**{f: getattr(r, f) for f in r.__struct_fields__}, "total_mops": 30.0 + r.launch * 0.1})
        for r in launches(cell("ldadd", **same), 60.0, rng)
    ]
    (found,) = findings(summarise(contexts_of(greedy), greedy + fair))
    assert found.best == "stadd" and "ldadd" in found.rate_note


def test_two_machines_are_named_apart():
    one = constructed({"stadd": 29.0, "llsc_add": 6.6}, "00000000000000d1")
    two = constructed({"stadd": 5.0, "llsc_add": 7.3}, "00000000000000d2")
    contexts = one[0] + two[0]
    text = verdict(summarise(contexts, one[1] + two[1]), contexts)
    assert "d1]" in text[0] and "llsc_add takes" in text[0]
    assert "d2]" in text[1] and "stadd takes" in text[1]


def test_unavailable_cells_leave_no_verdict():
    records = [record(cell("stadd"), status="unavailable", reason="this CPU lacks lse")]
    contexts = contexts_of(records)
    (summary,) = summarise(contexts, records)
    assert (summary.status, summary.issue, summary.reason) == ("unavailable", None, "this CPU lacks lse")
    assert verdict([summary], contexts) == [
        "No two forms of one operation were measured under equal conditions, so nothing is compared."
    ]

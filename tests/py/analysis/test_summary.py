# SPDX-License-Identifier: MIT
"""Launches merge into one summary with the right figures; odd but valid records never make it raise
or print NaN."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linewright.analysis import findings, summarise
from linewright.analysis.questions import ask
from linewright.analysis.summary import LAUNCH
from linewright.schema import Discards, Quantiles
from support.analysis_samples import cell, context, contexts_of, launches, published, record
from support.buckets import encode
from support.said import verdict


def quantiles(values_ns, of="batch_mean"):
    return Quantiles(
        of=of,
        ops_per_sample=100,
        samples=len(values_ns),
        p50_ns=0,
        p95_ns=0,
        p99_ns=0,
        max_ns=max(values_ns),
        histogram=encode(values_ns),
    )


def test_a_simulated_cost_has_the_band_of_its_cell_and_no_interval_of_launches():
    """Windows of one simulation differ by their random numbers alone."""
    windows, loop = [70.0, 70.1, 69.9] * 5, [50.0] * 15
    band = {"p05_ns": 60.0, "p95_ns": 90.0}
    a_cell = cell("stadd", work_iters=20)
    records = [
        record(a_cell, windows, f"{n:016x}", n, baseline_ns=loop, metrics=band) for n in range(5)
    ]
    (simulated,) = summarise(contexts_of(records), records)
    for interval, away in ((simulated.issue, 0), (simulated.exposed, 50)):
        ends = (interval.low_ns, interval.median_ns, interval.high_ns)
        assert ends == pytest.approx((60 - away, 70 - away, 90 - away), abs=0.2)
        assert interval.confidence == 0.9
    records = [msgspec.structs.replace(r, metrics={}) for r in records]
    (measured,) = summarise(contexts_of(records), records)
    assert measured.exposed.high_ns - measured.exposed.low_ns < 1


def test_launches_merge_into_one_summary():
    rng = np.random.default_rng(1)
    records = launches(cell("stadd", contender="same_line", threads=2), 40.0, rng, between=0.1)
    (summary,) = summarise(contexts_of(records), records)
    medians = [float(np.median(r.window_ns)) for r in records]
    assert (
        summary.launches == 5
        and summary.unit == "launch"
        and summary.unit_ns == pytest.approx(medians)
    )
    assert summary.issue.median_ns == pytest.approx(float(np.median(medians)))
    assert summary.issue.low_ns < min(medians) < max(medians) < summary.issue.high_ns
    assert summary.modes == [] and not summary.metastable, (
        "eight launches are needed to speak of modes"
    )
    assert summary.windows == 200 and summary.exposed is None


def test_exposed_cost_pairs_each_window_with_its_baseline():
    """The clock drifts by 8 %; window and baseline drift together, so the difference does not."""
    rng = np.random.default_rng(2)
    drift = np.linspace(1.0, 1.08, 64)
    windows, empty = 36.0 * drift, 31.0 * drift
    a_cell = cell("stadd", work_iters=100)
    (summary,) = summarise(
        [context()], [record(a_cell, windows + rng.normal(0, 0.01, 64), baseline_ns=empty.tolist())]
    )
    assert summary.exposed.median_ns == pytest.approx(5.2, rel=0.02)
    assert summary.exposed.high_ns - summary.exposed.low_ns < 1


def test_a_cost_below_zero_stays_below_zero():
    """A tool that caps its overhead at 0 says that every uncontended lock is free."""
    rng = np.random.default_rng(3)
    a_cell = cell("stadd", work_iters=100)
    records = [
        record(a_cell, 30.9 + rng.normal(0, 0.2, 64), baseline_ns=list(31 + rng.normal(0, 0.2, 64)))
    ]
    (summary,) = summarise([context()], records)
    assert -0.3 < summary.exposed.median_ns < 0 < summary.exposed.high_ns
    assert "negative_cost" not in summary.flags, "within noise it is no accusation"


def test_exposed_only_where_work_gives_it_meaning():
    plain = record(cell("stadd"), [5.0] * 8, baseline_ns=[0.4] * 8)
    empty = record(cell("empty", operation="none", work_iters=10), [5.0] * 8, baseline_ns=[5.0] * 8)
    assert [s.exposed for s in summarise([context()], [plain, empty])] == [None, None]


def test_completion_is_minus_the_wait_alone():
    r = record(
        cell("stadd"),
        [5.0] * 16,
        completion_ns=[80.0, 81.0] * 8,
        completion_baseline_ns=[20.0, 21.0] * 8,
    )
    (summary,) = summarise([context()], [r])
    assert summary.completion.median_ns == pytest.approx(60)


def test_percentiles_come_from_the_merged_histogram():
    records = [
        record(
            cell("stadd"),
            [5.0],
            "a" * 16,
            0,
            batch=quantiles([1.0] * 90),
            small_batch=quantiles([2.0], "small_batch"),
        ),
        record(cell("stadd"), [5.0], "b" * 16, 1, batch=quantiles([9.0] * 10)),
    ]
    (summary,) = summarise(contexts_of(records), records)
    assert (summary.batch.p50_ns, summary.batch.samples, summary.batch.max_ns) == (
        pytest.approx(1, rel=0.01),
        100,
        9.0,
    )
    assert summary.batch.p95_ns == pytest.approx(9, rel=0.01)
    assert (summary.small.of, summary.small.samples) == ("small_batch", 1)


@pytest.mark.parametrize(
    ("statuses", "status", "counted"),
    [
        (["ok", "ok", "unreliable"], "ok", 2),
        (["ok", "unreliable"], "unreliable", 2),
        (["ok", "error"], "error", 0),
        (["unavailable", "unavailable"], "unavailable", 0),
    ],
)
def test_statuses_merge(statuses, status, counted):
    records = [
        record(
            cell("stadd"),
            [5.0, 5.1],
            f"{i:016x}",
            i,
            status=s,
            reason="" if s == "ok" else f"was {s}",
        )
        for i, s in enumerate(statuses)
    ]
    (summary,) = summarise(contexts_of(records), records)
    assert summary.status == status and summary.windows == 2 * counted
    assert summary.reason == ("" if status == "ok" else f"was {status}")


@pytest.mark.parametrize(
    ("status", "sum_found", "merged"),
    [("unreliable", 0, "ok"), ("unavailable", 0, "ok"), ("error", 0, "ok"), ("error", 9, "error")],
)
def test_a_launch_that_was_run_again_counts_as_it_came_out_then(status, sum_found, merged):
    """`--resume` runs again what was not ok; only a wrong sum stays one."""
    again = [
        record(
            cell("stadd"),
            [5.0, 5.1],
            f"{i:016x}",
            0,
            status=s,
            sum_found=sum_found if s != "ok" else 0,
        )
        for i, s in enumerate([status, "ok"])
    ]
    (summary,) = summarise(contexts_of(again), again)
    assert summary.status == merged


def test_metastable_launches_and_bimodal_lines_are_flagged():
    rng = np.random.default_rng(5)
    same = cell("stadd", contender="same_line", threads=2)
    records = [
        record(same, median * np.exp(rng.normal(0, 0.02, 32)), f"{i:016x}", i)
        for i, median in enumerate((25, 25, 26, 26, 27, 27, 95, 113))
    ]
    lines = np.where(np.arange(96) % 32 < 12, 29.0, 5.8) * np.exp(rng.normal(0, 0.01, 96))
    records.append(record(cell("stadd"), lines, "f" * 16))
    contended, alone = summarise(contexts_of(records), records)
    assert contended.metastable and "metastable" in contended.flags
    assert [round(m.share * 8) for m in contended.modes] == [6, 2]
    assert "bimodal_lines" in alone.flags and len(alone.line_modes) == 2 and alone.lines_spread > 3
    assert alone.issue.low_ns < 6


def test_machines_are_kept_apart_and_missing_contexts_too():
    records = [record(cell("stadd"), [5.0] * 4, c * 16) for c in "abc"]
    contexts = [context("a" * 16, "1" * 16), context("b" * 16, "2" * 16)]
    summaries = summarise(contexts, records)
    assert [s.machine_id[0] for s in summaries] == ["1", "2", "c"]
    assert "no_context" in summaries[2].flags


def test_threads_rates_and_discarded_windows_survive():
    records = [
        record(
            cell("stadd", contender="same_line", threads=2),
            [5.0],
            f"{i:016x}",
            i,
            total_mops=10.0 + i,
            fairness=0.9,
            thread_ns=[5.0, 7.0 + i],
            thread_ops=[100, 50],
            cpus=[0, 1],
            discarded=Discards(switched=1, long_batch=2),
            metrics={"waits_ns": 2.0 * i},
        )
        for i in range(3)
    ]
    (summary,) = summarise(contexts_of(records), records)
    assert (summary.total_mops, summary.fairness, summary.thread_ns) == (11.0, 0.9, [5.0, 8.0])
    assert (summary.discarded, summary.metrics, summary.cpus) == (9, {"waits_ns": 2.0}, [0, 1])


# No probe writes a femtosecond's thousandth, and ratios of such times leave the range of a float.
positive = st.one_of(st.just(0.0), st.floats(min_value=1e-9, max_value=1e12, allow_nan=False))
any_number = st.one_of(positive, st.sampled_from([float("nan"), float("inf"), -1.0]))


@st.composite
def odd_records(draw):
    answers = []
    for i in range(draw(st.integers(1, 6))):
        form = draw(st.sampled_from(["stadd", "ldadd", "plain_add", "empty"]))
        a_cell = cell(
            form,
            operation="none" if form == "empty" else cell(form).operation,
            contender=draw(st.sampled_from(["none", "placebo", "same_line"])),
            work_iters=draw(st.sampled_from([0, 10])),
        )
        windows = draw(st.lists(any_number, max_size=6))
        batch = draw(
            st.sampled_from(
                [
                    None,
                    quantiles([1.0, 2.0]),
                    msgspec.structs.replace(quantiles([1.0]), histogram=[]),
                ]
            )
        )
        answers.append(
            record(
                a_cell, windows, f"{draw(st.integers(0, 3)):016x}", i,
                status=draw(st.sampled_from(["ok", "ok", "unavailable", "error", "unreliable"])),
                baseline_ns=draw(st.lists(any_number, max_size=6)), batch=batch,
                window_line=draw(st.lists(st.integers(0, 3), max_size=6)),
                completion_ns=draw(st.lists(positive, max_size=3)),
                completion_baseline_ns=draw(st.lists(positive, max_size=3)),
                total_mops=draw(positive), thread_ns=draw(st.lists(positive, max_size=2)),
            )
        )  # fmt: skip
    return answers


def numbers_in(value):
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from numbers_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from numbers_in(part)


@settings(max_examples=120, deadline=None)
@given(odd_records(), st.booleans())
def test_odd_but_valid_records_neither_raise_nor_yield_nan(records, known):
    contexts = contexts_of(records) if known else []
    summaries = summarise(contexts, records)
    assert sum(len(summary.by_launch) for summary in summaries) == len(records)
    for summary in summaries:
        said = msgspec.to_builtins(summary, enc_hook=len)
        launches = [summary.of_launches(name) for name in LAUNCH.names if LAUNCH[name].kind == "f"]
        windows = [summary.of_rounds(name) for name in ("issue_ns", "exposed_ns")]
        merged = [summary.total_mops, summary.fairness, summary.thread_ns]
        parts = [said, launches, windows, list(summary.of_lines().values()), merged]
        assert all(math.isfinite(x) for x in numbers_in(parts))
    for text in verdict(summaries, contexts):
        assert "nan" not in text.lower() and "inf" not in text.lower().replace("infer", "")
    assert all(
        math.isfinite(x) for f in findings(summaries) for x in numbers_in(msgspec.to_builtins(f))
    )


def test_published_percentiles_are_compared_in_numbers():
    found = findings(summarise(*published()))
    assert any(row.differs for f in found for row in f.rows)
    assert all(math.isfinite(x) for f in found for x in numbers_in(msgspec.to_builtins(f)))


def test_published_percentiles_of_zero_are_compared_with_nothing():
    batch = msgspec.structs.replace(quantiles([1.0]), histogram=[])
    records = [record(cell(f, work_iters=10), batch=batch) for f in ("stadd", "ldadd")]
    (comparison,) = ask("forms", summarise([], records))
    assert (comparison.answer, comparison.why, comparison.shown) == ("undecided", "published", None)


def test_fairness_is_a_figure_only_where_all_threads_run_the_same_loop():
    """0.61 among 200 units of work is no unfairness: only the timed thread has the work."""
    shared = dict(contender="same_line", threads=2)
    records = [
        record(cell("stadd", **shared, **more), [5.0] * 4)
        for more in ({}, {"work_iters": 20}, {"contender_iters": 9})
    ]
    assert [s.equal_loops for s in summarise([context()], records)] == [True, False, False]

# SPDX-License-Identifier: MIT
"""Machine states that outlast launches: what an interval may promise then, checked by simulation
with seeds."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
import numpy as np
import pytest
from scipy import stats

from linewright.analysis import summarise
from linewright.analysis.intervals import median, medians_of, repeat_interval
from linewright.analysis.merge import CLUSTER_S, CLUSTER_VIRTUAL_S, FEWEST_CLUSTERS, cluster_numbers
from linewright.analysis.summary import Summary
from linewright.compare.changes import compare
from support.analysis_samples import cell, context, contexts_of, record, slow_states, timed_launches

SHARED = cell("stadd", contender="same_line", threads=2)
FACTOR = 2.4
"""Between the states: what was seen on a virtual machine."""


def run(
    rng: np.random.Generator,
    count: int,
    apart_s: float,
    dwell_s: float,
    runs: int = 2,
    pause_s: float = 600.0,
):
    """Records of several runs of the same cell on a machine that changes its state; the runs lie
    `pause_s` apart."""
    length = count * apart_s
    times = np.concatenate(
        [i * (length + pause_s) + np.arange(count) * apart_s for i in range(runs)]
    )
    medians = (
        12.5 * FACTOR ** slow_states(times, dwell_s, rng) * np.exp(rng.normal(0, 0.03, times.size))
    )
    return [
        timed_launches(SHARED, m, np.arange(count) * apart_s, rng) for m in np.split(medians, runs)
    ]


def summary_of(records) -> Summary:
    (summary,) = summarise(contexts_of(records), records)
    return summary


def coverage(seed: int, trials: int, interval_of, **machine) -> tuple[int, list]:
    rng = np.random.default_rng(seed)
    hits, promises = 0, []
    for _ in range(trials):
        first, again = run(rng, **machine)
        interval, promise = interval_of(first)
        middle = summary_of(again).issue.median_ns
        hits += interval.low_ns <= middle <= interval.high_ns
        promises.append(promise)
    return hits, promises


def by_launch(records):
    """The interval that takes every launch as independent of the others."""
    return repeat_interval([np.array(r.window_ns) for r in records]), ""


def by_cluster(records):
    summary = summary_of(records)
    return summary.issue, summary.promise


def test_launches_close_together_are_one_cluster():
    assert cluster_numbers([0, 5, CLUSTER_S, CLUSTER_S + 1, 3 * CLUSTER_S]) == [0, 0, 1, 1, 2]
    assert cluster_numbers([90.0, 0.0, 30.0, 31.0]) == [2, 0, 1, 1]
    assert cluster_numbers([]) == []


@pytest.mark.slow
def test_slow_states_break_the_promise_of_many_close_launches_and_clusters_keep_it():
    """Sixty launches, four seconds apart, of states that last forty: they are no sixty independent
    draws."""
    machine = dict(count=60, apart_s=4.0, dwell_s=40.0)
    hits, _ = coverage(1, 60, by_launch, **machine)
    assert stats.binom.cdf(hits, 60, 0.95) < 1e-4, f"taken as independent: {hits} of 60"
    hits, promises = coverage(1, 60, by_cluster, **machine)
    assert stats.binom.cdf(hits, 60, 0.95) > 1e-3, f"taken by clusters: {hits} of 60"
    assert set(promises) == {"repeat"}


def test_a_short_run_does_not_promise_what_it_cannot_keep():
    """Five launches within ten seconds mostly see one state: the interval misses a repeat, and says
    that it may."""
    machine = dict(count=5, apart_s=2.0, dwell_s=30.0)
    hits, promises = coverage(2, 60, by_cluster, **machine)
    assert stats.binom.cdf(hits, 60, 0.95) < 1e-4, (
        "the states must matter for this test to mean anything"
    )
    assert set(promises) == {"run"}


@pytest.mark.parametrize("dwell_s", [5.0, 30.0])
def test_as_many_launches_as_rmw_makes_spread_as_rmw_spreads_them_cover_a_repeat(dwell_s):
    hits, promises = coverage(3, 100, by_cluster, count=8, apart_s=30.0, dwell_s=dwell_s)
    assert stats.binom.cdf(hits, 100, 0.95) > 1e-3, f"{hits} of 100"
    assert set(promises) == {"repeat"}


def test_what_is_promised_follows_from_launches_and_times():
    rng = np.random.default_rng(4)

    def of(times, known=True):
        records = timed_launches(SHARED, [25.0] * len(times), times, rng)
        records = (
            records
            if known
            else [record(SHARED, r.window_ns, r.context_id, r.launch) for r in records]
        )
        return summary_of(records)

    far = of(np.arange(FEWEST_CLUSTERS) * CLUSTER_S)
    assert (far.promise, far.clusters, far.launch_span_s) == (
        "repeat",
        FEWEST_CLUSTERS,
        (FEWEST_CLUSTERS - 1) * CLUSTER_S,
    )
    assert "short_span" not in far.flags
    near = of(np.arange(FEWEST_CLUSTERS) * 2.0)
    assert (near.promise, near.clusters) == ("run", 1) and "short_span" in near.flags
    few = of([0.0, 100.0, 200.0])
    assert (few.promise, few.clusters) == ("run", 3) and "short_span" in few.flags
    unknown = of(np.arange(20) * CLUSTER_S, known=False)
    assert (unknown.promise, unknown.clusters, unknown.launch_span_s) == ("run", 0, None)
    assert of([0.0]).promise == "launch" and "one_launch" in of([0.0]).flags


@pytest.mark.parametrize("virtualised", ["yes", "unknown"])
def test_a_virtual_machine_is_given_longer_between_clusters(virtualised):
    rng = np.random.default_rng(11)
    for apart, clusters, promise in ((CLUSTER_S, 1, "run"), (CLUSTER_VIRTUAL_S, 8, "repeat")):
        records = timed_launches(SHARED, [25.0] * 8, np.arange(8) * apart, rng)
        (summary,) = summarise(contexts_of(records, virtualised=virtualised), records)
        assert (summary.clusters, summary.promise) == (clusters, promise)


def test_joined_runs_count_the_time_between_them():
    """Four runs of two launches each, minutes apart: each launch has its own start, the contexts
    say when a run began."""
    rng = np.random.default_rng(5)
    contexts, records = [], []
    for i in range(8):
        begun = f"2026-01-01T00:{10 * (i // 2):02d}:{30 * (i % 2):02d}Z"
        contexts.append(context(f"{i:016x}", started_utc=begun))
        records.append(
            record(SHARED, 25 * np.exp(rng.normal(0, 0.02, 12)), f"{i:016x}", i % 2, started_s=1.5)
        )
    (summary,) = summarise(contexts, records)
    assert (summary.clusters, summary.promise, summary.launch_span_s) == (8, "repeat", 1830.0)
    contexts[0] = context(f"{0:016x}", started_utc="some day")
    assert summarise(contexts, records)[0].promise == "run"


def test_launches_of_one_cluster_become_one_unit():
    rng = np.random.default_rng(6)
    times = np.arange(3 * FEWEST_CLUSTERS) * CLUSTER_S / 3
    records = timed_launches(SHARED, 20.0 + np.arange(times.size), times, rng)
    summary = summary_of(records)
    assert (summary.launches, summary.clusters, len(summary.unit_ns)) == (
        3 * FEWEST_CLUSTERS,
        FEWEST_CLUSTERS,
        FEWEST_CLUSTERS,
    )
    windows = [
        np.concatenate([r.window_ns for r in records[i : i + 3]]) for i in range(0, times.size, 3)
    ]
    assert summary.issue.median_ns == pytest.approx(median(medians_of(windows)))


def compared(before, after) -> str:
    """The answer for a cell in two runs made one after the other."""
    contexts = contexts_of(before + after)
    times = [
        msgspec.structs.replace(c, started_utc=f"2026-01-01T00:00:{i:02d}Z")
        for i, c in enumerate(contexts)
    ]
    sides = [summarise(times, records) for records in (before, after)]
    return compare(sides[0], sides[1:], times)[0][0].answer


def short(rng, median, prefix):
    records = timed_launches(
        SHARED, median * np.exp(rng.normal(0, 0.03, 5)), np.arange(5) * 2.0, rng
    )
    return [msgspec.structs.replace(r, context_id=prefix + r.context_id[1:]) for r in records]


def test_a_large_change_between_two_runs_is_found():
    rng = np.random.default_rng(7)
    assert compared(short(rng, 12.5, "a"), short(rng, 125.0, "b")) == "slower"
    found = [compared(short(rng, 12.5, "a"), short(rng, 12.5 * 2.9, "b")) for _ in range(20)]
    assert found.count("slower") >= 19, (
        "2.9 times at 3 % between launches was once passed as no difference"
    )


def two_runs(rng, virtualised: str, factor: float = 1.0, **machine):
    """The rows of a contended cell in two runs of a machine with states, one after the other."""
    begun, sides = datetime.fromisoformat("2026-01-01T00:00:00Z"), []
    pause_s = machine["count"] * machine["apart_s"] + machine["pause_s"]
    for n, records in enumerate(run(rng, **machine)):
        named = [
            msgspec.structs.replace(
                r,
                context_id="ab"[n] + r.context_id[1:],
                window_ns=[factor**n * ns for ns in r.window_ns],
                started_s=0.0,
            )
            for r in records
        ]
        times = [n * pause_s + r.started_s for r in records]
        contexts = [
            msgspec.structs.replace(
                c, started_utc=(begun + timedelta(seconds=s)).isoformat().replace("+00:00", "Z")
            )
            for c, s in zip(contexts_of(named, virtualised=virtualised), times, strict=True)
        ]
        sides.append((contexts, named))
    both = [summarise(contexts, records) for contexts, records in sides]
    return compare(both[0], both[1:], [*sides[0][0], *sides[1][0]])[0]


SHORT = dict(count=8, apart_s=6.0, dwell_s=300.0, pause_s=600.0)
"""Two runs of less than a minute, in states that outlast them."""
LONG = dict(count=16, apart_s=310.0, dwell_s=200.0, pause_s=600.0)


def test_the_states_of_a_virtual_machine_pass_for_no_change():
    rng = np.random.default_rng(21)
    by_launch = [two_runs(rng, "no", **SHORT)[0] for _ in range(40)]
    assert sum(row.differs for row in by_launch) > 8, "the states must matter for this test"
    found = [two_runs(rng, "yes", **SHORT)[0] for _ in range(40)]
    assert {(row.answer, row.why) for row in found} == {("undecided", "few_states")}
    long = [two_runs(rng, "yes", **LONG)[0] for _ in range(60)]
    wrong = sum(row.differs for row in long)
    assert stats.binom.sf(wrong - 1, 60, 0.05) > 1e-3, f"{wrong} of 60"
    assert "few_states" not in {row.why for row in long}


def test_a_change_that_is_larger_than_the_states_is_found_over_many_of_them():
    rng = np.random.default_rng(22)
    found = [two_runs(rng, "yes", factor=12.0, **LONG)[0].answer for _ in range(20)]
    assert found.count("slower") >= 19


def test_a_run_compared_with_its_repeat_is_seldom_called_different():
    rng = np.random.default_rng(8)
    alarms = sum(
        compared(short(rng, 12.5, "a"), short(rng, 12.5, "b")) in ("slower", "cheaper")
        for _ in range(100)
    )
    assert stats.binom.sf(alarms - 1, 100, 0.05) > 1e-3, f"{alarms} of 100"

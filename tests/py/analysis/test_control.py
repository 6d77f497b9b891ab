# SPDX-License-Identifier: MIT
"""The run's own controls: the noise floor of identical code, and the baseline loop that is or is
not a measure."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from linewright.analysis import findings, summarise
from linewright.analysis.control import baseline_loop_faults, floors
from support.analysis_samples import cell, contexts_of, points, record, together
from support.said import verdict

X86 = dict(arch="x86_64", features=["prefetchw"])


def summaries_of(records):
    return summarise(contexts_of(records, **X86), records)


def with_loop(records, scale=lambda r: 1.0):
    """The same records with the baseline loop's time scaled, the operation's own cost as before."""
    answers = []
    for r in records:
        loop = np.asarray(r.baseline_ns)
        other = loop * scale(r)
        windows = np.asarray(r.window_ns) - loop + other
        answers.append(
            msgspec.structs.replace(r, baseline_ns=other.tolist(), window_ns=windows.tolist())
        )
    return answers


def test_identical_code_adds_its_excess_and_is_no_candidate():
    rng = np.random.default_rng(1)
    records = together(
        points({"lock_add": 5.0, "builtin_add": 5.4, "prefetchw_lock_add": 5.3}), rng
    )
    summaries = summaries_of(records)
    (floor,) = floors(summaries, "x86_64").values()
    assert floor.size == pytest.approx(0.08, abs=0.02) and floor.pairs == 1
    (found,) = findings(summaries)
    assert [r.first.form for r in found.rows] == ["prefetchw_lock_add"]
    assert found.rows[0].why == "wide", "6 % where identical code differs by 8 % is nothing"
    said = " ".join(verdict(summaries, contexts_of(records, **X86)))
    assert "Identical machine code timed twice" in said
    assert "even 40 launches would show no" in said, "none averages out what code differs by"


def test_what_lies_above_the_floor_is_still_found():
    rng = np.random.default_rng(2)
    records = together(
        points({"lock_add": 5.0, "builtin_add": 5.1, "prefetchw_lock_add": 8.0}), rng
    )
    (found,) = findings(summaries_of(records))
    assert found.rows[0].slower


def test_a_proportional_steady_loop_gives_exposed_costs():
    rng = np.random.default_rng(3)
    records = together(points({"lock_add": 5.0, "lock_xadd": 5.0}, works=(0, 20, 200)), rng)
    summaries = summaries_of(records)
    assert list(baseline_loop_faults(summaries).values()) == ["", "", ""]
    assert {round(s.exposed.median_ns, 0) for s in summaries if s.cell.work_iters} == {5.0}


def test_a_loop_out_of_proportion_withholds_the_exposed_cost():
    """The published loop of one NOP takes 2.2 times as much per unit at 200 as at 20 on one
    machine."""
    rng = np.random.default_rng(4)
    records = together(points({"lock_add": 5.0, "lock_xadd": 9.0}, works=(0, 20, 200)), rng)
    summaries = summaries_of(with_loop(records, lambda r: 2.2 if r.cell.work_iters == 200 else 1.0))
    found = baseline_loop_faults(summaries).items()
    assert {why for (_, work), why in found if work} == {"not_proportional"}
    assert all(s.exposed is None and s.withheld for s in summaries if s.cell.work_iters)
    found = [f for f in findings(summaries) if f.situation.work_iters]
    assert all(r.why == "baseline_loop" for f in found for r in f.rows) and found
    assert "withheld" in " ".join(verdict(summaries, contexts_of(records, **X86)))


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"work_linearity": 0.08}, "not_proportional"), ({"work_spread": 0.2}, "not_steady")],
)
def test_the_probes_own_control_withholds_it_where_the_cells_cannot_tell(changes, why):
    """Plan quick has one length of work: whether the loop is proportional there, only the probe's
    control shows."""
    rng = np.random.default_rng(7)
    records = together(points({"lock_add": 5.0, "lock_xadd": 9.0}, works=(0, 20)), rng)
    bad = summarise(contexts_of(records, **X86, **changes), records)
    assert {s.withheld for s in bad if s.cell.work_iters} == {why}
    assert all(s.exposed is None for s in bad) and not any(
        s.withheld for s in bad if not s.cell.work_iters
    )
    assert not any(s.withheld for s in summaries_of(records))
    first, *others = contexts_of(records, **X86)
    once = [msgspec.structs.replace(first, **changes), *others]
    assert not any(s.withheld for s in summarise(once, records)), (
        "one launch that was disturbed is no rule"
    )


def test_the_loop_of_work_is_said_with_every_run():
    rng = np.random.default_rng(8)
    records = together(points({"lock_add": 5.0, "lock_xadd": 9.0}, works=(0, 20)), rng)
    said = " ".join(verdict(summaries_of(records), contexts_of(records, **X86)))
    assert "0.310 ns a unit of work, proportional within 1.0 %, windows within 1.0 %" in said
    plain = together(points({"lock_add": 5.0, "lock_xadd": 9.0}), rng)
    assert "unit of work" not in " ".join(verdict(summaries_of(plain), contexts_of(plain, **X86)))


def test_a_loop_that_does_not_repeat_withholds_it_too():
    rng = np.random.default_rng(5)
    records = together(points({"lock_add": 5.0, "lock_xadd": 9.0}, works=(0, 200)), rng)
    records = with_loop(
        records, lambda r: rng.choice([1.0, 1.4], len(r.baseline_ns)) if r.cell.work_iters else 1.0
    )
    assert list(baseline_loop_faults(summaries_of(records)).values()) == ["", "not_steady"]


def test_among_work_the_exposed_cost_is_compared_not_the_sum():
    """Two forms whose loops were placed differently: their sums differ by 15 %, the costs that they
    expose do not."""
    rng = np.random.default_rng(6)
    records = together(points({"lock_add": 5.0, "lock_xadd": 5.0}, works=(200,)), rng)
    placed = with_loop(records, lambda r: 1.15 if r.cell.form == "lock_xadd" else 1.0)
    (found,) = findings(summaries_of(placed))
    assert found.figure == "exposed" and found.rows[0].answer == "same"
    slower = together(points({"lock_add": 5.0, "lock_xadd": 9.0}, works=(200,)), rng)
    (found,) = findings(summaries_of(slower))
    assert found.rows[0].slower and found.rows[0].contrast.value == pytest.approx(4.0, rel=0.1)


def test_without_a_baseline_loop_nothing_is_said_among_work():
    records = [
        record(cell(form, work_iters=20), [ns] * 12, f"{i:016x}", i)
        for i in range(5)
        for form, ns in (("lock_add", 10.0), ("lock_xadd", 20.0))
    ]
    (found,) = findings(summaries_of(records))
    assert found.rows[0].answer == "undecided"

# SPDX-License-Identifier: MIT
"""Near and far: judged only for arm64's single LSE instructions, against the same one behind a
prefetch, by cost alone."""

from __future__ import annotations

import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.analysis.loading import by_id, near_far, place
from linewright.forms import learn
from linewright.say.machine_document import documents
from linewright.schema import FormParts
from support.analysis_samples import cell, contexts_of, record
from support.said import verdict

LINES = 16


def run(forms, count=5, visits=3, far_lines=(), seed=1, noise=0.01, slow_from=None, **changes):
    """Forms back to back, `visits` windows on each of 16 lines in shuffled order; (near, far) costs
    by line.

    `slow_from`: from that share of a launch on, everything takes 1.8 times as long.
    """
    rng = np.random.default_rng(seed)
    records = []
    for launch in range(count):
        for form, cost in forms.items():
            near, far = cost if isinstance(cost, tuple) else (cost, cost)
            lines = rng.permutation(np.tile(np.arange(LINES), visits))
            ns = np.where(np.isin(lines, far_lines), far, near) * np.exp(
                rng.normal(0, noise, lines.size)
            )
            if slow_from is not None:
                ns *= np.where(np.arange(lines.size) >= slow_from * lines.size, 1.8, 1.0)
            a_cell = cell(form, lines=LINES, **changes)
            records.append(
                record(a_cell, ns, f"{launch:016x}", launch, window_line=lines.tolist(), cpus=[3])
            )
    return records


def classes(records, **context):
    known = contexts_of(records, **context)
    return {c.comparison.first.form: c for c in near_far(by_id(known), summarise(known, records))}


def test_a_store_form_that_the_prefetch_makes_cheap_behaves_as_if_far():
    found = classes(
        run({"stadd": 63.65, "prfm_strm_stadd": 3.97, "ldadd": 4.3, "prfm_strm_ldadd": 4.4})
    )
    assert {form: c.where for form, c in found.items()} == {"stadd": "far", "ldadd": "near"}
    assert (found["stadd"].far, found["stadd"].near, found["stadd"].comparison.first.cpu) == (
        LINES * 5,
        0,
        3,
    )
    assert (
        found["stadd"].comparison.contrast.value == pytest.approx(16, rel=0.05)
        and found["stadd"].comparison.second.form == "prfm_strm_stadd"
    )


def test_the_verdict_says_that_it_behaves_so_and_never_more():
    records = run({"stadd": 63.65, "prfm_strm_stadd": 3.97, "ldadd": 4.3})
    contexts = contexts_of(records)
    text = " ".join(verdict(summarise(contexts, records), contexts))
    assert "stadd behaves as if performed at the interconnect" in text
    assert "posted" not in text and "performed far" not in text


@pytest.mark.parametrize("arch", ["x86_64", "i386", "generic"])
def test_no_other_architecture_has_near_and_far(arch):
    """A loop that guesses first runs two locked instructions: 41 cycles are no trip to a home
    node."""
    records = run(
        {"cmpxchg_loop_guess_first": 10.4, "cmpxchg_loop_read_first": 5.2, "lock_add": 5.2}
    )
    records += run({"stadd": 63.0, "prfm_strm_stadd": 4.0})
    assert classes(records, arch=arch) == {}


@pytest.mark.parametrize(
    "form",
    [
        "llsc_add",
        "prfm_strm_llsc_add",
        "cas_loop_read_first",
        "percpu_own_stadd",
        "ldaddal",
        "casp_loop_xchg",
    ],
)
def test_loops_per_cpu_and_wide_forms_are_never_judged(form):
    assert form not in classes(run({form: 39 * 0.31, "prfm_strm_stadd": 4.0, "stadd": 4.0}))


def test_a_form_without_its_prefetched_twin_is_not_judged():
    assert classes(run({"stadd": 63.0, "prfm_strm_ldadd": 4.0})) == {}


def test_only_a_prefetch_of_arm64_is_a_reference_with_a_context_or_without():
    newer = {"prefetch": "prefetchw", "instruction": "STADD", "reach": "near_or_far"}
    learn("prefetchw_stadd", FormParts(base="stadd", **newer))
    records = run({"stadd": 63.65, "prefetchw_stadd": 3.97})
    contexts = contexts_of(records)
    assert classes(records) == {}
    for known in (contexts, []):
        for summarised in (contexts, []):
            assert documents(summarise(summarised, records), known, "evidence")
    with_reference = run({"stadd": 63.65, "prefetchw_stadd": 3.97, "prfm_keep_stadd": 4.0})
    assert {form: c.where for form, c in classes(with_reference).items()} == {"stadd": "far"}


def test_a_form_that_is_far_behind_its_prefetch_says_nothing_of_others():
    """It was said that every form is performed there, beside one that is performed in the core."""
    costs = {"stadd": 80.0, "prfm_strm_stadd": 63.0, "ldadd": 4.3, "prfm_strm_ldadd": 4.7}
    records = run(costs)
    found = classes(records)
    assert (found["stadd"].where, found["ldadd"].where) == ("all_far", "near")
    contexts = contexts_of(records)
    said = " ".join(verdict(summarise(contexts, records), contexts))
    assert "stadd behaves as if performed at the interconnect, even behind a prefetch" in said
    assert "very form" not in said


def test_one_window_on_a_line_is_no_interval_and_launches_decide():
    found = classes(run({"stadd": 63.65, "prfm_strm_stadd": 3.97}, visits=1))["stadd"]
    assert (found.near, found.far, found.undecided, found.lines) == (0, 0, 0, [])
    assert found.where == "far", "five launches show it all the same"
    assert (
        classes(run({"stadd": 63.65, "prfm_strm_stadd": 3.97}, visits=1, count=2))["stadd"].where
        == "undecided"
    )


def test_lines_with_other_homes_are_told_apart():
    found = classes(run({"stadd": (5.8, 29.0), "prfm_strm_stadd": 4.0}, far_lines=range(6)))[
        "stadd"
    ]
    assert (found.where, found.far, found.near) == ("mixed", 30, 50)


def test_a_slowdown_halfway_through_a_launch_is_no_difference_of_homes():
    """Lines are visited in shuffled order: what is slow late is slow on every line."""
    found = classes(run({"stadd": 4.0, "prfm_strm_stadd": 4.0}, slow_from=0.5))["stadd"]
    assert found.where != "mixed" and found.far == 0
    records = run({"stadd": 4.0}, slow_from=0.5, visits=1)
    (summary,) = summarise(contexts_of(records), records)
    assert "bimodal_lines" not in summary.flags


def test_out_of_order_overlap_is_not_far():
    """A near atomic whose cost disappears with work is hidden by the core, which says nothing
    about where it ran."""
    found = classes(run({"stadd": 6.0, "prfm_strm_stadd": 6.0}))
    assert found["stadd"].where == "near"


@pytest.mark.parametrize(
    ("low", "middle", "high", "reference", "where"),
    [
        (3.9, 4.0, 4.1, 4.0, "near"),
        (60.0, 64.0, 66.0, 4.0, "far"),
        (7.0, 9.0, 11.0, 4.0, "undecided"),
        (8.5, 8.8, 9.0, 4.0, "undecided"),
        (60.0, 64.0, 66.0, 63.0, "all_far"),
    ],
)
def test_the_rule(low, middle, high, reference, where):
    assert place(low, middle, high, reference, cycle_ns=0.31) == where


def test_emulated_times_classify_nothing():
    records = run({"stadd": 63.0, "prfm_strm_stadd": 4.0})
    assert classes(records, emulated=True) == {} and near_far({}, summarise([], records)) == []

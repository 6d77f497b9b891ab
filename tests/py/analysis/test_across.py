# SPDX-License-Identifier: MIT
"""Operation against operation: what is shown, and what is no more than the run's own noise or a few
launches' luck."""

from __future__ import annotations

import numpy as np

from linewright.analysis import summarise
from linewright.analysis.questions import ask
from support.analysis_samples import cell, contexts_of, points, record, together

FORMS = {
    "lock_xadd": 5.0,
    "builtin_fetch_add": 5.02,
    "cmpxchg_loop_read_first": 8.0,
    "xchg": 5.0,
    "lock_add": 5.0,
}


def answers(costs, seed=1, **noise):
    records = together(points(costs, contended=costs), np.random.default_rng(seed), **noise)
    found = ask("operations", summarise(contexts_of(records, arch="x86_64", features=[]), records))
    return {(a.first.form, a.second.form, a.contended): a for a in found}


def test_an_operation_that_costs_less_is_found_alone_and_contended():
    found = answers(FORMS)
    for contended in (False, True):
        assert found["lock_xadd", "cmpxchg_loop_read_first", contended].cheaper
        assert found["lock_xadd", "lock_add", contended].answer == "same"


def test_nothing_is_claimed_below_what_identical_code_differed_by():
    found = answers(FORMS | {"builtin_fetch_add": 8.5})
    assert found["lock_xadd", "cmpxchg_loop_read_first", False].why == "wide"


def test_launches_that_fell_alike_are_no_difference():
    """Cells with two states, each by its own chance: five launches of one pair fell the same way,
    as one in a thousand do."""
    slow = {
        "lock_xadd": "00000",
        "lock_add": "01011",
        "xchg": "10100",
        "cmpxchg_loop_read_first": "11111",
    }
    records = [
        record(cell(form), [5.0 * 1.5 ** int(state)] * 12, f"{launch:016x}", launch)
        for form, states in slow.items()
        for launch, state in enumerate(states)
    ]
    found = ask("operations", summarise(contexts_of(records, arch="x86_64", features=[]), records))
    assert {(a.first.form, a.second.form): a.answer for a in found} == {
        ("lock_xadd", "cmpxchg_loop_read_first"): "undecided",
        ("lock_xadd", "lock_add"): "undecided",
        ("xchg", "cmpxchg_loop_read_first"): "undecided",
    }

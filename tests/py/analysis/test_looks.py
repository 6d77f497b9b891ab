# SPDX-License-Identifier: MIT
"""What a run goes on with after a look: what is open, and nothing that is decided."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from linewright.analysis import summarise
from linewright.analysis.comparison import judge
from linewright.analysis.contrast import paired_t
from linewright.analysis.looks import LOOK, Looks, at_look, open_cells
from linewright.analysis.questions import QUESTIONS
from linewright.schema import Plan
from support.analysis_samples import contexts_of, points, together

FORMS = {"lock_add": 5.0, "lock_xadd": 5.0, "prefetchw_lock_add": 5.0, "builtin_add": 5.0}
TWICE = FORMS | {"prefetchw_lock_add": 10.0}


def measured(alone, contended, seed=1, arch="x86_64", **noise):
    records = together(points(alone, contended=contended), np.random.default_rng(seed), **noise)
    features = ["lse"] if arch == "arm64" else ["prefetchw"]
    return contexts_of(records, arch=arch, features=features), records


def left(*sides, **changes):
    contexts, records = measured(*sides, **changes)
    summaries = summarise(contexts, records)
    kept = open_cells(summaries)
    return {(s.cell.form, s.cell.contender) for s in summaries if s.id in kept}


QUIET = {"own": 0.002, "within": 0.005}


def test_what_is_decided_is_measured_no_more():
    assert left(TWICE, TWICE, **QUIET) == set(), "shown to differ, or to be the same"


def test_what_is_open_goes_on_with_its_default_and_the_identical_code_beside_it():
    kept = left(FORMS, FORMS | {"prefetchw_lock_add": 5.6}, own=0.05)
    assert {form for form, contender in kept if contender == "same_line"} == set(FORMS)


def test_where_nothing_is_compared_every_cell_goes_on():
    alone = {"lock_add": 5.0}
    assert left(alone, alone) == {("lock_add", "none"), ("lock_add", "same_line")}


def test_a_setting_that_may_be_advised_is_measured_to_the_end():
    """Five launches miss a state of up to 45 % of launches: only what costs more is decided."""
    alone = {"ldadd": 60.0, "stadd": 5.0, "prfm_strm_ldadd": 120.0}
    kept = left(alone, alone, arch="arm64", **QUIET)
    assert ("stadd", "none") in kept and ("ldadd", "none") in kept
    assert ("prfm_strm_ldadd", "none") not in kept


def test_a_look_asks_for_more_than_the_end():
    """A difference that the end may claim, and a sameness that it may state, are no reason to
    stop."""
    rng = np.random.default_rng(3)
    alpha, stricter = QUESTIONS["forms"].alpha, 0
    for _ in range(200):
        sides = [{str(i): 5.0 * np.exp(rng.normal(0, 0.05)) for i in range(5)} for _ in "ab"]
        c = paired_t(*sides)
        end = judge(c, c.p, alpha=alpha, same=0.08)
        look = at_look(end, alpha)
        if look.answer != "undecided":
            assert look.answer == end.answer
        stricter += end.answer != "undecided" and look.answer == "undecided"
        assert not look.differs or c.p < LOOK * alpha
    assert stricter > 10
    of_one_run = sum(q.alpha for q in QUESTIONS.values() if q.pairs and not q.by_itself)
    assert of_one_run * (1 + 2 * LOOK) == pytest.approx(0.05)


def planned(records, **changes):
    cells = list({r.id: r.cell for r in records}.values())
    return Plan(linewright_plan=2, name="p", cells=cells, **({"launches": 11} | changes))


def test_it_looks_when_every_launch_before_is_whole():
    contexts, records = measured(TWICE, TWICE, **QUIET)
    looks = Looks(planned(records, looks=[5, 8]), set())
    for n in range(1, len(records)):
        looks.take(contexts, records[:n])
        assert not looks.done
    looks.take(contexts, records)
    assert {launch for _, launch in looks.done} == set(range(5, 11))
    assert {i for i, _ in looks.done} == {r.id for r in records}


def test_a_file_that_is_continued_is_looked_at_as_it_was():
    """What a look saw is what was there then: later launches of what was open change nothing."""
    contexts, records = measured(
        TWICE, FORMS | {"prefetchw_lock_add": 5.6}, shared=0.0, own=0.02, count=8
    )
    plan = planned(records, looks=[5])
    live = Looks(plan, set())
    live.take(contexts, [r for r in records if r.launch < 5])
    later = Looks(plan, set())
    later.take(contexts, [r for r in records if r.launch < 5 or (r.id, r.launch) not in live.done])
    assert live.done == later.done
    assert {i for i, _ in live.done} < {r.id for r in records} and live.done


def test_no_look_after_the_last_launch():
    contexts, records = measured(TWICE, TWICE, **QUIET)
    looks = Looks(msgspec.structs.replace(planned(records, looks=[5, 8]), launches=5), set())
    looks.take(contexts, records)
    assert not looks.done

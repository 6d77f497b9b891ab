# SPDX-License-Identifier: MIT
"""Comparisons find what was planted, and nothing in a run compared with itself, drift and luck
included."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from scipy import stats

from linewright.analysis import summarise
from linewright.analysis.comparison import Obstacle
from linewright.compare.changes import compare, launches_in_turns
from linewright.compare.compared_files import outcome
from linewright.schema import Context, Record
from support.analysis_samples import cell, context, contexts_of, points, published, record, together

X86 = dict(arch="x86_64", features=[])


def at_times(records: list[Record], seconds: Callable[[int], int]) -> list[Context]:
    """Contexts of launches that began at `seconds` of their number."""
    return [
        msgspec.structs.replace(c, started_utc=f"2026-01-01T00:{s // 60:02d}:{s % 60:02d}Z")
        for s, c in ((seconds(i), c) for i, c in enumerate(contexts_of(records, **X86)))
    ]


ABBA = (lambda i: 20 * i + 10 * (i % 2), lambda i: 20 * i + 10 * (1 - i % 2))
ABAB = (lambda i: 20 * i, lambda i: 20 * i + 10)
AABB = (lambda i: 10 * i, lambda i: 50 + 10 * i)


def changes(before, after, order=AABB, **options):
    """Two runs compared, whose launches began in this order."""
    one, two = (
        at_times(side, seconds) for side, seconds in zip((before, after), order, strict=True)
    )
    return compare(summarise(one, before), [summarise(two, after)], [*one, *two], **options)[0]


def pair(rng, costs, factors=None, in_turns=False, count=5, **options):
    """Records of both sides; in turns, launch i of both has the same luck."""
    factors = factors or {}
    after = [(c, ns * factors.get(c.form, 1.0)) for c, ns in costs]
    seed = int(rng.integers(1 << 30))
    before = together(costs, np.random.default_rng(seed), count=count, prefix="a", **options)
    other = np.random.default_rng(seed if in_turns else seed + 1)
    records = together(
        after, other, count=count, prefix="b", first=0 if in_turns else count, **options
    )
    if in_turns:
        wobble = np.random.default_rng(seed + 2)
        records = [
            msgspec.structs.replace(
                r, window_ns=(np.asarray(r.window_ns) * np.exp(wobble.normal(0, 0.01))).tolist()
            )
            if not r.cell.work_iters
            else r
            for r in records
        ]
    return changes(before, records, ABBA if in_turns else AABB)


FORMS = {"lock_add": 5.0, "lock_xadd": 6.0, "prefetchw_lock_add": 7.0}


def test_launches_in_turns_are_recognised():
    def began(name, seconds):
        return [
            context(f"{name}{i:015x}", started_utc=f"2026-01-01T00:00:{s:02d}Z")
            for i, s in enumerate(seconds)
        ]

    assert launches_in_turns(began("a", (0, 6)), began("b", (2, 4))) == {
        f"a{i:015x}": f"b{i:015x}" for i in range(2)
    }
    assert len(launches_in_turns(began("a", (0, 6)), began("b", (2, 4)))) == 2, "A B B A"
    assert len(launches_in_turns(began("a", (0, 6, 8)), began("b", (2, 4, 10)))) == 3, "A B B A A B"
    assert launches_in_turns(began("a", (0, 4)), began("b", (2, 6))) == {}, (
        "A B A B: the drift always falls on B"
    )
    assert launches_in_turns(began("a", (0, 2)), began("b", (4, 6))) == {}, (
        "one run after the other"
    )
    assert (
        launches_in_turns(began("a", (0, 2)), began("b", (1,))) == {}
        and launches_in_turns([], []) == {}
    )
    assert launches_in_turns(began("a", (0,)), began("b", (2,))) == {}, (
        "any two runs of one launch are next to each other"
    )
    other = [msgspec.structs.replace(c, machine_id="1" * 16) for c in began("b", (2, 4))]
    assert launches_in_turns(began("a", (0, 6)), other) == {}, (
        "machines that were measured at the same time share no state"
    )


@pytest.mark.slow
@pytest.mark.parametrize("in_turns", [False, True])
@pytest.mark.parametrize("drift", [0.0, 0.025])
def test_a_run_against_its_like_is_seldom_called_different(in_turns, drift):
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(40):
        found = pair(
            rng,
            points(FORMS, contended={f: 5 * ns for f, ns in FORMS.items()}),
            in_turns=in_turns,
            drift=drift,
        )
        wrong += any(c.differs for c in found)
    assert stats.binom.sf(wrong - 1, 40, 0.05) > 1e-3, f"{wrong} of 40 runs"


def test_the_chance_of_one_false_change_is_that_of_all_cells_together():
    """Eighty cells of equal cost in each of three comparisons."""
    rng, costs = np.random.default_rng(5), points(FORMS | {f"form{i}": 5.0 for i in range(77)})
    found = [c for _ in range(3) for c in pair(rng, costs, own=0.1)]
    assert len(found) == 240 and {c.answer for c in found} <= {"same", "undecided"}
    assert min(c.contrast.p for c in found) < 0.01, "some cells would be by themselves"


@pytest.mark.parametrize("order", [AABB, ABAB, ABBA], ids=["A A B B", "A B A B", "A B B A"])
def test_a_drift_is_no_change_in_whatever_order_the_launches_were_taken(order):
    """8 % slower with each launch of either side: in the order A B A B every run was called
    changed."""
    rng = np.random.default_rng(11)
    costs = points(FORMS, contended={f: 5 * ns for f, ns in FORMS.items()})
    wrong = 0
    for _ in range(40):
        seed = int(rng.integers(1 << 30))
        sides = [
            together(
                costs,
                np.random.default_rng(seed + n),
                count=5,
                prefix="ab"[n],
                shared=0.003,
                own=0.003,
            )
            for n in (0, 1)
        ]
        warmed = [
            [
                msgspec.structs.replace(
                    r,
                    window_ns=(np.asarray(r.window_ns) * 1.08 ** (seconds(r.launch) / 10)).tolist(),
                )
                for r in side
            ]
            for side, seconds in zip(sides, order, strict=True)
        ]
        wrong += any(c.differs for c in changes(*warmed, order))
    assert stats.binom.sf(wrong - 1, 40, 0.05) > 1e-3, f"{wrong} of 40 runs"


def test_a_large_contended_change_on_a_quiet_machine_is_found():
    """2.9 times slower at 1 % between launches was passed as "3 no difference"."""
    rng = np.random.default_rng(2)
    costs = points({}, contended=FORMS)
    for in_turns in (False, True):
        found = pair(rng, costs, dict.fromkeys(FORMS, 2.9), in_turns, shared=0.01, own=0.003)
        assert [c.answer for c in found] == ["slower"] * 3
        assert all(c.contrast.value == pytest.approx(2.9, rel=0.1) for c in found)


def test_planted_changes_are_found_and_sorted_by_size():
    rng = np.random.default_rng(3)
    factors = {"lock_add": 1.2, "lock_xadd": 0.7}
    found = pair(rng, points(FORMS), factors, in_turns=True)
    assert [(c.second.form, c.answer) for c in found] == [
        ("lock_xadd", "cheaper"), ("lock_add", "slower"), ("prefetchw_lock_add", "same"),
    ]  # fmt: skip


def test_identical_code_bounds_what_is_called_faster():
    """Byte-identical loops differed by 41 % in one run: a change no larger than that is nothing."""
    rng = np.random.default_rng(4)
    costs = points({"lock_add": 5.0, "builtin_add": 5.0 * 1.41, "lock_xadd": 6.0})
    found = {c.second.form: c for c in pair(rng, costs, {"lock_xadd": 0.8}, in_turns=True)}
    assert found["lock_xadd"].why == "wide"
    quiet = points({"lock_add": 5.0, "builtin_add": 5.0, "lock_xadd": 6.0})
    assert {c.second.form: c for c in pair(rng, quiet, {"lock_xadd": 0.8}, in_turns=True)}[
        "lock_xadd"
    ].answer == "cheaper"


def test_among_work_the_exposed_cost_is_compared():
    """Identical code among 200 iterations of work was called 10 to 15 % slower: the loop was placed
    differently."""
    rng = np.random.default_rng(5)
    costs = points({"lock_add": 5.0}, works=(200,))
    before = together(costs, rng, prefix="a", shared=0.01)
    placed = [
        msgspec.structs.replace(
            r,
            window_ns=(np.asarray(r.window_ns) + 7).tolist(),
            baseline_ns=(np.asarray(r.baseline_ns) + 7).tolist(),
        )
        for r in together(costs, rng, prefix="b", shared=0.01)
    ]
    (same,) = changes(before, placed, ABBA)
    assert (same.answer, same.figure) == ("same", "exposed")
    (slower,) = changes(before, together([(c, ns + 4) for c, ns in costs], rng, prefix="b"), ABBA)
    assert slower.slower and slower.difference.low_ns < 4 < slower.difference.high_ns
    bare = [msgspec.structs.replace(r, baseline_ns=[]) for r in before]
    assert changes(bare, bare)[0].obstacle.kind == "no_baseline_loop"


def test_one_launch_decides_nothing():
    rng = np.random.default_rng(6)
    one = together(points({"lock_add": 5.0}), rng, count=1, prefix="a")
    (found,) = changes(one, together(points({"lock_add": 9.0}), rng, count=1, prefix="b"))
    assert (found.answer, found.why) == ("undecided", "one_launch")
    four = together(points({"lock_add": 5.0}), rng, count=4, prefix="a")
    (found,) = changes(four, together(points({"lock_add": 9.0}), rng, count=4, prefix="b"))
    assert (found.answer, found.why) == ("undecided", "few_launches")


def test_what_cannot_be_compared_says_why():
    good = together(points({"lock_add": 5.0}), np.random.default_rng(7), prefix="a")
    missing = [record(cell("lock_add"), status="unavailable", reason="no lse here")]
    (change,) = changes(good, missing)
    assert (change.why, change.contrast, change.obstacle) == (
        "not_comparable", None, Obstacle("status", "after", "unavailable", "no lse here"),
    )  # fmt: skip
    contexts, table = published()
    summaries = summarise(contexts, table)
    assert {c.obstacle for c in compare(summaries, [summaries], contexts)[0]} == {
        Obstacle("published", "before")
    }
    emulated = summarise([context(emulated=True)], [record(cell("stadd"), [5.0] * 9)])
    assert compare(emulated, [emulated])[0][0].obstacle.kind == "emulated"
    assert changes(good, []) == []


def test_two_machines_on_one_side_are_refused():
    records = [record(cell("stadd"), [5.0] * 9, c * 16) for c in "ab"]
    both = summarise([context("a" * 16, "1" * 16), context("b" * 16, "2" * 16)], records)
    with pytest.raises(ValueError, match="two machines"):
        compare(both, [both])


def simulations(costs, seed, after=1.0, count=2):
    """Records and contexts of two simulations: the same random numbers, another machine."""
    sides = []
    for name, factor in (("a", 1.0), ("b", after)):
        rng = np.random.default_rng(seed)
        records = together(
            [(c, ns * factor) for c, ns in costs], rng, count=count, prefix=name, first=0
        )
        made = [
            msgspec.structs.replace(c, target=f"simulated:{name}", machine_id=name * 16)
            for c in contexts_of(records, **X86)
        ]
        sides.append((records, made))
    return sides


@pytest.mark.parametrize("count", [1, 2])
def test_two_simulations_are_compared_exactly_and_with_no_launches(count: int) -> None:
    costs = points({"lock_add": 5.0, "lock_xadd": 6.0})
    for after, found in ((1.0, "same"), (1.02, "slower"), (0.98, "cheaper"), (1.0002, "same")):
        (one, left), (two, right) = simulations(costs, 7, after, count)
        rows = compare(summarise(left, one), [summarise(right, two)], [*left, *right])[0]
        alone = [row for row in rows if row.figure == "issue"]
        assert alone and {row.answer for row in alone} == {found}
        for row in alone:
            c = row.contrast
            assert c.low == c.value == c.high == pytest.approx(after, abs=1e-9)


def test_of_two_simulations_the_issue_interval_stands_in_for_a_withheld_cost() -> None:
    (one, left), (two, right) = simulations([(cell("lock_add", work_iters=20), 5.0)], 7, 1.02)
    sides = [
        [msgspec.structs.replace(s, exposed=None, withheld="not_proportional") for s in side]
        for side in (summarise(left, one), summarise(right, two))
    ]
    (row,) = compare(sides[0], [sides[1]], [*left, *right])[0]
    assert (row.figure, row.answer) == ("issue", "slower") and row.second.ns is not None
    (row,) = compare(sides[0], [sides[1]])[0]
    assert row.obstacle == Obstacle("withheld", "before", "not_proportional")


def test_a_simulation_and_a_measurement_are_not_compared_exactly() -> None:
    costs = points({"lock_add": 5.0})
    (one, left), (two, right) = simulations(costs, 7, 1.02)
    right = [msgspec.structs.replace(c, target="local") for c in right]
    rows = compare(summarise(left, one), [summarise(right, two)], [*left, *right])[0]
    assert {outcome(row) for row in rows} <= {"undecided", "not_comparable"}
